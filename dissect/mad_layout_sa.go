package dissect

// The records of subnet administration (IBA 15.2.5): what tells a record from
// others of its kind, then the attribute that it is a record of. The layouts are
// OpenSM's (ib_types.h), compared with Wireshark's by TestManagementAgainstTshark.

var (
	ridLID   = layout{name: "sa", parts: []component{{name: "LID", bits: 16, kind: Hex}, {bits: 16}}}
	ridPort  = layout{name: "sa", parts: []component{{name: "EndportLID", bits: 16, kind: Hex}, {name: "PortNum", bits: 8, kind: Hex}, {bits: 8}}}
	ridPorts = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "InputPortNum", bits: 8, kind: Hex}, {name: "OutputPortNum", bits: 8, kind: Hex}, {bits: 32},
	}}
	ridBlock16 = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "BlockNum_SixteenBit", bits: 16, kind: Hex}, {bits: 32},
	}}
	ridBlock8 = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "BlockNum_EightBit", bits: 8, kind: Hex}, {bits: 40},
	}}
	ridMulticast = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "Position", bits: 4, kind: Hex}, {bits: 3}, {name: "BlockNum_NineBit", bits: 9, kind: Hex}, {bits: 32},
	}}
	ridPKey = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "BlockNum_SixteenBit", bits: 16, kind: Hex}, {name: "PortNum", bits: 8, kind: Hex}, {bits: 24},
	}}
	ridArbitration = layout{name: "sa", parts: []component{
		{name: "LID", bits: 16, kind: Hex}, {name: "OutputPortNum", bits: 8, kind: Hex}, {name: "BlockNum_EightBit", bits: 8, kind: Hex}, {bits: 32},
	}}
)

var layoutInformInfo = layout{name: "informinfo", parts: []component{
	{name: "GID", bits: 128, kind: IPv6Addr},
	{name: "LIDRangeBegin", bits: 16, kind: Hex},
	{name: "LIDRangeEnd", bits: 16, kind: Hex},
	{bits: 16},
	{name: "IsGeneric", bits: 8, kind: Hex},
	{name: "Subscribe", bits: 8, kind: Hex},
	{name: "Type", bits: 16, kind: Hex},
	{name: "TrapNumberDeviceID", bits: 16, kind: Hex, values: trapName},
	{name: "QPN", bits: 24, kind: Hex},
	{bits: 3},
	{name: "RespTimeValue", bits: 5, kind: Hex},
	{bits: 8},
	{name: "ProducerTypeVendorID", bits: 24, kind: Hex},
}}

var layoutInformRecord = layout{name: "informinforecord", parts: []component{
	{name: "SubscriberGID", bits: 128, kind: IPv6Addr}, {name: "Enum", bits: 16, kind: Hex}, {bits: 48},
}}

var layoutLinkRecord = layout{name: "linkrecord", parts: []component{
	{name: "FromLID", bits: 16, kind: Hex},
	{name: "FromPort", bits: 8, kind: Hex},
	{name: "ToPort", bits: 8, kind: Hex},
	{name: "ToLID", bits: 16, kind: Hex},
}}

// Wireshark has the components of ServiceRecord below "linkrecord".
var layoutServiceRecord = layout{name: "linkrecord", parts: []component{
	{name: "ServiceID", bits: 64, kind: Hex, values: serviceIDName},
	{name: "ServiceGID", bits: 128, kind: IPv6Addr},
	{name: "ServiceP_Key", bits: 16, kind: Hex},
	{bits: 16},
	{name: "ServiceLease", bits: 32, kind: Hex},
	{name: "ServiceKey", bits: 128, kind: Bytes},
	{name: "ServiceName", bits: 512, kind: Bytes},
	{times: 4, each: []component{{name: "ServiceData", bits: 128, kind: Bytes}}}, // of 8, 16, 32 and 64 bits
}}

