package dissect

// attrClassPortInfo is the one attribute that all classes but subnet management
// have (IBA 13.4.8.1).
const attrClassPortInfo = 0x0001

// attributes are those of the classes that manage a fabric, by their numbers:
// subnet management (IBA 14.2.5), subnet administration (15.2.5), performance
// (16.1.4), device management (16.3.3) and congestion control (annex A10.4.3).
// Those without layouts are named only.
var attributes = [...]struct {
	class   MADClass
	id      uint16
	name    string
	layouts []*layout
}{
	{ClassSubnLID, 0x0002, "Notice", smpNotice},
	{ClassSubnLID, 0x0010, "NodeDescription", []*layout{&layoutNodeDescription}},
	{ClassSubnLID, 0x0011, "NodeInfo", []*layout{&layoutNodeInfo}},
	{ClassSubnLID, 0x0012, "SwitchInfo", []*layout{&layoutSwitchInfo}},
	{ClassSubnLID, 0x0014, "GUIDInfo", []*layout{&layoutGUIDInfo}},
	{ClassSubnLID, 0x0015, "PortInfo", []*layout{&layoutPortInfo}},
	{ClassSubnLID, 0x0016, "P_KeyTable", []*layout{&layoutPKeyTable}},
	{ClassSubnLID, 0x0017, "SLtoVLMappingTable", []*layout{&layoutSLtoVL}},
	{ClassSubnLID, 0x0018, "VLArbitrationTable", []*layout{&layoutVLArbitration}},
	{ClassSubnLID, 0x0019, "LinearForwardingTable", []*layout{&layoutLinear}},
	{ClassSubnLID, 0x001A, "RandomForwardingTable", []*layout{&layoutRandom}},
	{ClassSubnLID, 0x001B, "MulticastForwardingTable", []*layout{&layoutMulticast}},
	{ClassSubnLID, 0x0020, "SMInfo", []*layout{&layoutSMInfo}},
	{ClassSubnLID, 0x0030, "VendorDiag", []*layout{&layoutVendorDiag}},
	{ClassSubnLID, 0x0031, "LedInfo", []*layout{&layoutLedInfo}},

	{ClassSubnAdm, 0x0002, "Notice", saNotice},
	{ClassSubnAdm, 0x0003, "InformInfo", []*layout{&layoutInformInfo}},
	{ClassSubnAdm, 0x0011, "NodeRecord", []*layout{&ridLID, &layoutNodeInfo, &layoutNodeDescription}},
	{ClassSubnAdm, 0x0012, "PortInfoRecord", []*layout{&ridPort, &layoutPortInfo}},
	{ClassSubnAdm, 0x0013, "SLtoVLMappingTableRecord", []*layout{&ridPorts, &layoutSLtoVL}},
	{ClassSubnAdm, 0x0014, "SwitchInfoRecord", []*layout{&ridLID, &layoutSwitchInfo}},
	{ClassSubnAdm, 0x0015, "LinearForwardingTableRecord", []*layout{&ridBlock16, &layoutLinear}},
	{ClassSubnAdm, 0x0016, "RandomForwardingTableRecord", []*layout{&ridBlock16, &layoutRandom}},
	{ClassSubnAdm, 0x0017, "MulticastForwardingTableRecord", []*layout{&ridMulticast, &layoutMulticast}},
	{ClassSubnAdm, 0x0018, "SMInfoRecord", []*layout{&ridLID, &layoutSMInfo}},
	{ClassSubnAdm, 0x0020, "LinkRecord", []*layout{&layoutLinkRecord}},
	{ClassSubnAdm, 0x0030, "GUIDInfoRecord", []*layout{&ridBlock8, &layoutGUIDInfo}},
	{ClassSubnAdm, 0x0031, "ServiceRecord", []*layout{&layoutServiceRecord}},
	{ClassSubnAdm, 0x0033, "P_KeyTableRecord", []*layout{&ridPKey, &layoutPKeyTable}},
	{ClassSubnAdm, 0x0035, "PathRecord", []*layout{&layoutPathRecord}},
	{ClassSubnAdm, 0x0036, "VLArbitrationTableRecord", []*layout{&ridArbitration, &layoutVLArbitration}},
	{ClassSubnAdm, 0x0038, "MCMemberRecord", []*layout{&layoutMCMember}},
	{ClassSubnAdm, 0x0039, "TraceRecord", []*layout{&layoutTraceRecord}},
	{ClassSubnAdm, 0x003A, "MultiPathRecord", []*layout{&layoutMultiPath}},
	{ClassSubnAdm, 0x003B, "ServiceAssociationRecord", []*layout{&layoutServiceAssociation}},
	{ClassSubnAdm, 0x00F3, "InformInfoRecord", []*layout{&layoutInformRecord, &layoutInformInfo}},

	{ClassPerf, 0x0010, "PortSamplesControl", []*layout{&layoutSamplesControl}},
	{ClassPerf, 0x0011, "PortSamplesResult", []*layout{&layoutSamplesResult}},
	{ClassPerf, 0x0012, "PortCounters", []*layout{&layoutPortCounters}},
	{class: ClassPerf, id: 0x0015, name: "PortRcvErrorDetails"},
	{class: ClassPerf, id: 0x0016, name: "PortXmitDiscardDetails"},
	{class: ClassPerf, id: 0x0017, name: "PortOpRcvCounters"},
	{class: ClassPerf, id: 0x0018, name: "PortFlowCtlCounters"},
	{class: ClassPerf, id: 0x0019, name: "PortVLOpPackets"},
	{class: ClassPerf, id: 0x001A, name: "PortVLOpData"},
	{class: ClassPerf, id: 0x001B, name: "PortVLXmitFlowCtlUpdateErrors"},
	{class: ClassPerf, id: 0x001C, name: "PortVLXmitWaitCounters"},
	{ClassPerf, 0x001D, "PortCountersExtended", []*layout{&layoutCountersExtended}},
	{class: ClassPerf, id: 0x001E, name: "PortSamplesResultExtended"},
	{ClassPerf, 0x0036, "PortXmitDataSL", []*layout{&layoutXmitDataSL}},
	{ClassPerf, 0x0037, "PortRcvDataSL", []*layout{&layoutRcvDataSL}},

	{ClassDevMgt, 0x0002, "Notice", []*layout{&layoutNotice, &noticeRaw}},
	{ClassDevMgt, 0x0010, "IOUnitInfo", []*layout{&layoutIOUnit}},
	{ClassDevMgt, 0x0011, "IOControllerProfile", []*layout{&layoutIOController}},
	{ClassDevMgt, 0x0012, "ServiceEntries", []*layout{&layoutServiceEntries}},
	{class: ClassDevMgt, id: 0x0020, name: "DiagnosticTimeout"},
	{class: ClassDevMgt, id: 0x0021, name: "PrepareToTest"},
	{class: ClassDevMgt, id: 0x0022, name: "TestDeviceOnce"},
	{class: ClassDevMgt, id: 0x0023, name: "TestDeviceLoop"},
	{class: ClassDevMgt, id: 0x0024, name: "DiagCode"},

	{ClassCongestion, 0x0002, "Notice", []*layout{&layoutNotice, &noticeRaw}},
	{ClassCongestion, 0x0011, "CongestionInfo", []*layout{&layoutCongestionInfo}},
	{ClassCongestion, 0x0012, "CongestionKeyInfo", []*layout{&layoutCongestionKey}},
	{ClassCongestion, 0x0013, "CongestionLog", []*layout{&layoutCongestionLog}},
	{ClassCongestion, 0x0014, "SwitchCongestionSetting", []*layout{&layoutSwitchCongestion}},
	{ClassCongestion, 0x0015, "SwitchPortCongestionSetting", []*layout{&layoutSwitchPortCongestion}},
	{ClassCongestion, 0x0016, "CACongestionSetting", []*layout{&layoutCACongestion}},
	{ClassCongestion, 0x0017, "CongestionControlTable", []*layout{&layoutCongestionTable}},
	{ClassCongestion, 0x0018, "TimeStamp", []*layout{&layoutTimeStamp}},
}

// fabricAttribute names an attribute of those classes, "" for another.
func fabricAttribute(c MADClass, id uint16) string {
	if c == ClassSubnDirected {
		c = ClassSubnLID
	}
	for i := range attributes {
		if a := &attributes[i]; a.class == c && a.id == id {
			return a.name
		}
	}
	return ""
}

// Attribute is a management attribute that has a name.
type Attribute struct {
	Class MADClass
	ID    uint16
	Name  string
	// Fields reports whether its components are fields.
	Fields bool
}

// Attributes lists the attributes of the classes that manage a fabric.
func Attributes() []Attribute {
	all := make([]Attribute, len(attributes))
	for i, a := range attributes {
		all[i] = Attribute{a.class, a.id, a.name, a.layouts != nil}
	}
	return all
}
