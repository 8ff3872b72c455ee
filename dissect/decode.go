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
