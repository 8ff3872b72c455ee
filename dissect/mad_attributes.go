package dissect

// attributeNames are the attributes of the classes that manage a fabric, by
// their numbers: subnet management (IBA 14.2.5), subnet administration (15.2.5),
// performance (16.1.4), device management (16.3.3) and congestion control
// (annex A10.4.3).
var attributeNames = [...]struct {
	class MADClass
	id    uint16
	name  string
}{
	{ClassSubnLID, 0x0002, "Notice"},
	{ClassSubnLID, 0x0010, "NodeDescription"},
	{ClassSubnLID, 0x0011, "NodeInfo"},
	{ClassSubnLID, 0x0012, "SwitchInfo"},
	{ClassSubnLID, 0x0014, "GUIDInfo"},
	{ClassSubnLID, 0x0015, "PortInfo"},
	{ClassSubnLID, 0x0016, "P_KeyTable"},
	{ClassSubnLID, 0x0017, "SLtoVLMappingTable"},
	{ClassSubnLID, 0x0018, "VLArbitrationTable"},
	{ClassSubnLID, 0x0019, "LinearForwardingTable"},
	{ClassSubnLID, 0x001A, "RandomForwardingTable"},
	{ClassSubnLID, 0x001B, "MulticastForwardingTable"},
	{ClassSubnLID, 0x0020, "SMInfo"},
	{ClassSubnLID, 0x0030, "VendorDiag"},
	{ClassSubnLID, 0x0031, "LedInfo"},

	{ClassSubnAdm, 0x0002, "Notice"},
	{ClassSubnAdm, 0x0003, "InformInfo"},
	{ClassSubnAdm, 0x0011, "NodeRecord"},
	{ClassSubnAdm, 0x0012, "PortInfoRecord"},
	{ClassSubnAdm, 0x0013, "SLtoVLMappingTableRecord"},
	{ClassSubnAdm, 0x0014, "SwitchInfoRecord"},
	{ClassSubnAdm, 0x0015, "LinearForwardingTableRecord"},
	{ClassSubnAdm, 0x0016, "RandomForwardingTableRecord"},
	{ClassSubnAdm, 0x0017, "MulticastForwardingTableRecord"},
	{ClassSubnAdm, 0x0018, "SMInfoRecord"},
	{ClassSubnAdm, 0x0020, "LinkRecord"},
	{ClassSubnAdm, 0x0030, "GUIDInfoRecord"},
	{ClassSubnAdm, 0x0031, "ServiceRecord"},
	{ClassSubnAdm, 0x0033, "P_KeyTableRecord"},
	{ClassSubnAdm, 0x0035, "PathRecord"},
	{ClassSubnAdm, 0x0036, "VLArbitrationTableRecord"},
	{ClassSubnAdm, 0x0038, "MCMemberRecord"},
	{ClassSubnAdm, 0x0039, "TraceRecord"},
	{ClassSubnAdm, 0x003A, "MultiPathRecord"},
	{ClassSubnAdm, 0x003B, "ServiceAssociationRecord"},
	{ClassSubnAdm, 0x00F3, "InformInfoRecord"},

	{ClassPerf, 0x0010, "PortSamplesControl"},
	{ClassPerf, 0x0011, "PortSamplesResult"},
	{ClassPerf, 0x0012, "PortCounters"},
	{ClassPerf, 0x0015, "PortRcvErrorDetails"},
	{ClassPerf, 0x0016, "PortXmitDiscardDetails"},
	{ClassPerf, 0x0017, "PortOpRcvCounters"},
	{ClassPerf, 0x0018, "PortFlowCtlCounters"},
	{ClassPerf, 0x0019, "PortVLOpPackets"},
	{ClassPerf, 0x001A, "PortVLOpData"},
	{ClassPerf, 0x001B, "PortVLXmitFlowCtlUpdateErrors"},
	{ClassPerf, 0x001C, "PortVLXmitWaitCounters"},
	{ClassPerf, 0x001D, "PortCountersExtended"},
	{ClassPerf, 0x001E, "PortSamplesResultExtended"},

	{ClassDevMgt, 0x0002, "Notice"},
	{ClassDevMgt, 0x0010, "IOUnitInfo"},
	{ClassDevMgt, 0x0011, "IOControllerProfile"},
	{ClassDevMgt, 0x0012, "ServiceEntries"},
	{ClassDevMgt, 0x0020, "DiagnosticTimeout"},
	{ClassDevMgt, 0x0021, "PrepareToTest"},
	{ClassDevMgt, 0x0022, "TestDeviceOnce"},
	{ClassDevMgt, 0x0023, "TestDeviceLoop"},
	{ClassDevMgt, 0x0024, "DiagCode"},

	{ClassCongestion, 0x0002, "Notice"},
	{ClassCongestion, 0x0011, "CongestionInfo"},
	{ClassCongestion, 0x0012, "CongestionKeyInfo"},
	{ClassCongestion, 0x0013, "CongestionLog"},
	{ClassCongestion, 0x0014, "SwitchCongestionSetting"},
	{ClassCongestion, 0x0015, "SwitchPortCongestionSetting"},
	{ClassCongestion, 0x0016, "CACongestionSetting"},
	{ClassCongestion, 0x0017, "CongestionControlTable"},
	{ClassCongestion, 0x0018, "TimeStamp"},
}

// fabricAttribute names an attribute of those classes, "" for another.
func fabricAttribute(c MADClass, id uint16) string {
	if c == ClassSubnDirected {
		c = ClassSubnLID
	}
	for i := range attributeNames {
		if a := &attributeNames[i]; a.class == c && a.id == id {
			return a.name
		}
	}
	return ""
}
