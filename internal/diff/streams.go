package diff

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Stream is what became of one direction between two queue pairs on its way
// between the captures.
type Stream struct {
	Src, Dst  dissect.Addr
	DestQP    uint32
	SrcQP     uint32 // UD only
	First     int8   // at which capture its packets pass first: 'a', 'b', 0 where nobody can tell
	Packets   [2]uint64
	Matched   uint64
	Lost      uint64
	Copies    uint64
	Overtaken uint64
	Changed   uint64
	Marked    uint64 // with congestion experienced
	Alone     [2]uint64

	usual   int64  // how much later at b, by a's clock: a running typical value
	settled bool   // usual has been seen
	newest  uint64 // highest frame number at the first capture of those that came to the other
	delay   spread
	last    int64
	jitter  float64
	pairs   uint64
}

// streams are all of them, by number.
type streams struct {
	list  []Stream
	index map[streamKey]int32
	first map[hosts]int8
	near  streamKey // the one that was looked up last
	nearI int32
}

func (s *streams) of(p *dissect.Packet) int32 {
	k := keyOf(p)
	if k == s.near && len(s.list) > 0 {
		return s.nearI
	}
	i, ok := s.index[k]
	if !ok {
		i = int32(len(s.list))
		x := Stream{Src: k.src, Dst: k.dst, DestQP: k.qpn, SrcQP: k.from, delay: spread{brief: len(s.list) >= maxSpreads}}
		switch s.first[hosts{k.src, k.dst}] {
		case aFirst:
			x.First = 'a'
		case bFirst:
			x.First = 'b'
		}
		s.list, s.index[k] = append(s.list, x), i
	}
	s.near, s.nearI = k, i
	return i
}

// from is the capture at which a stream's packets pass first, as an index; a
// where nobody can tell.
func (s *Stream) from() int {
	if s.First == 'b' {
		return 1
	}
	return 0
}

// arrived takes in one pair: when it passed at both, by a's clock.
func (s *Stream) arrived(a, b int64) {
	d := b - a
	if !s.settled {
		s.usual, s.settled = d, true
	}
	s.usual += (d - s.usual) / 16
	if s.First == 'b' {
		d = -d
	}
	if s.pairs > 0 {
		s.jitter += abs(float64(d - s.last))
	}
	s.last = d
	s.pairs++
	s.delay.add(d)
}

// Jitter is how much the delay of one packet differs from that of the one
// before, on average, in ns.
func (s *Stream) Jitter() (int64, bool) {
	if s.pairs < 2 {
		return 0, false
	}
	return int64(s.jitter / float64(s.pairs-1)), true
}

func abs(v float64) float64 { return max(v, -v) }

// spread is a bounded picture of many values: all of them up to a number, then
// each second, each fourth, and so on.
type spread struct {
	values   []int64
	every    uint64
	n        uint64
	min, max int64
	sum      float64
	brief    bool // only extremes and mean are kept
}

// maxSpread is how many values are kept.
const maxSpread = 4096

func (s *spread) add(v int64) {
	if s.n == 0 {
		s.min, s.max, s.every = v, v, 1
	}
	s.min, s.max = min(s.min, v), max(s.max, v)
	s.sum += float64(v)
	if !s.brief && s.n%s.every == 0 {
		s.values = append(s.values, v)
		if len(s.values) == maxSpread {
			for i := range maxSpread / 2 {
				s.values[i] = s.values[2*i]
			}
			s.values = s.values[:maxSpread/2]
			s.every *= 2
		}
	}
	s.n++
}

// Delays sums up times.
type Delays struct {
	Count                    uint64
	Min, Mean, P50, P99, Max int64 // ns
	Sorted                   bool  // there are percentiles: not so of streams beyond the first thousand
	Low, High                int64 // with a confidence of 95 %, the median is between these
}

// maxSpreads is of how many streams values are kept.
const maxSpreads = 1024

func (s *spread) sumUp() Delays {
	d := Delays{Count: s.n, Min: s.min, Max: s.max}
	if s.n == 0 {
		return d
	}
	d.Mean = int64(s.sum / float64(s.n))
	if s.brief {
		return d
	}
	v := slices.Clone(s.values)
	slices.Sort(v)
	at := func(q float64) int64 { return v[min(int(q*float64(len(v))), len(v)-1)] }
	low, high := medianRange(len(v))
	d.Sorted = true
	d.P50, d.P99, d.Low, d.High = at(0.5), at(0.99), v[low], v[high]
	return d
}
