package html

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// space is the PSNs of one requester: those of its requests, and those that answers to them name. They are counted on from
// the first one seen, so that wrapping does not show.
type space struct {
	mtu    int
	begun  bool
	base   dissect.PSN // that offset 0 stands for
	at     int64       // offset of the last request
	next   int64       // offset behind the newest request
	sure   bool        // next is known: a READ takes as many PSNs as its answer has packets
	layers [numLayers]scatter
}

// The layers of a plot, in the order of drawing.
const (
	layerRequest = iota
	layerAnswer
	layerResent
	layerGap
	layerLate
	layerCE
	layerDamaged
	layerRNR
	layerNAK
	numLayers
)

func (s *space) init(span *timespan, mtu int) {
	s.mtu = mtu
	for i := range s.layers {
		l := &s.layers[i]
		l.span, l.most, l.columns = span, 1000, 320
		if i >= layerGap { // drawn by a sign each
			l.most, l.columns = 160, 80
		}
	}
}

// offset counts a PSN from the base, near the last request's.
func (s *space) offset(psn dissect.PSN) int64 {
	if !s.begun {
		s.begun, s.base = true, psn
	}
	delta := int64(psn) - int64(s.base) - s.at
	return s.at + int64(int32(uint32(delta)<<8)>>8)
}

// request takes a packet of the requester. It returns how many PSNs before it are missing, if that is known.
func (s *space) request(p *dissect.Packet, m *flows.Mark) (missing uint32) {
	if p.Op().Family == dissect.Congestion {
		return 0
	}
	at := s.offset(p.PSN)
	if m.Has(flows.MarkBadICRC) {
		s.layers[layerDamaged].add(p.Time, at, p.Number)
		return 0
	}
	s.at = at
	switch {
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkUnclear) != 0:
		s.layers[layerResent].add(p.Time, at, p.Number)
	case m.Has(flows.MarkReordered):
		s.layers[layerLate].add(p.Time, at, p.Number)
	default:
		s.layers[layerRequest].add(p.Time, at, p.Number)
	}
	if m.Has(flows.MarkAfterGap) {
		s.layers[layerGap].add(p.Time, at, p.Number)
		if s.sure && at > s.next {
			missing = uint32(at - s.next)
		}
	}
	s.marked(p, m, at)
	if at >= s.next {
		s.next, s.sure = at+1, true
		if p.Has(dissect.LayerRETH) && p.Op().Family == dissect.Read {
			s.sure = s.mtu > 0
			if s.sure {
				s.next = at + max(1, (int64(p.DMALen)+int64(s.mtu)-1)/int64(s.mtu))
			}
		}
	}
	return missing
}

// answer takes a packet of the responder.
func (s *space) answer(p *dissect.Packet, m *flows.Mark) {
	at := s.offset(p.PSN)
	switch {
	case m.Has(flows.MarkBadICRC):
		s.layers[layerDamaged].add(p.Time, at, p.Number)
		return
	case p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindNAK:
		s.layers[layerNAK].add(p.Time, at, p.Number)
	case p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindRNR:
		s.layers[layerRNR].add(p.Time, at, p.Number)
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate) != 0:
		s.layers[layerResent].add(p.Time, at, p.Number)
	default:
		s.layers[layerAnswer].add(p.Time, at, p.Number)
	}
	if m.Has(flows.MarkAfterGap) {
		s.layers[layerGap].add(p.Time, at, p.Number)
	}
	s.marked(p, m, at)
}

func (s *space) marked(p *dissect.Packet, m *flows.Mark, at int64) {
	if m.Has(flows.MarkCE) {
		s.layers[layerCE].add(p.Time, at, p.Number)
	}
}

// scatter is the points of a layer: each of them, or, where they are too many, of each column of time the lowest and the
// highest.
type scatter struct {
	span    *timespan
	most    int // points that are kept each
	columns int
	dots    []dot
	cols    []column
	n       uint64
}

type dot struct {
	at, y int64
	frame uint64
}

// column is the points of one part of the time.
type column struct {
	lo, hi, n int64
	frame     uint64 // the first one
}

func (s *scatter) add(at, y int64, frame uint64) {
	s.n++
	if s.cols == nil {
		if len(s.dots) < s.most {
			s.dots = append(s.dots, dot{at, y, frame})
			return
		}
		s.cols = make([]column, s.columns)
		for _, d := range s.dots {
			s.put(d)
		}
		s.dots = nil
	}
	s.put(dot{at, y, frame})
}

func (s *scatter) put(d dot) {
	c := &s.cols[s.span.slot(d.at, s.columns)]
	if c.n == 0 {
		*c = column{d.y, d.y, 1, d.frame}
		return
	}
	c.lo, c.hi = min(c.lo, d.y), max(c.hi, d.y)
	c.n++
}

// each calls f for what is to be drawn, in order of time: from lo to hi at a moment, n points of which frame is the first.
func (s *scatter) each(f func(at, lo, hi, n int64, frame uint64)) {
	for _, d := range s.dots {
		f(d.at, d.y, d.y, 1, d.frame)
	}
	for i := range s.cols {
		if c := &s.cols[i]; c.n > 0 {
			f(s.middle(i), c.lo, c.hi, c.n, c.frame)
		}
	}
}

func (s *scatter) middle(i int) int64 {
	return s.span.first + int64((float64(i)+0.5)/float64(s.columns)*float64(s.span.width()))
}
