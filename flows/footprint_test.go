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
// counters of one operation. Each further operation of a stream has 24 bytes more; this traffic has three, all of one
// requester. Its pair was inferred; it is not among the first, which have histograms and details.
func TestIdleConnectionIsSmall(t *testing.T) {
	testkit.SkipUnderRace(t)
	const few, many = 40_000, 140_000
	tracker := flows.New(flows.Options{})
	g := traffic.New(traffic.Config{Connections: many, Payload: 64})
	var dec dissect.Decoder
	b := flows.Batch{Packets: make([]dissect.Packet, 1), Data: make([][]byte, 1), Marks: make([]flows.Mark, 1)}
	number := uint64(0)
	establish := func(connections int) (heap uint64) {
		for number < uint64(6*connections) {
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
	if budget := 400.0 + 2*24; each > budget {
		t.Errorf("an idle connection takes %.0f bytes, the budget is %.0f", each, budget)
	}
	if n := len(tracker.Snapshot().Connections); n != many {
		t.Errorf("%d connections of %d", n, many)
	}
}
