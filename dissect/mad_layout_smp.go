package dissect

// The attributes of subnet management (IBA 14.2.5). The layouts are OpenSM's
// (ib_types.h), compared with Wireshark's by TestManagementAgainstTshark.

var layoutNodeDescription = layout{name: "nodedescription", parts: []component{{name: "NodeString", bits: 512, kind: String}}}

var layoutNodeInfo = layout{name: "nodeinfo", parts: []component{
	{name: "BaseVersion", bits: 8, kind: Hex},
	{name: "ClassVersion", bits: 8, kind: Hex},
	{name: "NodeType", bits: 8, kind: Hex, values: nodeTypeName},
	{name: "NumPorts", bits: 8, kind: Hex},
	{name: "SystemImageGUID", bits: 64, kind: Hex},
	{name: "NodeGUID", bits: 64, kind: Hex},
	{name: "PortGUID", bits: 64, kind: Hex},
	{name: "PartitionCap", bits: 16, kind: Hex},
	{name: "DeviceID", bits: 16, kind: Hex},
	{name: "Revision", bits: 32, kind: Hex},
	{name: "LocalPortNum", bits: 8, kind: Hex},
	{name: "VendorID", bits: 24, kind: Hex},
}}

var layoutSwitchInfo = layout{name: "switchinfo", parts: []component{
	{name: "LinearFDBCap", bits: 16, kind: Hex},
	{name: "RandomFDBCap", bits: 16, kind: Hex},
	{name: "MulticastFDBCap", bits: 16, kind: Hex},
	{name: "LinearFDBTop", bits: 16, kind: Hex},
	{name: "DefaultPort", bits: 8, kind: Hex},
	{name: "DefaultMulticastPrimaryPort", bits: 8, kind: Hex},
	{name: "DefaultMulticastNotPrimaryPort", bits: 8, kind: Hex},
	{name: "LifeTimeValue", bits: 5, kind: Hex},
	{name: "PortStateChange", bits: 1, kind: Hex},
	{name: "OptimizedSLtoVLMappingProgramming", bits: 2, kind: Hex},
	{name: "LIDsPerPort", bits: 16, kind: Hex},
	{name: "PartitionEnforcementCap", bits: 16, kind: Hex},
	{name: "InboundEnforcementCap", bits: 1, kind: Hex},
	{name: "OutboundEnforcementCap", bits: 1, kind: Hex},
	{name: "FilterRawInboundCap", bits: 1, kind: Hex},
	{name: "FilterRawOutboundCap", bits: 1, kind: Hex},
	{name: "EnhancedPortZero", bits: 1, kind: Hex},
	{bits: 11},
	{name: "MulticastFDBTop", bits: 16, kind: Hex},
}}

var layoutGUIDInfo = layout{name: "guidinfo", parts: []component{
	{times: 8, each: []component{{name: "GUID", bits: 64, kind: Hex}}},
}}

var layoutPortInfo = layout{name: "portinfo", parts: []component{
	{name: "M_Key", bits: 64, kind: Hex},
	{name: "GidPrefix", bits: 64, kind: Hex, field: "portinfo.guid"},
	{name: "LID", bits: 16, kind: Hex},
	{name: "MasterSMLID", bits: 16, kind: Hex},
	{name: "CapabilityMask", bits: 32, kind: Hex, flags: []string{
		1: "IsSM", "NoticeSupported", "TrapSupported", "OptionalIPDSupported", "AutomaticMigrationSupported", "SLMappingSupported", "MKeyNVRAM",
		"PKeyNVRAM", "LEDInfoSupported", "SMdisabled", "SystemImageGUIDSupported", "PKeySwitchExternalPortTrapSupported",
		16: "CommunicationManagementSupported", "SNMPTunnelingSupported", "ReinitSupported", "DeviceManagementSupported", "VendorClassSupported",
		"DRNoticeSupported", "CapabilityMaskNoticeSupported", "BootManagementSupported", "LinkRoundTripLatencySupported",
		"ClientRegistrationSupported", "OtherLocalChangesNoticeSupported", "LinkSpeedWidthPairsTableSupported",
	}},
	{name: "DiagCode", bits: 16, kind: Hex},
	{name: "M_KeyLeasePeriod", bits: 16, kind: Hex},
	{name: "LocalPortNum", bits: 8, kind: Hex},
	{name: "LinkWidthEnabled", bits: 8, kind: Hex, values: linkWidths},
	{name: "LinkWidthSupported", bits: 8, kind: Hex, values: linkWidths},
	{name: "LinkWidthActive", bits: 8, kind: Hex, values: linkWidths},
	{name: "LinkSpeedSupported", bits: 4, kind: Hex, values: linkSpeeds},
	{name: "PortState", bits: 4, kind: Hex, values: portStateName},
	{name: "PortPhysicalState", bits: 4, kind: Hex, values: portPhysicalStateName},
	{name: "LinkDownDefaultState", bits: 4, kind: Hex, values: portPhysicalStateName},
	{name: "M_KeyProtectBits", bits: 2, kind: Hex},
	{bits: 3},
	{name: "LMC", bits: 3, kind: Hex},
	{name: "LinkSpeedActive", bits: 4, kind: Hex, values: linkSpeeds},
	{name: "LinkSpeedEnabled", bits: 4, kind: Hex, values: linkSpeeds},
	{name: "NeighborMTU", bits: 4, kind: Hex, values: mtuName},
	{name: "MasterSMSL", bits: 4, kind: Hex},
	{name: "VLCap", bits: 4, kind: Hex, values: virtualLanes},
	{name: "InitType", bits: 4, kind: Hex},
	{name: "VLHighLimit", bits: 8, kind: Hex},
	{name: "VLArbitrationHighCap", bits: 8, kind: Hex},
	{name: "VLArbitrationLowCap", bits: 8, kind: Hex},
	{name: "InitTypeReply", bits: 4, kind: Hex},
	{name: "MTUCap", bits: 4, kind: Hex, values: mtuName},
	{name: "VLStallCount", bits: 3, kind: Hex},
	{name: "HOQLife", bits: 5, kind: Hex},
	{name: "OperationalVLs", bits: 4, kind: Hex, values: virtualLanes},
	{name: "PartitionEnforcementInbound", bits: 1, kind: Hex},
	{name: "PartitionEnforcementOutbound", bits: 1, kind: Hex},
	{name: "FilterRawInbound", bits: 1, kind: Hex},
	{name: "FilterRawOutbound", bits: 1, kind: Hex},
	{name: "M_KeyViolations", bits: 16, kind: Hex},
	{name: "P_KeyViolations", bits: 16, kind: Hex},
	{name: "Q_KeyViolations", bits: 16, kind: Hex},
	{name: "GUIDCap", bits: 8, kind: Hex},
	{name: "ClientReregister", bits: 1, kind: Hex},
	{name: "MulticastPKeyTrapSuppressionEnabled", bits: 2, kind: Hex},
	{name: "SubnetTimeOut", bits: 5, kind: Hex},
	{bits: 3},
	{name: "RespTimeValue", bits: 5, kind: Hex},
	{name: "LocalPhyErrors", bits: 4, kind: Hex},
	{name: "OverrunErrors", bits: 4, kind: Hex, field: "portinfo.overrunerrors"},
	{name: "MaxCreditHint", bits: 16, kind: Hex},
	{bits: 8},
	{name: "LinkRoundTripLatency", bits: 24, kind: Hex},
	{name: "CapabilityMask2", bits: 16, kind: Hex},
	{name: "LinkSpeedExtActive", bits: 4, kind: Hex},
	{name: "LinkSpeedExtSupported", bits: 4, kind: Hex},
	{bits: 3},
	{name: "LinkSpeedExtEnabled", bits: 5, kind: Hex},
}}

