package dissect

import (
	"errors"
	"net/netip"
)

// Why a packet cannot be sealed.
var (
	ErrNoTransport = errors.New("dissect: the frame has no whole base transport header")
	ErrTooLong     = errors.New("dissect: the packet is longer than its length fields can say")
	ErrCut         = errors.New("dissect: the frame is cut, or a fragment: its ICRC cannot be computed")
)

// Outer is what a crafted packet travels in: Ethernet, VLAN tags, then IP and
// UDP (RoCE v2) or a GRH (RoCE v1). The zero values of its fields are the
// usual ones.
type Outer struct {
	DstMAC, SrcMAC [6]byte
	VLANs          []uint16   // TCIs, outermost first; of two, the first is an 802.1ad tag
	Src, Dst       netip.Addr // IPv4 where both are, else IPv6
	RoCEv1         bool       // a GRH behind EtherType 0x8915 instead of IP and UDP
	SrcPort        uint16
	DstPort        uint16 // 0 = 4791
	TrafficClass   uint8  // DSCP (6 bits) and ECN (2)
	HopLimit       uint8  // 0 = 64
	FlowLabel      uint32 // IPv6 and GRH, 20 bits
	IPID           uint16 // IPv4 identification of the next packet
	CountIPID      bool   // AppendTo counts IPID up, as stacks in software do
}

// is4 reports whether the network layer is IPv4.
func (o *Outer) is4() bool {
	return !o.RoCEv1 && AddrFrom(o.Src).Is4() && AddrFrom(o.Dst).Is4()
}

// layout returns where the network layer and the BTH begin.
func (o *Outer) layout() (network, bth int) {
	network = LayerEthernet.Size() + len(o.VLANs)*LayerVLAN.Size()
	switch {
	case o.RoCEv1:
		return network, network + LayerGRH.Size()
	case o.is4():
		return network, network + LayerIPv4.Size() + LayerUDP.Size()
	}
	return network, network + LayerIPv6.Size() + LayerUDP.Size()
}

// AppendTo appends the headers up to the BTH. Lengths and checksums are left
// to Seal.
func (o *Outer) AppendTo(dst []byte) []byte {
	dst = append(dst, o.DstMAC[:]...)
	dst = append(dst, o.SrcMAC[:]...)
	for i, tci := range o.VLANs {
		tag := uint16(etherVLAN)
		if i+1 < len(o.VLANs) {
			tag = etherQinQ
		}
		dst = append(dst, byte(tag>>8), byte(tag), byte(tci>>8), byte(tci))
	}
	hops := o.HopLimit
	if hops == 0 {
		hops = 64
	}
	if o.is4() {
		src, dest := uint32(AddrFrom(o.Src).Lo), uint32(AddrFrom(o.Dst).Lo)
		dst = append(dst, etherIPv4>>8, etherIPv4&0xFF,
			0x45, o.TrafficClass, 0, 0,
			byte(o.IPID>>8), byte(o.IPID), 0x40, 0, // don't fragment (annex A17, CA17-8)
			hops, protoUDP, 0, 0)
		dst = append32(append32(dst, src), dest)
		if o.CountIPID {
			o.IPID++
		}
		return o.appendUDP(dst)
	}
	ether, next := uint16(etherIPv6), uint8(protoUDP)
	if o.RoCEv1 {
		ether, next = etherRoCEv1, nextHeaderIBA
	}
	dst = append(dst, byte(ether>>8), byte(ether))
	dst = append32(dst, 6<<28|uint32(o.TrafficClass)<<20|o.FlowLabel&0xFFFFF)
	dst = append(dst, 0, 0, next, hops)
	for _, a := range [...]Addr{AddrFrom(o.Src), AddrFrom(o.Dst)} {
		dst = append32(append32(dst, uint32(a.Hi>>32)), uint32(a.Hi))
		dst = append32(append32(dst, uint32(a.Lo>>32)), uint32(a.Lo))
	}
	if o.RoCEv1 {
		return dst
	}
	return o.appendUDP(dst)
}

func (o *Outer) appendUDP(dst []byte) []byte {
	port := o.DstPort
	if port == 0 {
		port = PortRoCEv2
	}
	return append(dst, byte(o.SrcPort>>8), byte(o.SrcPort), byte(port>>8), byte(port), 0, 0, 0, 0)
}

func append32(dst []byte, v uint32) []byte {
	return append(dst, byte(v>>24), byte(v>>16), byte(v>>8), byte(v))
}

// DefaultPKey is the partition key that every port has: full membership of the
// default partition.
const DefaultPKey = 0xFFFF

// AppendTransport appends a BTH of the opcode and the extension headers that
// its table row names, all zero but for the default partition key. OpInfo.View
// finds the headers.
func AppendTransport(dst []byte, op Opcode) []byte {
	at := len(dst)
	dst = append(dst, zeros[:opTable[op].Len]...)
	h := BTH(dst[at:])
	h.SetOpcode(op)
	h.SetPKey(DefaultPKey)
	return dst
}

var zeros [256]byte

// cnpReserved is the length of what follows the BTH of a CNP (annex A17.9.3).
const cnpReserved = 16

