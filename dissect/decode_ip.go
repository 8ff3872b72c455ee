package dissect

// rawIP goes on by the version nibble.
func (d *Decoder) rawIP(p *Packet, b []byte, off int) {
	if off >= len(b) {
		p.short(b, off)
		return
	}
	switch b[off] >> 4 {
	case 4:
		d.ipv4(p, b, off)
	case 6:
		d.ipv6(p, b, off)
	default:
		p.note(ProblemIPVersion, off)
	}
}

// setEnd notes where the network layer ends by its own length.
func (p *Packet) setEnd(off, end int) {
	switch wire := int(p.WireLen); {
	case end <= wire:
	case p.depth > 0: // the mirror cut it: what is missing was not captured
		p.note(ProblemCut, off)
	default:
		p.note(ProblemIPLength, off)
		end = wire
	}
	p.end = uint32(end)
}

func (d *Decoder) ipv4(p *Packet, b []byte, off int) {
	if off+20 > len(b) {
		p.short(b, off)
		return
	}
	h := IPv4(b[off : off+20 : off+20])
	if h[0]>>4 != 4 {
		p.note(ProblemIPVersion, off)
		return
	}
	p.layers |= 1 << LayerIPv4
	p.off[LayerIPv4] = uint16(off)
	hlen := int(h[0]&15) * 4
	total := int(h.TotalLen())
	if total == 0 { // segmentation offload: the length was not yet known
		total = int(p.WireLen) - off
	}
	p.Src, p.Dst = addr4(be32(h[12:])), addr4(be32(h[16:]))
	p.TrafficClass, p.HopLimit, p.IPID = h[1], h[8], be16(h[4:])
	if hlen < 20 || hlen > total {
		p.note(ProblemIPHeader, off)
		return
	}
	p.setEnd(off, off+total)
	frag := be16(h[6:])
	if frag&0x3FFF != 0 {
		p.note(ProblemFragment, off+6)
		if frag&0x1FFF != 0 {
			p.Fragment = true
			return
		}
	}
	d.transport(p, b, h[9], off+hlen)
}

func (d *Decoder) ipv6(p *Packet, b []byte, off int) {
	if !p.ipv6Header(b, LayerIPv6, off) {
		return
	}
	next := b[off+6]
	off += 40
	for range maxExtensions {
		n, is := extension(next, b[min(off, len(b)):])
		switch {
		case !is:
			d.transport(p, b, next, off)
			return
		case n == 0:
			p.short(b, off)
			return
		case next == ExtFragment:
			if h := IPv6Fragment(b[off : off+8]); h.More() || h.Offset() != 0 { // an atomic fragment is whole
				p.note(ProblemFragment, off)
				if h.Offset() != 0 {
					p.Fragment = true
					return
				}
			}
		}
		next, off = b[off], off+n
	}
	p.note(ProblemExtensionLoop, off)
}

// ipv6Header reads an IPv6 header or a GRH, which share their layout
// (IBA 8.3).
func (p *Packet) ipv6Header(b []byte, l Layer, off int) bool {
	if off+40 > len(b) {
		p.short(b, off)
		return false
	}
	h := b[off : off+40 : off+40]
	if h[0]>>4 != 6 {
		p.note(ProblemIPVersion, off)
		return false
	}
	p.layers |= 1 << l
	p.off[l] = uint16(off)
	p.Src, p.Dst = Addr{be64(h[8:]), be64(h[16:])}, Addr{be64(h[24:]), be64(h[32:])}
	p.TrafficClass, p.HopLimit, p.IPID = h[0]<<4|h[1]>>4, h[7], 0
	n := int(be16(h[4:]))
	if n == 0 && l == LayerIPv6 { // jumbogram or segmentation offload
		n = int(p.WireLen) - off - 40
	}
	p.setEnd(off, off+40+n)
	return true
}

func (p *Packet) grh(b []byte, off int) bool {
	if !p.ipv6Header(b, LayerGRH, off) {
		return false
	}
	if b[off+6] != nextHeaderIBA {
		p.note(ProblemNextHeader, off+6)
		return false
	}
	return true
}

// transport goes on with an IP protocol number.
func (d *Decoder) transport(p *Packet, b []byte, proto uint8, off int) {
	switch proto {
	case protoUDP:
		d.udp(p, b, off)
	case protoTCP:
		p.tcp(b, off)
	case protoGRE:
		d.gre(p, b, off)
	case protoIPv4InIP:
		d.inside(p, b, 0, etherIPv4, off, at(LayerOuterIPv4, off))
	case protoIPv6InIP:
		d.inside(p, b, 0, etherIPv6, off, at(LayerOuterIPv6, off))
	case protoEthernet:
		d.inside(p, b, 0, etherBridging, off, at(LayerOuterIPv6, off))
	case protoMPLS:
		d.inside(p, b, 0, etherMPLS, off, at(LayerOuterIPv4, off))
	}
}

func (d *Decoder) udp(p *Packet, b []byte, off int) {
	if !p.has(b, LayerUDP, off, 8) {
		return
	}
	h := b[off : off+8 : off+8]
	p.SrcPort, p.DstPort = be16(h), be16(h[2:])
	p.payload = uint32(off + 8)
	n := int(be16(h[4:]))
	switch room := int(p.end) - off; {
	case n == 0 && room > 0xFFFF: // jumbogram
	case n < 8 || n > room:
		if !p.fragmented() || n < 8 {
			p.note(ProblemUDPLength, off+4)
		}
	default:
		p.end = uint32(off + n)
	}
	if e := p.end; e > p.payload {
		p.payloadLen = e - p.payload
		p.layers |= 1 << LayerPayload
	}
	port := d.Port
	if port == 0 {
		port = PortRoCEv2
	}
	if p.DstPort == port {
		p.Proto = ProtoRoCEv2
		p.bth(b, off+8)
		return
	}
	d.datagramTunnel(p, b, off+8)
}

func (p *Packet) fragmented() bool {
	for _, q := range p.Problems() {
		if q.Code == ProblemFragment {
			return true
		}
	}
	return false
}

func (p *Packet) tcp(b []byte, off int) {
	if !p.has(b, LayerTCP, off, 20) {
		return
	}
	h := TCP(b[off : off+20 : off+20])
	p.Proto = ProtoTCP
	p.SrcPort, p.DstPort = be16(h), be16(h[2:])
	p.TCPSeq, p.TCPAck, p.TCPFlags = be32(h[4:]), be32(h[8:]), h[13]
	hlen := int(h[12]>>4) * 4
	if hlen < 20 || off+hlen > int(p.end) {
		p.note(ProblemShort, off)
		return
	}
	p.payload = uint32(off + hlen)
	p.payloadLen = p.end - p.payload
	if p.payloadLen > 0 {
		p.layers |= 1 << LayerPayload
		p.iwarp(b)
	}
}
