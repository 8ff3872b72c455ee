package dissect

// IPv4 is an IPv4 header without options.
type IPv4 []byte

// TotalLen returns the length of header and data.
func (h IPv4) TotalLen() uint16 { return be16(h[2:]) }

// SetTotalLen sets the length of header and data.
func (h IPv4) SetTotalLen(v uint16) { put16(h[2:], v) }

// TOS returns DSCP (6 bits) and ECN (2).
func (h IPv4) TOS() uint8 { return h[1] }

// SetTOS sets DSCP and ECN.
func (h IPv4) SetTOS(v uint8) { h[1] = v }

// ID returns the identification.
func (h IPv4) ID() uint16 { return be16(h[4:]) }

// SetID sets the identification.
func (h IPv4) SetID(v uint16) { put16(h[4:], v) }

// TTL returns the time to live.
func (h IPv4) TTL() uint8 { return h[8] }

// SetTTL sets the time to live.
func (h IPv4) SetTTL(v uint8) { h[8] = v }

// Checksum returns the header checksum.
func (h IPv4) Checksum() uint16 { return be16(h[10:]) }

// UpdateChecksum computes and sets the header checksum of the first 20 bytes
// and the options that h holds.
func (h IPv4) UpdateChecksum() {
	put16(h[10:], 0)
	put16(h[10:], ^foldSum(onesSum(0, h)))
}

// onesSum adds b to a ones' complement sum (RFC 1071).
func onesSum(sum uint32, b []byte) uint32 {
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(be16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	return sum
}

func foldSum(s uint32) uint16 {
	for s>>16 != 0 {
		s = s&0xFFFF + s>>16
	}
	return uint16(s)
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
	return uint64(h[0]&15) * 4, true
}

// ipv4FragOffset is in bytes, as Wireshark prints it.
func ipv4FragOffset(p *Packet, frame []byte) (uint64, bool) {
	h := p.IPv4(frame)
	if h == nil {
		return 0, false
	}
	return uint64(be16(h[6:])&0x1FFF) * 8, true
}

// IPv6 is an IPv6 header; a GRH has the same layout (IBA 8.3).
type IPv6 []byte

// TrafficClass returns DSCP (6 bits) and ECN (2).
func (h IPv6) TrafficClass() uint8 { return h[0]<<4 | h[1]>>4 }

// SetTrafficClass sets DSCP and ECN.
func (h IPv6) SetTrafficClass(v uint8) { h[0], h[1] = h[0]&0xF0|v>>4, v<<4|h[1]&0x0F }

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
