package packetline

import (
	"encoding/binary"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// AppendInfo appends what matters of a packet: opcode, QP, PSN, and the values
// that its headers bring.
func AppendInfo(dst []byte, p *dissect.Packet, frame []byte) []byte {
	switch {
	case p.Has(dissect.LayerBTH):
		return appendTransport(dst, p, frame)
	case isIWARP(p):
		return appendIWARP(dst, p, frame)
	case p.Has(dissect.LayerIBLink):
		return append(dst, "Flow control"...)
	case p.Has(dissect.LayerTCP):
		return appendTCP(dst, p)
	case p.Has(dissect.LayerUDP):
		dst = appendPorts(dst, p)
		dst = append(dst, " Len="...)
		return strconv.AppendInt(dst, int64(p.PayloadLen()), 10)
	}
	if h := p.MACControl(frame); h != nil {
		return appendPause(dst, h)
	}
	if proto, ok := ipProtocol(p, frame); ok {
		dst = append(dst, "IP protocol "...)
		dst = strconv.AppendUint(dst, uint64(proto), 10)
		if p.Fragment {
			dst = append(dst, ", fragment"...)
		}
		return dst
	}
	if h := p.LLDP(frame); h != nil {
		return appendLLDP(dst, p, frame, h)
	}
	if t, ok := etherType(p, frame); ok {
		if t == 0x0806 {
			return appendARP(dst, p, frame)
		}
		dst = append(dst, "EtherType "...)
		return appendHex(dst, uint64(t), 4)
	}
	dst = append(dst, "link type "...)
	return strconv.AppendUint(dst, uint64(p.Link), 10)
}

// appendTransport appends the opcode and the values that its headers bring.
func appendTransport(dst []byte, p *dissect.Packet, frame []byte) []byte {
	dst = append(dst, p.Op().Name...)
	dst = append(dst, " QP=0x"...)
	dst = appendDigits(dst, uint64(p.DestQP), 6)
	if p.Op().Family != dissect.Congestion {
		dst = append(dst, " PSN="...)
		dst = strconv.AppendUint(dst, uint64(p.PSN), 10)
	}
	if p.Has(dissect.LayerDETH) {
		dst = append(dst, " SrcQP=0x"...)
		dst = appendDigits(dst, uint64(p.SrcQP), 6)
	}
	if p.Has(dissect.LayerRETH) || p.Has(dissect.LayerAtomicETH) {
		dst = append(dst, " VA=0x"...)
		dst = strconv.AppendUint(dst, p.VA, 16)
		dst = append(dst, " RKey=0x"...)
		dst = strconv.AppendUint(dst, uint64(p.RKey), 16)
	}
	if p.Has(dissect.LayerRETH) {
		dst = append(dst, " DMALen="...)
		dst = strconv.AppendUint(dst, uint64(p.DMALen), 10)
	}
	if p.Has(dissect.LayerAtomicETH) {
		if p.Op().Family == dissect.FetchAdd {
			dst = appendNumber(append(dst, " Add="...), p.Swap)
		} else {
			dst = appendNumber(append(dst, " Compare="...), p.Compare)
			dst = appendNumber(append(dst, " Swap="...), p.Swap)
		}
	}
	if p.Has(dissect.LayerAETH) {
		dst = append(dst, " MSN="...)
		dst = strconv.AppendUint(dst, uint64(p.MSN), 10)
		dst = append(dst, ' ')
		dst = appendSyndrome(dst, p.Syndrome)
	}
	if p.Has(dissect.LayerAtomicAckETH) {
		dst = appendNumber(append(dst, " Original="...), p.Orig)
	}
	if p.Has(dissect.LayerImmDt) {
		dst = append(dst, " Imm=0x"...)
		dst = appendDigits(dst, uint64(p.Imm), 8)
	}
	if p.Has(dissect.LayerIETH) {
		dst = append(dst, " InvRKey=0x"...)
		dst = strconv.AppendUint(dst, uint64(p.Imm), 16)
	}
	if n := p.PayloadLen(); n > 0 && !p.Has(dissect.LayerMAD) {
		dst = append(dst, " Len="...)
		dst = strconv.AppendInt(dst, int64(n), 10)
	}
	if p.AckReq {
		dst = append(dst, " AckReq"...)
	}
	if p.SE() {
		dst = append(dst, " SE"...)
	}
	if p.Has(dissect.LayerMAD) {
		return appendMAD(dst, p, frame)
	}
	return appendUpper(dst, p, frame)
}

// upperNames are what a list calls upper protocols.
var upperNames = map[dissect.UpperProtocol]string{dissect.NVMe: "NVMe", dissect.RPCRDMA: "RPC", dissect.ISER: "iSER", dissect.SMBDirect: "SMB"}

// appendUpper appends what an upper protocol says.
func appendUpper(dst []byte, p *dissect.Packet, frame []byte) []byte {
	if p.Upper() == dissect.UpperNone {
		return dst
	}
	return p.AppendUpper(append(dst, " | "...), frame)
}

func appendSyndrome(dst []byte, s dissect.Syndrome) []byte {
	switch s.Kind() {
	case dissect.KindACK:
		dst = append(dst, "ACK"...)
		if n, ok := dissect.Credits(s.Value()); ok {
			dst = append(dst, " Credits="...)
			dst = strconv.AppendInt(dst, int64(n), 10)
		}
	case dissect.KindNAK:
		dst = append(dst, "NAK: "...)
		dst = append(dst, s.NAK().String()...)
	case dissect.KindRNR:
		dst = append(dst, "RNR NAK: wait "...)
		dst = append(dst, dissect.RNRTimer(s.Value()).String()...)
	default:
		dst = append(dst, "reserved syndrome "...)
		dst = appendHex(dst, uint64(s), 2)
	}
	return dst
}

// cmDetails are the fields that say most of a message of the connection
// manager; those that a message does not have are left out.
var cmDetails = []struct{ label, field string }{
	{"QPN", "infiniband.cm.req.localqpn"},
	{"PSN", "infiniband.cm.req.startpsn"},
	{"QPN", "infiniband.cm.rep.localqpn"},
	{"PSN", "infiniband.cm.rep.startpsn"},
	{"QPN", "infiniband.cm.req.remoteqpneecn"}, // of a DREQ, which has it there in Wireshark
	{"QPN", "infiniband.cm.sidr_rep.qpn"},
}

func appendMAD(dst []byte, p *dissect.Packet, frame []byte) []byte {
	h := p.MAD(frame)
	if h == nil {
		return dst
	}
	m, ok := p.CM(frame)
	if !ok {
		dst = append(dst, " MAD: "...)
		dst = append(dst, h.Class().String()...)
		dst = append(dst, ' ')
		dst = append(dst, h.Method().String()...)
		dst = append(dst, " attribute "...)
		return appendHex(dst, uint64(h.Attribute()), 4)
	}
	dst = append(dst, " CM "...)
	dst = append(dst, m.Attribute.String()...)
	for _, d := range cmDetails {
		for _, f := range dissect.LookupField(d.field) {
			if !p.Has(f.Layer) {
				continue
			}
			dst = append(dst, ' ')
			dst = append(dst, d.label...)
			dst = append(dst, '=')
			dst, _ = f.AppendText(dst, p, frame)
		}
	}
	if m.Attribute == dissect.CMAttrREJ {
		for _, f := range dissect.LookupField("infiniband.cm.rej.reason") {
			dst = append(dst, ": "...)
			dst = append(dst, f.Meaning(p, frame)...)
		}
	}
	return dst
}

// isCM reports whether the packet is a message of the connection manager.
func isCM(p *dissect.Packet) bool {
	return p.Layers()&(1<<(dissect.LayerCMAPR+1)-1<<dissect.LayerCMREQ) != 0
}

func appendPorts(dst []byte, p *dissect.Packet) []byte {
	dst = strconv.AppendUint(dst, uint64(p.SrcPort), 10)
	dst = append(dst, " → "...)
	return strconv.AppendUint(dst, uint64(p.DstPort), 10)
}

func appendTCP(dst []byte, p *dissect.Packet) []byte {
	dst = appendPorts(dst, p)
	dst = append(dst, " ["...)
	at := len(dst)
	for _, f := range [...]struct {
		bit  uint8
		name string
	}{{0x01, "FIN"}, {0x02, "SYN"}, {0x04, "RST"}, {0x08, "PSH"}, {0x10, "ACK"}, {0x20, "URG"}} {
		if p.TCPFlags&f.bit == 0 {
			continue
		}
		if len(dst) > at {
			dst = append(dst, ", "...)
		}
		dst = append(dst, f.name...)
	}
	dst = append(dst, "] Len="...)
	return strconv.AppendInt(dst, int64(p.PayloadLen()), 10)
}

func appendPause(dst []byte, h dissect.MACControl) []byte {
	if h.Opcode() != dissect.MACControlPause && h.Opcode() != dissect.MACControlPFC {
		dst = append(dst, "MAC control opcode "...)
		return appendHex(dst, uint64(h.Opcode()), 4)
	}
	priorities := 8
	if h.Opcode() == dissect.MACControlPause {
		priorities = 1
	}
	for i := range priorities {
		quanta, ok := h.Quanta(i)
		if !ok {
			continue
		}
		if i > 0 {
			dst = append(dst, ' ')
		}
		if priorities > 1 {
			dst = append(dst, 'P')
			dst = strconv.AppendInt(dst, int64(i), 10)
			dst = append(dst, ' ')
		}
		if quanta == 0 {
			dst = append(dst, "go on"...)
			continue
		}
		dst = append(dst, "stop for "...)
		dst = strconv.AppendUint(dst, uint64(quanta), 10)
		dst = append(dst, " quanta"...)
	}
	return dst
}

// appendARP says who asks for whom (RFC 826), as far as captured.
func appendARP(dst []byte, p *dissect.Packet, frame []byte) []byte {
	_, at, ok := behindLink(p)
	if !ok || at+28 > len(frame) || binary.BigEndian.Uint16(frame[at+2:]) != 0x0800 {
		return append(dst, "ARP"...)
	}
	h := frame[at : at+28]
	switch binary.BigEndian.Uint16(h[6:]) {
	case 1:
		dst = append(dst, "Who has "...)
		dst = appendIPv4(dst, h[24:28])
		dst = append(dst, "? Tell "...)
		return appendIPv4(dst, h[14:18])
	case 2:
		dst = appendIPv4(dst, h[14:18])
		dst = append(dst, " is at "...)
		for i, c := range h[8:14] {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = appendDigits(dst, uint64(c), 2)
		}
		return dst
	}
	return append(dst, "ARP"...)
}

func appendIPv4(dst, b []byte) []byte {
	for i, c := range b {
		if i > 0 {
			dst = append(dst, '.')
		}
		dst = strconv.AppendUint(dst, uint64(c), 10)
	}
	return dst
}

// appendNumber appends a small number in decimal, a large one as people read
// those, in hexadecimal.
func appendNumber(dst []byte, v uint64) []byte {
	if v < 1<<20 {
		return strconv.AppendUint(dst, v, 10)
	}
	return strconv.AppendUint(append(dst, "0x"...), v, 16)
}

func appendHex(dst []byte, v uint64, digits int) []byte {
	return appendDigits(append(dst, "0x"...), v, digits)
}

func appendDigits(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, "0123456789abcdef"[v>>(4*uint(i))&15])
	}
	return dst
}
