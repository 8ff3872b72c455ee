package draw

import (
	"math"
	"slices"
	"time"

	"github.com/rocescope/rocescope/tui/cells"
)

// Sample is a value at a time.
type Sample struct {
	Time  int64
	Value float64
}

// Curve is values over time, ascending. Between samples that lie further apart
// than Interval nothing is known, or, with Zero, there was nothing: such a curve
// goes down to zero.
type Curve struct {
	Name     string
	Style    cells.Style
	Samples  []Sample
	Interval time.Duration
	Zero     bool
	Bars     bool // each sample is a bar from zero on
}

// Event is something that happened at a moment of a chart.
type Event struct {
	Time  int64
	Rune  rune
	Style cells.Style
}

// Chart is curves over time.
type Chart struct {
	Title    string
	From, To int64 // of the time axis; both 0: what the curves span
	Curves   []Curve
	Events   []Event
	Unit     func(float64) string // prints a value; Short unless set
	Log      bool                 // logarithmic values
	ASCII    bool                 // no Braille
	Cursor   int64                // a moment to read values at; 0 = none
}

// Span is the time that the chart shows.
func (ch *Chart) Span() (from, to int64) {
	from, to = ch.From, ch.To
	if from != 0 || to != 0 {
		return from, max(to, from+1)
	}
	first := true
	for i := range ch.Curves {
		cu := &ch.Curves[i]
		if len(cu.Samples) == 0 {
			continue
		}
		lo, hi := cu.Samples[0].Time, cu.Samples[len(cu.Samples)-1].Time+int64(cu.Interval)
		if first {
			from, to, first = lo, hi, false
		}
		from, to = min(from, lo), max(to, hi)
	}
	return from, max(to, from+1)
}

// least and greatest value that the axis has to show.
func (ch *Chart) values(from, to int64) (lo, hi float64) {
	lo, hi = math.Inf(1), 0
	for i := range ch.Curves {
		for _, s := range ch.Curves[i].Samples {
			if s.Time >= from-int64(ch.Curves[i].Interval) && s.Time <= to {
				hi = max(hi, s.Value)
				if s.Value > 0 {
					lo = min(lo, s.Value)
				}
			}
		}
	}
	if hi == 0 {
		return 0, 1
	}
	if !ch.Log {
		return 0, nice(hi)
	}
	lo = math.Pow(10, math.Floor(math.Log10(lo)))
	return lo, max(math.Pow(10, math.Ceil(math.Log10(hi))), lo*10)
}

// nice is the next number from v on that reads well.
func nice(v float64) float64 {
	ten := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10} {
		if v <= m*ten*1.0001 {
			return m * ten
		}
	}
	return 10 * ten
}

const axisWidth = 9

// Draw draws title and legend, the curves, and both axes.
func (ch *Chart) Draw(c *cells.Canvas) {
	unit := ch.Unit
	if unit == nil {
		unit = Short
	}
	from, to := ch.Span()
	lo, hi := ch.values(from, to)
	top := 0
	if ch.Title != "" || len(ch.Curves) > 1 {
		ch.legend(c, unit)
		top = 1
	}
	left, bottom := axisWidth, 1
	if c.W < 40 {
		left = 0
	}
	if c.H-top < 4 {
		bottom = 0
	}
	plot := c.Sub(left, top, c.W-left, c.H-top-bottom)
	if plot.W < 2 || plot.H < 1 {
		return
	}
	g := newDots(plot, ch.ASCII)
	scale := func(v float64) float64 {
		if ch.Log {
			return (math.Log10(max(v, lo)) - math.Log10(lo)) / (math.Log10(hi) - math.Log10(lo))
		}
		return v / hi
	}
	for i := range ch.Curves {
		ch.curve(g, &ch.Curves[i], from, to, scale)
	}
	g.flush(plot)
	for _, e := range ch.Events {
		if x, ok := column(e.Time, from, to, plot.W); ok && graver(e.Style, plot.At(x, 0).S) {
			plot.Set(x, 0, e.Rune, e.Style|cells.Bold)
		}
	}
	if x, ok := column(ch.Cursor, from, to, plot.W); ok && ch.Cursor != 0 {
		for y := range plot.H {
			if plot.At(x, y).R == ' ' {
				plot.Set(x, y, '┆', cells.Marked)
			}
		}
	}
	if left > 0 {
		ch.valueAxis(c, top, plot.H, lo, hi, unit)
	}
	if bottom > 0 {
		timeAxis(c.Sub(left, c.H-1, c.W-left, 1), from, to)
	}
}

// legend names the curves; with a cursor it reads their values.
func (ch *Chart) legend(c *cells.Canvas, unit func(float64) string) {
	x := c.Text(0, 0, cells.Title, ch.Title)
	for i := range ch.Curves {
		cu := &ch.Curves[i]
		if cu.Name == "" {
			continue
		}
		if x > 0 {
			x += 2
		}
		x = c.Text(x, 0, cu.Style, "■ ")
		x = c.Text(x, 0, cells.Plain, cu.Name)
		if ch.Cursor != 0 {
			text := " –"
			if v, ok := cu.At(ch.Cursor); ok {
				text = " " + unit(v)
			}
			x = c.Text(x, 0, cells.Plain|cells.Bold, text)
		}
	}
}

// Moment is what time a column of a chart that is w wide stands for, and how much a column is.
func (ch *Chart) Moment(w, x int) (at, step int64) {
	if w >= 40 {
		w, x = w-axisWidth, x-axisWidth
	}
	from, to := ch.Span()
	w = max(w, 1)
	step = max((to-from)/int64(w), 1)
	return from + (to-from)*int64(min(max(x, 0), w-1))/int64(w) + step/2, step
}

