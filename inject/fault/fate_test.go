package fault

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestFates: what arrives, and in which order, of packets 0 to 9.
func TestFates(t *testing.T) {
	frames := writes(10, 64)
	for _, c := range []struct {
		rule string
		wait time.Duration
		want []int
	}{
		{"drop when bth.psn == 3", 0, []int{0, 1, 2, 4, 5, 6, 7, 8, 9}},
		{"drop nth=3", 0, []int{0, 1, 3, 4, 5, 6, 7, 8, 9}},
		{"drop nth=2,5-7", 0, []int{0, 2, 3, 7, 8, 9}},
		{"drop every=4", 0, []int{0, 1, 2, 4, 5, 6, 8, 9}},
		{"drop count=2", 0, []int{2, 3, 4, 5, 6, 7, 8, 9}},
		{"drop every=3 count=2", 0, []int{0, 1, 3, 4, 6, 7, 8, 9}},
		{"drop probability=1", 0, nil},
		{"drop way=in", 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"drop after=3us before=5us", 0, []int{0, 1, 2, 6, 7, 8, 9}},
		{"drop when udp.dstport == 4792", 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"duplicate nth=2", 0, []int{0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"duplicate n=3 nth=10", 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 9, 9, 9}},
		{"delay time=2500ns nth=3", 0, []int{0, 1, 3, 4, 2, 5, 6, 7, 8, 9}},
		{"delay time=1ms nth=3", 0, []int{0, 1, 3, 4, 5, 6, 7, 8, 9}},
		{"delay time=1ms nth=3", time.Millisecond, []int{0, 1, 3, 4, 5, 6, 7, 8, 9, 2}},
		{"delay time=5us", time.Millisecond, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"reorder nth=3", 0, []int{0, 1, 3, 2, 4, 5, 6, 7, 8, 9}},
		{"reorder by=4 nth=3", 0, []int{0, 1, 3, 4, 5, 6, 2, 7, 8, 9}},
		{"reorder by=4 nth=9", 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 9}},
		{"reorder by=4 nth=9", 101 * time.Millisecond, []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 8}},
		{"reorder by=4 most=5us nth=9", 6 * time.Microsecond, []int{0, 1, 2, 3, 4, 5, 6, 7, 9, 8}},
		{`reorder until="bth.psn == 7" nth=3`, 0, []int{0, 1, 3, 4, 5, 6, 7, 2, 8, 9}},
		{"swap nth=3", 0, []int{0, 1, 3, 2, 4, 5, 6, 7, 8, 9}},
		{"swap nth=1 when bth.psn in {2, 6}", 0, []int{0, 1, 6, 3, 4, 5, 2, 7, 8, 9}},
		{"swap count=1", 0, []int{1, 0, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"swap nth=10", time.Second, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"swap nth=1 most=4us when bth.psn in {2, 9}", 0, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"hold n=3 when bth.psn in {1, 4, 5, 8}", 0, []int{0, 2, 3, 1, 4, 5, 6, 7, 9}},
		{"hold n=3 order=reverse when bth.psn in {1, 4, 5, 8}", 0, []int{0, 2, 3, 5, 4, 1, 6, 7, 9}},
		{"hold n=3 keep=last when bth.psn in {1, 4, 5, 8}", 0, []int{0, 2, 3, 5, 6, 7, 9}},
		{"hold time=2500ns when bth.psn in {1, 2}", 0, []int{0, 3, 1, 2, 4, 5, 6, 7, 8, 9}},
		{"hold when bth.psn == 4", time.Hour, []int{0, 1, 2, 3, 5, 6, 7, 8, 9}},
		{"replay nth=4", 0, []int{0, 1, 2, 3, 2, 4, 5, 6, 7, 8, 9}},
		{"replay ago=3 n=2 nth=6", 0, []int{0, 1, 2, 3, 4, 5, 2, 3, 6, 7, 8, 9}},
		{"drop then replay ago=2 nth=5", 0, []int{0, 1, 2, 3, 2, 5, 6, 7, 8, 9}},
	} {
		if got := order(frames, through(t, frames, c.wait, c.rule)); !slices.Equal(got, c.want) {
			t.Errorf("%s, then %v:\n%v, want\n%v", c.rule, c.wait, got, c.want)
		}
	}
}

