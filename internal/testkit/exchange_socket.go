package testkit

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// toolPort is the TCP port on which perftest and the pingpong programs tell each other their queue pairs.
const toolPort = 18515

// tcpEnd is one end of the socket of a set-up.
type tcpEnd struct {
	port uint16
	seq  uint32
}

// TCP sends a segment from this end to the other on the tools' port: just enough TCP to be read.
func (e *End) TCP(flags uint8, data []byte) *Packet {
	for i, end := range []*End{e.x.A, e.x.B} {
		if end.tcp.port == 0 {
			end.tcp = tcpEnd{[]uint16{40000 + uint16(e.x.QPNA&0xFFF), toolPort}[i], 1000 * uint32(i+1)}
		}
	}
	ack := e.peer.tcp.seq
	if flags&dissect.TCPAck == 0 {
		ack = 0
	}
	tcp := make([]byte, 20, 20+len(data))
	be.PutUint16(tcp, e.tcp.port)
	be.PutUint16(tcp[2:], e.peer.tcp.port)
	be.PutUint32(tcp[4:], e.tcp.seq)
	be.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13] = 5<<4, flags
	be.PutUint16(tcp[14:], 0xFFFF)
	tcp = append(tcp, data...)
	e.tcp.seq += uint32(len(data))
	if flags&(dissect.TCPSyn|dissect.TCPFin) != 0 {
		e.tcp.seq++
	}

	frame := append(append([]byte(nil), e.outer.DstMAC[:]...), e.outer.SrcMAC[:]...)
	for _, tci := range e.x.VLANs {
		frame = append(frame, 0x81, 0, byte(tci>>8), byte(tci))
	}
	src, dst := e.Addr.AsSlice(), e.peer.Addr.AsSlice()
	pseudo := binary.BigEndian.AppendUint32(append(append([]byte(nil), src...), dst...), uint32(len(tcp)))
	be.PutUint16(tcp[16:], internetSum(append(append(pseudo, 0, 0, 0, 6), tcp...)))
	if e.Addr.Is4() {
		ip := []byte{0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0}
		be.PutUint16(ip[2:], uint16(20+len(tcp)))
		be.PutUint16(ip[4:], e.outer.IPID)
		if e.outer.CountIPID {
			e.outer.IPID++
		}
		ip = append(append(ip, src...), dst...)
		be.PutUint16(ip[10:], internetSum(ip))
		frame = append(append(frame, 8, 0), ip...)
	} else {
		ip := []byte{0x60, 0, 0, 0, byte(len(tcp) >> 8), byte(len(tcp)), 6, 64}
		frame = append(append(append(append(frame, 0x86, 0xDD), ip...), src...), dst...)
	}
	return e.raw(append(frame, tcp...))
}

// internetSum is the checksum of RFC 1071.
func internetSum(b []byte) uint16 {
	var sum uint32
	for i, c := range b {
		sum += uint32(c) << (8 * (1 - i&1))
	}
	for sum>>16 != 0 {
		sum = sum&0xFFFF + sum>>16
	}
	return ^uint16(sum)
}

const tcpPush = dissect.TCPAck | 0x08

// tcpOpen is the three-way handshake: A is the client.
func (x *Exchange) tcpOpen() {
	x.A.TCP(dissect.TCPSyn, nil)
	x.B.TCP(dissect.TCPSyn|dissect.TCPAck, nil)
	x.A.TCP(dissect.TCPAck, nil)
}

// both lets client and server say something in turn.
func both(a, b *End, text func(e *End) []byte) {
	a.TCP(tcpPush, text(a))
	b.TCP(tcpPush, text(b))
}

// Perftest writes what perftest's programs tell each other over TCP before they start: of this exchange's queue pairs,
// and of those of more, which are other connections of the same two hosts (-q).
func (x *Exchange) Perftest(more ...*Exchange) {
	x.tcpOpen()
	both(x.A, x.B, func(*End) []byte { return append([]byte("6.06"), make([]byte, 12)...) })
	both(x.A, x.B, func(*End) []byte { return []byte{0, 0, 0x10, 0} })
	both(x.A, x.B, func(*End) []byte { return []byte{0, 0, 0, 0x40} })
	both(x.A, x.B, func(*End) []byte { return []byte{'0' + mtuCode(x.MTU), 0} })
	for _, q := range append([]*Exchange{x}, more...) {
		x.A.TCP(tcpPush, q.A.perftestText())
		x.B.TCP(tcpPush, q.B.perftestText())
	}
	both(x.A, x.B, (*End).perftestText) // the tools synchronise by sending the first once more
}

// perftestText is the 108-byte line: LID, outstanding READs, QPN, PSN, R_Key, VA, GID, SRQN.
func (e *End) perftestText() []byte {
	var g []string
	for _, b := range gid(e.Addr) {
		g = append(g, fmt.Sprintf("%02x", b))
	}
	line := fmt.Sprintf("%04x:%04x:%06x:%06x:%08x:%016x:%s:%08x:", 0, e.x.ReadDepth, e.QPN, e.Next, e.x.RKey, e.x.VA, strings.Join(g, ":"), 0)
	return append([]byte(line), 0)
}

// Pingpong writes what the ibv_*_pingpong programs tell each other over TCP.
func (x *Exchange) Pingpong() {
	x.tcpOpen()
	both(x.A, x.B, func(e *End) []byte {
		return append(fmt.Appendf(nil, "%04x:%06x:%06x:%x", 0, e.QPN, e.Next, gid(e.Addr)), 0)
	})
	x.A.TCP(tcpPush, []byte("done\x00"))
	x.A.TCP(dissect.TCPFin|dissect.TCPAck, nil)
	x.B.TCP(dissect.TCPFin|dissect.TCPAck, nil)
}
