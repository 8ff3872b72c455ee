package packetline

import (
	"encoding/binary"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// isIP reports whether the packet has addresses of the network layer.
func isIP(p *dissect.Packet) bool {
	return p.Has(dissect.LayerIPv4) || p.Has(dissect.LayerIPv6) || p.Has(dissect.LayerGRH)
}

// AppendSource appends where the packet comes from: an IP address, a LID or a hardware address.
func AppendSource(dst []byte, p *dissect.Packet, frame []byte) []byte {
	return appendAddress(dst, p, frame, p.Src, "eth.src", "sll.src.eth")
}

// AppendDestination appends where the packet goes to.
func AppendDestination(dst []byte, p *dissect.Packet, frame []byte) []byte {
	return appendAddress(dst, p, frame, p.Dst, "eth.dst", "")
}

func appendAddress(dst []byte, p *dissect.Packet, frame []byte, a dissect.Addr, mac, cooked string) []byte {
	switch {
	case isIP(p):
		return a.Netip().AppendTo(dst)
	case p.Has(dissect.LayerLRH):
		dst = append(dst, "LID "...)
		return strconv.AppendUint(dst, a.Lo, 10)
	case p.Has(dissect.LayerEthernet):
		return appendField(dst, mac, p, frame)
	}
	return appendField(dst, cooked, p, frame)
}

// appendField appends the value of the first row of a name; nothing where the
// packet or the table does not have it.
func appendField(dst []byte, name string, p *dissect.Packet, frame []byte) []byte {
	for _, f := range dissect.LookupField(name) {
		if out, ok := f.AppendText(dst, p, frame); ok {
			return out
		}
	}
	return dst
}

// behindLink says where the innermost EtherType lies, and where what it names begins; ok is false without.
func behindLink(p *dissect.Packet) (etherType, next int, ok bool) {
	for _, l := range []struct {
		layer           dissect.Layer
		etherType, size int
	}{{dissect.LayerVLAN2, 2, 4}, {dissect.LayerVLAN, 2, 4}, {dissect.LayerEthernet, 12, 14}, {dissect.LayerSLL, 14, 16}, {dissect.LayerSLL2, 0, 20}} {
		if p.Has(l.layer) {
			return p.Offset(l.layer) + l.etherType, p.Offset(l.layer) + l.size, true
		}
	}
	return 0, 0, false
}

// etherType is the innermost one; ok is false without.
func etherType(p *dissect.Packet, frame []byte) (t uint16, ok bool) {
	at, _, ok := behindLink(p)
	if !ok || at+2 > len(frame) {
		return 0, false
	}
	return binary.BigEndian.Uint16(frame[at:]), true
}

// etherNames are EtherTypes that one meets beside RoCE.
var etherNames = map[uint16]string{
	0x0800: "IPv4", 0x86DD: "IPv6", 0x0806: "ARP", 0x88CC: "LLDP", 0x8808: "MACC", 0x8809: "LACP", 0x8915: "RoCEv1",
	0x8847: "MPLS", 0x88F7: "PTP", 0x888E: "EAPOL", 0x8863: "PPPoED", 0x8864: "PPPoES",
}

// ipNames are protocols that one meets beside UDP and TCP.
var ipNames = map[uint8]string{1: "ICMP", 2: "IGMP", 6: "TCP", 17: "UDP", 47: "GRE", 58: "ICMPv6", 89: "OSPF", 132: "SCTP"}

func ipProtocol(p *dissect.Packet, frame []byte) (uint8, bool) {
	if h := p.IPv4(frame); h != nil {
		return h.Protocol(), true
	}
	if h := p.IPv6(frame); h != nil {
		return h.NextHeader(), true
	}
	return 0, false
}

// AppendProtocol appends the name of the innermost protocol.
func AppendProtocol(dst []byte, p *dissect.Packet, frame []byte) []byte {
	switch u := p.Upper(); {
	case u != dissect.UpperNone && !p.Has(dissect.LayerMAD):
		return append(dst, upperNames[u.Protocol()]...)
	case p.Has(dissect.LayerBTH):
		switch {
		case isCM(p):
			return append(dst, "CM"...)
		case p.Proto == dissect.ProtoRoCEv1:
			return append(dst, "RoCEv1"...)
		case p.Proto == dissect.ProtoInfiniBand:
			return append(dst, "IB"...)
		}
		return append(dst, "RoCE"...)
	case isIWARP(p):
		return append(dst, "iWARP"...)
	case p.Has(dissect.LayerIBLink):
		return append(dst, "IB link"...)
	case p.Has(dissect.LayerTCP):
		return append(dst, "TCP"...)
	case p.Has(dissect.LayerUDP):
		return append(dst, "UDP"...)
	}
	if proto, ok := ipProtocol(p, frame); ok {
		if name, ok := ipNames[proto]; ok {
			return append(dst, name...)
		}
		return append(dst, "IP"...)
	}
	if h := p.MACControl(frame); h != nil {
		switch h.Opcode() {
		case dissect.MACControlPFC:
			return append(dst, "PFC"...)
		case dissect.MACControlPause:
			return append(dst, "PAUSE"...)
		}
	}
	if t, ok := etherType(p, frame); ok {
		if name, ok := etherNames[t]; ok {
			return append(dst, name...)
		}
		if t < 0x600 {
			return append(dst, "LLC"...)
		}
		return appendHex(dst, uint64(t), 4)
	}
	return append(dst, '?')
}
