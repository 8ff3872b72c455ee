package html

import (
	"fmt"
	"math"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// Charts of a connection's load stand two in a row.
const (
	smallWidth  = 530
	smallHeight = 210
)

var directionNames = [2]string{"a → b", "b → a"}

func (t *trail) timeAxis(zero int64) axis {
	return newAxis(kindTime, float64(t.span.first-zero), float64(t.span.last-zero), 0)
}

// bins is the middle width of a bin, in nanoseconds.
func (t *trail) bin() float64 { return float64(t.span.width()) / loadBins }

// goodputPlot draws payload over time, and packets sent again as ticks below.
func (t *trail) goodputPlot(zero int64) *plot {
	peak, resent, cnps := 0.0, uint64(0), uint64(0)
	rate := func(l *load) float64 { return float64(l.payload) * 8e9 / max(t.bin(), 1) }
	for d := range t.load {
		for i := range t.load[d] {
			l := &t.load[d][i]
			peak = max(peak, rate(l))
			resent += uint64(l.resent)
			cnps += uint64(l.cnps)
		}
	}
	if peak == 0 {
		return nil
	}
	p := &plot{ID: fmt.Sprintf("goodput-%d", t.conn.ID), Title: "Goodput", About: "New payload, means over " + report.Duration(time.Duration(t.bin())) + "."}
	c := newChart(p.ID, fmt.Sprintf("Goodput of connection %d, %s at most", t.conn.ID, report.BitRate(peak)), smallWidth, smallHeight, zero,
		t.timeAxis(zero), newAxis(kindRate, 0, peak*1.06, 0))
	for d := range t.load {
		t.bars(c, p, d, rate)
	}
	signs := func(sign, name string, count func(*load) uint32) {
		s := &scatter{span: &t.span, most: loadBins}
		total := uint64(0)
		for d := range t.load {
			for i := range t.load[d] {
				if n := count(&t.load[d][i]); n > 0 && total <= math.MaxUint32 {
					total += uint64(n)
				}
			}
		}
		for i := range loadBins {
			if n := count(&t.load[0][i]) + count(&t.load[1][i]); n > 0 {
				s.dots = append(s.dots, dot{t.span.first + int64((float64(i)+0.5)*t.bin()), 0, 0})
				s.n++
			}
		}
		if total > 0 {
			c.addSigns(s, sign, name)
			p.Legend = append(p.Legend, legend{sign, sign, name, report.Count(total)})
		}
	}
	signs("again", "sent again", func(l *load) uint32 { return l.resent })
	signs("cnp", "CNP", func(l *load) uint32 { return l.cnps })
	p.SVG = c.finish()
	return p
}

// bars draws a value of each bin of a direction.
func (t *trail) bars(c *chart, p *plot, d int, value func(*load) float64) {
	var l layer
	for i := range t.load[d] {
		if v := value(&t.load[d][i]); v > 0 {
			from := float64(t.span.first-c.zero) + float64(i)*t.bin()
			l.bar(c.x.step(from), c.y.step(v), c.x.step(from+t.bin()))
		}
	}
	if l.path.Len() > 0 {
		class := fmt.Sprintf("dir%d", d)
		c.add(&l, "bar "+class, directionNames[d])
		p.Legend = append(p.Legend, legend{Class: class, Text: directionNames[d]})
	}
}

// pointBin is what the tracker's points say of a bin and a direction. They may be much shorter than it:
// the highest, or the fewest, counts.
type pointBin struct {
	inFlight uint64 // most
	credits  int    // fewest
	told     bool   // of credits
}

// pointBins are of bins of some width; there is nothing in them where nothing was kept.
func (t *trail) pointBins(width float64) *[2][loadBins]pointBin {
	var bins [2][loadBins]pointBin
	if t.conn.Detail == nil {
		return &bins
	}
	for _, p := range t.conn.Detail.Series.Points {
		slot := max(0, min(loadBins-1, int(float64(p.Time-t.span.first)/max(width, 1))))
		for d := range p.Streams {
			s, b := &p.Streams[d], &bins[d][slot]
			b.inFlight = max(b.inFlight, s.InFlight)
			if s.CreditsKnown && (!b.told || s.Credits < b.credits) {
				b.credits, b.told = s.Credits, true
			}
		}
	}
	return &bins
}

// pointWidth is how wide bins of the tracker's points are drawn: no narrower than a point.
func (t *trail) pointWidth() float64 {
	if t.conn.Detail == nil {
		return t.bin()
	}
	return max(t.bin(), float64(t.conn.Detail.Series.Interval))
}

// inFlightPlot draws the most bytes under way; nil where nothing was kept of it.
func (t *trail) inFlightPlot(zero int64) *plot {
	width, peak := t.pointWidth(), uint64(0)
	bins := t.pointBins(width)
	for d := range bins {
		for i := range bins[d] {
			peak = max(peak, bins[d][i].inFlight)
		}
	}
	if peak == 0 {
		return nil
	}
	p := &plot{ID: fmt.Sprintf("inflight-%d", t.conn.ID), Title: "In flight", About: "Most payload sent, or asked for, and not acknowledged."}
	c := newChart(p.ID, fmt.Sprintf("Bytes in flight on connection %d, %s at most", t.conn.ID, report.Bytes(peak)), smallWidth, smallHeight, zero,
		t.timeAxis(zero), newAxis(kindBytes, 0, float64(peak)*1.06, 0))
	for d := range bins {
		var l layer
		for i := range bins[d] {
			if v := bins[d][i].inFlight; v > 0 {
				from := float64(t.span.first-zero) + float64(i)*width
				l.bar(c.x.step(from), c.y.step(float64(v)), c.x.step(min(from+width, c.x.hi)))
			}
		}
		if l.path.Len() > 0 {
			class := fmt.Sprintf("dir%d", d)
			c.add(&l, "bar "+class, directionNames[d])
			p.Legend = append(p.Legend, legend{Class: class, Text: "requests of " + directionNames[d]})
		}
	}
	p.SVG = c.finish()
	return p
}

// creditPlot draws the fewest credits that answers granted; nil where none told of them.
func (t *trail) creditPlot(zero int64) *plot {
	width, most, told := t.pointWidth(), 0, false
	bins := t.pointBins(width)
	for d := range bins {
		for _, b := range bins[d] {
			most, told = max(most, b.credits), told || b.told
		}
	}
	if !told {
		return nil
	}
	p := &plot{ID: fmt.Sprintf("credits-%d", t.conn.ID), Title: "Credits", About: "Fewest that an answer granted; nothing where no answer told of credits."}
	// From below zero, so that strokes at zero are whole. With less above it, there would be ticks between whole credits.
	top, parts := float64(max(most, 3)), 64.0
	room := math.Ceil(0.06*top*parts) / parts
	y := newAxis(kindCount, -room, top+room, 0)
	y.unit = 1 / parts // its ends are not whole credits
	c := newChart(p.ID, fmt.Sprintf("Credits granted on connection %d", t.conn.ID), smallWidth, smallHeight, zero, t.timeAxis(zero), y)
	for d := range bins {
		var l layer
		for i, b := range bins[d] {
			if b.told { // none granted is a value, so it is a stroke, which a bar of it would not be
				y := c.y.step(float64(b.credits))
				l.stroke(c.x.step(min(float64(t.span.first-zero)+(float64(i)+0.5)*width, c.x.hi)), y, y)
			}
		}
		if l.path.Len() > 0 {
			class := fmt.Sprintf("dir%d", d)
			c.add(&l, "middle "+class, directionNames[d])
			p.Legend = append(p.Legend, legend{Class: class, Text: "to requests of " + directionNames[d]})
		}
	}
	p.SVG = c.finish()
	return p
}

// latencyPlot draws the latencies of messages over the time of their completion, from least to most, and the median.
func (t *trail) latencyPlot(zero int64) *plot {
	lo, hi := int64(math.MaxInt64), int64(0)
	for d := range t.load {
		for i := range t.load[d] {
			if s := &t.load[d][i].latency; s.n > 0 {
				lo, hi = min(lo, s.lo), max(hi, s.hi)
			}
		}
	}
	if hi == 0 {
		return nil
	}
	p := &plot{
		ID: fmt.Sprintf("latency-%d", t.conn.ID), Title: "Latency",
		About: "First packet of a message to its answer, by the time of the answer: shortest to longest, with the median.",
	}
	c := newChart(p.ID, fmt.Sprintf("Latency of messages of connection %d, %s to %s", t.conn.ID, report.Duration(time.Duration(lo)), report.Duration(time.Duration(hi))),
		smallWidth, smallHeight, zero, t.timeAxis(zero), newAxis(kindSpan, math.Floor(math.Log10(float64(lo))), math.Ceil(math.Log10(float64(hi)+1)), 0))
	for d := range t.load {
		var span, middle layer
		for i := range t.load[d] {
			s := &t.load[d][i].latency
			if s.n == 0 {
				continue
			}
			x := c.x.step(float64(t.span.first-zero) + (float64(i)+0.5)*t.bin())
			at := func(ns int64) int64 { return c.y.step(math.Log10(float64(ns))) }
			span.stroke(x, at(s.lo), at(s.hi))
			span.from(0, s.n)
			middle.stroke(x, at(s.median()), at(s.median()))
		}
		class := fmt.Sprintf("dir%d", d)
		c.add(&span, "range "+class, directionNames[d])
		c.add(&middle, "middle "+class, directionNames[d]+" median")
		if span.path.Len() > 0 {
			p.Legend = append(p.Legend, legend{Class: class, Text: "requests of " + directionNames[d]})
		}
	}
	p.SVG = c.finish()
	return p
}

// histogramPlot draws how often each latency came.
func histogramPlot(f *flows.Connection) *plot {
	most, lo, hi, n := uint64(0), int64(math.MaxInt64), int64(0), uint64(0)
	end := func(b *flows.LatencyBucket) int64 {
		if b.To == 0 {
			return 2 * b.From
		}
		return b.To
	}
	for d := range f.Streams {
		for i := range f.Streams[d].Latencies {
			b := &f.Streams[d].Latencies[i]
			most, lo, hi = max(most, b.Count), min(lo, max(b.From, 1)), max(hi, end(b))
			n += b.Count
		}
	}
	if most == 0 {
		return nil
	}
	p := &plot{ID: fmt.Sprintf("histogram-%d", f.ID), Title: "Latency histogram", About: "How many messages took how long."}
	x := newAxis(kindSpan, math.Floor(math.Log10(float64(lo))*2)/2, math.Ceil(math.Log10(float64(hi))*2)/2, 0)
	c := newChart(p.ID, fmt.Sprintf("Histogram of latencies of connection %d: %s", f.ID, report.Plural(n, "message")), smallWidth, smallHeight, 0,
		x, newAxis(kindCount, 0, float64(most)*1.06, 0))
	for d := range f.Streams {
		var l layer
		for i := range f.Streams[d].Latencies {
			b := &f.Streams[d].Latencies[i]
			l.bar(c.x.step(math.Log10(float64(max(b.From, 1)))), c.y.step(float64(b.Count)), c.x.step(math.Log10(float64(end(b)))))
		}
		class := fmt.Sprintf("dir%d", d)
		c.add(&l, "bar "+class, directionNames[d])
		if s := &f.Streams[d].Latency; s.Count > 0 {
			p.Legend = append(p.Legend, legend{Class: class, Text: fmt.Sprintf("requests of %s: p50 %s, p99 %s, max %s", directionNames[d],
				report.Duration(time.Duration(s.P50)), report.Duration(time.Duration(s.P99)), report.Duration(time.Duration(s.Max)))})
		}
	}
	p.SVG = c.finish()
	return p
}
