package dissect

import (
	"encoding/binary"
	"slices"
	"strings"
)

// Frames for tests, built from the tables of opcodes_test.go and by the rules
// of the standards, without the code under test.

// specHeaders are the extension headers of an opcode; ok is false for reserved
// ones.
func specHeaders(op Opcode) (headers []string, ok bool) {
	if op >= 0x80 && op < 0xA0 || op >= 0xC0 {
		return nil, op == OpCNP || op == OpIBCNP
	}
	s := specOps[op&0x1F]
	h := map[Opcode]string{0: s.rc, 1: s.uc, 2: s.rd, 3: s.ud, 5: s.xrc}[op>>5]
	return strings.Fields(strings.ReplaceAll(h, "-", "")), h != "-"
}

// specPayload is a length of payload that the opcode may carry.
func specPayload(op Opcode) int {
	if op == OpCNP {
		return 16
	}
	switch specOps[op&0x1F].data {
	case "PMTU":
		return 256
	case "1..PMTU":
		return 5
	case "0..PMTU":
		return 42
	case "8":
		return 8
	}
	return 0
}

// transport is BTH, extension headers, payload and pad. Bytes of the extension
// headers count up from 0x80.
func transport(op Opcode, payload []byte) []byte {
	pad := -len(payload) & 3
	b := []byte{
		byte(op), byte(pad) << 4, 0xFF, 0xFF, 0, 0x12, 0x34, 0x56, 0x80, 0xAB, 0xCD, 0xEF,
	}
	headers, _ := specHeaders(op)
	next := byte(0x80)
	for _, h := range headers {
		for range headerBytes[h] {
			b, next = append(b, next), next+1
		}
	}
	b = append(b, payload...)
	return append(b, make([]byte, pad)...)
}

// sample is a valid transport packet of an opcode.
func sample(op Opcode) []byte {
	payload := make([]byte, specPayload(op))
	for i := range payload {
		payload[i] = byte(i*7 + 1)
	}
	return transport(op, payload)
}

func join(parts ...[]byte) []byte { return slices.Concat(parts...) }

func be(v uint16) []byte { return []byte{byte(v >> 8), byte(v)} }

func ether(typ uint16, inner []byte) []byte {
	return join([]byte{2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1}, be(typ), inner)
}

// tag is what stands behind an EtherType of 802.1Q or 802.1ad.
func tag(tci, typ uint16, inner []byte) []byte { return join(be(tci), be(typ), inner) }

func udpPacket(dst uint16, inner []byte) []byte {
	return join(be(49152), be(dst), be(uint16(8+len(inner))), be(0), inner)
}

// ip4 is an IPv4 packet; options are a multiple of four bytes.
func ip4(proto byte, frag uint16, options, inner []byte) []byte {
	h := join(
		[]byte{byte(0x45 + len(options)/4), 0x02}, be(uint16(20+len(options)+len(inner))), be(0x1234), be(frag), []byte{64, proto, 0, 0},
		[]byte{10, 0, 0, 1, 10, 0, 0, 2}, options,
	)
	var sum uint32
	for i := 0; i < len(h); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(h[i:]))
	}
	for sum > 0xFFFF {
		sum = sum&0xFFFF + sum>>16
	}
	copy(h[10:], be(^uint16(sum)))
	return append(h, inner...)
}

var (
	addr6a = []byte{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}
	addr6b = []byte{0xFD, 0x77, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}
)

// ip6 is an IPv6 packet, or a GRH: traffic class 0x6A, flow label 0x12345.
func ip6(next byte, inner []byte) []byte {
	return join([]byte{0x66, 0xA1, 0x23, 0x45}, be(uint16(len(inner))), []byte{next, 64}, addr6a, addr6b, inner)
}

// option6 is an IPv6 extension header of 8+8*n bytes.
func option6(next byte, n int, inner []byte) []byte {
	return join([]byte{next, byte(n)}, make([]byte, 6+8*n), inner)
}