var layoutPathRecord = layout{name: "pathrecord", parts: []component{
	{name: "ServiceID", bits: 64, kind: Hex, values: serviceIDName},
	{name: "DGID", bits: 128, kind: IPv6Addr},
	{name: "SGID", bits: 128, kind: IPv6Addr},
	{name: "DLID", bits: 16, kind: Hex},
	{name: "SLID", bits: 16, kind: Hex},
	{name: "RawTraffic", bits: 1, kind: Hex},
	{bits: 3},
	{name: "FlowLabel", bits: 20, kind: Hex},
	{name: "HopLimit", bits: 8, kind: Hex},
	{name: "TClass", bits: 8, kind: Hex},
	{name: "Reversible", bits: 1, kind: Hex},
	{name: "NumbPath", bits: 7, kind: Hex},
	{name: "P_Key", bits: 16, kind: Hex},
	{name: "QoSClass", bits: 12, kind: Hex},
	{name: "SL", bits: 4, kind: Hex, digits: 4},
	{name: "MTUSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "MTU", bits: 6, kind: Hex, values: mtuName},
	{name: "RateSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "Rate", bits: 6, kind: Hex, values: rateName},
	{name: "PacketLifeTimeSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "PacketLifeTime", bits: 6, kind: Hex},
	{name: "Preference", bits: 8, kind: Hex},
}}

var layoutMCMember = layout{name: "mcmemberrecord", parts: []component{
	{name: "MGID", bits: 128, kind: IPv6Addr},
	{name: "PortGID", bits: 128, kind: IPv6Addr},
	{name: "Q_Key", bits: 32, kind: Hex},
	{name: "MLID", bits: 16, kind: Hex},
	{name: "MTUSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "MTU", bits: 6, kind: Hex, values: mtuName},
	{name: "TClass", bits: 8, kind: Hex},
	{name: "P_Key", bits: 16, kind: Hex},
	{name: "RateSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "Rate", bits: 6, kind: Hex, values: rateName},
	{name: "PacketLifeTimeSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "PacketLifeTime", bits: 6, kind: Hex},
	{name: "SL", bits: 4, kind: Hex},
	{name: "FlowLabel", bits: 20, kind: Hex},
	{name: "HopLimit", bits: 8, kind: Hex},
	{name: "Scope", bits: 4, kind: Hex},
	{name: "JoinState", bits: 4, kind: Hex, values: joinStates},
	{name: "ProxyJoin", bits: 1, kind: Hex},
}}

var layoutTraceRecord = layout{name: "tracerecord", parts: []component{
	{name: "GidPrefix", bits: 64, kind: Hex},
	{name: "IDGeneration", bits: 16, kind: Hex},
	{bits: 8},
	{name: "NodeType", bits: 8, kind: Hex, values: nodeTypeName},
	{name: "NodeID", bits: 64, kind: Hex},
	{name: "ChassisID", bits: 64, kind: Hex},
	{name: "EntryPortID", bits: 64, kind: Hex},
	{name: "ExitPortID", bits: 64, kind: Hex},
	{name: "EntryPort", bits: 8, kind: Hex},
	{name: "ExitPort", bits: 8, kind: Hex},
}}

var layoutMultiPath = layout{name: "multipathrecord", parts: []component{
	{name: "RawTraffic", bits: 1, kind: Hex},
	{bits: 3},
	{name: "FlowLabel", bits: 20, kind: Hex},
	{name: "HopLimit", bits: 8, kind: Hex},
	{name: "TClass", bits: 8, kind: Hex},
	{name: "Reversible", bits: 1, kind: Hex},
	{name: "NumbPath", bits: 7, kind: Hex},
	{name: "P_Key", bits: 16, kind: Hex},
	{name: "QoSClass", bits: 12, kind: Hex},
	{name: "SL", bits: 4, kind: Hex},
	{name: "MTUSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "MTU", bits: 6, kind: Hex, values: mtuName},
	{name: "RateSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "Rate", bits: 6, kind: Hex, values: rateName},
	{name: "PacketLifeTimeSelector", bits: 2, kind: Hex, values: selectorWords},
	{name: "PacketLifeTime", bits: 6, kind: Hex},
	{bits: 8},
	{name: "IndependenceSelector", bits: 2, kind: Hex},
	{bits: 6},
	{name: "SGIDCount", bits: 8, kind: Hex},
	{name: "DGIDCount", bits: 8, kind: Hex},
	{bits: 56},
}}

var layoutServiceAssociation = layout{name: "serviceassociationrecord", parts: []component{
	{name: "ServiceKey", bits: 128, kind: Bytes},
	{name: "ServiceName", bits: 512, kind: String},
}}

func selectorWords(v uint64) string {
	return nameAt(v, []string{"greater than", "less than", "exactly", "largest available"})
}

func joinStates(v uint64) string {
	return setText(v, []string{"full member", "non member", "send-only non member", "send-only full member"})
}