// AppendCNP appends a congestion notification for the queue pair that is to
// slow down.
func AppendCNP(dst []byte, destQP uint32) []byte {
	at := len(dst)
	dst = AppendTransport(dst, OpCNP)
	h := BTH(dst[at:])
	h.SetDestQP(destQP)
	h.SetBECN(true)
	return append(dst, zeros[:cnpReserved]...)
}

// View returns an extension header (or the BTH) within the transport headers
// of a packet of this opcode: b begins with the BTH. It is nil where the
// opcode has no such header.
func (i *OpInfo) View(b []byte, l Layer) []byte {
	off := 0
	if l != LayerBTH {
		if !i.Has(l) {
			return nil
		}
		off = int(i.offset[l-numBaseLayers])
	}
	return b[off : off+l.Size() : off+l.Size()]
}

// Crafter finishes crafted packets: lengths, padding, checksums, ICRC. The zero
// value is ready for use; one Crafter serves one goroutine.
type Crafter struct {
	// Port is the UDP destination port that Reseal takes for RoCE v2; 0 means
	// 4791.
	Port uint16

	icrc ICRC
	dec  Decoder
	p    Packet
}

// Seal finishes a frame of o.AppendTo, AppendTransport and the payload: it
// appends pad and ICRC and sets the pad count, all length fields and the IPv4
// header checksum. The UDP checksum stays 0, which says that there is none
// (annex A17.3.2.4). What the opcode allows as a payload is not looked at.
func (c *Crafter) Seal(o *Outer, frame []byte) ([]byte, error) {
	network, bth := o.layout()
	if len(frame) < bth+LayerBTH.Size() || len(frame) < bth+opTable[frame[bth]].Len {
		return frame, ErrNoTransport
	}
	pad := -(len(frame) - bth) & 3 // all headers are of whole words
	BTH(frame[bth:]).SetPadCnt(uint8(pad))
	frame = append(frame, zeros[:pad+ICRCSize]...)
	n := len(frame) - network
	if n > 0xFFFF {
		return frame, ErrTooLong
	}
	l := LayerIPv6
	switch {
	case o.RoCEv1:
		l = LayerGRH
		IPv6(frame[network:]).SetPayloadLen(uint16(n - LayerGRH.Size()))
	case o.is4():
		l = LayerIPv4
		h := IPv4(frame[network : network+LayerIPv4.Size()])
		h.SetTotalLen(uint16(n))
		h.UpdateChecksum()
	default:
		IPv6(frame[network:]).SetPayloadLen(uint16(n - LayerIPv6.Size()))
	}
	if !o.RoCEv1 {
		UDP(frame[bth-8:]).SetLen(uint16(len(frame) - bth + 8))
	}
	at := len(frame) - ICRCSize
	putLE32(frame[at:], c.icrc.Sum(frame[network:at], l, bth-network))
	return frame, nil
}

// Reseal makes a packet whole again in place after its fields were changed:
// IPv4 header checksum, ICRC and, where it was not 0, UDP checksum. Length
// fields are taken as they are, and say where the ICRC lies; a changed opcode
// does not move it. The VCRC of native InfiniBand is left alone.
func (c *Crafter) Reseal(link LinkType, frame []byte) error {
	p := &c.p
	c.dec.Port = c.Port
	c.dec.Decode(link, frame, len(frame), p)
	if !p.Has(LayerBTH) {
		return ErrNoTransport
	}
	network, l := -1, LayerFrame
	for _, l = range [...]Layer{LayerLRH, LayerIPv4, LayerIPv6, LayerGRH} {
		if p.Has(l) {
			network = p.Offset(l)
			break
		}
	}
	bth := p.Offset(LayerBTH)
	at := int(p.end) - ICRCSize
	switch {
	case network < 0 || at < bth+LayerBTH.Size():
		return ErrNoTransport
	case p.fragmented() || p.lengthsLie():
		return ErrCut
	}
	if l == LayerIPv4 {
		IPv4(frame[network : network+int(frame[network]&15)*4]).UpdateChecksum()
	}
	putLE32(frame[at:], c.icrc.Sum(frame[network:at], l, bth-network))
	if h := p.UDP(frame); h != nil && h.Checksum() != 0 {
		h.SetChecksum(0)
		h.SetChecksum(udpChecksum(p, frame))
	}
	return nil
}

// lengthsLie reports whether the IP length says more than the frame holds.
func (p *Packet) lengthsLie() bool {
	for _, q := range p.Problems() {
		if q.Code == ProblemIPLength || q.Code == ProblemUDPLength {
			return true
		}
	}
	return false
}

// udpChecksum computes the UDP checksum of a decoded packet whose checksum
// field is 0, with the pseudo-header of its addresses (RFC 768, RFC 8200). The
// mapped form of IPv4 addresses adds 0xFFFF to the sum twice, which is nothing.
func udpChecksum(p *Packet, frame []byte) uint16 {
	data := frame[p.Offset(LayerUDP):p.end]
	sum := uint32(protoUDP) + uint32(len(data))
	for _, v := range [...]uint64{p.Src.Hi, p.Src.Lo, p.Dst.Hi, p.Dst.Lo} {
		sum += uint32(v>>48) + uint32(v>>32&0xFFFF) + uint32(v>>16&0xFFFF) + uint32(v&0xFFFF)
	}
	if s := ^FoldSum(OnesSum(sum, data)); s != 0 {
		return s
	}
	return 0xFFFF // 0 would say that there is none
}
