package dissect

// PortRoCEv2 is the UDP destination port of RoCE v2 (annex A17.3.1).
const PortRoCEv2 = 4791

// EtherTypes that lead somewhere.
const (
	etherIPv4       = 0x0800
	etherVLAN       = 0x8100
	etherIPv6       = 0x86DD
	etherMACControl = 0x8808
	etherQinQ       = 0x88A8
	etherQinQOld    = 0x9100
	etherRoCEv1     = 0x8915
	etherLLDP       = 0x88CC
)

const (
	protoTCP      = 6
	protoUDP      = 17
	nextHeaderIBA = 0x1B // GRH: a BTH follows
)

// The VLAN tags and the IPv6 extension headers that are walked are bounded, so
// that every header lies in the first 64 KiB of a frame.
const (
	maxTags       = 16
	maxExtensions = 16
)

// Decoder decodes frames. The zero value is ready for use; one Decoder serves
// one goroutine.
type Decoder struct {
	// Port is the UDP destination port taken for RoCE v2; 0 means 4791.
	Port uint16
	// CheckICRC asks for the verdict in Packet.ICRC.
	CheckICRC bool

	icrc ICRC
}

// Decode decodes one frame into p: its captured bytes, its length on the wire
// and its link type. It never fails; see Packet.Problems. What p held before is
// overwritten, except for the values that the caller owns.
func (d *Decoder) Decode(link LinkType, frame []byte, wireLen int, p *Packet) {
	if wireLen < len(frame) {
		wireLen = len(frame)
	}
	p.Link = link
	p.CapLen, p.WireLen = uint32(len(frame)), uint32(wireLen)
	if link != LinkEthernet || !d.plain(p, frame) {
		d.general(p, frame)
	}
	if d.CheckICRC && p.Has(LayerICRC) {
		p.ICRC = d.icrc.Verify(p, frame)
	}
	if d.CheckICRC && p.Has(LayerLRH) {
		p.vcrc = verifyVCRC(p, frame)
	}
}

// plain decodes what most packets are, in one go: RoCE v2 with nothing wrong, in
// Ethernet and IPv4 without tags, options or fragments. It gives what the
// general way gives, or is false and that way is to be gone; FuzzDecode compares
// the two.
func (d *Decoder) plain(p *Packet, b []byte) bool {
	const ip, udp, bth = 14, 34, 42 // where the headers are
	if len(b) < bth+12 {
		return false
	}
	h := b[: bth+12 : bth+12]
	port := d.Port
	if port == 0 {
		port = PortRoCEv2
	}
	if be32(h[12:])>>8 != etherIPv4<<8|0x45 || be16(h[ip+6:])&0x3FFF != 0 || h[ip+9] != protoUDP || be16(h[udp+2:]) != port {
		return false
	}
	op := &opTable[h[bth]]
	udpLen := uint32(be16(h[udp+4:]))
	pay, end, pad := uint32(bth+op.Len), udp+udpLen, uint32(h[bth+1]>>4&3)
	n := end - ICRCSize - pad - pay // a huge number where there is not so much room
	switch {
	case uint32(be16(h[ip+2:])) != udp-ip+udpLen, end > p.WireLen, int(pay) > len(b), n > 0xFFFF:
		return false
	case h[bth+1]&0xF != 0, op.Family == Reserved, n < op.least, n > op.most, op.Payload == EightBytes && pad != 0:
		return false
	}
	p.setBTH(h[bth:])
	switch ext := b[bth+12 : pay]; op.Layers { // those that are met; others go the general way
	case 0:
	case 1 << LayerRETH:
		p.setRETH(ext)
	case 1 << LayerAETH:
		p.setAETH(ext)
	case 1<<LayerRETH | 1<<LayerImmDt:
		p.setRETH(ext)
		p.Imm = be32(ext[16:])
	case 1 << LayerAtomicETH:
		p.setAtomicETH(ext)
	case 1<<LayerAETH | 1<<LayerAtomicAckETH:
		p.setAETH(ext)
		p.Orig = be64(ext[4:])
	case 1 << LayerImmDt, 1 << LayerIETH:
		p.Imm = be32(ext)
	case 1 << LayerDETH:
		p.setDETH(ext)
		if p.DestQP <= 1 { // a management datagram
			return false
		}
	default:
		return false
	}
	layers := 1<<LayerFrame | 1<<LayerEthernet | 1<<LayerIPv4 | 1<<LayerUDP | 1<<LayerBTH | 1<<LayerICRC | op.Layers
	if n > 0 {
		layers |= 1 << LayerPayload
	}
	p.layers = layers
	p.off[LayerEthernet], p.off[LayerIPv4], p.off[LayerUDP], p.off[LayerBTH] = 0, ip, udp, bth
	p.Proto, p.ICRC, p.Fragment, p.problems = ProtoRoCEv2, ICRCUnchecked, false, 0
	p.nlisted, p.depth, p.tunnel, p.tunnelID, p.vcrc = 0, 0, LayerFrame, 0, ICRCUnchecked
	p.Src, p.Dst = addr4(be32(h[ip+12:])), addr4(be32(h[ip+16:]))
	p.TrafficClass, p.HopLimit, p.IPID = h[ip+1], h[ip+8], be16(h[ip+4:])
	p.SrcPort, p.DstPort = be16(h[udp:]), port
	p.PadCount, p.payload, p.payloadLen, p.end = uint8(pad), pay, n, end
	return true
}

