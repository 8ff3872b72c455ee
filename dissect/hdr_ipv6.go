package dissect

import "iter"

// IPv6 is an IPv6 header; a GRH has the same layout (IBA 8.3).
type IPv6 []byte

// Version returns the version, 6.
func (h IPv6) Version() uint8 { return h[0] >> 4 }

// SetVersion sets the version.
func (h IPv6) SetVersion(v uint8) { h[0] = h[0]&0x0F | v<<4 }

// TrafficClass returns DSCP (6 bits) and ECN (2).
func (h IPv6) TrafficClass() uint8 { return h[0]<<4 | h[1]>>4 }

// SetTrafficClass sets DSCP and ECN.
func (h IPv6) SetTrafficClass(v uint8) { h[0], h[1] = h[0]&0xF0|v>>4, v<<4|h[1]&0x0F }

// DSCP returns the differentiated services code point.
func (h IPv6) DSCP() uint8 { return h.TrafficClass() >> 2 }

// SetDSCP sets the differentiated services code point.
func (h IPv6) SetDSCP(v uint8) { h.SetTrafficClass(v<<2 | h.ECN()) }

// ECN returns the two ECN bits.
func (h IPv6) ECN() uint8 { return h.TrafficClass() & 3 }

// SetECN sets the two ECN bits.
func (h IPv6) SetECN(v uint8) { h.SetTrafficClass(h.TrafficClass()&^3 | v&3) }

// FlowLabel returns the 20-bit flow label.
func (h IPv6) FlowLabel() uint32 { return be24(h[1:]) & 0xFFFFF }

// SetFlowLabel sets the 20-bit flow label.
func (h IPv6) SetFlowLabel(v uint32) { put24(h[1:], uint32(h[1]&0xF0)<<16|v&0xFFFFF) }

// PayloadLen returns the length of what follows the header.
func (h IPv6) PayloadLen() uint16 { return be16(h[4:]) }

// SetPayloadLen sets the length of what follows the header.
func (h IPv6) SetPayloadLen(v uint16) { put16(h[4:], v) }

// NextHeader returns the number of the header that follows.
func (h IPv6) NextHeader() uint8 { return h[6] }

// SetNextHeader sets the number of the header that follows.
func (h IPv6) SetNextHeader(v uint8) { h[6] = v }

// HopLimit returns the hop limit.
func (h IPv6) HopLimit() uint8 { return h[7] }

// SetHopLimit sets the hop limit.
func (h IPv6) SetHopLimit(v uint8) { h[7] = v }

// Src returns the source address, or GID.
func (h IPv6) Src() Addr { return Addr{be64(h[8:]), be64(h[16:])} }

// SetSrc sets the source address.
func (h IPv6) SetSrc(a Addr) { put64(h[8:], a.Hi); put64(h[16:], a.Lo) }

// Dst returns the destination address, or GID.
func (h IPv6) Dst() Addr { return Addr{be64(h[24:]), be64(h[32:])} }

// SetDst sets the destination address.
func (h IPv6) SetDst(a Addr) { put64(h[24:], a.Hi); put64(h[32:], a.Lo) }

// The IPv6 extension headers that stand before the transport (RFC 8200 4.1).
const (
	ExtHopByHop       = 0
	ExtRouting        = 43
	ExtFragment       = 44
	ExtAuthentication = 51
	ExtDestination    = 60
)

// IPv6Extension is an IPv6 extension header, as long as it says.
type IPv6Extension []byte

// NextHeader returns the number of the header that follows.
func (h IPv6Extension) NextHeader() uint8 { return h[0] }

// SetNextHeader sets the number of the header that follows.
func (h IPv6Extension) SetNextHeader(v uint8) { h[0] = v }

// IPv6Fragment is the extension header of a fragment (RFC 8200 4.5).
type IPv6Fragment []byte

// Offset returns where the fragment belongs, in bytes.
func (h IPv6Fragment) Offset() int { return int(be16(h[2:]) &^ 7) }

// SetOffset sets where the fragment belongs, in bytes: a multiple of eight.
func (h IPv6Fragment) SetOffset(n int) { put16(h[2:], be16(h[2:])&7|uint16(n)&^7) }

// More reports whether further fragments follow.
func (h IPv6Fragment) More() bool { return h[3]&1 != 0 }

// SetMore sets whether further fragments follow.
func (h IPv6Fragment) SetMore(on bool) { setBit(&h[3], 1, on) }

// ID returns the identification.
func (h IPv6Fragment) ID() uint32 { return be32(h[4:]) }

// SetID sets the identification.
func (h IPv6Fragment) SetID(v uint32) { put32(h[4:], v) }

