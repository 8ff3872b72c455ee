package tui

import (
	"sync"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// ratePoint is what passed in one interval of the whole capture.
type ratePoint struct {
	at                      int64 // when it begins, ns since the Unix epoch
	packets, bytes          uint64
	resent, naks, cnps, bad uint64
}

// maxRatePoints bounds a series of rates: twice as many columns as a wide terminal has.
const maxRatePoints = 512

// rates counts what passes, in intervals of time by the packets' own clock. Of a file they cover all of it, for the interval
// doubles whenever there are too many; of a live capture the newest, in intervals that stay.
type rates struct {
	mu     sync.Mutex
	live   bool
	every  int64
	points []ratePoint
}

func newRates(live bool) *rates {
	r := &rates{live: live, every: int64(time.Microsecond)}
	if live {
		r.every = int64(250 * time.Millisecond)
	}
	return r
}

// Batch implements engine.Sink.
func (r *rates) Batch(b *engine.Batch) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range b.Packets {
		p, m := &b.Packets[i], &b.Marks[i]
		if p.NoTime {
			continue
		}
		at := r.point(p.Time)
		at.packets++
		at.bytes += uint64(p.WireLen)
		if m.Bits == 0 {
			continue
		}
		count(&at.resent, m.Bits&flows.MarkRetransmission)
		count(&at.naks, m.Bits&(flows.MarkNAK|flows.MarkRNR))
		count(&at.cnps, m.Bits&(flows.MarkCNP|flows.MarkCE))
		count(&at.bad, m.Bits&flows.MarkBadICRC)
	}
	return nil
}

func count(n *uint64, bits flows.MarkBits) {
	if bits != 0 {
		*n++
	}
}

// point is where a packet of that time counts. Times that go back count where the newest do.
func (r *rates) point(t int64) *ratePoint {
	start := t - t%r.every
	if n := len(r.points); n > 0 && start <= r.points[n-1].at {
		return &r.points[n-1]
	}
	if len(r.points) == maxRatePoints {
		if r.live {
			r.points = r.points[:copy(r.points, r.points[maxRatePoints/4:])]
		} else {
			for len(r.points) == maxRatePoints {
				r.halve()
			}
			return r.point(t)
		}
	}
	r.points = append(r.points, ratePoint{at: start})
	return &r.points[len(r.points)-1]
}

// halve doubles the interval.
func (r *rates) halve() {
	r.every *= 2
	n := 0
	for _, p := range r.points {
		p.at -= p.at % r.every
		if n > 0 && r.points[n-1].at == p.at {
			r.points[n-1].add(p)
			continue
		}
		r.points[n] = p
		n++
	}
	r.points = r.points[:n]
}

// rateSeries is a copy of the series, to look at.
type rateSeries struct {
	every  time.Duration
	points []ratePoint
}

func (r *rates) series() rateSeries {
	r.mu.Lock()
	defer r.mu.Unlock()
	return rateSeries{time.Duration(r.every), append([]ratePoint(nil), r.points...)}
}

// widen puts intervals together until there are no more than so many between the first and the last.
func (s *rateSeries) widen(most int) {
	n := len(s.points)
	if n == 0 {
		return
	}
	every := int64(s.every)
	span := s.points[n-1].at - s.points[0].at + every
	wide := every * max(1, (span+every*int64(most)-1)/(every*int64(most)))
	var out []ratePoint
	for _, p := range s.points {
		p.at -= p.at % wide
		if k := len(out) - 1; k >= 0 && out[k].at == p.at {
			out[k].add(p)
			continue
		}
		out = append(out, p)
	}
	s.every, s.points = time.Duration(wide), out
}

// add counts what another interval has.
func (p *ratePoint) add(q ratePoint) {
	p.packets, p.bytes = p.packets+q.packets, p.bytes+q.bytes
	p.resent, p.naks, p.cnps, p.bad = p.resent+q.resent, p.naks+q.naks, p.cnps+q.cnps, p.bad+q.bad
}
