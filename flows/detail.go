package flows

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Detail is what only a bounded number of connections have, those that were
// seen first (Options.MaxDetails): how they went over time, where their time
// went, which memory they used.
type Detail struct {
	Series   Series          // with Options.Series
	Budget   [2]Budget       // by direction of the requests
	Memory   [2]MemoryMap    // by direction of the requests: the responder's memory
	Reaction [2]RateReaction // by direction of the data that CNPs slow down
}

// RateReaction is how fast a sender was before and after CNPs that told it to
// slow down: means over whole windows of 100 µs, the last before a CNP and the
// first behind it. CNPs that come while one is being measured do not count.
type RateReaction struct {
	CNPs          uint64
	Before, After float64 // wire bits per second
}

// detail is what Detail is made from.
type detail struct {
	series *series // nil = not asked for
	budget [2]budget
	memory [2]memoryMap
	rate   [2]rateMeter
}

// defaultDetails bounds the connections that have details.
const defaultDetails = 256

// follow gives a connection its details, if there are some left.
func (t *Tracker) follow(c *conn, at int64) {
	if c.flags&(connProvisional|connDetail) != 0 || t.details >= t.opt.MaxDetails {
		return
	}
	t.details++
	if t.share != nil {
		t.share.details = append(t.share.details, granted[*conn]{t.share.at, c})
	}
	c.flags |= connDetail
	g := &detail{}
	if t.opt.Series {
		g.series = newSeries(at)
	}
	t.rare(c).detail = g
}

// forgetDetails gives back what a connection has of the bounded kinds.
func (t *Tracker) forgetDetails(x *extras) {
	if x.detail != nil {
		t.details--
	}
	for _, l := range x.lat {
		if l != nil {
			t.histograms--
			if l.fine != nil {
				t.fine--
			}
		}
	}
}

// detailed follows a packet of a connection that has details, once all else is
// done with it.
func (t *Tracker) detailed(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	x := t.extras[c.extras]
	g := x.detail
	g.rate[d].add(p.Time, uint64(p.WireLen))
	if g.series != nil {
		g.series.packet(&c.half[d], d, p, m)
	}
	switch {
	case m.Bits&MarkRequest != 0:
		if m.Bits&markAgain == 0 {
			if op := p.Op(); op.Family == dissect.Write && op.Has(dissect.LayerRETH) {
				t.overlapping(c, d, &g.memory[d], p, m)
			}
		}
		t.spend(c, d, x, p, m)
	case m.Bits&MarkResponse != 0:
		t.spend(c, d.Reverse(), x, p, m)
	}
}

// settled takes a message that has ended.
func (t *Tracker) settled(c *conn, d Direction, f *inflight) {
	if t.shadow != nil {
		t.shadow.settled(t, c, d, f)
	}
	if c.flags&connDetail == 0 {
		return
	}
	g := t.extras[c.extras].detail
	if g.series != nil {
		g.series.settled(c, d, f)
	}
	g.memory[d].settled(f)
}

// detailRecord copies a connection's details.
func (t *Tracker) detailRecord(c *conn) *Detail {
	if c.flags&connDetail == 0 {
		return nil
	}
	x := t.extras[c.extras]
	r := &Detail{}
	if s := x.detail.series; s != nil {
		r.Series = s.record()
	}
	for d := range r.Budget {
		r.Budget[d] = x.detail.budget[d].record()
		r.Memory[d] = x.detail.memory[d].record()
		r.Reaction[d] = x.detail.rate[d].record()
	}
	return r
}

// notified notes that the sender in direction d was told to slow down.
func (g *detail) notified(d Direction, at int64) {
	g.budget[d].lastCNP = at
	g.rate[d].notified(at)
}

// rateMeter counts bytes in windows, to tell a sender's rate before and after
// a CNP.
type rateMeter struct {
	window int64  // number of the current window
	end    int64  // its end
	bytes  uint64 // in it
	prev   uint64 // in the one before it
	// A CNP whose effect is not measured yet: the window to measure, and the
	// bytes of the last whole window before the CNP.
	pending   int64
	before    uint64
	reactions uint64
	sumBefore uint64
	sumAfter  uint64
}

const (
	rateWindow = int64(100 * time.Microsecond)
	// A sender that stays silent for so many windows had nothing to send.
	rateSilence = 10
)

func (r *rateMeter) add(at int64, n uint64) {
	if at >= r.end {
		r.turn(at / rateWindow)
	}
	r.bytes += n
}

// turn begins another window.
func (r *rateMeter) turn(w int64) {
	if r.pending != 0 && w > r.pending {
		after := uint64(0)
		if r.window == r.pending {
			after = r.bytes
		}
		if w-r.pending <= rateSilence {
			r.reactions++
			r.sumBefore += r.before
			r.sumAfter += after
		}
		r.pending = 0
	}
	r.prev = 0
	if w == r.window+1 {
		r.prev = r.bytes
	}
	r.window, r.end, r.bytes = w, (w+1)*rateWindow, 0
}

func (r *rateMeter) notified(at int64) {
	w := at / rateWindow
	if at >= r.end {
		r.turn(w)
	}
	if r.pending == 0 && r.prev > 0 {
		r.pending, r.before = w+1, r.prev
	}
}

func (r *rateMeter) record() RateReaction {
	if r.reactions == 0 {
		return RateReaction{}
	}
	bps := func(sum uint64) float64 {
		return float64(sum) * 8 * float64(time.Second) / float64(rateWindow) / float64(r.reactions)
	}
	return RateReaction{CNPs: r.reactions, Before: bps(r.sumBefore), After: bps(r.sumAfter)}
}
