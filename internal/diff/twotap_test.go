package diff

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/testkit"
)

func side(path string) Side {
	return Side{Name: filepath.Base(path), Open: func() (captures.Source, error) { return captures.Open(path) }}
}

// struck is how the fault log and a comparison name a packet alike.
func struck(kind string, a, b []int) string { return fmt.Sprintf("%s a %v b %v", kind, a, b) }

var doneKinds = map[string]Kind{"drop": Lost, "duplicate": Copied, "delay": Overtaken, "corrupt": Changed, "truncate": Changed, "ce": Marked}

func frames(first uint64, more []uint64) []int {
	if first == 0 {
		return nil
	}
	out := []int{int(first)}
	for _, f := range more {
		out = append(out, int(f))
	}
	slices.Sort(out)
	return out
}

func logged(pair *testkit.Pair) (all []string) {
	for i := range pair.Faults.Log {
		e := &pair.Faults.Log[i]
		all = append(all, struck(doneKinds[e.Done].String(), e.FrameInA, e.FrameInB))
	}
	slices.Sort(all)
	return all
}

func named(r *Result) (all []string) {
	for i := range r.Packets {
		p := &r.Packets[i]
		var more [2][]uint64
		if p.Kind == Copied {
			last := 1
			if r.Streams[p.Stream].First == 'b' {
				last = 0
			}
			more[last] = p.Copies
		}
		all = append(all, struck(p.Kind.String(), frames(p.Frame[0], more[0]), frames(p.Frame[1], more[1])))
	}
	slices.Sort(all)
	return all
}

func TestTwoTaps(t *testing.T) {
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		for _, tap := range []string{"b", "b_shifted"} {
			t.Run(pair.Pair+"/"+tap, func(t *testing.T) {
				dir := testkit.TwoTap(t)
				r, err := Packets(context.Background(), side(filepath.Join(dir, pair.Pair+"_tap_a.pcap")), side(filepath.Join(dir, pair.Pair+"_tap_"+tap+".pcap")), Options{})
				if err != nil {
					t.Fatal(err)
				}
				want, got := logged(&pair), named(r)
				for _, w := range want {
					if !slices.Contains(got, w) {
						t.Errorf("not named: %s", w)
					}
				}
				for _, g := range got {
					if !slices.Contains(want, g) {
						t.Errorf("named, and not in the log: %s", g)
					}
				}
				wantClock(t, &pair, tap, r)
				wantChanges(t, &pair, r)
			})
		}
	}
}

// wantClock compares the estimate with what was done to the second clock, at
// both ends of the capture.
func wantClock(t *testing.T, pair *testkit.Pair, tap string, r *Result) {
	t.Helper()
	c, s := &r.Clock, &pair.Clock.TapBShifted
	offset, drift := 0.0, 0.0
	whole, part, _ := strings.Cut(s.Reference, ".")
	sec, _ := strconv.ParseInt(whole, 10, 64)
	nano, _ := strconv.ParseInt(part, 10, 64)
	reference := sec*1e9 + nano
	if tap == "b_shifted" {
		offset, drift = s.OffsetS*1e9, s.DriftPPM
	}
	if !c.Known || !c.Bounded || c.Bent != 0 {
		t.Errorf("clock: %+v", c)
	}
	if off := math.Abs(c.Drift - drift); off > c.DriftErr {
		t.Errorf("drift %.3f ± %.3f ppm, it is %.3f", c.Drift, c.DriftErr, drift)
	}
	for _, at := range []int64{r.A.First, c.Reference, r.A.Last} {
		is := offset + drift*1e-6*float64(at-reference)
		if off := math.Abs(c.at(at) - is); off > c.ErrorAt(at)+1 { // stamps are whole nanoseconds
			t.Errorf("offset %.0f ± %.0f ns, it is %.0f", c.at(at), c.ErrorAt(at), is)
		}
	}
	t.Logf("offset %.0f ± %.0f ns, drift %.3f ± %.3f ppm", c.Offset, c.Error, c.Drift, c.DriftErr)
}

// wantChanges compares what was damaged, bit by bit.
func wantChanges(t *testing.T, pair *testkit.Pair, r *Result) {
	t.Helper()
	for i := range pair.Faults.Log {
		e := &pair.Faults.Log[i]
		if e.Done != "corrupt" && e.Done != "truncate" && e.Done != "ce" {
			continue
		}
		at := slices.IndexFunc(r.Packets, func(p Packet) bool { return p.Frame[0] == uint64(e.FrameInA[0]) && p.Kind == doneKinds[e.Done] })
		if at < 0 {
			continue // said before
		}
		p := &r.Packets[at]
		if uint32(p.PSN) != e.PSN || int(p.Opcode) != e.OpcodeByte {
			t.Errorf("frame %d: %v, PSN %#x; it was %s, %#x", p.Frame[0], p.Opcode, p.PSN, e.Opcode, e.PSN)
		}
		switch e.Done {
		case "ce":
			if len(p.Changes) != 1 || p.Changes[0].After != 3 || p.Changes[0].Before != uint64(*e.TOSBefore&3) {
				t.Errorf("frame %d: %+v", p.Frame[0], p.Changes)
			}
		case "truncate":
			if p.Missing != e.FrameLen-e.SentLen || len(p.Changes) != 0 {
				t.Errorf("frame %d: %d bytes cut off, %+v; %d were", p.Frame[0], p.Missing, p.Changes, e.FrameLen-e.SentLen)
			}
		case "corrupt":
			want := Bit{e.ChangedFrameByte.FrameByte, e.ChangedFrameByte.Bit}
			if len(p.Changes) != 1 || len(p.Changes[0].Bits) != 1 || p.Changes[0].Bits[0] != want {
				t.Errorf("frame %d: %+v, it was %+v (%s)", p.Frame[0], p.Changes, want, e.ChangedFrameByte.Part)
				continue
			}
			if (e.ChangedFrameByte.Part == "payload") != (p.Changes[0].Field == "payload") {
				t.Errorf("frame %d: %s, it was in the %s", p.Frame[0], p.Changes[0].Field, e.ChangedFrameByte.Part)
			}
			if e.ChangedFrameByte.Part == "payload" {
				if before, after := fmt.Sprintf("%#02x", p.Changes[0].Before), fmt.Sprintf("%#02x", p.Changes[0].After); before != e.ChangedFrameByte.Before || after != e.ChangedFrameByte.After {
					t.Errorf("frame %d: %s → %s, it was %+v", p.Frame[0], before, after, *e.ChangedFrameByte)
				}
			}
			sent, came := p.BadA, p.BadB
			if e.Direction == "b>a" {
				sent, came = came, sent
			}
			if sent || !came {
				t.Errorf("frame %d: ICRC wrong where it was sent %v, where it came %v", p.Frame[0], sent, came)
			}
		}
	}
}
