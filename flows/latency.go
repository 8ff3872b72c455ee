package flows

import (
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

func duration(ns int64) time.Duration { return time.Duration(ns) }

// latency is times in nanoseconds: of messages, and of round trips. Its coarse
// histogram is always there; the fine one only for a bounded number of streams.
//
// What a message touches lies together: histograms are spread over memory, and
// take several times at once.
type latency struct {
	recent    [8]int64 // times that the histograms do not have yet
	numRecent uint8
	count     uint64
	upper     uint64 // how many are upper bounds
	sum       int64
	min       int64
	max       int64
	rtt       int64 // shortest time from a request to its answer, as this tap sees it; 0 = none
	turn      int64 // shortest time from an answer to the request that waited for it; 0 = none
	rttMax    int64
	rttSum    int64
	rttCount  uint64
	coarse    coarse
	fine      *hdrhistogram.Histogram // nil = percentiles come from coarse
}

// coarse is a histogram of times with two buckets an octave, from 96 ns to
// 275 s: a value is right within one part in four.
type coarse [coarseBuckets]uint32

const (
	coarseBuckets = 64
	coarseShift   = 6 // the first octave begins at 1 << 6; its first half is one with all below
)

func bucketOf(ns int64) int {
	if ns < 1<<coarseShift {
		return 0
	}
	octave := bits.Len64(uint64(ns)) - 1
	b := (octave-coarseShift)<<1 + int(ns>>(octave-1)&1)
	return min(b, coarseBuckets-1)
}

// bucketFrom is the least value of a bucket.
func bucketFrom(b int) int64 {
	if b == 0 {
		return 0
	}
	octave := b>>1 + coarseShift
	return int64(2|b&1) << (octave - 1)
}

// quantile returns the middle of the bucket in which the q-th part of count
// values ends.
func quantile[C uint16 | uint32](buckets *[coarseBuckets]C, count uint64, q float64) int64 {
	rank := max(uint64(q*float64(count)+0.5), 1)
	var n uint64
	for b, k := range buckets {
		if n += uint64(k); n >= rank {
			from := bucketFrom(b)
			if b == coarseBuckets-1 {
				return from
			}
			return from + (bucketFrom(b+1)-from)/2
		}
	}
	return 0
}

// Fine histograms: from 1 ns to 64 s with two digits, 30 kB each.
const (
	fineMax    = 1<<36 - 1
	fineDigits = 2
)

func newFine() *hdrhistogram.Histogram { return hdrhistogram.New(1, fineMax, fineDigits) }

func (l *latency) add(ns int64, upper bool) {
	if l.count == 0 || ns < l.min {
		l.min = ns
	}
	l.max = max(l.max, ns)
	l.count++
	l.sum += ns
	if upper {
		l.upper++
	}
	l.recent[l.numRecent] = ns
	if l.numRecent++; int(l.numRecent) == len(l.recent) {
		l.flush()
	}
}

// flush gives the histograms what they do not have.
func (l *latency) flush() {
	for _, ns := range l.recent[:l.numRecent] {
		l.coarse[bucketOf(ns)]++
		if l.fine != nil {
			_ = l.fine.RecordValue(min(ns, fineMax)) // cannot fail: it is in range
		}
	}
	l.numRecent = 0
}

// percentiles returns the values below which so many percent of the times lie.
func (l *latency) percentiles(percent ...float64) []int64 {
	l.flush()
	var values []int64
	if l.fine != nil {
		values = l.fine.ValueAtPercentilesSlice(percent)
	} else {
		for _, p := range percent {
			values = append(values, quantile((*[coarseBuckets]uint32)(&l.coarse), l.count, p/100))
		}
	}
	for i := range values {
		values[i] = min(max(values[i], l.min), l.max)
	}
	return values
}

func (l *latency) summary() Latency {
	if l == nil || l.count == 0 {
		return Latency{}
	}
	p := l.percentiles(50, 90, 99, 99.9)
	return Latency{
		Count: l.count, Coalesced: l.upper, Min: l.min, Mean: l.sum / int64(l.count), Max: l.max,
		P50: p[0], P90: p[1], P99: p[2], P999: p[3],
		Coarse: l.fine == nil,
	}
}

func (l *latency) roundTrips() RTT {
	if l == nil || l.rttCount == 0 {
		return RTT{}
	}
	return RTT{Count: l.rttCount, Min: l.rtt, Mean: l.rttSum / int64(l.rttCount), Max: l.rttMax}
}

// histogram lists the buckets that hold something.
func (l *latency) histogram() (list []LatencyBucket) {
	if l == nil {
		return nil
	}
	l.flush()
	for b, n := range l.coarse {
		if n == 0 {
			continue
		}
		to := int64(0)
		if b < coarseBuckets-1 {
			to = bucketFrom(b + 1)
		}
		list = append(list, LatencyBucket{From: bucketFrom(b), To: to, Count: uint64(n)})
	}
	return list
}

// RTT is round trips measured in nanoseconds: from a request that was sent once
// to the answer that names it (its ACK, a READ's first response, an atomic's
// answer).
type RTT struct {
	Count          uint64
	Min, Mean, Max int64
}

// LatencyBucket is a part of a histogram of latencies, in nanoseconds: From ≤
// latency < To. The last bucket of all has To 0: no end.
type LatencyBucket struct {
	From, To int64
	Count    uint64
}

// maxHistograms bounds the histograms of a tracker, maxFine those with fine
// ones; connections beyond go without.
const (
	maxHistograms = 16 << 10
	maxFine       = 256
)

func (t *Tracker) histogram(c *conn, d Direction) *latency {
	if x := t.extrasOf(c); x != nil && x.lat[d] != nil {
		return x.lat[d]
	}
	if t.histograms >= maxHistograms {
		return nil
	}
	t.histograms++
	l := &latency{}
	if t.fine < maxFine && c.flags&connProvisional == 0 {
		t.fine++
		l.fine = newFine()
		if t.share != nil {
			t.share.fine = append(t.share.fine, granted[*latency]{t.share.at, l})
		}
	}
	t.rare(c).lat[d] = l
	return l
}

func (t *Tracker) recordLatency(c *conn, d Direction, ns int64, upper bool) {
	if ns < 0 {
		return
	}
	if l := t.histogram(c, d); l != nil {
		l.add(ns, upper)
	}
}

// roundTrip takes a time from a request to its answer.
func (t *Tracker) roundTrip(c *conn, d Direction, ns int64) {
	if ns <= 0 {
		return
	}
	l := t.histogram(c, d)
	if l == nil {
		return
	}
	if l.rtt == 0 || ns < l.rtt {
		l.rtt = ns
	}
	l.rttMax = max(l.rttMax, ns)
	l.rttSum += ns
	l.rttCount++
	if x := t.extras[c.extras]; x.detail != nil && x.detail.series != nil {
		x.detail.series.roundTrip(d, ns)
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