// TestFirstRuleDecides: a packet that one rule strikes is not seen by those behind it.
func TestFirstRuleDecides(t *testing.T) {
	frames := writes(10, 64)
	got := order(frames, through(t, frames, 0, "drop every=2", "duplicate every=2"))
	if want := []int{0, 2, 2, 4, 6, 6, 8}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestIncoming: rules on the way in, and slots that go round many times.
func TestIncoming(t *testing.T) {
	frames := writes(10, 64)
	r := newRig(t, rules(t, "duplicate n=2 nth=1 way=in", "reorder by=2 way=in when bth.psn == 5", "drop way=out", "delay time=1ms way=in when bth.psn == 7"))
	var slots [1]uint32
	for _, f := range frames {
		r.far.Take(slots[:])
		n := copy(r.far.Room(slots[0]), f)
		if err := r.far.Send([]port.Out{{Slot: slots[0], Len: int32(n)}}); err != nil {
			t.Fatal(err)
		}
	}
	got := order(frames, drain(t, r.port))
	if want := []int{0, 0, 0, 1, 2, 3, 4, 6, 8, 5, 9}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	r.now += 1e6
	if got := order(frames, drain(t, r.port)); !slices.Equal(got, []int{7}) {
		t.Errorf("a millisecond later %v", got)
	}
}

// TestMarks: what the sender says of round and message decides, and a watch finds it out where it says nothing.
func TestMarks(t *testing.T) {
	frames := writes(4, 64)
	r := newRig(t, rules(t, "drop when flow.psn_offset == 2 && flow.round < 2"))
	var got [][]byte
	for round := range uint16(4) {
		for i, f := range frames {
			m := flows.Mark{Bits: flows.MarkRequest | flows.MarkPSN | flows.MarkMessage, Conn: 1, PSNOffset: uint32(i), Message: uint32(i), Round: round}
			r.send(f, &m)
			got = append(got, r.arrived()...)
		}
	}
	if o, want := order(frames, got), []int{0, 1, 3, 0, 1, 3, 0, 1, 2, 3, 0, 1, 2, 3}; !slices.Equal(o, want) {
		t.Errorf("with marks %v, want %v", o, want)
	}
}

// TestWatchedRounds: where no sender says it, tracking finds out which round of which message a packet is. A bridge sees this:
// the third message is lost until its third round, and asked for each time.
func TestWatchedRounds(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	x.B.Answer(x.A.Write(64))
	x.B.Answer(x.A.Write(64))
	lost := x.A.Write(64)
	x.A.Write(64)
	for range 3 {
		x.B.NAK(2, dissect.NAKSequence)
		lost.ResendFrom(0)
	}
	x.B.Answer(lost)
	for _, c := range []struct {
		rule string
		want []bool // of the rounds of PSN 2, whether it is lost
	}{
		{"drop when flow.psn_offset == 2 && flow.round < 2 && flow.request", []bool{true, true, false, false}},
		{"drop when flow.round == 1 && flow.request", []bool{false, true, false, false}},
		{"drop when msg.index == 2 && flow.request && flow.direction == a_to_b", []bool{true, true, true, true}},
		{"drop when msg.index == 2 && flow.direction == b_to_a && flow.request", []bool{false, false, false, false}},
	} {
		lanes := rules(t, c.rule).Start(4200, 0)
		var got []bool
		for _, f := range x.Frames() {
			p := decode(f.Data)
			way := Out
			if p.Src == dissect.AddrFrom(x.B.Addr) {
				way = In
			}
			passes := lanes[way].Look(f.Time, f.Data, nil)
			switch {
			case way == Out && p.PSN == 2 && p.Opcode == dissect.OpRCWriteOnly:
				got = append(got, !passes)
			case !passes:
				t.Errorf("%s: %v %v PSN %d is lost", c.rule, way, p.Opcode, p.PSN)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.rule, got, c.want)
		}
	}
}

// TestSeedDecides: the same seed gives the same bytes, another seed others.
func TestSeedDecides(t *testing.T) {
	frames := writes(1000, 64)
	run := func(seed uint64) (out [][]byte) {
		s := rules(t, "drop probability=10%", "corrupt n=3 probability=0.2", "set bth.psn=random probability=0.1", "delay time=3us probability=0.2")
		s.Seed = seed
		r := newRig(t, s)
		for _, f := range frames {
			r.send(f, nil)
			out = append(out, r.arrived()...)
			r.now += 1000
		}
		return out
	}
	first, second, other := run(3), run(3), run(4)
	if !slices.EqualFunc(first, second, func(a, b []byte) bool { return slices.Equal(a, b) }) {
		t.Error("the same seed gave other packets")
	}
	if slices.EqualFunc(first, other, func(a, b []byte) bool { return slices.Equal(a, b) }) {
		t.Error("another seed gave the same packets")
	}
	if n := len(first); n < 850 || n > 950 {
		t.Errorf("%d of 1000 packets arrived where one of ten is lost", n)
	}
}

// TestChance: over many seeds, rules strike as often as they should, from the first packet on.
func TestChance(t *testing.T) {
	frame := writes(1, 8)[0]
	const seeds, packets = 400, 200
	struck, first := 0, 0
	for seed := range uint64(seeds) {
		s := rules(t, "drop probability=2%")
		s.Seed = seed
		l := s.Start(200, 0)[Out]
		for n := range packets {
			if !l.Look(0, frame, nil) {
				struck++
				if n == 0 {
					first++
				}
			}
		}
	}
	// 1600 and 8 are expected; these are more than five deviations away.
	if struck < 1380 || struck > 1820 || first == 0 || first > 25 {
		t.Errorf("%d of %d packets were struck, and %d of %d first ones, at 2 %%", struck, seeds*packets, first, seeds)
	}
}

// TestCounts adds up.
func TestCounts(t *testing.T) {
	r := newRig(t, rules(t, "drop every=3 when bth", "set reth.va=1 when bth", "set aeth.msn=1 when bth"))
	for _, f := range writes(9, 8) {
		r.send(f, nil)
	}
	text := ""
	for _, c := range r.port.Counts() {
		text += fmt.Sprintf("%s %v %d %d %d, ", c.Rule.Name, c.Way, c.Matched, c.Struck, c.Failed)
	}
	if want := "drop out 9 3 0, set out 6 6 0, set out 0 0 0, drop in 0 0 0, set in 0 0 0, set in 0 0 0, "; text != want {
		t.Errorf("%s\nwant\n%s", text, want)
	}
	r = newRig(t, rules(t, "set aeth.msn=1"))
	for _, f := range writes(2, 8) {
		r.send(f, nil)
	}
	if c := r.port.Counts()[0]; c.Matched != 2 || c.Struck != 0 || c.Failed != 2 {
		t.Errorf("a field that is not there: %+v", c)
	}
}

// TestLittleMemory: with few slots, a rule that sends much holds the sender back, and loses nothing.
func TestLittleMemory(t *testing.T) {
	frames := writes(500, 64)
	r := newRig(t, rules(t, "duplicate n=5"))
	sent, got := 0, 0
	slots := make([]uint32, 64)
	for sent < len(frames) || got < 6*len(frames) {
		n := r.port.Take(slots[:min(64, len(frames)-sent)])
		out := make([]port.Out, n)
		for i := range n {
			out[i] = port.Out{Slot: slots[i], Len: int32(copy(r.port.Room(slots[i]), frames[sent+i]))}
		}
		if err := r.port.Send(out); err != nil {
			t.Fatal(err)
		}
		sent += n
		for _, f := range r.arrived() {
			if !slices.Equal(f, frames[got/6]) {
				t.Fatalf("frame %d is not a copy of %d", got, got/6)
			}
			got++
		}
		if err := r.port.Flush(); err != nil {
			t.Fatal(err)
		}
	}
}
