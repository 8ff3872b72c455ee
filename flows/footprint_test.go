package flows_test

import (
	"runtime"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/traffic"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestIdleConnectionIsSmall holds a healthy connection that rests to the budget of 400 bytes all in: index, both streams,
// counters. Those of operations beyond a stream's first come on first need, and take 24 bytes each. The pairs were inferred; the
// connections are not among the first, which have histograms and details.
func TestIdleConnectionIsSmall(t *testing.T) {
	for _, c := range []struct {
		name   string
		writes bool
		budget float64
	}{
		{"one operation", true, 400},
		{"three operations of one requester", false, 400 + 2*(24+1)},
	} {
		t.Run(c.name, func(t *testing.T) {
			idleConnection(t, traffic.Config{Payload: 64, WritesOnly: c.writes}, c.budget)
		})
	}
}

func idleConnection(t *testing.T, c traffic.Config, budget float64) {
	testkit.SkipUnderRace(t)
	const few, many = 40_000, 140_000
	tracker := flows.New(flows.Options{})
	c.Connections = many
	g := traffic.New(c)
	var dec dissect.Decoder
	b := flows.Batch{Packets: make([]dissect.Packet, 1), Data: make([][]byte, 1), Marks: make([]flows.Mark, 1)}
	number := uint64(0)
	establish := func(connections int) (heap uint64) {
		for number < uint64(g.Opening()*connections) {
			frame, at := g.Establish()
			number++
			p := &b.Packets[0]
			p.Number, p.Time = number, at
			dec.Decode(dissect.LinkEthernet, frame, len(frame), p)
			b.Data[0] = frame
			tracker.Track(&b)
		}
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := establish(few)
	each := float64(establish(many)-before) / (many - few)
	t.Logf("%.0f bytes", each)
	if each > budget {
		t.Errorf("an idle connection takes %.0f bytes, the budget is %.0f", each, budget)
	}
	if n := len(tracker.Snapshot().Connections); n != many {
		t.Errorf("%d connections of %d", n, many)
	}
}
