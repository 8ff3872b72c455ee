package dissect

// The attributes of performance management (IBA 16.1.4), device management
// (16.3.3) and congestion control (annex A10.4.3). The layouts are OpenSM's
// (ib_types.h); Wireshark has ClassPortInfo and the port counters of them.

var layoutClassPortInfo = layout{name: "classportinfo", parts: []component{
	{name: "BaseVersion", bits: 8, kind: Hex},
	{name: "ClassVersion", bits: 8, kind: Hex},
	{name: "CapabilityMask", bits: 16, kind: Hex},
	{name: "CapabilityMask2", bits: 27, kind: Hex},
	{name: "RespTimeValue", bits: 5, kind: Hex},
	{name: "RedirectGID", bits: 128, kind: IPv6Addr},
	{name: "RedirectTC", bits: 8, kind: Hex},
	{name: "RedirectSL", bits: 4, kind: Hex},
	{name: "RedirectFL", bits: 20, kind: Hex},
	{name: "RedirectLID", bits: 16, kind: Hex},
	{name: "RedirectP_Key", bits: 16, kind: Hex, field: "classportinfo.redirectpkey"},
	{bits: 8},
	{name: "RedirectQP", bits: 24, kind: Hex},
	{name: "RedirectQ_Key", bits: 32, kind: Hex, field: "classportinfo.redirectqkey"},
	{name: "TrapGID", bits: 128, kind: IPv6Addr},
	{name: "TrapTC", bits: 8, kind: Hex},
	{name: "TrapSL", bits: 4, kind: Hex},
	{name: "TrapFL", bits: 20, kind: Hex},
	{name: "TrapLID", bits: 16, kind: Hex},
	{name: "TrapP_Key", bits: 16, kind: Hex, field: "classportinfo.trappkey"},
	{name: "TrapHL", bits: 8, kind: Hex},
	{name: "TrapQP", bits: 24, kind: Hex},
	{name: "TrapQ_Key", bits: 32, kind: Hex, field: "classportinfo.trapqkey"},
}}

var layoutPortCounters = layout{name: "portcounters", parts: []component{
	{bits: 8},
	{name: "PortSelect", bits: 8, kind: Hex},
	{name: "CounterSelect", bits: 16, kind: Hex},
	{name: "SymbolErrorCounter", bits: 16, kind: Dec},
	{name: "LinkErrorRecoveryCounter", bits: 8, kind: Dec},
	{name: "LinkDownedCounter", bits: 8, kind: Dec},
	{name: "PortRcvErrors", bits: 16, kind: Dec},
	{name: "PortRcvRemotePhysicalErrors", bits: 16, kind: Dec},
	{name: "PortRcvSwitchRelayErrors", bits: 16, kind: Dec},
	{name: "PortXmitDiscards", bits: 16, kind: Dec},
	{name: "PortXmitConstraintErrors", bits: 8, kind: Dec, field: "portcounters.portxmitconstrainterrors"},
	{name: "PortRcvConstraintErrors", bits: 8, kind: Dec, field: "portcounters.portrcvconstrainterrors"},
	{name: "CounterSelect2", bits: 8, kind: Hex},
	{name: "LocalLinkIntegrityErrors", bits: 4, kind: Dec},
	{name: "ExcessiveBufferOverrunErrors", bits: 4, kind: Dec},
	{name: "QP1Dropped", bits: 16, kind: Dec},
	{name: "VL15Dropped", bits: 16, kind: Dec},
	{name: "PortXmitData", bits: 32, kind: Dec},
	{name: "PortRcvData", bits: 32, kind: Dec},
	{name: "PortXmitPkts", bits: 32, kind: Dec},
	{name: "PortRcvPkts", bits: 32, kind: Dec},
	{name: "PortXmitWait", bits: 32, kind: Dec},
}}