// lrh is a native InfiniBand packet without VCRC.
func lrh(lnh byte, inner []byte) []byte {
	return join([]byte{0x30, lnh}, be(7), be(uint16((8+len(inner))/4)), be(9), inner)
}

// sealed computes the ICRC of a network packet whose last four bytes are room
// for it. kind is one of "ip4", "ip6", "grh", "lrh", "lrh grh".
func sealed(kind string, packet []byte, bth int) []byte {
	n := len(packet) - 4
	binary.LittleEndian.PutUint32(packet[n:], slowICRC(kind, packet[:n], bth))
	return packet
}

// slowICRC is the ICRC bit by bit (IBA 7.8.1, annex A17.3.3).
func slowICRC(kind string, packet []byte, bth int) uint32 {
	b := slices.Clone(packet)
	ones := func(at ...int) {
		for _, i := range at {
			b[i] = 0xFF
		}
	}
	grh := func(at int) { // traffic class, flow label, hop limit
		b[at] |= 0x0F
		ones(at+1, at+2, at+3, at+7)
	}
	inFront := true
	switch kind {
	case "ip4":
		ones(1, 8, 10, 11, bth-2, bth-1)
	case "ip6":
		grh(0)
		ones(bth-2, bth-1)
	case "grh":
		grh(0)
	case "lrh":
		b[0] |= 0xF0
		inFront = false
	case "lrh grh":
		ones(0, 1, 2, 3, 4, 5, 6, 7)
		grh(8)
		inFront = false
	}
	ones(bth + 4)
	if inFront {
		b = join(slices.Repeat([]byte{0xFF}, 8), b)
	}
	crc := ^uint32(0)
	for _, c := range b {
		for bit := range 8 {
			feedback := (crc ^ uint32(c>>bit)) & 1
			crc >>= 1
			if feedback != 0 {
				crc ^= 0xEDB88320
			}
		}
	}
	return ^crc
}

var icrcRoom = make([]byte, 4)

// stack is a way in which a transport packet is met in a capture.
type stack struct {
	name    string
	link    LinkType
	proto   Protocol
	network Layer
	build   func(transport []byte) []byte
}

func roce4(t []byte) []byte {
	return sealed("ip4", ip4(17, 0x4000, nil, udpPacket(4791, join(t, icrcRoom))), 28)
}

func roce6(t []byte) []byte {
	return sealed("ip6", ip6(17, udpPacket(4791, join(t, icrcRoom))), 48)
}

// chained is RoCE v2 behind IPv6 extension headers, of which wrap makes the
// outermost's number and all their bytes.
func chained(t []byte, extension int, wrap func(udp []byte) (next byte, inner []byte)) []byte {
	next, inner := wrap(udpPacket(4791, join(t, icrcRoom)))
	return sealed("ip6", ip6(next, inner), 48+extension)
}

func roce1(t []byte) []byte { return sealed("grh", ip6(0x1B, join(t, icrcRoom)), 40) }

