package draw

import (
	"fmt"
	"math"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// PSNClass is what a packet does in a plot of PSNs. Where several meet in a cell,
// the last class of them is seen.
type PSNClass uint8

// The classes, least telling first.
const (
	PSNAcknowledged PSNClass = iota // the PSN that an answer names
	PSNNew                          // a request that was not seen before
	PSNAgain                        // sent again, or copied
	PSNGap                          // a request in front of which PSNs are missing
	PSNNAK                          // a NAK, an RNR NAK
	NumPSNClasses
)

// psnMarks are what a class looks like; new and acknowledged PSNs are dots.
var psnMarks = [NumPSNClasses]struct {
	name  string
	rune  rune
	style cells.Style
}{
	PSNAcknowledged: {"acknowledged", 0, cells.Response},
	PSNNew:          {"sent", 0, cells.Request},
	PSNAgain:        {"sent again", 'o', cells.Warn},
	PSNGap:          {"gap before", '!', cells.Bad},
	PSNNAK:          {"NAK", '×', cells.Bad | cells.Bold},
}

// ClassOf is the class of a packet; ok is false where it has no place in the plot
// of the requests that d's sender makes.
func ClassOf(m *flows.Mark, d flows.Direction) (class PSNClass, ok bool) {
	requester := m.Direction
	if m.Has(flows.MarkResponse) {
		requester = requester.Reverse()
	}
	switch {
	case !m.Has(flows.MarkPSN) || requester != d || m.Has(flows.MarkBadICRC):
		return 0, false
	case m.Bits&(flows.MarkNAK|flows.MarkRNR) != 0:
		return PSNNAK, true
	case m.Has(flows.MarkResponse):
		return PSNAcknowledged, true
	case m.Has(flows.MarkAfterGap):
		return PSNGap, true
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkUnclear) != 0:
		return PSNAgain, true
	}
	return PSNNew, true
}

// PSNs is the PSNs of a stream over time: a bounded number of intervals of equal
// length, of each of which and of each class the least and the greatest are kept.
// PSNs go on counting where the 24 bits wrap. The zero value is empty.
type PSNs struct {
	first, last int64 // times
	step        int64 // ns of an interval
	intervals   []psnInterval
	count       [NumPSNClasses]uint64
	at          int64 // the newest PSN, not wrapped
	any         bool
}

type psnInterval struct {
	lo, hi [NumPSNClasses]int64 // lo > hi: none
}

const maxIntervals = 4096

// psnAxis is the width of the axis: it counts PSNs from the stream's first.
const psnAxis = 11

// Events are the moments at which PSNs were missing or refused, as precisely as they are kept: for charts of the same time.
func (p *PSNs) Events() []Event {
	var all []Event
	for i := range p.intervals {
		t := p.first + int64(i)*p.step + p.step/2
		for _, class := range []PSNClass{PSNNAK, PSNGap} {
			if v := &p.intervals[i]; v.lo[class] <= v.hi[class] {
				r := psnMarks[class].rune
				if class == PSNNAK {
					r = 'N'
				}
				all = append(all, Event{t, r, psnMarks[class].style})
				break
			}
		}
	}
	return all
}

// Add adds a packet. offset is the PSN's distance from the stream's first, modulo
// 2^24.
func (p *PSNs) Add(t int64, offset uint32, class PSNClass) {
	if !p.any {
		p.any, p.first, p.last, p.step, p.at = true, t, t, 1000, int64(offset)
	}
	// The nearest number that is the offset modulo 2^24.
	d := int64(int32((offset-uint32(p.at))<<8) >> 8)
	at := p.at + d
	if class != PSNAcknowledged && class != PSNNAK && d > 0 {
		p.at = at
	}
	p.last = max(p.last, t)
	p.count[class]++
	i := max(t-p.first, 0) / p.step
	for i >= maxIntervals {
		p.halve()
		i /= 2
	}
	for int64(len(p.intervals)) <= i {
		var none psnInterval
		for k := range none.lo {
			none.lo[k], none.hi[k] = math.MaxInt64, math.MinInt64
		}
		p.intervals = append(p.intervals, none)
	}
	v := &p.intervals[i]
	v.lo[class], v.hi[class] = min(v.lo[class], at), max(v.hi[class], at)
}

