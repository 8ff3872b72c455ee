package dissect

// The RDMA IP CM service (annex A11), which is what rdma_cm speaks: the service
// identifier holds protocol and port, and the private data of REQ and SIDR_REQ
// begin with addresses.

// ServiceID is the service that a CM message asks for.
type ServiceID uint64

// The protocols in the service identifiers of the RDMA IP CM service, which
// rdma_cm calls port spaces.
const (
	PortSpaceTCP = 0x06
	PortSpaceUDP = 0x11
	PortSpaceIB  = 0x3F
)

// ipcmPrefix is the high 40 bits of the service's identifiers.
const ipcmPrefix = 0x0000000001

// IPCMServiceID returns the identifier of an RDMA IP CM service.
func IPCMServiceID(protocol uint8, port uint16) ServiceID {
	return ipcmPrefix<<24 | ServiceID(protocol)<<16 | ServiceID(port)
}

// IsIPCM reports whether the identifier is one of the RDMA IP CM service.
func (s ServiceID) IsIPCM() bool { return s>>24 == ipcmPrefix }

// Protocol returns the IP protocol number; it is meaningful where IsIPCM.
func (s ServiceID) Protocol() uint8 { return uint8(s >> 16) }

// Port returns the port that is listened on; it is meaningful where IsIPCM.
func (s ServiceID) Port() uint16 { return uint16(s) }

// String returns "TCP port 7174" for services of the RDMA IP CM service, else
// the number.
func (s ServiceID) String() string {
	if name := serviceIDName(uint64(s)); name != "" {
		return name
	}
	return hexNote(uint64(s))
}

const ipcmSize = 36

// IPCM is the header that the RDMA IP CM service puts at the beginning of the
// private data (annex A11).
type IPCM []byte

// MajorVersion returns the major version, 0.
func (h IPCM) MajorVersion() uint8 { return h[0] >> 4 }

// MinorVersion returns the minor version, 0.
func (h IPCM) MinorVersion() uint8 { return h[0] & 0xF }

// SetVersion sets both versions.
func (h IPCM) SetVersion(major, minor uint8) { h[0] = major<<4 | minor&0xF }

// IPVersion returns 4 or 6.
func (h IPCM) IPVersion() uint8 { return h[1] >> 4 }

// SetIPVersion sets the IP version.
func (h IPCM) SetIPVersion(v uint8) { h[1] = v<<4 | h[1]&0xF }

// SrcPort returns the active side's port.
func (h IPCM) SrcPort() uint16 { return be16(h[2:]) }

// SetSrcPort sets the active side's port.
func (h IPCM) SetSrcPort(v uint16) { put16(h[2:], v) }

// Src returns the active side's address.
func (h IPCM) Src() Addr { return h.addr(4) }

// Dst returns the passive side's address.
func (h IPCM) Dst() Addr { return h.addr(20) }

// SetSrc sets the active side's address, but not the IP version.
func (h IPCM) SetSrc(a Addr) { h.putAddr(4, a) }

// SetDst sets the passive side's address, but not the IP version.
func (h IPCM) SetDst(a Addr) { h.putAddr(20, a) }

// addr reads an address. One of IPv4 stands in the last four bytes, and what is
// before it is not looked at.
func (h IPCM) addr(o int) Addr {
	if h.IPVersion() == 4 {
		return addr4(be32(h[o+12:]))
	}
	return Addr{be64(h[o:]), be64(h[o+8:])}
}

func (h IPCM) putAddr(o int, a Addr) {
	if a.Is4() {
		a.Lo &= 1<<32 - 1
	}
	putGID(h[o:], a)
}

// IPCM returns the view of the frame's RDMA IP CM header, nil without one.
func (p *Packet) IPCM(frame []byte) IPCM { return p.view(frame, LayerIPCM, ipcmSize) }

func ipcmOf(s ServiceID, private []byte) IPCM {
	if !s.IsIPCM() || len(private) < ipcmSize {
		return nil
	}
	return private[:ipcmSize:ipcmSize]
}

func consumerOf(s ServiceID, private []byte) []byte {
	switch {
	case !s.IsIPCM():
		return private
	case len(private) <= ipcmSize:
		return nil
	}
	return private[ipcmSize:]
}

// serviceIDOf returns the service identifier of messages that may carry an
// RDMA IP CM header, 0 for others.
func serviceIDOf(l Layer, data cmBytes) ServiceID {
	if l != LayerCMREQ && l != LayerCMSIDRREQ {
		return 0
	}
	return ServiceID(data.u64(8))
}

var ipcmFields = []Field{
	{Name: "infiniband.cm.req.ip_cm", Text: "IP CM request", Layer: LayerIPCM, Bit: 0, Kind: Bytes},
	{Name: "infiniband.cm.req.ip_cm.majv", Text: "Major version", Layer: LayerIPCM, Bit: 0, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.req.ip_cm.minv", Text: "Minor version", Layer: LayerIPCM, Bit: 4, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.req.ip_cm.ipv", Text: "IP version", Layer: LayerIPCM, Bit: 8, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.req.ip_cm.reserved", Text: "Reserved", Layer: LayerIPCM, Bit: 12, Width: 4, Kind: Hex},
	{Name: "infiniband.cm.req.ip_cm.sport", Text: "Source port", Layer: LayerIPCM, Bit: 2 * 8, Width: 16, Kind: Hex, Values: decimal},
	{Name: "infiniband.cm.req.ip_cm.sip6", Text: "Source address", Layer: LayerIPCM, Bit: 4 * 8, Width: 128, Kind: IPv6Addr, When: ipcmNot4},
	{Name: "infiniband.cm.req.ip_cm.dip6", Text: "Destination address", Layer: LayerIPCM, Bit: 20 * 8, Width: 128, Kind: IPv6Addr, When: ipcmNot4},
	{Name: "infiniband.cm.req.ip_cm.sip4", Text: "Source address", Layer: LayerIPCM, Bit: 16 * 8, Width: 32, Kind: IPv4Addr, When: ipcm4},
	{Name: "infiniband.cm.req.ip_cm.dip4", Text: "Destination address", Layer: LayerIPCM, Bit: 32 * 8, Width: 32, Kind: IPv4Addr, When: ipcm4},
	{Name: "infiniband.cm.req.ip_cm.private", Text: "Consumer private data", Layer: LayerIPCM, Bit: ipcmSize * 8, Kind: Bytes},
}

func hasIPCM(p *Packet, _ []byte) bool { return p.Has(LayerIPCM) }
func noIPCM(p *Packet, _ []byte) bool  { return !p.Has(LayerIPCM) }

func ipcm4(p *Packet, frame []byte) bool {
	return cmBytes(frame).bits(p.Offset(LayerIPCM)+1, 4, 4) == 4
}

func ipcmNot4(p *Packet, frame []byte) bool { return !ipcm4(p, frame) }

// serviceIDName names services of the RDMA IP CM service, "" for others.
func serviceIDName(v uint64) string {
	s := ServiceID(v)
	if !s.IsIPCM() {
		return ""
	}
	space := portSpaceName(uint64(s.Protocol()))
	if space == "" {
		space = "protocol " + decimal(uint64(s.Protocol()))
	}
	return space + " port " + decimal(uint64(s.Port()))
}

func portSpaceName(v uint64) string {
	switch v {
	case PortSpaceTCP:
		return "TCP"
	case PortSpaceUDP:
		return "UDP"
	case PortSpaceIB:
		return "IB"
	}
	return ""
}