var stacks = []stack{
	{"Ethernet, IPv4", LinkEthernet, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte { return ether(0x0800, roce4(t)) }},
	{"Ethernet, IPv6", LinkEthernet, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte { return ether(0x86DD, roce6(t)) }},
	{"VLAN, IPv4", LinkEthernet, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte { return ether(0x8100, tag(0x6064, 0x0800, roce4(t))) }},
	{"QinQ, IPv4", LinkEthernet, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte { return ether(0x88A8, tag(0x0064, 0x8100, tag(0x00C8, 0x0800, roce4(t)))) }},
	{"QinQ of old, IPv6", LinkEthernet, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte { return ether(0x9100, tag(0x0064, 0x8100, tag(0x00C8, 0x86DD, roce6(t)))) }},
	{"three tags", LinkEthernet, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte {
		return ether(0x88A8, tag(1, 0x8100, tag(2, 0x8100, tag(3, 0x0800, roce4(t)))))
	}},
	{"cooked v1", LinkLinuxSLL, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte {
		return join([]byte{0, 4, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, be(0x0800), roce4(t))
	}},
	{"cooked v2", LinkLinuxSLL2, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return join(be(0x86DD), []byte{0, 0, 0, 0, 0, 2, 0, 1, 0, 6, 2, 0, 0, 0, 0, 1, 0, 0}, roce6(t))
	}},
	{"raw, IPv4", LinkRaw, ProtoRoCEv2, LayerIPv4, roce4},
	{"raw, IPv6", LinkRaw, ProtoRoCEv2, LayerIPv6, roce6},
	{"raw of BSD", LinkRawBSD, ProtoRoCEv2, LayerIPv4, roce4},
	{"raw of OpenBSD", LinkRawOpenBSD, ProtoRoCEv2, LayerIPv6, roce6},
	{"IPv4 alone", LinkIPv4, ProtoRoCEv2, LayerIPv4, roce4},
	{"IPv6 alone", LinkIPv6, ProtoRoCEv2, LayerIPv6, roce6},
	{"null, little-endian", LinkNull, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte { return join([]byte{2, 0, 0, 0}, roce4(t)) }},
	{"null, big-endian", LinkNull, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte { return join([]byte{0, 0, 0, 30}, roce6(t)) }},
	{"loop", LinkLoop, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte { return join([]byte{0, 0, 0, 2}, roce4(t)) }},
	{"IPv4 options", LinkRaw, ProtoRoCEv2, LayerIPv4, func(t []byte) []byte {
		return sealed("ip4", ip4(17, 0x4000, []byte{0x94, 4, 0, 0, 1, 1, 1, 0}, udpPacket(4791, join(t, icrcRoom))), 36)
	}},
	{"IPv6 hop-by-hop options", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 8, func(u []byte) (byte, []byte) { return 0, option6(17, 0, u) })
	}},
	{"IPv6 routing header", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 24, func(u []byte) (byte, []byte) { return 43, option6(17, 2, u) })
	}},
	{"IPv6 destination options", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 16, func(u []byte) (byte, []byte) { return 60, option6(17, 1, u) })
	}},
	{"IPv6 authentication header", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 24, func(u []byte) (byte, []byte) { return 51, join([]byte{17, 4}, make([]byte, 22), u) })
	}},
	{"IPv6 atomic fragment", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 8, func(u []byte) (byte, []byte) { return 44, join([]byte{17, 0, 0, 0, 0, 0, 0, 9}, u) })
	}},
	{"all IPv6 extension headers at once", LinkRaw, ProtoRoCEv2, LayerIPv6, func(t []byte) []byte {
		return chained(t, 32+264, func(u []byte) (byte, []byte) {
			return 0, option6(60, 0, option6(43, 32, option6(60, 1, option6(17, 0, u))))
		})
	}},
	{"RoCE v1", LinkEthernet, ProtoRoCEv1, LayerGRH, func(t []byte) []byte { return ether(0x8915, roce1(t)) }},
	{"RoCE v1, VLAN", LinkEthernet, ProtoRoCEv1, LayerGRH, func(t []byte) []byte { return ether(0x8100, tag(0x2001, 0x8915, roce1(t))) }},
	{"InfiniBand, one subnet", LinkInfiniBand, ProtoInfiniBand, LayerLRH, func(t []byte) []byte {
		return join(sealed("lrh", lrh(2, join(t, icrcRoom)), 8), []byte{0xAA, 0xBB})
	}},
	{"InfiniBand, routed", LinkInfiniBand, ProtoInfiniBand, LayerLRH, func(t []byte) []byte {
		return join(sealed("lrh grh", lrh(3, ip6(0x1B, join(t, icrcRoom))), 48), []byte{0xAA, 0xBB})
	}},
}

// decoded decodes a frame that was captured whole, with ICRC check.
func decoded(link LinkType, frame []byte) *Packet {
	d, p := Decoder{CheckICRC: true}, &Packet{}
	d.Decode(link, frame, len(frame), p)
	return p
}

// codes are the codes of a packet's problems.
func codes(p *Packet) (c []ProblemCode) {
	for _, q := range p.Problems() {
		c = append(c, q.Code)
	}
	return c
}