// halve joins intervals in pairs.
func (p *PSNs) halve() {
	n := (len(p.intervals) + 1) / 2
	for i := range n {
		v := p.intervals[2*i]
		if 2*i+1 < len(p.intervals) {
			o := &p.intervals[2*i+1]
			for k := range v.lo {
				v.lo[k], v.hi[k] = min(v.lo[k], o.lo[k]), max(v.hi[k], o.hi[k])
			}
		}
		p.intervals[i] = v
	}
	p.intervals = p.intervals[:n]
	p.step *= 2
}

// Count is how many packets of a class there are.
func (p *PSNs) Count(class PSNClass) uint64 { return p.count[class] }

// Draw draws a legend, the plot, and both axes.
func (p *PSNs) Draw(c *cells.Canvas, ascii bool) {
	if !p.any {
		c.Text(0, 0, cells.Faint, "no packet with a PSN")
		return
	}
	x := 0
	for class := PSNNew; ; class++ {
		if class == NumPSNClasses {
			class = PSNAcknowledged
		}
		m := psnMarks[class]
		r := m.rune
		if r == 0 {
			r = '·'
		}
		c.Set(x, 0, r, m.style)
		x = c.Text(x+2, 0, cells.Plain, m.name+" ")
		x = c.Text(x, 0, cells.Faint, Count(p.count[class])) + 2
		if class == PSNAcknowledged {
			break
		}
	}
	left, bottom := psnAxis, 1
	if c.W < 40 {
		left = 0
	}
	if c.H < 5 {
		bottom = 0
	}
	plot := c.Sub(left, 1, c.W-left, c.H-1-bottom)
	if plot.W < 2 || plot.H < 1 {
		return
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range p.intervals {
		for k := range p.intervals[i].lo {
			lo, hi = min(lo, p.intervals[i].lo[k]), max(hi, p.intervals[i].hi[k])
		}
	}
	hi = max(hi, lo+1)
	g := newDots(plot, ascii)
	span := max(p.last-p.first, 1)
	when := func(i, w int) (from, to int) {
		at := func(t int64) int { return min(int(float64(t)/float64(span)*float64(w-1)+0.5), w-1) }
		return at(int64(i) * p.step), at(min(int64(i+1)*p.step-1, span))
	}
	high := func(v int64, h int) int {
		return h - 1 - int(math.Round(float64(v-lo)/float64(hi-lo)*float64(h-1)))
	}
	for class := range NumPSNClasses {
		m := psnMarks[class]
		for i := range p.intervals {
			v := &p.intervals[i]
			if v.lo[class] > v.hi[class] {
				continue
			}
			if m.rune == 0 {
				x0, x1 := when(i, g.w)
				y0, y1 := high(v.hi[class], g.h), high(v.lo[class], g.h)
				for y := y0; y <= y1; y++ {
					// Within an interval it goes upwards, as PSNs do.
					x := x1
					if y1 > y0 {
						x = x0 + (x1-x0)*(y1-y)/(y1-y0)
					}
					g.set(x, y, m.style)
				}
			}
		}
	}
	g.flush(plot)
	for class, m := range psnMarks {
		if m.rune == 0 {
			continue
		}
		for i := range p.intervals {
			v := &p.intervals[i]
			if v.lo[class] > v.hi[class] {
				continue
			}
			x, _ := when(i, plot.W)
			for y := high(v.hi[class], plot.H); y <= high(v.lo[class], plot.H); y++ {
				plot.Set(x, y, m.rune, m.style)
			}
		}
	}
	if left > 0 {
		for y := range plot.H {
			c.Set(psnAxis-1, 1+y, '│', cells.Axis)
		}
		c.Right(psnAxis-1, 1, cells.Axis, fmt.Sprintf("%+d", hi))
		if plot.H > 1 {
			c.Right(psnAxis-1, plot.H, cells.Axis, fmt.Sprintf("%+d", lo))
		}
	}
	if bottom > 0 {
		timeAxis(c.Sub(left, c.H-1, c.W-left, 1), 0, int64(time.Duration(span)))
	}
}
