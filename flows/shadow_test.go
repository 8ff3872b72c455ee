package flows

import (
	"encoding/binary"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
	"pgregory.net/rapid"
)

// spoil changes payload bytes of a packet, as its sender would have sent it.
func spoil(p *testkit.Packet, at int) {
	p.Edit(func(q *dissect.Packet, data []byte) { q.Payload(data)[at] ^= 0xFF })
}

// putWord sets the eight bytes at the start of a WRITE's payload.
func putWord(m *testkit.Message, order binary.ByteOrder, v uint64) {
	m.Packets[0].Edit(func(q *dissect.Packet, data []byte) { order.PutUint64(q.Payload(data), v) })
}

func TestShadow(t *testing.T) {
	at := testkit.At
	tests := []struct {
		name    string
		write   func(x *testkit.Exchange)
		differs uint64
		text    string
		least   uint64 // bytes compared at least
		most    uint64 // and at most; 0 = no bound
	}{
		{name: "read as written", least: 3000, write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(3000, at(0x1FF0, 7)))
			x.B.Answer(x.A.Read(3000, at(0x1FF0, 7)))
		}},
		{name: "a part of it, in the same breath", least: 1500, write: func(x *testkit.Exchange) {
			w := x.A.Write(3000, at(0x1000, 7))
			r := x.A.Read(1500, at(0x1200, 7))
			x.B.Answer(w)
			x.B.Answer(r)
		}},
		{name: "one byte differs", differs: 1, text: "at 0x1834 under R_Key 0x7", least: 2000, write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(3000, at(0x1000, 7)))
			spoil(x.B.Answer(x.A.Read(3000, at(0x1000, 7)))[2], 0x34)
		}},
		{name: "another key is other memory", write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(1000, at(0x1000, 7)))
			spoil(x.B.Answer(x.A.Read(1000, at(0x1000, 8)))[0], 0)
		}},
		{name: "bytes never written are not known", least: 100, most: 100, write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(100, at(0x1000, 7)))
			spoil(x.B.Answer(x.A.Read(1000, at(0x1000, 7)))[0], 500)
		}},
		{name: "stale: the older contents", differs: 1, text: "byte", write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(64, at(0x1000, 7)))
			m := x.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			x.B.Answer(m)
			x.B.Answer(x.A.Read(64, at(0x1000, 7)))
		}},
		{name: "a WRITE behind the READ may come first", write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(64, at(0x1000, 7)))
			r := x.A.Read(64, at(0x1000, 7))
			m := x.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			spoil(x.B.Answer(r)[0], 5)
			x.B.Answer(m)
		}},
		{name: "another queue pair's WRITE under way", write: func(x *testkit.Exchange) {
			y := x.Beside(nil)
			y.Connect()
			x.B.Answer(x.A.Write(64, at(0x1000, 7)))
			m := y.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			x.B.Answer(x.A.Read(64, at(0x1000, 7)))
			y.B.Answer(m)
			x.B.Answer(x.A.Read(64, at(0x1000, 7))) // too soon behind the ACK to be sure
		}},
		{name: "another queue pair's WRITE, done", differs: 1, least: 64, write: func(x *testkit.Exchange) {
			y := x.Beside(nil)
			y.Connect()
			m := y.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			y.B.Answer(m)
			x.Wait(time.Millisecond)
			x.B.Answer(x.A.Read(64, at(0x1000, 7)))
		}},
		{name: "two queue pairs race", write: func(x *testkit.Exchange) {
			y := x.Beside(nil)
			y.Connect()
			m, n := x.A.Write(64, at(0x1000, 7)), y.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			x.B.Answer(m)
			y.B.Answer(n)
			x.Wait(time.Millisecond)
			x.B.Answer(x.A.Read(64, at(0x1000, 7)))
		}},
		{name: "WRITE refused", write: func(x *testkit.Exchange) {
			y := x.Beside(nil)
			y.Connect()
			m := x.A.Write(64, at(0x1000, 7))
			spoil(m.Packets[0], 5)
			x.B.NAK(m.First, dissect.NAKRemoteAccess)
			x.Wait(time.Millisecond)
			y.B.Answer(y.A.Read(64, at(0x1000, 7)))
		}},
		{name: "WRITE never acknowledged", write: func(x *testkit.Exchange) {
			y := x.Beside(nil)
			y.Connect()
			y.B.Answer(y.A.Write(64, at(0x1000, 7)))
			spoil(x.A.Write(64, at(0x1000, 7)).Packets[0], 5)
			x.Wait(time.Millisecond)
			y.B.Answer(y.A.Read(64, at(0x1000, 7)))
		}},
		{name: "a WRITE that the capture missed", write: func(x *testkit.Exchange) {
			x.B.Answer(x.A.Write(64, at(0x1000, 7)))
			m := x.A.Write(64, at(0x1000, 7))
			m.Packets[0].Drop()
			x.B.Answer(m)
			spoil(x.B.Answer(x.A.Read(64, at(0x1000, 7)))[0], 3)
			spoil(x.B.Answer(x.A.Read(64, at(0x1000, 7)))[0], 3)
		}},
		{name: "a lost WRITE, made good", least: 2048, write: func(x *testkit.Exchange) {
			m := x.A.Write(3000, at(0x1000, 7))
			m.Packets[1].Drop()
			x.B.NAK(m.First.Add(1), dissect.NAKSequence)
			x.Wait(time.Millisecond)
			m.ResendFrom(1)
			x.B.Answer(m)
			x.B.Answer(x.A.Read(3000, at(0x1000, 7)))
		}},
		{name: "cut by the snap length", least: 10, most: 64, write: func(x *testkit.Exchange) {
			m := x.A.Write(64, at(0x1000, 7))
			m.Packets[0].Snap(14 + 20 + 8 + 12 + 16 + 10)
			x.B.Answer(m)
			spoil(x.B.Answer(x.A.Read(64, at(0x1000, 7)))[0], 40)
		}},
		{name: "atomics in a row", least: 16, write: func(x *testkit.Exchange) {
			v := uint64(1000)
			for range 3 {
				m := x.A.FetchAdd(5, at(0x1000, 7))
				x.B.Complete(m)
				x.B.AtomicAck(m, v)
				v += 5
			}
		}},
		{name: "an atomic done twice", differs: 1, write: func(x *testkit.Exchange) {
			for _, v := range []uint64{1000, 1010} {
				m := x.A.FetchAdd(5, at(0x1000, 7))
				x.B.Complete(m)
				x.B.AtomicAck(m, v)
			}
		}},
		{name: "atomics sent again behind their answers, the first of which the capture missed", least: 8, write: func(x *testkit.Exchange) {
			var m [2]*testkit.Message
			for i := range m {
				m[i] = x.A.FetchAdd(5, at(0x1000, 7))
			}
			m[0].Packets[0].Drop()
			x.B.AtomicAck(m[1], 1005)
			for i := range m {
				m[i].ResendFrom(0)
				x.B.AtomicAck(m[i], 1000+5*uint64(i))
			}
			for i := range uint64(2) {
				n := x.A.FetchAdd(5, at(0x1000, 7))
				x.B.Complete(n)
				x.B.AtomicAck(n, 1010+5*i)
			}
		}},
		{name: "a WRITE sent again behind its acknowledgement, the first of which the capture missed", write: func(x *testkit.Exchange) {
			m := x.A.Write(64, at(0x1000, 7))
			m.Packets[0].Drop()
			n := x.A.Write(64, at(0x1000, 7))
			spoil(n.Packets[0], 5)
			x.B.Answer(n)
			m.ResendFrom(0)
			n.ResendFrom(0)
			x.B.Answer(n)
			spoil(x.B.Answer(x.A.Read(64, at(0x1000, 7)))[0], 5)
		}},
		{name: "compare and swap that fails leaves the word", least: 8, write: func(x *testkit.Exchange) {
			for range 2 {
				m := x.A.CompareSwap(1, 2, at(0x1000, 7))
				x.B.Complete(m)
				x.B.AtomicAck(m, 9)
			}
		}},
		{name: "a word written, then an atomic, little-endian", least: 8, write: func(x *testkit.Exchange) {
			m := x.A.Write(8, at(0x1000, 7))
			putWord(m, binary.LittleEndian, 77)
			x.B.Answer(m)
			a := x.A.FetchAdd(1, at(0x1000, 7))
			x.B.Complete(a)
			x.B.AtomicAck(a, 77)
		}},
		{name: "a word written, then an atomic, big-endian", least: 8, write: func(x *testkit.Exchange) {
			m := x.A.Write(8, at(0x1000, 7))
			putWord(m, binary.BigEndian, 77)
			x.B.Answer(m)
			a := x.A.FetchAdd(1, at(0x1000, 7))
			x.B.Complete(a)
			x.B.AtomicAck(a, 77)
		}},
		{name: "a word written, and the atomic found another", differs: 1, text: "at 0x1000 ", write: func(x *testkit.Exchange) {
			m := x.A.Write(8, at(0x1000, 7))
			putWord(m, binary.LittleEndian, 77)
			x.B.Answer(m)
			a := x.A.FetchAdd(1, at(0x1000, 7))
			x.B.Complete(a)
			x.B.AtomicAck(a, 76)
		}},
		{name: "an atomic's word is read", least: 8, differs: 1, write: func(x *testkit.Exchange) {
			a := x.A.FetchAdd(1, at(0x1008, 7))
			x.B.Complete(a)
			x.B.AtomicAck(a, 41)
			for _, v := range []uint64{42, 41} {
				r := x.A.Read(32, at(0x1000, 7))
				p := x.B.Answer(r)[0]
				p.Edit(func(q *dissect.Packet, data []byte) { binary.LittleEndian.PutUint64(q.Payload(data)[8:], v) })
			}
		}},
		{name: "a WRITE over an atomic's word", write: func(x *testkit.Exchange) {
			a := x.A.FetchAdd(1, at(0x1008, 7))
			x.B.Complete(a)
			x.B.AtomicAck(a, 41)
			x.B.Answer(x.A.Write(64, at(0x1000, 7)))
			x.B.Answer(x.A.Read(64, at(0x1000, 7)))
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.Connect()
			test.write(x)
			s := lookWith(Options{Shadow: true}, 5, x.Frames())
			f := s.finding("read_differs")
			if s.Shadow.Differing != test.differs || (f != nil) != (test.differs > 0) || s.Shadow.Compared < test.least || test.most > 0 && s.Shadow.Compared > test.most {
				t.Fatalf("%+v\n%s", s.Shadow, s.describe())
			}
			if f != nil && !strings.Contains(f.Summary, test.text) {
				t.Errorf("%q lacks %q", f.Summary, test.text)
			}
			if !s.Shadow.On || look(x.Frames()).finding("read_differs") != nil {
				t.Error("found though it was not asked for")
			}
		})
	}
}

