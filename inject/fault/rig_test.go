package fault

import (
	"slices"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// rig is a pair in memory with rules around its near end, and a clock that the test drives.
type rig struct {
	t         testing.TB
	now       int64
	near, far *port.Memory
	port      *Port
}

func rules(t testing.TB, texts ...string) *Set {
	t.Helper()
	s := &Set{Seed: 7}
	for _, text := range texts {
		r, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s.Rules = append(s.Rules, r)
	}
	return s
}

func newRig(t testing.TB, s *Set) *rig {
	t.Helper()
	r := &rig{t: t, now: int64(1e18)}
	r.near, r.far = port.Pair(port.MemoryOptions{Slots: 256, Clock: func() int64 { return r.now }})
	var err error
	if r.port, err = Wrap(r.near, s); err != nil {
		t.Fatal(err)
	}
	return r
}

// send sends a frame from the near end.
func (r *rig) send(frame []byte, m *flows.Mark) {
	r.t.Helper()
	var slots [1]uint32
	if r.port.Take(slots[:]) != 1 {
		r.t.Fatal("no slot is free")
	}
	n := copy(r.port.Room(slots[0]), frame)
	out := []port.Out{{Slot: slots[0], Len: int32(n)}}
	var err error
	if m != nil {
		err = r.port.SendMarked(out, []flows.Mark{*m})
	} else {
		err = r.port.Send(out)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// arrived is what the far end has received since.
func (r *rig) arrived() [][]byte { return drain(r.t, r.far) }

func drain(t testing.TB, p port.Port) (all [][]byte) {
	t.Helper()
	in := make([]port.In, 16)
	for {
		n, err := p.Receive(in)
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			return all
		}
		for _, f := range in[:n] {
			all = append(all, slices.Clone(f.Data))
		}
	}
}

// through sends frames through rules, a microsecond apart, and then lets so much time pass.
func through(t testing.TB, frames [][]byte, wait time.Duration, texts ...string) [][]byte {
	t.Helper()
	r := newRig(t, rules(t, texts...))
	var got [][]byte
	for _, f := range frames {
		r.send(f, nil)
		got = append(got, r.arrived()...)
		r.now += 1000
	}
	r.now += int64(wait)
	if err := r.port.Flush(); err != nil {
		t.Fatal(err)
	}
	return append(got, r.arrived()...)
}

// writes are n WRITEs of one packet each, of so many bytes, over IPv4.
func writes(n, size int) [][]byte { return exchange(testkit.ExchangeOptions{}, n, size) }

func exchange(o testkit.ExchangeOptions, n, size int) (all [][]byte) {
	x := testkit.NewExchange(o)
	for range n {
		x.A.Write(size)
	}
	for _, f := range x.Frames() {
		all = append(all, f.Data)
	}
	return all
}

func decode(frame []byte) *dissect.Packet {
	var p dissect.Packet
	d := dissect.Decoder{CheckICRC: true}
	d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	return &p
}

// order says which of the frames arrived, by their numbers; -1 for one that is none of them.
func order(frames, got [][]byte) []int {
	var all []int
	for _, g := range got {
		all = append(all, slices.IndexFunc(frames, func(f []byte) bool { return slices.Equal(f, g) }))
	}
	return all
}