// general decodes any frame.
func (d *Decoder) general(p *Packet, frame []byte) {
	p.layers = 1 << LayerFrame
	p.Proto, p.ICRC, p.Fragment, p.problems = ProtoOther, ICRCUnchecked, false, 0
	p.payload, p.payloadLen, p.PadCount = 0, 0, 0
	p.nlisted, p.depth, p.tunnel, p.tunnelID, p.vcrc = 0, 0, LayerFrame, 0, ICRCUnchecked
	p.end = p.WireLen
	switch p.Link {
	case LinkEthernet:
		d.ethernet(p, frame, 0)
	case LinkLinuxSLL:
		if p.has(frame, LayerSLL, 0, 16) {
			d.etherType(p, frame, be16(frame[14:]), 16)
		}
	case LinkLinuxSLL2:
		if p.has(frame, LayerSLL2, 0, 20) {
			d.etherType(p, frame, be16(frame[0:]), 20)
		}
	case LinkNull, LinkLoop:
		if p.has(frame, LayerNull, 0, 4) {
			d.rawIP(p, frame, 4)
		}
	case LinkRaw, LinkRawBSD, LinkRawOpenBSD, LinkIPv4, LinkIPv6:
		d.rawIP(p, frame, 0)
	case LinkInfiniBand:
		d.lrh(p, frame, 0)
	case LinkERF:
		d.erf(p, frame)
	default:
		p.note(ProblemLinkType, 0)
	}
}

// has records a layer at an offset if n bytes of it are there, else a problem.
func (p *Packet) has(b []byte, l Layer, off, n int) bool {
	if off+n > len(b) {
		p.short(b, off)
		return false
	}
	p.layers |= 1 << l
	p.off[l] = uint16(off)
	return true
}

// short records that the frame has too few bytes at off: the capture's doing
// where it cut the frame, else the frame's own.
func (p *Packet) short(b []byte, off int) {
	if len(b) < int(p.WireLen) {
		p.note(ProblemCut, off)
	} else {
		p.note(ProblemShort, off)
	}
}

func (d *Decoder) ethernet(p *Packet, b []byte, off int) {
	if p.has(b, LayerEthernet, off, 14) {
		d.etherType(p, b, be16(b[off+12:]), off+14)
	}
}

// etherType goes on with what an EtherType announces at off, VLAN tags first.
func (d *Decoder) etherType(p *Packet, b []byte, t uint16, off int) {
	for n := 0; t == etherVLAN || t == etherQinQ || t == etherQinQOld; n++ {
		switch {
		case n == maxTags:
			p.note(ProblemExtensionLoop, off)
			return
		case off+4 > len(b):
			p.short(b, off)
			return
		case n == 0:
			p.has(b, LayerVLAN, off, 4)
			p.VLANTag = be16(b[off:])
		case n == 1:
			p.has(b, LayerVLAN2, off, 4)
		}
		t, off = be16(b[off+2:]), off+4
	}
	switch t {
	case etherIPv4:
		d.ipv4(p, b, off)
	case etherIPv6:
		d.ipv6(p, b, off)
	case etherRoCEv1:
		if p.grh(b, off) {
			p.Proto = ProtoRoCEv1
			p.bth(b, off+40)
		}
	case etherMACControl:
		p.macControl(b, off)
	case etherLLDP:
		p.lldp(b, off)
	case etherMPLS, etherMPLSMulticast:
		d.mpls(p, b, off)
	case etherPPPoE:
		d.pppoe(p, b, off)
	case etherBridging: // a frame in a frame, as GENEVE and VXLAN carry it
		if p.enter(off) {
			d.ethernet(p, b, off)
		}
	}
}

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