// extension returns the length of the extension header that begins b: 0 for
// what is none, and where b is too short to tell.
func extension(kind uint8, b []byte) (size int, is bool) {
	switch kind {
	case ExtHopByHop, ExtRouting, ExtDestination, ExtAuthentication, ExtFragment:
	default:
		return 0, false
	}
	switch {
	case len(b) < 8:
		return 0, true
	case kind == ExtFragment:
		return 8, true
	case kind == ExtAuthentication: // in 4-byte words, less 2
		return 8 + int(b[1])*4, true
	}
	return 8 + int(b[1])*8, true
}

// IPv6Extensions returns the extension headers of the frame's IPv6 header with
// their numbers, as far as Decode walks them and the capture has them whole.
func (p *Packet) IPv6Extensions(frame []byte) iter.Seq2[uint8, IPv6Extension] {
	return func(yield func(uint8, IPv6Extension) bool) {
		h := p.IPv6(frame)
		if h == nil {
			return
		}
		kind, rest := h.NextHeader(), frame[p.Offset(LayerIPv6)+LayerIPv6.Size():]
		for range maxExtensions {
			n, is := extension(kind, rest)
			if !is || n == 0 || n > len(rest) || !yield(kind, IPv6Extension(rest[:n:n])) {
				return
			}
			kind, rest = rest[0], rest[n:]
		}
	}
}

// IPv6 returns the view of the frame's IPv6 header, nil without one.
func (p *Packet) IPv6(frame []byte) IPv6 { return p.view(frame, LayerIPv6, 40) }

// GRH returns the view of the frame's global route header, nil without one.
func (p *Packet) GRH(frame []byte) IPv6 { return p.view(frame, LayerGRH, 40) }

var ipv6Fields = []Field{
	{Name: "ipv6.version", Text: "Version", Layer: LayerIPv6, Bit: 0, Width: 4, Kind: Dec},
	{Name: "ipv6.tclass", Text: "Traffic class", Layer: LayerIPv6, Bit: 4, Width: 8, Kind: Hex, Digits: 8},
	{Name: "ipv6.tclass.dscp", Text: "DSCP", Layer: LayerIPv6, Bit: 4, Width: 6, Kind: Dec},
	{Name: "ipv6.tclass.ecn", Text: "ECN", Layer: LayerIPv6, Bit: 10, Width: 2, Kind: Dec, Values: ecnName},
	{Name: "ipv6.flow", Text: "Flow label", Layer: LayerIPv6, Bit: 12, Width: 20, Kind: Hex, Digits: 6},
	{Name: "ipv6.plen", Text: "Payload length", Layer: LayerIPv6, Bit: 32, Width: 16, Kind: Dec},
	{Name: "ipv6.nxt", Text: "Next header", Layer: LayerIPv6, Bit: 48, Width: 8, Kind: Dec, Values: ipProtoName},
	{Name: "ipv6.hlim", Text: "Hop limit", Layer: LayerIPv6, Bit: 56, Width: 8, Kind: Dec},
	{Name: "ipv6.src", Text: "Source address", Layer: LayerIPv6, Bit: 64, Width: 128, Kind: IPv6Addr},
	{Name: "ipv6.dst", Text: "Destination address", Layer: LayerIPv6, Bit: 192, Width: 128, Kind: IPv6Addr},
}

var grhFields = []Field{
	{Name: "infiniband.grh.ipver", Text: "IP version", Layer: LayerGRH, Bit: 0, Width: 4, Kind: Dec},
	{Name: "infiniband.grh.tclass", Text: "Traffic class", Layer: LayerGRH, Bit: 4, Width: 8, Kind: Dec},
	{Name: "infiniband.grh.flowlabel", Text: "Flow label", Layer: LayerGRH, Bit: 12, Width: 20, Kind: Dec},
	{Name: "infiniband.grh.paylen", Text: "Payload length", Layer: LayerGRH, Bit: 32, Width: 16, Kind: Dec},
	{Name: "infiniband.grh.nxthdr", Text: "Next header", Layer: LayerGRH, Bit: 48, Width: 8, Kind: Dec},
	{Name: "infiniband.grh.hoplmt", Text: "Hop limit", Layer: LayerGRH, Bit: 56, Width: 8, Kind: Dec},
	{Name: "infiniband.grh.sgid", Text: "Source GID", Layer: LayerGRH, Bit: 64, Width: 128, Kind: IPv6Addr},
	{Name: "infiniband.grh.dgid", Text: "Destination GID", Layer: LayerGRH, Bit: 192, Width: 128, Kind: IPv6Addr},
}
