package filter

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// shot is a decoded frame with all that a filter may look at.
type shot struct {
	p     dissect.Packet
	frame []byte
	m     *flows.Mark
	o     *flows.Outcome
}

// build makes a RoCE v2 packet; set fills in its transport headers.
func build(t testing.TB, op dissect.Opcode, payload []byte, set func(view func(dissect.Layer) []byte)) *shot {
	t.Helper()
	return buildIn(t, dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0x77, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0x77, 1},
		Src: netip.MustParseAddr("10.77.0.1"), Dst: netip.MustParseAddr("10.77.0.2"),
		SrcPort: 49152, TrafficClass: 26<<2 | 3,
	}, op, payload, set)
}

func buildIn(t testing.TB, outer dissect.Outer, op dissect.Opcode, payload []byte, set func(view func(dissect.Layer) []byte)) *shot {
	t.Helper()
	frame := outer.AppendTo(nil)
	at := len(frame)
	frame = dissect.AppendTransport(frame, op)
	if set != nil {
		set(func(l dissect.Layer) []byte { return op.Info().View(frame[at:], l) })
	}
	frame = append(frame, payload...)
	var c dissect.Crafter
	frame, err := c.Seal(&outer, frame)
	if err != nil {
		t.Fatal(err)
	}
	return decode(frame, len(frame))
}

// decode decodes a frame that is the third of its capture, 1.5 s after the
// first and 2 µs after the second.
func decode(frame []byte, wire int) *shot {
	s := &shot{frame: frame}
	s.p.Number, s.p.Base = 3, 1_700_000_000e9
	s.p.Time = s.p.Base + 1_500_000_000
	s.p.Prev = s.p.Time - 2000
	d := dissect.Decoder{CheckICRC: true}
	d.Decode(dissect.LinkEthernet, frame, wire, &s.p)
	return s
}

// The frames that the tests filter.

func writeFirst(t testing.TB) *shot {
	return build(t, dissect.OpRCWriteFirst, []byte("GET /index.html\xde\xad\xbe\xef"), func(view func(dissect.Layer) []byte) {
		b := dissect.BTH(view(dissect.LayerBTH))
		b.SetPSN(0xABCDEF)
		b.SetDestQP(0x11)
		b.SetAckReq(true)
		b.SetSE(true)
		r := dissect.RETH(view(dissect.LayerRETH))
		r.SetVA(0x7F00_1234_5678_9ABC)
		r.SetRKey(0x8045)
		r.SetDMALen(1 << 20)
	})
}

func nak(t testing.TB) *shot {
	return build(t, dissect.OpRCAcknowledge, nil, func(view func(dissect.Layer) []byte) {
		b := dissect.BTH(view(dissect.LayerBTH))
		b.SetPSN(16)
		b.SetDestQP(0x12)
		a := dissect.AETH(view(dissect.LayerAETH))
		a.SetSyndrome(0x60)
		a.SetMSN(7)
	})
}

func udImm6(t testing.TB) *shot {
	return buildIn(t, dissect.Outer{
		DstMAC: [6]byte{2, 0, 0, 0, 0x77, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0x77, 1}, VLANs: []uint16{0x6064, 0x2065},
		Src: netip.MustParseAddr("fe80::1"), Dst: netip.MustParseAddr("fe80::ff:2"), SrcPort: 4791, FlowLabel: 5,
	}, dissect.OpUDSendOnlyImm, make([]byte, 40), func(view func(dissect.Layer) []byte) {
		dissect.BTH(view(dissect.LayerBTH)).SetDestQP(0x20)
		d := dissect.DETH(view(dissect.LayerDETH))
		d.SetQKey(0x11111111)
		d.SetSrcQP(0x21)
		dissect.ImmDt(view(dissect.LayerImmDt)).SetData(0xDEADBEEF)
	})
}

func atomic(t testing.TB) *shot {
	return build(t, dissect.OpRCCompareSwap, nil, func(view func(dissect.Layer) []byte) {
		a := dissect.AtomicETH(view(dissect.LayerAtomicETH))
		a.SetVA(0x1000)
		a.SetRKey(0x99)
		a.SetSwapAdd(1 << 63)
		a.SetCompare(2)
	})
}

// tcpSYN is a TCP segment that holds a line of perftest's.
func tcpSYN(testing.TB) *shot {
	payload := []byte("0000:000011:abcdef:00000000:00007f0012345678\n")
	b := make([]byte, 54)
	copy(b, []byte{2, 0, 0, 0, 0x77, 2, 2, 0, 0, 0, 0x77, 1, 8, 0, 0x45})
	binary.BigEndian.PutUint16(b[16:], uint16(40+len(payload)))
	b[22], b[23] = 64, 6
	copy(b[26:], []byte{10, 77, 0, 1, 10, 77, 0, 2})
	binary.BigEndian.PutUint16(b[34:], 40000)
	binary.BigEndian.PutUint16(b[36:], 18515)
	b[46], b[47] = 0x50, 0x02
	return decode(append(b, payload...), len(b)+len(payload))
}

// cut is the WRITE with only n bytes captured.
func cut(t testing.TB, n int) *shot {
	s := writeFirst(t)
	return decode(s.frame[:n:n], len(s.frame))
}

// tracked is the WRITE with what tracking says of it.
func tracked(t testing.TB) *shot {
	s := writeFirst(t)
	s.m = &flows.Mark{Bits: flows.MarkRequest | flows.MarkMessage | flows.MarkPSN | flows.MarkRetransmission, Conn: 4, Message: 2, PSNOffset: 9, Round: 1, Direction: flows.BToA}
	s.o = &flows.Outcome{
		Message:       &flows.Message{Op: flows.OpWrite, Status: flows.StatusRetryExc, Bytes: 1 << 20, Resends: 3, FirstSeen: 1000, Completed: 61_000},
		EstablishedBy: flows.ByCM, Severity: flows.Warning,
	}
	for id := range flows.Checks() {
		if id == 1 || id == 2 {
			s.o.Findings = append(s.o.Findings, flows.FindingID(id))
		}
	}
	return s
}
