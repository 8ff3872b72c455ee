package dissect

// IPv4 is an IPv4 header without options.
type IPv4 []byte

// Version returns the version, 4.
func (h IPv4) Version() uint8 { return h[0] >> 4 }

// SetVersion sets the version.
func (h IPv4) SetVersion(v uint8) { h[0] = h[0]&0x0F | v<<4 }

// HeaderLen returns the length of the header with its options in bytes.
func (h IPv4) HeaderLen() int { return int(h[0]&15) * 4 }

// SetHeaderLen sets the length of the header with its options, in bytes: a
// multiple of four up to 60.
func (h IPv4) SetHeaderLen(n int) { h[0] = h[0]&0xF0 | byte(n/4)&15 }

// TotalLen returns the length of header and data.
func (h IPv4) TotalLen() uint16 { return be16(h[2:]) }

// SetTotalLen sets the length of header and data.
func (h IPv4) SetTotalLen(v uint16) { put16(h[2:], v) }

// TOS returns DSCP (6 bits) and ECN (2).
func (h IPv4) TOS() uint8 { return h[1] }

// SetTOS sets DSCP and ECN.
func (h IPv4) SetTOS(v uint8) { h[1] = v }

// DSCP returns the differentiated services code point.
func (h IPv4) DSCP() uint8 { return h[1] >> 2 }

// SetDSCP sets the differentiated services code point.
func (h IPv4) SetDSCP(v uint8) { h[1] = h[1]&3 | v<<2 }

// ECN returns the two ECN bits.
func (h IPv4) ECN() uint8 { return h[1] & 3 }

// SetECN sets the two ECN bits.
func (h IPv4) SetECN(v uint8) { h[1] = h[1]&^3 | v&3 }

// ID returns the identification.
func (h IPv4) ID() uint16 { return be16(h[4:]) }

// SetID sets the identification.
func (h IPv4) SetID(v uint16) { put16(h[4:], v) }

// DontFragment returns the bit of that name.
func (h IPv4) DontFragment() bool { return h[6]&0x40 != 0 }

// SetDontFragment sets the bit of that name.
func (h IPv4) SetDontFragment(on bool) { setBit(&h[6], 0x40, on) }

// MoreFragments returns the bit of that name.
func (h IPv4) MoreFragments() bool { return h[6]&0x20 != 0 }

// SetMoreFragments sets the bit of that name.
func (h IPv4) SetMoreFragments(on bool) { setBit(&h[6], 0x20, on) }

// FragOffset returns where the fragment belongs, in bytes.
func (h IPv4) FragOffset() int { return int(be16(h[6:])&0x1FFF) * 8 }

// SetFragOffset sets where the fragment belongs, in bytes: a multiple of eight.
func (h IPv4) SetFragOffset(n int) { put16(h[6:], be16(h[6:])&0xE000|uint16(n/8)&0x1FFF) }

// TTL returns the time to live.
func (h IPv4) TTL() uint8 { return h[8] }

// SetTTL sets the time to live.
func (h IPv4) SetTTL(v uint8) { h[8] = v }

// Protocol returns the number of the protocol that follows: 17 is UDP.
func (h IPv4) Protocol() uint8 { return h[9] }

// SetProtocol sets the number of the protocol that follows.
func (h IPv4) SetProtocol(v uint8) { h[9] = v }

// Checksum returns the header checksum.
func (h IPv4) Checksum() uint16 { return be16(h[10:]) }

// SetChecksum sets the header checksum; UpdateChecksum knows the right one.
func (h IPv4) SetChecksum(v uint16) { put16(h[10:], v) }

// Src returns the source address.
func (h IPv4) Src() Addr { return addr4(be32(h[12:])) }

// SetSrc sets the source address; of an IPv6 address it takes the last four
// bytes.
func (h IPv4) SetSrc(a Addr) { put32(h[12:], uint32(a.Lo)) }

// Dst returns the destination address.
func (h IPv4) Dst() Addr { return addr4(be32(h[16:])) }

// SetDst sets the destination address, as SetSrc.
func (h IPv4) SetDst(a Addr) { put32(h[16:], uint32(a.Lo)) }

