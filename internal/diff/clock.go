package diff

import (
	"cmp"
	"math"
	"slices"
)

// maxDrift is how far two clocks may drift apart, in parts per million: ten
// times what a bad crystal does. It bounds the estimate where the captures are
// too short to.
const maxDrift = 1000

// Clock is how b's clock differs from a's: a moment that a calls t, b calls
// t + Offset + Drift × (t - Reference).
type Clock struct {
	Known     bool    // times of common packets were compared
	Bounded   bool    // common packets went both ways, so that the errors are true bounds
	Reference int64   // of a's clock, the middle of the common packets
	Offset    float64 // ns
	Error     float64 // of it, ns
	Drift     float64 // parts per million
	DriftErr  float64
	Bent      float64 // ns that no straight line can explain: a clock was set, or stamps are imprecise
	Samples   int

	base         float64 // of both sets below
	upper, lower []point
	slack        float64
	least, most  float64 // drifts that are possible, ns per s
}

// point is one common packet: a's time of it in seconds from the reference, and
// how much later b's clock says it was, in ns.
type point struct{ t, d float64 }

// at is b's clock minus a's at a moment of a's clock.
func (c *Clock) at(t int64) float64 {
	return c.Offset + c.Drift*1e-6*float64(t-c.Reference)
}

// toA turns a time of b's clock into one of a's.
func (c *Clock) toA(t int64) int64 {
	guess := t - int64(c.Offset)
	return t - int64(math.Round(c.at(guess)))
}

// ErrorAt is how far at may be off at a moment, in ns.
func (c *Clock) ErrorAt(t int64) float64 {
	if !c.Known || len(c.upper) == 0 {
		return 0
	}
	s := float64(t-c.Reference) / 1e9
	hi := peak(func(d float64) float64 { return c.above(d, s) }, c.least, c.most)
	lo := -peak(func(d float64) float64 { return -c.below(d, s) }, c.least, c.most)
	mid := c.at(t) - c.base
	return max(hi-mid, mid-lo, 0) + c.slack
}

// above is the greatest value at t of a line of slope d that is below all upper
// points; below is the least of one above all lower points.
func (c *Clock) above(d, t float64) float64 {
	v := math.Inf(1)
	for _, p := range c.upper {
		v = min(v, p.d+d*(t-p.t))
	}
	return v
}

func (c *Clock) below(d, t float64) float64 {
	v := math.Inf(-1)
	for _, p := range c.lower {
		v = max(v, p.d+d*(t-p.t))
	}
	return v
}

// gap is how much room lines of slope d have; below 0 there is none.
func (c *Clock) gap(d float64) float64 { return c.above(d, 0) - c.below(d, 0) }

// estimate fits the clock. Packets that went from a to b arrive later than they
// were sent, so that the line must run below the upper points; those that went
// from b to a make the lower ones. Points whose direction nobody knows are both.
func estimate(upper, lower []point, reference int64) Clock {
	c := Clock{Reference: reference, Samples: len(upper) + len(lower), Known: true, Bounded: len(upper) > 0 && len(lower) > 0}
	if !c.Bounded {
		both := append(slices.Clone(upper), lower...)
		upper, lower = both, both
	}
	c.base = upper[0].d
	c.upper, c.lower = hull(upper, c.base, 1), hull(lower, c.base, -1)
	const limit = maxDrift * 1e3 // ns per s
	best := argmax(c.gap, -limit, limit)
	room := c.gap(best)
	if room < 0 { // no line fits: allow all points to be off by so much
		c.slack, room = -room/2, 0
		c.Bent = c.slack
		if !c.Bounded {
			c.Bent = 0 // delays vary, that is all
		}
	}
	need := -2 * c.slack
	tolerance := 1e-9 * (1 + math.Abs(need))
	c.least = edge(func(d float64) bool { return c.gap(d) >= need-tolerance }, best, -limit)
	c.most = edge(func(d float64) bool { return c.gap(d) >= need-tolerance }, best, limit)
	d := (c.least + c.most) / 2
	c.Drift, c.DriftErr = d/1e3, (c.most-c.least)/2e3
	c.Offset = c.base + (c.above(d, 0)+c.below(d, 0))/2
	c.Error = c.ErrorAt(reference)
	return c
}

// hull keeps the points that a line below all (side 1) or above all (-1) can
// touch.
func hull(points []point, base, side float64) []point {
	sorted := slices.Clone(points)
	for i := range sorted {
		sorted[i].d -= base
	}
	slices.SortFunc(sorted, func(x, y point) int { return cmp.Or(cmp.Compare(x.t, y.t), cmp.Compare(side*x.d, side*y.d)) })
	var h []point
	for _, p := range sorted {
		if n := len(h); n > 0 && h[n-1].t == p.t {
			continue
		}
		for len(h) > 1 {
			o, q := h[len(h)-2], h[len(h)-1]
			if side*((q.t-o.t)*(p.d-o.d)-(q.d-o.d)*(p.t-o.t)) > 0 {
				break
			}
			h = h[:len(h)-1]
		}
		h = append(h, p)
	}
	return h
}

// argmax finds the top of a concave function.
func argmax(f func(float64) float64, lo, hi float64) float64 {
	for range 120 {
		a, b := lo+(hi-lo)/3, hi-(hi-lo)/3
		if f(a) < f(b) {
			lo = a
		} else {
			hi = b
		}
	}
	return (lo + hi) / 2
}

// peak is the greatest value of a concave function in a range.
func peak(f func(float64) float64, lo, hi float64) float64 {
	return max(f(argmax(f, lo, hi)), f(lo), f(hi))
}

// edge is the farthest point towards end at which ok still holds.
func edge(ok func(float64) bool, from, end float64) float64 {
	if ok(end) {
		return end
	}
	for range 80 {
		mid := (from + end) / 2
		if ok(mid) {
			from = mid
		} else {
			end = mid
		}
	}
	return from
}
