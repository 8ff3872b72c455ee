package dissect

// Notices: traps and what has been read of them (IBA 13.4.8.2), with the details
// of those that subnet management defines (14.2.5.1). Of directed routes and in
// subnet administration alike.

var layoutNotice = layout{name: "notice", parts: []component{
	{name: "IsGeneric", bits: 1, kind: Hex},
	{name: "Type", bits: 7, kind: Hex, values: noticeTypeName},
	{name: "ProducerTypeVendorID", bits: 24, kind: Hex},
	{name: "TrapNumberDeviceID", bits: 16, kind: Hex, values: trapName},
	{name: "IssuerLID", bits: 16, kind: Hex},
	{name: "NoticeToggle", bits: 1, kind: Hex},
	{name: "NoticeCount", bits: 15, kind: Hex},
}}

var noticeRaw = layout{name: "notice", parts: []component{{name: "DataDetails", bits: 432, kind: Bytes}}}

var noticeIssuer = layout{name: "notice", parts: []component{{name: "IssuerGID", bits: 128, kind: IPv6Addr}}}

var (
	smpNotice = []*layout{&layoutNotice, &trapGID, &trapSwitch, &trapPort, &trapCapability, &trapImage, &trapMKey, &trapKey, &trapSwitchKey, &noticeRaw}
	saNotice  = []*layout{&layoutNotice, &trapGID, &trapSwitch, &trapPort, &trapCapability, &trapImage, &trapMKey, &trapKey, &trapSwitchKey, &noticeRaw, &noticeIssuer}
)

var trapGID = layout{name: "trap", traps: []uint16{64, 65, 66, 67}, parts: []component{
	{bits: 48}, {name: "GIDADDR", bits: 128, kind: IPv6Addr},
}}

var trapSwitch = layout{name: "trap", traps: []uint16{128}, parts: []component{{name: "LIDADDR", bits: 16, kind: Hex}}}

var trapPort = layout{name: "trap", traps: []uint16{129, 130, 131}, parts: []component{
	{bits: 16}, {name: "LIDADDR", bits: 16, kind: Hex}, {name: "PORTNO", bits: 8, kind: Hex},
}}

var trapCapability = layout{name: "trap", traps: []uint16{144}, parts: []component{
	{bits: 16},
	{name: "LIDADDR", bits: 16, kind: Hex},
	{bits: 15},
	{name: "OtherLocalChanges", bits: 1, kind: Hex},
	{name: "CAPABILITYMASK", bits: 32, kind: Hex},
	{bits: 13},
	{name: "LinkSpeedEnabledChange", bits: 1, kind: Hex, field: "trap.linkspeecenabledchange"},
	{name: "LinkWidthEnabledChange", bits: 1, kind: Hex},
	{name: "NodeDescriptionChange", bits: 1, kind: Hex},
}}

var trapImage = layout{name: "trap", traps: []uint16{145}, parts: []component{
	{bits: 16}, {name: "LIDADDR", bits: 16, kind: Hex}, {bits: 16}, {name: "SYSTEMIMAGEGUID", bits: 64, kind: Hex},
}}

var trapMKey = layout{name: "trap", traps: []uint16{256}, parts: []component{
	{bits: 16},
	{name: "LIDADDR", bits: 16, kind: Hex},
	{name: "DRSLID", bits: 16, kind: Hex},
	{name: "METHOD", bits: 8, kind: Hex, values: madMethodName},
	{bits: 8},
	{name: "ATTRIBUTEID", bits: 16, kind: Hex},
	{name: "ATTRIBUTEMODIFIER", bits: 32, kind: Hex},
	{name: "MKEY", bits: 64, kind: Hex},
	{bits: 8},
	{name: "DRNotice", bits: 1, kind: Hex},
	{name: "DRPathTruncated", bits: 1, kind: Hex},
	{name: "DRHopCount", bits: 6, kind: Hex},
	{name: "DRNoticeReturnPath", bits: 240, kind: Bytes},
}}

var trapKey = layout{name: "trap", traps: []uint16{257, 258}, parts: []component{
	{bits: 16},
	{name: "LIDADDR1", bits: 16, kind: Hex},
	{name: "LIDADDR2", bits: 16, kind: Hex},
	{name: "KEY", bits: 32, kind: Hex},
	{name: "SL", bits: 4, kind: Hex},
	{bits: 4},
	{name: "QP1", bits: 24, kind: Hex},
	{bits: 8},
	{name: "QP2", bits: 24, kind: Hex},
	{name: "GIDADDR1", bits: 128, kind: IPv6Addr},
	{name: "GIDADDR2", bits: 128, kind: IPv6Addr},
}}

var trapSwitchKey = layout{name: "trap", traps: []uint16{259}, parts: []component{
	{name: "DataValid", bits: 16, kind: Hex},
	{name: "LIDADDR1", bits: 16, kind: Hex},
	{name: "LIDADDR2", bits: 16, kind: Hex},
	{name: "PKEY", bits: 16, kind: Hex},
	{name: "SL", bits: 4, kind: Hex},
	{bits: 4},
	{name: "QP1", bits: 24, kind: Hex},
	{bits: 8},
	{name: "QP2", bits: 24, kind: Hex},
	{name: "GIDADDR1", bits: 128, kind: IPv6Addr},
	{name: "GIDADDR2", bits: 128, kind: IPv6Addr},
	{name: "SWLIDADDR", bits: 16, kind: Hex},
	{name: "PORTNO", bits: 8, kind: Hex},
}}

func noticeTypeName(v uint64) string {
	return nameAt(v, []string{"fatal", "urgent", "security", "subnet management", "informational"})
}

// trapName names the traps of subnet management (IBA 14.2.5.1).
func trapName(v uint64) string {
	switch v {
	case 64:
		return "GID is in service"
	case 65:
		return "GID is out of service"
	case 66:
		return "multicast group was made"
	case 67:
		return "multicast group was removed"
	case 128:
		return "link state changed"
	case 129:
		return "local link integrity threshold was reached"
	case 130:
		return "excessive buffer overrun threshold was reached"
	case 131:
		return "flow control update watchdog timer expired"
	case 144:
		return "capability mask or description changed"
	case 145:
		return "system image GUID changed"
	case 256:
		return "bad M_Key"
	case 257:
		return "bad P_Key"
	case 258:
		return "bad Q_Key"
	case 259:
		return "bad P_Key at a switch's port"
	}
	return ""
}