// UpdateChecksum computes and sets the header checksum of the first 20 bytes
// and the options that h holds.
func (h IPv4) UpdateChecksum() {
	put16(h[10:], 0)
	put16(h[10:], ^FoldSum(OnesSum(0, h)))
}

// IPv4 returns the view of the frame's IPv4 header, nil without one.
func (p *Packet) IPv4(frame []byte) IPv4 { return p.view(frame, LayerIPv4, 20) }

var ipv4Fields = []Field{
	{Name: "ip.version", Text: "Version", Layer: LayerIPv4, Bit: 0, Width: 4, Kind: Dec},
	{Name: "ip.hdr_len", Text: "Header length", Layer: LayerIPv4, Kind: Dec, Get: ipv4HeaderLen},
	{Name: "ip.dsfield", Text: "Differentiated services field", Layer: LayerIPv4, Bit: 8, Width: 8, Kind: Hex},
	{Name: "ip.dsfield.dscp", Text: "DSCP", Layer: LayerIPv4, Bit: 8, Width: 6, Kind: Dec},
	{Name: "ip.dsfield.ecn", Text: "ECN", Layer: LayerIPv4, Bit: 14, Width: 2, Kind: Dec, Values: ecnName},
	{Name: "ip.len", Text: "Total length", Layer: LayerIPv4, Bit: 16, Width: 16, Kind: Dec},
	{Name: "ip.id", Text: "Identification", Layer: LayerIPv4, Bit: 32, Width: 16, Kind: Hex},
	{Name: "ip.flags", Text: "Flags", Layer: LayerIPv4, Bit: 48, Width: 3, Kind: Hex},
	{Name: "ip.flags.rb", Text: "Reserved bit", Layer: LayerIPv4, Bit: 48, Width: 1, Kind: Bool},
	{Name: "ip.flags.df", Text: "Don't fragment", Layer: LayerIPv4, Bit: 49, Width: 1, Kind: Bool},
	{Name: "ip.flags.mf", Text: "More fragments", Layer: LayerIPv4, Bit: 50, Width: 1, Kind: Bool},
	{Name: "ip.frag_offset", Text: "Fragment offset", Layer: LayerIPv4, Kind: Dec, Get: ipv4FragOffset},
	{Name: "ip.ttl", Text: "Time to live", Layer: LayerIPv4, Bit: 64, Width: 8, Kind: Dec},
	{Name: "ip.proto", Text: "Protocol", Layer: LayerIPv4, Bit: 72, Width: 8, Kind: Dec, Values: ipProtoName},
	{Name: "ip.checksum", Text: "Header checksum", Layer: LayerIPv4, Bit: 80, Width: 16, Kind: Hex},
	{Name: "ip.src", Text: "Source address", Layer: LayerIPv4, Bit: 96, Width: 32, Kind: IPv4Addr},
	{Name: "ip.dst", Text: "Destination address", Layer: LayerIPv4, Bit: 128, Width: 32, Kind: IPv4Addr},
}

// ipv4HeaderLen is in bytes, as Wireshark prints it.
func ipv4HeaderLen(p *Packet, frame []byte) (uint64, bool) {
	h := p.IPv4(frame)
	if h == nil {
		return 0, false
	}
	return uint64(h.HeaderLen()), true
}

// ipv4FragOffset is in bytes, as Wireshark prints it.
func ipv4FragOffset(p *Packet, frame []byte) (uint64, bool) {
	h := p.IPv4(frame)
	if h == nil {
		return 0, false
	}
	return uint64(h.FragOffset()), true
}

func ecnName(v uint64) string {
	names := [...]string{"not ECN-capable", "ECT(1)", "ECT(0)", "CE: congestion experienced"}
	return names[v&3]
}

func ipProtoName(v uint64) string {
	switch v {
	case 1:
		return "ICMP"
	case protoTCP:
		return "TCP"
	case protoUDP:
		return "UDP"
	case 44:
		return "fragment"
	case 47:
		return "GRE"
	case 58:
		return "ICMPv6"
	}
	return ""
}
