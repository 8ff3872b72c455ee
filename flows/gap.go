package flows

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// gap is a run of request PSNs that later ones passed by.
type gap struct {
	from, to dissect.PSN // to is not part of it
	time     int64
	frame    uint64
	naked    bool // its responder asked for it
	acked    bool // its responder acknowledged beyond it
	again    bool // seen once, missing when it was sent again
}

// maxGaps bounds the gaps remembered per stream; beyond it the oldest is
// settled by what is known.
const maxGaps = 64

// openGap notes that the PSNs from the expected one up to p's are missing.
func (t *Tracker) openGap(c *conn, d Direction, from dissect.PSN, p *dissect.Packet, m *Mark) {
	x := t.rare(c)
	m.Bits |= MarkAfterGap
	x.count(d).OutOfOrder++
	g := gap{from: from, to: p.PSN, time: p.Time, frame: p.Number}
	x.gaps[d] = append(x.gaps[d], g)
	t.boundGaps(c, d)
	t.report(findPSNGap, c, d, p, m, uint64(p.PSN.Sub(from)), uint64(from))
}

// boundGaps settles the oldest gaps where there are too many.
func (t *Tracker) boundGaps(c *conn, d Direction) {
	x := t.rare(c)
	for len(x.gaps[d]) > maxGaps {
		g := x.gaps[d][0]
		x.gaps[d] = slices.Delete(x.gaps[d], 0, 1)
		t.settleGap(c, d, &g)
	}
}

// gapBefore reports whether PSNs before p are missing.
func (t *Tracker) gapBefore(c *conn, d Direction, p dissect.PSN) bool {
	x := t.extrasOf(c)
	return x != nil && len(x.gaps[d]) > 0 && x.gaps[d][0].from.Before(p)
}

// gapAt returns the gap that holds a PSN.
func (t *Tracker) gapAt(c *conn, d Direction, p dissect.PSN) *gap {
	x := t.extrasOf(c)
	if x == nil {
		return nil
	}
	for i := range x.gaps[d] {
		if g := &x.gaps[d][i]; !p.Before(g.from) && p.Before(g.to) {
			return g
		}
	}
	return nil
}

// fillGap takes a PSN out of the gaps; false where it was in none.
func (t *Tracker) fillGap(c *conn, d Direction, p dissect.PSN) bool {
	g := t.gapAt(c, d, p)
	if g == nil {
		return false
	}
	x := t.extras[c.extras]
	rest := *g
	rest.from = p.Add(1)
	g.to = p
	at := 0
	for i := range x.gaps[d] {
		if &x.gaps[d][i] == g {
			at = i
		}
	}
	if rest.from != rest.to {
		x.gaps[d] = slices.Insert(x.gaps[d], at+1, rest)
	}
	if x.gaps[d][at].from == x.gaps[d][at].to {
		x.gaps[d] = slices.Delete(x.gaps[d], at, at+1)
	}
	t.boundGaps(c, d)
	return true
}

// settleGap says what became of packets that never came.
func (t *Tracker) settleGap(c *conn, d Direction, g *gap) {
	if g.again {
		return // what was lost of a resend is counted when the hole shows
	}
	n := uint64(g.to.Sub(g.from))
	s := t.rare(c).count(d)
	switch {
	case g.acked && !g.naked:
		s.CaptureLost += n
		t.reportAt(findCaptureLoss, c, d, g.frame, g.time, n, uint64(g.from))
	case c.transport == dissect.UC, c.transport == dissect.UD:
		s.LostBeforeTap += n
		t.reportAt(findLostForGood, c, d, g.frame, g.time, uint64(g.from), n)
		t.addArg(findLostForGood, c, d, 1, n)
	case g.naked:
		s.LostBeforeTap += n
	default:
		s.Ambiguous += n
	}
}

// fillSpan takes the PSNs of a READ's answers out of the gaps: they were never
// requests.
func (t *Tracker) fillSpan(c *conn, d Direction, first dissect.PSN, n int) {
	if n < 2 || t.extrasOf(c) == nil {
		return
	}
	x := t.rare(c)
	from, to := first.Add(1), first.Add(n)
	kept := make([]gap, 0, len(x.gaps[d])+1)
	for _, g := range x.gaps[d] {
		before, behind := g, g // what of it lies outside
		if before.to.After(from) {
			before.to = from
		}
		if behind.from.Before(to) {
			behind.from = to
		}
		if before.from.Before(before.to) {
			kept = append(kept, before)
		}
		if behind.from.Before(behind.to) {
			kept = append(kept, behind)
		}
	}
	x.gaps[d] = kept
	t.boundGaps(c, d)
}
