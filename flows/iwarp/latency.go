package iwarp

import "math/bits"

// Latency is how long messages took, in nanoseconds.
type Latency struct {
	Count    uint64
	Min, Max int64
	P50, P99 int64 // within an eighth
	buckets  *[64 * perOctave]uint32
}

// perOctave is how finely latencies are told apart.
const perOctave = 8

func (l *Latency) add(ns int64) {
	ns = max(ns, 0)
	if l.Count == 0 || ns < l.Min {
		l.Min = ns
	}
	l.Max = max(l.Max, ns)
	l.Count++
	if l.buckets == nil {
		l.buckets = new([64 * perOctave]uint32)
	}
	l.buckets[bucketOf(uint64(ns))]++
}

func bucketOf(v uint64) int {
	if v < perOctave {
		return int(v)
	}
	octave := bits.Len64(v) - 4 // v >> octave is 8 to 15
	return octave*perOctave + int(v>>octave)
}

// lowest is the least value of a bucket.
func lowest(b int) int64 {
	if b < 2*perOctave {
		return int64(b)
	}
	octave := b/perOctave - 1
	return int64(b%perOctave+perOctave) << octave
}

// settle computes the percentiles.
func (l *Latency) settle() {
	l.P50, l.P99 = l.at(50), l.at(99)
}

func (l *Latency) at(percent uint64) int64 {
	if l.buckets == nil {
		return 0
	}
	want, n := (l.Count*percent+99)/100, uint64(0)
	for b, c := range l.buckets {
		if n += uint64(c); n >= want {
			return min(max(lowest(b), l.Min), l.Max)
		}
	}
	return l.Max
}