var layoutCountersExtended = layout{name: "portcounters_ext", parts: []component{
	{bits: 8},
	{name: "PortSelect", bits: 8, kind: Hex},
	{name: "CounterSelect", bits: 16, kind: Hex},
	{name: "CounterSelect2", bits: 32, kind: Hex},
	{name: "PortXmitData", bits: 64, kind: Dec},
	{name: "PortRcvData", bits: 64, kind: Dec},
	{name: "PortXmitPkts", bits: 64, kind: Dec},
	{name: "PortRcvPkts", bits: 64, kind: Dec},
	{name: "PortUnicastXmitPkts", bits: 64, kind: Dec},
	{name: "PortUnicastRcvPkts", bits: 64, kind: Dec},
	{name: "PortMulticastXmitPkts", bits: 64, kind: Dec},
	{name: "PortMulticastRcvPkts", bits: 64, kind: Dec},
	{name: "SymbolErrorCounter", bits: 64, kind: Dec},
	{name: "LinkErrorRecoveryCounter", bits: 64, kind: Dec},
	{name: "LinkDownedCounter", bits: 64, kind: Dec},
	{name: "PortRcvErrors", bits: 64, kind: Dec},
	{name: "PortRcvRemotePhysicalErrors", bits: 64, kind: Dec},
	{name: "PortRcvSwitchRelayErrors", bits: 64, kind: Dec},
	{name: "PortXmitDiscards", bits: 64, kind: Dec},
	{name: "PortXmitConstraintErrors", bits: 64, kind: Dec},
	{name: "PortRcvConstraintErrors", bits: 64, kind: Dec},
	{name: "LocalLinkIntegrityErrors", bits: 64, kind: Dec},
	{name: "ExcessiveBufferOverrunErrors", bits: 64, kind: Dec},
	{name: "VL15Dropped", bits: 64, kind: Dec},
	{name: "PortXmitWait", bits: 64, kind: Dec},
	{name: "QP1Dropped", bits: 64, kind: Dec},
}}

var layoutSamplesControl = layout{name: "portsamplescontrol", parts: []component{
	{name: "OpCode", bits: 8, kind: Hex},
	{name: "PortSelect", bits: 8, kind: Hex},
	{name: "Tick", bits: 8, kind: Hex},
	{bits: 5},
	{name: "CounterWidth", bits: 3, kind: Hex},
	{bits: 2},
	{name: "CounterMask0", bits: 3, kind: Hex},
	{name: "CounterMasks1to9", bits: 27, kind: Hex},
	{bits: 1},
	{name: "CounterMasks10to14", bits: 15, kind: Hex},
	{name: "SampleMechanisms", bits: 8, kind: Hex},
	{bits: 6},
	{name: "SampleStatus", bits: 2, kind: Hex, values: sampleStatusName},
	{name: "OptionMask", bits: 64, kind: Hex},
	{name: "VendorMask", bits: 64, kind: Hex},
	{name: "SampleStart", bits: 32, kind: Dec},
	{name: "SampleInterval", bits: 32, kind: Dec},
	{name: "Tag", bits: 16, kind: Hex},
	{times: 15, each: []component{{name: "CounterSelect", bits: 16, kind: Hex}}},
}}

var layoutSamplesResult = layout{name: "portsamplesresult", parts: []component{
	{name: "Tag", bits: 16, kind: Hex},
	{bits: 14},
	{name: "SampleStatus", bits: 2, kind: Hex, values: sampleStatusName},
	{times: 15, each: []component{{name: "Counter", bits: 32, kind: Dec}}},
}}

var layoutXmitDataSL = layout{name: "portxmitdatasl", parts: []component{
	{bits: 8},
	{name: "PortSelect", bits: 8, kind: Hex},
	{name: "CounterSelect", bits: 16, kind: Hex},
	{times: 16, each: []component{{name: "PortXmitDataSL", bits: 32, kind: Dec}}},
}}

var layoutRcvDataSL = layout{name: "portrcvdatasl", parts: []component{
	{bits: 8},
	{name: "PortSelect", bits: 8, kind: Hex},
	{name: "CounterSelect", bits: 16, kind: Hex},
	{times: 16, each: []component{{name: "PortRcvDataSL", bits: 32, kind: Dec}}},
}}

var layoutIOUnit = layout{name: "iounitinfo", parts: []component{
	{name: "ChangeID", bits: 16, kind: Dec},
	{name: "MaxControllers", bits: 8, kind: Dec},
	{name: "OptionROM", bits: 1, kind: Bool},
	{name: "DiagDeviceID", bits: 1, kind: Bool},
	{bits: 6},
	{name: "ControllerList", bits: 1024, kind: Bytes},
}}

var layoutIOController = layout{name: "iocontrollerprofile", parts: []component{
	{name: "GUID", bits: 64, kind: Hex},
	{name: "VendorID", bits: 24, kind: Hex},
	{bits: 8},
	{name: "DeviceID", bits: 32, kind: Hex},
	{name: "DeviceVersion", bits: 16, kind: Hex},
	{bits: 16},
	{name: "SubsystemVendorID", bits: 24, kind: Hex},
	{bits: 8},
	{name: "SubsystemID", bits: 32, kind: Hex},
	{name: "IOClass", bits: 16, kind: Hex},
	{name: "IOSubclass", bits: 16, kind: Hex},
	{name: "Protocol", bits: 16, kind: Hex},
	{name: "ProtocolVersion", bits: 16, kind: Hex},
	{bits: 32},
	{name: "SendMessageQueueDepth", bits: 16, kind: Dec},
	{bits: 8},
	{name: "RDMAReadQueueDepth", bits: 8, kind: Dec},
	{name: "SendMessageSize", bits: 32, kind: Dec},
	{name: "RDMATransferSize", bits: 32, kind: Dec},
	{name: "ControllerOperationsCapability", bits: 8, kind: Hex, values: controllerOperations},
	{bits: 8},
	{name: "ServiceEntries", bits: 8, kind: Dec},
	{bits: 72},
	{name: "IDString", bits: 512, kind: String},
}}

