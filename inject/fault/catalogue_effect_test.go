package fault

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// everything is packets of all kinds: requests, answers and refusals of RC, UC and UD, over IPv4 and IPv6.
func everything() (frames []testkit.Frame) {
	x := testkit.NewExchange(testkit.ExchangeOptions{PSNA: 0xFFFFF0})
	x.Connect()
	for range 40 {
		for _, size := range []int{0, 61, 64, 1024, 4096} {
			x.B.Answer(x.A.Write(size))
			x.B.Answer(x.A.Write(size, testkit.Imm(1)))
			x.B.Answer(x.A.Send(size))
			x.B.Answer(x.A.Send(size, testkit.Imm(1)))
			x.B.Answer(x.A.Send(size, testkit.Invalidate(7)))
			if size > 0 {
				x.B.Answer(x.A.Read(size))
			}
		}
		x.B.Answer(x.A.FetchAdd(1))
		x.B.Answer(x.A.CompareSwap(1, 2))
	}
	frames = x.Frames()
	for _, o := range []testkit.ExchangeOptions{{PSNA: 0xFFFFFE}, {Transport: dissect.UC}, {Transport: dissect.UD}, {IPv6: true}} {
		y := testkit.NewExchange(o)
		for range 10 {
			y.A.Send(64)
			if o.Transport != dissect.UD {
				y.A.Write(64)
			}
		}
		frames = append(frames, y.Frames()...)
	}
	return frames
}

// TestEveryFaultHappens: the rule of each fault of the list finds packets to strike, and can do to them what it says.
func TestEveryFaultHappens(t *testing.T) {
	frames := everything()
	for _, f := range Catalogue() {
		if f.Rule == "" {
			continue
		}
		lanes := rules(t, f.ID+" way=out").Start(9018, 0)
		l := lanes[Out]
		out, changed := 0, false
		for _, in := range frames {
			passes := l.Look(in.Time, in.Data, nil)
			if passes {
				out++
			}
			out += len(l.Before) + len(l.Behind)
			changed = changed || !passes || len(l.Before)+len(l.Behind) > 0
		}
		back := len(lanes[In].mailbox)
		l.Publish()
		c := l.Counts()[0]
		if c.Struck == 0 || c.Failed > 0 || !changed && back == 0 {
			t.Errorf("%s: %s: of %d matches %d were struck and %d could not be; %d frames came out of %d", f.ID, f.Rule, c.Matched, c.Struck, c.Failed, out, len(frames))
		}
	}
}
