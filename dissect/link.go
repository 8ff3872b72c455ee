package dissect

// LinkType is the number by which capture files name the outermost header of
// their frames (the tcpdump group's LINKTYPE_ values).
type LinkType uint16

// The link types that Decode understands. Others decode to a Packet with the
// problem ProblemLinkType and nothing else.
const (
	LinkNull       LinkType = 0   // BSD loopback: 4-byte address family in the writer's byte order
	LinkEthernet   LinkType = 1   // Ethernet without preamble, usually without FCS
	LinkRawBSD     LinkType = 12  // raw IP as some systems number it
	LinkRawOpenBSD LinkType = 14  // raw IP as OpenBSD numbers it
	LinkRaw        LinkType = 101 // raw IP: the version nibble decides
	LinkLoop       LinkType = 108 // OpenBSD loopback: 4-byte address family, big-endian
	LinkLinuxSLL   LinkType = 113 // Linux "cooked" capture v1, 16 bytes
	LinkERF        LinkType = 197 // Endace extensible record format
	LinkIPv4       LinkType = 228 // raw IPv4
	LinkIPv6       LinkType = 229 // raw IPv6
	LinkInfiniBand LinkType = 247 // native InfiniBand, LRH first
	LinkLinuxSLL2  LinkType = 276 // Linux "cooked" capture v2, 20 bytes
)