// At is the curve's value at a moment, if one is known.
func (cu *Curve) At(t int64) (v float64, ok bool) {
	for i := len(cu.Samples) - 1; i >= 0; i-- {
		s := cu.Samples[i]
		if s.Time > t {
			continue
		}
		if cu.Interval > 0 && t >= s.Time+int64(cu.Interval) {
			return 0, cu.Zero && i < len(cu.Samples)-1
		}
		return s.Value, true
	}
	return 0, false
}

// graver says that an event may be drawn over what is there: of several in a column the gravest is seen.
func graver(e, there cells.Style) bool {
	rank := func(s cells.Style) int {
		return slices.Index([]cells.Style{cells.Congestion, cells.Warn, cells.Bad}, s.Meaning())
	}
	return there&cells.Bold == 0 || rank(e) > rank(there)
}

func column(t, from, to int64, w int) (int, bool) {
	if t < from || t > to {
		return 0, false
	}
	return min(int(float64(t-from)/float64(to-from)*float64(w)), w-1), true
}

// curve draws each column of dots from the least to the greatest value in it, and
// joins it with the one before.
func (ch *Chart) curve(g *dots, cu *Curve, from, to int64, scale func(float64) float64) {
	w := g.w
	at := func(t int64) int {
		if t == to { // the last moment belongs to the last column
			return w - 1
		}
		return int(math.Floor(float64(t-from) / float64(to-from) * float64(w)))
	}
	high := func(v float64) int { return int(math.Round(scale(v) * float64(g.h-1))) }
	lows, highs := make([]int, w), make([]int, w)
	for i := range lows {
		lows[i] = -1
	}
	put := func(x, y int) {
		if x < 0 || x >= w {
			return
		}
		if lows[x] < 0 {
			lows[x], highs[x] = y, y
		}
		lows[x], highs[x] = min(lows[x], y), max(highs[x], y)
	}
	last, lastY := math.MinInt, 0
	for i, s := range cu.Samples {
		x0, x1 := at(s.Time), at(s.Time)
		if cu.Interval > 0 {
			x1 = max(x0, at(s.Time+int64(cu.Interval))-1)
		}
		y := high(s.Value)
		apart := i > 0 && cu.Interval > 0 && s.Time-cu.Samples[i-1].Time > int64(cu.Interval)*3/2
		switch {
		case cu.Bars:
			put(x0, 0)
		case apart && cu.Zero:
			for x := last + 1; x < x0; x++ {
				put(x, 0)
			}
			if last+1 < x0 { // and up again
				put(last+1, lastY)
				put(x0, 0)
			}
		case apart || i == 0:
		case last >= x0-1: // next to it
			put(x0, lastY)
		default:
			for x := last + 1; x < x0; x++ {
				put(x, lastY+(y-lastY)*(x-last)/(x0-last))
			}
		}
		for x := max(x0, 0); x <= min(x1, w-1); x++ {
			put(x, y)
			if cu.Bars {
				put(x, 0)
			}
		}
		last, lastY = x1, y
	}
	for x := range w {
		if lows[x] < 0 {
			continue
		}
		for y := lows[x]; y <= highs[x]; y++ {
			g.set(x, g.h-1-y, cu.Style)
		}
	}
}

// valueAxis prints values where they are reached.
func (ch *Chart) valueAxis(c *cells.Canvas, top, h int, lo, hi float64, unit func(float64) string) {
	for y := range h {
		c.Set(axisWidth-1, top+y, '│', cells.Axis)
	}
	tick := func(part, v float64) {
		y := top + int(math.Round((1-part)*float64(h-1)))
		c.Set(axisWidth-1, y, '┤', cells.Axis)
		c.Right(axisWidth-1, y, cells.Axis, cells.Cut(unit(v), axisWidth-1))
	}
	if ch.Log {
		decades := int(math.Round(math.Log10(hi / lo)))
		every := max(1, (2*decades+h-1)/h)
		for d := decades - decades%every; d >= 0; d -= every {
			tick(float64(d)/float64(decades), lo*math.Pow(10, float64(d)))
		}
		return
	}
	n := 4
	if lead := hi / math.Pow(10, math.Floor(math.Log10(hi))); math.Abs(lead-1.5) < 0.01 || math.Abs(lead-3) < 0.01 || math.Abs(lead-6) < 0.01 || math.Abs(lead-1.2) < 0.01 {
		n = 3
	} else if math.Abs(lead-1) < 0.01 || math.Abs(lead-5) < 0.01 || math.Abs(lead-2.5) < 0.01 {
		n = 5
	}
	if h < 2*n {
		n = 1
	}
	for k := range n + 1 {
		tick(float64(k)/float64(n), hi*float64(k)/float64(n))
	}
}

// timeAxis prints how long after its start moments are.
func timeAxis(c *cells.Canvas, from, to int64) {
	const width = 14
	n := max(c.W/width, 1)
	for i := range n {
		x := i * width
		t := time.Duration(float64(to-from) * float64(x) / float64(c.W))
		text := "└" + Span(t)
		if i > 0 {
			text = "└+" + Span(t)
		}
		c.Fit(x, 0, width-1, cells.Axis, text)
	}
	if end := "+" + Span(time.Duration(to-from)) + "┘"; c.W > n*width-width+cells.Width(end)+10 {
		c.Right(c.W, 0, cells.Axis, end)
	}
}
