package flows

import (
	"encoding/binary"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// FuzzCM plays scripts of CM datagrams and TCP segments between two hosts to
// handshakes. Whatever they say, nothing panics, the tables keep their bounds
// and their books.
//
// A script is a row of steps, each begun by four bytes:
//
//	what   bit 7: TCP; bit 6: sent by the second host; CM: attribute in the low bits; TCP: a text to send, below
//	more   CM: transaction; TCP: flags
//	skip   TCP: signed number of bytes that the sequence number is off
//	n      bytes that follow: the message, or what is sent after the text
func FuzzCM(f *testing.F) {
	script := func(steps ...[]byte) (s []byte) {
		for _, b := range steps {
			s = append(s, b...)
		}
		return s
	}
	cm := func(from byte, attr dissect.CMAttribute, data ...byte) []byte {
		return append([]byte{from<<6 | byte(attr&0xF), 1, 0, byte(len(data))}, data...)
	}
	tcp := func(from, text, flags, skip byte, data ...byte) []byte {
		return append([]byte{0x80 | from<<6 | text, flags, skip, byte(len(data))}, data...)
	}
	const none = 0x1F
	idA, idB := []byte{0, 0, 0, 1}, []byte{0, 0, 0, 2}
	both := func(a, b []byte, more ...byte) []byte {
		return append(append(append([]byte(nil), a...), b...), more...)
	}
	f.Add(script(cm(0, dissect.CMAttrREQ, idA...), cm(1, dissect.CMAttrMRA, both(idB, idA)...), cm(1, dissect.CMAttrREP, both(idB, idA, 0, 0, 0, 0, 0, 0, 9)...),
		cm(0, dissect.CMAttrRTU, both(idA, idB)...), cm(0, dissect.CMAttrDREQ, both(idA, idB, 0, 0, 9)...), cm(1, dissect.CMAttrDREQ, both(idB, idA)...), cm(1, dissect.CMAttrDREP, both(idB, idA)...)))
	f.Add(script(cm(0, dissect.CMAttrREQ, idA...), cm(1, dissect.CMAttrREJ, both(nil, nil, 0, 0, 0, 0, 0, 0, 0, 1)...), cm(0, dissect.CMAttrSIDRREQ, idA...), cm(1, dissect.CMAttrSIDRREP, idA...),
		cm(1, dissect.CMAttrLAP, both(idB, idA)...), cm(0, dissect.CMAttrAPR, both(idA, idB)...)))
	open := script(tcp(0, none, dissect.TCPSyn, 0), tcp(1, none, dissect.TCPSyn|dissect.TCPAck, 0))
	for text := range byte(6) {
		f.Add(script(open, tcp(0, text, 0x10, 0), tcp(1, text, 0x10, 0), tcp(0, 5, 0x10, 0)))
		f.Add(script(tcp(0, text, 0x10, 0), tcp(1, text, 0x10, 0), tcp(0, text, 0x10, 0), tcp(1, text, 0x10, 0)))
		f.Add(script(open, tcp(0, text, 0x10, 200), tcp(0, none, 0x10, 5, 1, 2, 3), tcp(1, text, 0x11, 3, 'd', 'o')))
	}
	f.Fuzz(func(t *testing.T, script []byte) { playHandshakes(t, script) })
}

// fuzzTexts are what a step can send without spelling it out.
var fuzzTexts = [][]byte{
	pingpongText(0x111, 1, gid1),
	keyText(0x112, 2, gid1),
	[]byte("0001:0010:000113:000001:00000aaa:000055d0c189d000:00000000\x00"),
	[]byte("0001:0010:000114:000001:00000aaa:000055d0c189d000:0000000000000001:00000000\x00"),
	preamble("6.06", "3"),
	[]byte("done\x00"),
	pingpongText(0, 0, "00000000000000000000000000000000"),
}

func playHandshakes(t *testing.T, script []byte) {
	h := newHandshakes(handshakeLimits{CM: 5, Flows: 3})
	var d dissect.Decoder
	var p dissect.Packet
	var events []handshakeEvent
	seq := [2]uint32{0xFFFFFF00, 7}
	for len(script) >= 4 {
		what, more, skip, n := script[0], script[1], script[2], min(int(script[3]), len(script)-4)
		data := script[4 : 4+n]
		script = script[4+n:]
		from := what >> 6 & 1
		var l4 []byte
		proto := byte(17)
		if what&0x80 != 0 {
			proto = 6
			if i := int(what & 0x1F); i < len(fuzzTexts) {
				data = append(append([]byte(nil), fuzzTexts[i]...), data...)
			}
			at := seq[from] + uint32(int8(skip))
			l4 = make([]byte, 20)
			ports := [2]uint16{uint16(what >> 5 & 1), 18515} // two connections
			binary.BigEndian.PutUint16(l4, ports[from])
			binary.BigEndian.PutUint16(l4[2:], ports[1-from])
			binary.BigEndian.PutUint32(l4[4:], at)
			binary.BigEndian.PutUint32(l4[8:], seq[1-from])
			l4[12], l4[13] = 5<<4, more
			l4 = append(l4, data...)
			seq[from] = at + uint32(len(data))
			if more&dissect.TCPSyn != 0 {
				seq[from]++
			}
		} else {
			l4 = make([]byte, 8+12+8+256+4)
			binary.BigEndian.PutUint16(l4[2:], dissect.PortRoCEv2)
			binary.BigEndian.PutUint16(l4[4:], uint16(len(l4)))
			l4[8], l4[15] = byte(dissect.OpUDSendOnly), 1
			mad := l4[28:]
			mad[0], mad[1], mad[2], mad[3] = 1, 7, 2, 3
			mad[15], mad[17] = more, 0x10|what&0xF
			copy(mad[24:256], data)
		}
		frame := make([]byte, 34, 34+len(l4))
		frame[12] = 8
		frame[14], frame[22], frame[23] = 0x45, 64, proto
		binary.BigEndian.PutUint16(frame[16:], uint16(20+len(l4)))
		frame[26], frame[29], frame[30], frame[33] = 10, 1+from, 10, 2-from
		frame = append(frame, l4...)
		d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
		p.Number++
		events = h.packet(&p, frame, events[:0])
		for i := range events {
			if e := &events[i]; e.Kind == evPair && (!e.HasA || !e.HasB || e.Why == "") {
				t.Fatalf("half a pair: %+v", e)
			}
		}
	}
	checkBooks(t, h)
}

// checkBooks compares the tables' counts with what they hold.
func checkBooks(t *testing.T, h *handshakes) {
	t.Helper()
	s := &h.sockets
	waiting, pairs, late := 0, 0, 0
	flows := held(t, &s.flows)
	for _, i := range flows {
		fl := s.flows.at(i)
		if s.index[fl.key] != i {
			t.Errorf("flow %d is not where the index says", i)
		}
		waiting += len(fl.waiting)
		pairs += len(fl.pairs)
		for d := range fl.streams {
			late += fl.streams[d].lateSize + len(fl.streams[d].held)
		}
	}
	if waiting != s.waiting || pairs != s.pairs || late != s.lateBytes || len(flows) != len(s.index) {
		t.Errorf("%d texts wait, booked %d; %d pairs, booked %d; %d late bytes, booked %d; %d flows, %d in the index",
			waiting, s.waiting, pairs, s.pairs, late, s.lateBytes, len(flows), len(s.index))
	}
	convs, named := held(t, &h.cm.convs), 0
	for _, i := range convs {
		c := h.cm.convs.at(i)
		for side := range c.sides {
			if c.sides[side].hasID {
				named++
				if j, ok := h.cm.index[c.key(side)]; !ok || j != i {
					t.Errorf("conversation %d is not where the index says", i)
				}
			}
		}
	}
	if named != len(h.cm.index) {
		t.Errorf("%d identifiers, %d in the index", named, len(h.cm.index))
	}
}

// held lists the items in use and checks the order both ways.
func held[T any](t *testing.T, r *recent[T]) (all []int32) {
	t.Helper()
	if len(r.items) > r.limit {
		t.Fatalf("%d items, limit %d", len(r.items), r.limit)
	}
	before := int32(-1)
	for i := r.newest; i >= 0; i = r.items[i].older {
		if r.items[i].newer != before || len(all) > len(r.items) {
			t.Fatal("the order is broken")
		}
		all, before = append(all, i), i
	}
	if r.oldest != before {
		t.Fatal("the oldest is another one")
	}
	return all
}
