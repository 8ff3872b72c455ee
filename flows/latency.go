package flows

import (
	"math/bits"
	"time"
)

func duration(ns int64) time.Duration { return time.Duration(ns) }

// latency is a histogram of times in nanoseconds: eight buckets an octave, so
// that a percentile is right within one part in sixteen.
type latency struct {
	buckets [64 * 8]uint32
	count   uint64
	upper   uint64 // how many are upper bounds
	min     int64
	max     int64
	rtt     int64 // shortest time from a request to its answer, as this tap sees it; 0 = none
	turn    int64 // shortest time from an answer to the request that waited for it; 0 = none
}

func bucketOf(ns int64) int {
	v := uint64(max(ns, 0))
	if v < 8 {
		return int(v)
	}
	exp := bits.Len64(v) - 4
	return exp<<3 + int(v>>exp)
}

// bucketMiddle is the value in the middle of a bucket.
func bucketMiddle(b int) int64 {
	if b < 16 {
		return int64(b)
	}
	exp := b>>3 - 1
	lo := int64(b&7|8) << exp
	return lo + int64(1)<<exp/2
}

func (l *latency) add(ns int64, upper bool) {
	if l.count == 0 || ns < l.min {
		l.min = ns
	}
	l.max = max(l.max, ns)
	l.count++
	if upper {
		l.upper++
	}
	l.buckets[bucketOf(ns)]++
}

func (l *latency) percentile(q float64) int64 {
	rank := uint64(q*float64(l.count) + 0.5)
	var n uint64
	for b, k := range l.buckets {
		if n += uint64(k); n >= max(rank, 1) {
			return min(max(bucketMiddle(b), l.min), l.max)
		}
	}
	return l.max
}

func (l *latency) summary() Latency {
	if l == nil || l.count == 0 {
		return Latency{}
	}
	return Latency{Count: l.count, Coalesced: l.upper, Min: l.min, P50: l.percentile(0.50), P99: l.percentile(0.99), Max: l.max}
}

// maxHistograms bounds the histograms of a tracker; connections beyond go
// without percentiles.
const maxHistograms = 16 << 10

func (t *Tracker) histogram(c *conn, d Direction) *latency {
	if x := t.extrasOf(c); x != nil && x.lat[d] != nil {
		return x.lat[d]
	}
	if t.histograms >= maxHistograms {
		return nil
	}
	t.histograms++
	l := &latency{}
	t.rare(c).lat[d] = l
	return l
}

func (t *Tracker) recordLatency(c *conn, d Direction, ns int64, upper bool) {
	if l := t.histogram(c, d); l != nil && ns >= 0 {
		l.add(ns, upper)
	}
}

// roundTrip takes a time from a request to its answer.
func (t *Tracker) roundTrip(c *conn, d Direction, ns int64) {
	if l := t.histogram(c, d); l != nil && ns > 0 && (l.rtt == 0 || ns < l.rtt) {
		l.rtt = ns
	}
}

// turnRound takes a time from an answer to the request that waited for it.
func (t *Tracker) turnRound(c *conn, d Direction, ns int64) {
	if l := t.histogram(c, d); l != nil && ns > 0 && (l.turn == 0 || ns < l.turn) {
		l.turn = ns
	}
}

// tapRatio is how much longer the way to one end must be for the tap to be
// called near the other.
const tapRatio = 16

// tap estimates where the capture was taken: near the requester where requests
// follow answers much sooner than answers follow requests, and the reverse.
func (t *Tracker) tap(c *conn) Tap {
	x := t.extrasOf(c)
	if x == nil {
		return TapUnknown
	}
	var toA, toB int64 // shortest times to either end and back
	shortest := func(v *int64, ns int64) {
		if ns > 0 && (*v == 0 || ns < *v) {
			*v = ns
		}
	}
	if l := x.lat[AToB]; l != nil {
		shortest(&toB, l.rtt)
		shortest(&toA, l.turn)
	}
	if l := x.lat[BToA]; l != nil {
		shortest(&toA, l.rtt)
		shortest(&toB, l.turn)
	}
	switch {
	case toA == 0 || toB == 0:
		return TapUnknown
	case toA*tapRatio < toB:
		return TapNearA
	case toB*tapRatio < toA:
		return TapNearB
	}
	return TapBetween
}