// TestShadowTruth: responders that read what was written are never accused,
// whatever the wire does.
func TestShadowTruth(t *testing.T) {
	compared := uint64(0)
	rapid.Check(t, func(r *rapid.T) {
		var o testkit.SimOptions
		o.MTU = 256
		atomics := rapid.Bool().Draw(r, "atomics")
		for side := range o.Ops {
			for range rapid.IntRange(1, 25).Draw(r, "ops") {
				op := testkit.SimOp{Family: rapid.SampledFrom([]dissect.Family{dissect.Write, dissect.Read, dissect.Send}).Draw(r, "family"), Size: rapid.IntRange(0, 1200).Draw(r, "size")}
				if atomics {
					op.Family = rapid.SampledFrom([]dissect.Family{dissect.FetchAdd, dissect.CompareSwap}).Draw(r, "family")
				}
				o.Ops[side] = append(o.Ops[side], op)
			}
		}
		for range rapid.IntRange(0, 5).Draw(r, "faults") {
			o.Faults = append(o.Faults, testkit.SimFault{
				From: testkit.Side(rapid.IntRange(0, 1).Draw(r, "from")), Nth: rapid.IntRange(0, 60).Draw(r, "nth"),
				Kind:   rapid.SampledFrom([]testkit.SimFaultKind{testkit.Lose, testkit.Duplicate, testkit.Reorder, testkit.Corrupt, testkit.Miss}).Draw(r, "kind"),
				Behind: rapid.Bool().Draw(r, "behind"), By: rapid.IntRange(1, 5).Draw(r, "by"),
			})
		}
		o.Patient = rapid.Bool().Draw(r, "patient")
		if rapid.Bool().Draw(r, "handshake") {
			o.Before = func(x *testkit.Exchange) { x.Connect() }
		}
		s := lookWith(Options{Shadow: true}, 64, testkit.Simulate(o).Frames)
		if s.Shadow.Differing > 0 {
			r.Fatalf("%+v\n%s", s.Shadow, s.describe())
		}
		compared += s.Shadow.Compared
	})
	t.Logf("%d bytes compared", compared)
	if compared == 0 {
		t.Error("nothing was compared")
	}
}

// TestShadowBounded: what is held stays within its bound, and the oldest goes
// first.
func TestShadowBounded(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{MTU: 4096})
	x.Connect()
	for i := range uint64(20) {
		x.B.Answer(x.A.Write(4096, testkit.At(i<<12, 7)))
	}
	x.B.Answer(x.A.Read(4096, testkit.At(0, 7)))
	x.B.Answer(x.A.Read(4096, testkit.At(19<<12, 7)))
	s := lookWith(Options{Shadow: true, ShadowBytes: 4 * shadowPageSize}, 64, x.Frames())
	if s.Shadow.Bytes != 4*shadowPageSize || s.Shadow.Forgotten != 16*shadowPageSize || s.Shadow.Compared != 4096 || s.Shadow.Unknown != 4096 {
		t.Errorf("%+v", s.Shadow)
	}
}
