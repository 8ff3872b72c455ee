package html

import (
	"math/bits"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// loadBins is how many parts the time of a connection has in charts.
const loadBins = 160

// load is what one direction carried in one of them.
type load struct {
	payload uint64
	resent  uint32
	ce      uint32
	cnps    uint32
	latency spread
}

func (l *load) packet(p *dissect.Packet, m *flows.Mark) {
	switch {
	case m.Has(flows.MarkBadICRC):
		return
	case p.Op().Family == dissect.Congestion:
		l.cnps++
		return
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkUnclear) != 0:
		l.resent++
	default:
		l.payload += uint64(p.PayloadLen())
	}
	if m.Has(flows.MarkCE) {
		l.ce++
	}
}

// spread is a set of latencies: its ends, and its middle within one part in eight.
type spread struct {
	n, lo, hi int64
	counts    [spreadBuckets]uint32
}

// Four buckets for each power of two, from 64 ns to minutes.
const spreadBuckets = 4 * 32

func (s *spread) add(ns int64) {
	ns = max(ns, 1)
	if s.n == 0 {
		s.lo, s.hi = ns, ns
	}
	s.n++
	s.lo, s.hi = min(s.lo, ns), max(s.hi, ns)
	s.counts[bucketOf(ns)]++
}

func bucketOf(ns int64) int {
	power := bits.Len64(uint64(ns)) - 1
	if power < 6 {
		return 0
	}
	return min((power-6)<<2|int(ns>>(power-2)&3), spreadBuckets-1)
}

// median is in the middle of the bucket that has it, and never outside of the ends.
func (s *spread) median() int64 {
	var below int64
	for i, n := range s.counts {
		below += int64(n)
		if 2*below >= s.n {
			from := int64(4+i&3) << (i>>2 + 4)
			return max(s.lo, min(s.hi, from+int64(1)<<(i>>2+3)))
		}
	}
	return s.hi
}