var layoutPKeyTable = layout{name: "p_keytable", parts: []component{
	{times: 32, each: []component{{name: "MembershipType", bits: 1, kind: Hex}, {name: "P_KeyBase", bits: 15, kind: Hex}}},
}}

var layoutSLtoVL = layout{name: "sltovlmappingtable", parts: []component{
	{times: 8, each: []component{{name: "SLtoVLHighBits", bits: 4, kind: Hex}, {name: "SLtoVLLowBits", bits: 4, kind: Hex}}},
}}

var layoutVLArbitration = layout{name: "vlarbitrationtable", parts: []component{
	{times: 32, each: []component{{bits: 4}, {name: "VL", bits: 4, kind: Hex}, {name: "Weight", bits: 8, kind: Hex}}},
}}

var layoutLinear = layout{name: "linearforwardingtable", parts: []component{
	{times: 64, each: []component{{name: "Port", bits: 8, kind: Hex}}},
}}

var layoutRandom = layout{name: "randomforwardingtable", parts: []component{
	{times: 16, each: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "Valid", bits: 1, kind: Hex}, {name: "LMC", bits: 3, kind: Hex}, {bits: 4}, {name: "Port", bits: 8, kind: Hex},
	}},
}}

var layoutMulticast = layout{name: "multicastforwardingtable", parts: []component{
	{times: 32, each: []component{{name: "PortMask", bits: 16, kind: Hex}}},
}}

var layoutSMInfo = layout{name: "sminfo", parts: []component{
	{name: "GUID", bits: 64, kind: Hex},
	{name: "SM_Key", bits: 64, kind: Hex},
	{name: "ActCount", bits: 32, kind: Hex},
	{name: "Priority", bits: 4, kind: Hex},
	{name: "SMState", bits: 4, kind: Hex, values: smStateName},
}}

var layoutVendorDiag = layout{name: "vendordiag", parts: []component{
	{name: "NextIndex", bits: 16, kind: Hex},
	{name: "DiagData", bits: 496, kind: Bytes},
}}

var layoutLedInfo = layout{name: "ledinfo", parts: []component{{name: "LedMask", bits: 1, kind: Hex}}}

func nodeTypeName(v uint64) string {
	return nameAt(v, []string{"", "channel adapter", "switch", "router"})
}

func portStateName(v uint64) string {
	return nameAt(v, []string{"no change", "down", "initialize", "armed", "active"})
}

func portPhysicalStateName(v uint64) string {
	return nameAt(v, []string{"no change", "sleep", "polling", "disabled", "training", "link up", "error recovery", "PHY test"})
}

func smStateName(v uint64) string {
	return nameAt(v, []string{"not active", "discovering", "standby", "master"})
}

func linkWidths(v uint64) string {
	return setText(v, []string{"1X", "4X", "8X", "12X", "2X"})
}

func linkSpeeds(v uint64) string { return setText(v, []string{"SDR", "DDR", "QDR"}) }

// setText names the bits of a set, the least significant first.
func setText(v uint64, names []string) (text string) {
	for i, n := range names {
		if v>>i&1 != 0 {
			if text != "" {
				text += ", "
			}
			text += n
		}
	}
	return text
}

func virtualLanes(v uint64) string {
	return nameAt(v, []string{"", "VL0", "VL0 to VL1", "VL0 to VL3", "VL0 to VL7", "VL0 to VL14"})
}