var layoutServiceEntries = layout{name: "serviceentries", parts: []component{
	{times: 4, each: []component{{name: "ServiceName", bits: 320, kind: String}, {name: "ServiceID", bits: 64, kind: Hex, values: serviceIDName}}},
}}

var layoutCongestionInfo = layout{name: "congestioninfo", parts: []component{
	{name: "CongestionInfo", bits: 16, kind: Hex},
	{name: "ControlTableCap", bits: 8, kind: Dec},
}}

var layoutCongestionKey = layout{name: "congestionkeyinfo", parts: []component{
	{name: "CC_Key", bits: 64, kind: Hex},
	{name: "CC_KeyProtectBit", bits: 1, kind: Bool},
	{bits: 15},
	{name: "CC_KeyLeasePeriod", bits: 16, kind: Dec},
	{name: "CC_KeyViolations", bits: 16, kind: Dec},
}}

// What follows the event counter hangs on whether a switch or a channel adapter
// sends it; it is not split up.
var layoutCongestionLog = layout{name: "congestionlog", parts: []component{
	{name: "LogType", bits: 8, kind: Hex, values: congestionLogName},
	{name: "CongestionFlags", bits: 8, kind: Hex},
	{name: "EventCounter", bits: 16, kind: Dec},
	{name: "Log", bits: 1504, kind: Bytes},
}}

var layoutSwitchCongestion = layout{name: "switchcongestionsetting", parts: []component{
	{name: "Control_Map", bits: 32, kind: Hex},
	{name: "Victim_Mask", bits: 256, kind: Bytes},
	{name: "Credit_Mask", bits: 256, kind: Bytes},
	{name: "Threshold", bits: 4, kind: Hex},
	{bits: 4},
	{name: "Packet_Size", bits: 8, kind: Hex},
	{name: "CS_Threshold", bits: 4, kind: Hex},
	{bits: 12},
	{name: "CS_ReturnDelay", bits: 16, kind: Hex},
	{name: "Marking_Rate", bits: 16, kind: Hex},
}}

var layoutSwitchPortCongestion = layout{name: "switchportcongestionsetting", parts: []component{
	{times: 32, each: []component{
		{name: "Valid", bits: 1, kind: Bool},
		{name: "Control_Type", bits: 1, kind: Bool},
		{bits: 2},
		{name: "Threshold", bits: 4, kind: Hex},
		{name: "Packet_Size", bits: 8, kind: Hex},
		{name: "Marking_Rate", bits: 16, kind: Hex},
	}},
}}

var layoutCACongestion = layout{name: "cacongestionsetting", parts: []component{
	{name: "Port_Control", bits: 16, kind: Hex},
	{name: "Control_Map", bits: 16, kind: Hex},
	{times: 16, each: []component{
		{name: "CCTI_Timer", bits: 16, kind: Dec},
		{name: "CCTI_Increase", bits: 8, kind: Dec},
		{name: "Trigger_Threshold", bits: 8, kind: Dec},
		{name: "CCTI_Min", bits: 8, kind: Dec},
		{bits: 24},
	}},
}}

var layoutCongestionTable = layout{name: "congestioncontroltable", parts: []component{
	{name: "CCTI_Limit", bits: 16, kind: Dec},
	{bits: 16},
	{times: 64, each: []component{{name: "CCT_Shift", bits: 2, kind: Dec}, {name: "CCT_Multiplier", bits: 14, kind: Dec}}},
}}

var layoutTimeStamp = layout{name: "timestamp", parts: []component{{name: "TimeStamp", bits: 32, kind: Dec}}}

func sampleStatusName(v uint64) string {
	return nameAt(v, []string{"done", "started, timer not yet", "sampling"})
}

func congestionLogName(v uint64) string { return nameAt(v, []string{"", "switch", "channel adapter"}) }

// controllerOperations names what an I/O controller can do, to and from it.
func controllerOperations(v uint64) string {
	return setText(v, []string{"SEND to", "SEND from", "READ to", "READ from", "WRITE to", "WRITE from", "atomic to", "atomic from"})
}