// bth decodes the transport headers at off, with the packet ending at p.end.
func (p *Packet) bth(b []byte, off int) {
	p.layers &^= 1 << LayerPayload
	p.payload, p.payloadLen = uint32(off), 0
	if off+12 > len(b) || off+12 > int(p.end) {
		p.problems |= problemHeadersCut
		p.short(b, off)
		return
	}
	h := b[off : off+12 : off+12]
	op := &opTable[h[0]]
	p.layers |= 1<<LayerBTH | op.Layers
	p.off[LayerBTH] = uint16(off)
	p.setBTH(h)
	if h[1]&0xF != 0 {
		p.note(ProblemTVer, off+1)
	}
	if op.Family == Reserved {
		p.note(ProblemOpcode, off)
	}
	pay, end := off+op.Len, int(p.end)
	p.payload = uint32(min(pay, end))
	fragmented := p.fragmented() // then the ICRC is in the last fragment
	if pay > end {
		p.problems |= problemHeadersCut
		p.layers &^= op.Layers
		if !fragmented {
			p.note(ProblemNoICRC, end)
		}
		return
	}
	if pay > len(b) {
		p.problems |= problemHeadersCut
		p.short(b, off)
	}
	p.extensions(b, op, off)
	switch {
	case fragmented:
		p.payloadLen = uint32(end - pay)
	case pay+ICRCSize > end:
		p.note(ProblemNoICRC, pay)
	default:
		p.settle(b, op, pay, int(h[1]>>4&3))
	}
}

// setBTH copies the values of a BTH.
func (p *Packet) setBTH(h BTH) {
	_ = h[11]
	p.Opcode = Opcode(h[0])
	p.BTHFlags = uint16(h[1])<<8 | uint16(h[4])
	p.PKey = be16(h[2:])
	p.DestQP = be32(h[4:]) & serialMask
	p.AckReq = h[8]&0x80 != 0
	p.PSN = PSN(be32(h[8:]) & serialMask)
}

func (p *Packet) setRETH(h RETH) {
	_ = h[15]
	p.VA, p.RKey, p.DMALen = be64(h), be32(h[8:]), be32(h[12:])
}

func (p *Packet) setAETH(h AETH) {
	v := be32(h)
	p.Syndrome, p.MSN = Syndrome(v>>24), MSN(v&serialMask)
}

func (p *Packet) setDETH(h DETH) {
	_ = h[7]
	p.QKey, p.SrcQP = be32(h), be32(h[4:])&serialMask
}

func (p *Packet) setAtomicETH(h AtomicETH) {
	_ = h[27]
	p.VA, p.RKey, p.Swap, p.Compare = be64(h), be32(h[8:]), be64(h[12:]), be64(h[20:])
}

// extensions copies the values of those extension headers that are whole; it
// takes the others off the packet's layers.
func (p *Packet) extensions(b []byte, op *OpInfo, bth int) {
	for _, l := range op.Headers {
		o := bth + int(op.offset[l-numBaseLayers])
		if o+layerInfo[l].size > len(b) {
			p.layers &^= 1 << l
			continue
		}
		h := b[o:]
		switch l {
		case LayerRETH:
			p.setRETH(h)
		case LayerAETH:
			p.setAETH(h)
		case LayerDETH:
			p.setDETH(h)
		case LayerAtomicETH:
			p.setAtomicETH(h)
		case LayerAtomicAckETH:
			p.Orig = be64(h)
		case LayerImmDt, LayerIETH:
			p.Imm = be32(h)
		case LayerRDETH, LayerXRCETH:
			p.context = be32(h) & serialMask
		}
	}
}

// settle finds payload, pad and ICRC of a packet whose end is known and
// leaves room for the ICRC.
func (p *Packet) settle(b []byte, op *OpInfo, pay, pad int) {
	n := int(p.end) - 4 - pay
	if pad > n {
		p.note(ProblemPad, int(p.off[LayerBTH])+1)
		pad = n
	}
	n -= pad
	p.PadCount = uint8(pad)
	p.payloadLen = uint32(n)
	p.layers |= 1 << LayerICRC
	if n > 0 {
		p.layers |= 1 << LayerPayload
	}
	if uint32(n) < op.least || uint32(n) > op.most || pad != 0 && op.Payload == EightBytes {
		p.note(ProblemPayload, pay)
	}
	if op.Transport == UD && p.DestQP <= 1 && pay <= len(b) {
		p.mad(b, pay)
	}
}
