package fault

import (
	"testing"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
)

// sink is a port that takes everything: what is measured is the rules alone.
type sink struct {
	port.Port // for what is not called
	rooms     [][]byte
	free      []uint32
}

func newSink() *sink {
	s := &sink{}
	for i := range uint32(512) {
		s.rooms = append(s.rooms, make([]byte, 2048))
		s.free = append(s.free, i)
	}
	return s
}

func (s *sink) Info() port.Info {
	return port.Info{Via: port.ViaMemory, MaxFrame: 2048, Slots: len(s.rooms), Receives: true}
}

func (s *sink) Take(slots []uint32) int {
	n := copy(slots, s.free)
	s.free = append(s.free[:0], s.free[n:]...)
	return n
}
func (s *sink) Room(slot uint32) []byte { return s.rooms[slot] }

func (s *sink) Send(frames []port.Out) error {
	for _, f := range frames {
		s.free = append(s.free, f.Slot)
	}
	return nil
}

// BenchmarkRules is what rules cost for each packet that is sent. A sender over AF_XDP on a virtual link takes a microsecond and
// more for one, inject's loop alone 20 to 30 ns.
func BenchmarkRules(b *testing.B) {
	for _, c := range []struct {
		name  string
		rules []string
		marks bool
	}{
		{"none", nil, false},
		{"idle opcode", []string{"drop when bth.opcode == RC_ACKNOWLEDGE"}, false},
		{"idle QP", []string{"drop when bth.destqp == 0x77"}, false},
		{"idle, four rules", []string{"drop when bth.opcode == RC_ACKNOWLEDGE", "corrupt when bth.destqp == 0x77", "ecn when bth.opcode in {0xd..0x10}", "set bth.psn=1 when bth.opcode == CNP"}, false},
		{"idle round", []string{"drop way=out when flow.round == 3"}, true},
		{"idle field", []string{"drop when reth.dmalen == 3"}, false},
		{"drop 1%", []string{"drop probability=1%"}, false},
		{"corrupt 1%", []string{"corrupt probability=1%"}, false},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newSink()
			var p interface {
				Take([]uint32) int
				Send([]port.Out) error
			} = s
			send := func(out []port.Out, _ []flows.Mark) error { return s.Send(out) }
			if c.rules != nil {
				w, err := Wrap(s, rules(b, c.rules...))
				if err != nil {
					b.Fatal(err)
				}
				p, send = w, w.SendMarked
			}
			frame := writes(1, 64)[0]
			for _, room := range s.rooms {
				copy(room, frame)
			}
			slots, out := make([]uint32, 64), make([]port.Out, 64)
			var marks []flows.Mark
			if c.marks {
				marks = make([]flows.Mark, 64)
				for i := range marks {
					marks[i] = flows.Mark{Bits: flows.MarkPSN, Conn: 1}
				}
			}
			b.ReportAllocs()
			for n := 0; n < b.N; {
				got := p.Take(slots)
				for i, slot := range slots[:got] {
					out[i] = port.Out{Slot: slot, Len: int32(len(frame))}
				}
				m := marks
				if m != nil {
					m = m[:got]
				}
				if err := send(out[:got], m); err != nil {
					b.Fatal(err)
				}
				n += got
			}
		})
	}
}
