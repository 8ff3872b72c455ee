package stream

import (
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// parse gives the frames of a capture.
func parse(t testing.TB, data []byte) (all [][]byte) {
	frames, err := testkit.ParseCapture(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		all = append(all, f.Data)
	}
	return all
}

// sink is a port that takes everything and does nothing.
type sink struct {
	rooms [][]byte
	free  []uint32
	sent  uint64
}

func newSink(slots int) *sink {
	s := &sink{free: make([]uint32, 0, slots)}
	for i := range slots {
		s.rooms = append(s.rooms, make([]byte, 4400))
		s.free = append(s.free, uint32(i))
	}
	return s
}

func (s *sink) Info() port.Info {
	return port.Info{Via: "sink", MaxFrame: 4400, Slots: len(s.rooms)}
}

func (s *sink) Take(slots []uint32) int {
	n := copy(slots, s.free)
	s.free = s.free[:copy(s.free, s.free[n:])]
	return n
}

func (s *sink) Room(slot uint32) []byte { return s.rooms[slot] }

func (s *sink) Send(frames []port.Out) error {
	for _, f := range frames {
		s.free = append(s.free, f.Slot)
	}
	s.sent += uint64(len(frames))
	return nil
}

func (s *sink) Flush() error                   { return nil }
func (s *sink) Receive([]port.In) (int, error) { return 0, nil }
func (s *sink) Wait(time.Duration) error       { return nil }
func (s *sink) Stats() port.Stats              { return port.Stats{Sent: s.sent} }
func (s *sink) Close() error                   { return nil }

var benchmarks = []struct {
	name   string
	change func(*Config)
}{
	{"WRITE 64, 1 QP", func(c *Config) { c.Mix, c.Size, c.QPs = c.Mix[3:4], Size(64), 1 }},
	{"WRITE 1024, 64 QPs", func(c *Config) { c.Mix, c.Size, c.MTU, c.QPs = c.Mix[3:4], Size(1024), 1024, 64 }},
	{"WRITE 64K, 8 QPs", func(c *Config) { c.Mix, c.Size, c.MTU, c.QPs = c.Mix[3:4], Size(65536), 1024, 8 }},
	{"mix, 64 QPs", func(c *Config) { c.QPs = 64 }},
}

// rig is a sender that can be turned by hand.
func rig(t testing.TB, change func(*Config)) *sender {
	c := loop(t, func(c *Config) { change(c); c.Count = 1 << 40 })
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Prepare([]port.Port{newSink(1024)}); err != nil {
		t.Fatal(err)
	}
	return s.senders[0]
}

func TestSendingDoesNotAllocate(t *testing.T) {
	for _, b := range benchmarks {
		w := rig(t, b.change)
		if n := testing.AllocsPerRun(200, func() {
			if w.fill() == 0 || w.send() != nil {
				t.Fatal("nothing was sent")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations a burst", b.name, n)
		}
	}
}

func TestLookingDoesNotAllocate(t *testing.T) {
	c := loop(t, func(c *Config) { c.Mix, c.Size, c.Count = c.Mix[3:4], Size(64), 1<<40 })
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	near, far := port.Pair(port.MemoryOptions{})
	defer far.Close()
	if err := s.Prepare([]port.Port{near}); err != nil {
		t.Fatal(err)
	}
	frame := layouts[0].outer.AppendTo(nil)
	at := len(frame)
	frame = dissect.AppendTransport(frame, dissect.OpRCAcknowledge)
	dissect.BTH(frame[at:]).SetDestQP(0x100)
	outer := layouts[0].outer
	var crafter dissect.Crafter
	if frame, err = crafter.Seal(&outer, frame); err != nil {
		t.Fatal(err)
	}
	a, q := s.answers, s.qps[0]
	psn := q.psn
	word, _ := dissect.NewICRCWord(at+8, len(frame)-4)
	base := leWord(frame[len(frame)-4:]) // of PSN 0
	if n := testing.AllocsPerRun(1000, func() {
		q.sh.next.Add(1)
		q.sh.stamp(psn, int64(psn))
		putLE(frame[len(frame)-4:], base^word.Put(frame, uint32(psn)))
		a.handle(frame, int64(psn)+1000)
		psn = psn.Add(1)
	}); n != 0 || a.n.BadICRC != 0 || a.n.Answered != 1001 || a.latency.TotalCount() < 1000 {
		t.Errorf("%v allocations an answer; %+v", n, a.n)
	}
}

func leWord(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func putLE(b []byte, v uint32) {
	b[0], b[1], b[2], b[3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
}

// BenchmarkSend is what it costs to make a packet: choosing QP and slot, patching, handing over to a port that costs nothing.
func BenchmarkSend(b *testing.B) {
	for _, m := range benchmarks {
		b.Run(m.name, func(b *testing.B) {
			w := rig(b, m.change)
			b.ReportAllocs()
			for n := 0; n < b.N; n += w.burst {
				w.fill()
				if err := w.send(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPatch is the patch alone of a WRITE of 1 KiB, beside its whole ICRC.
func BenchmarkPatch(b *testing.B) {
	w := rig(b, benchmarks[1].change)
	q := w.pick()
	t := q.msg.packet(0)
	room := make([]byte, 2048)
	t.write(room)
	b.Run("patch", func(b *testing.B) {
		v, m := q.msg.values, memo{key: t.key(&q.values)}
		for b.Loop() {
			v[valPSN]++
			v[valVALo] += 1024
			t.patch(room, &q.values, &v, &m)
		}
	})
	b.Run("whole ICRC", func(b *testing.B) {
		var c dissect.ICRC
		for b.Loop() {
			c.Sum(room[14:t.icrc], dissect.LayerIPv4, 28)
		}
	})
}
