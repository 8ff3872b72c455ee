package draw

import (
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// Histogram draws latencies: a bar for each range, as long as it is common. Where
// there are more ranges than lines neighbours are put together; nothing is left out,
// and a range that holds anything has a bar that is seen.
func Histogram(c *cells.Canvas, buckets []flows.LatencyBucket) {
	if len(buckets) == 0 || c.H < 1 {
		c.Text(0, 0, cells.Faint, "no message was answered")
		return
	}
	for len(buckets) > c.H {
		buckets = paired(buckets)
	}
	var most, all uint64
	for _, b := range buckets {
		most, all = max(most, b.Count), all+b.Count
	}
	const label = 22
	room := max(c.W-label-18, 1)
	for y, b := range buckets {
		to := "…"
		if b.To != 0 {
			to = Span(time.Duration(b.To))
		}
		c.Right(9, y, cells.Axis, Span(time.Duration(b.From)))
		c.Text(9, y, cells.Axis, " – "+to)
		x := label + bar(c, label, y, room, float64(b.Count)/float64(most), cells.Chart1)
		x = c.Text(x+1, y, cells.Plain, Count(b.Count))
		c.Text(x+1, y, cells.Faint, percent(b.Count, all))
	}
}

func paired(b []flows.LatencyBucket) (half []flows.LatencyBucket) {
	for i := 0; i < len(b); i += 2 {
		x := b[i]
		if i+1 < len(b) {
			x.To, x.Count = b[i+1].To, x.Count+b[i+1].Count
		}
		half = append(half, x)
	}
	return half
}

func percent(n, all uint64) string {
	switch p := float64(n) * 100 / float64(all); {
	case n == all:
		return "100 %"
	case p < 0.1:
		return "<0.1 %"
	case p > 99.9:
		return ">99.9 %"
	default:
		return digitsOf(p) + " %"
	}
}

// bar draws a horizontal bar, whose last cell is shaded by how much of it is meant.
// Anything above nothing is seen.
func bar(c *cells.Canvas, x, y, w int, part float64, s cells.Style) int {
	n := int(part*float64(w)*8 + 0.5)
	if part > 0 {
		n = max(n, 1)
	}
	for i := range n / 8 {
		c.Set(x+i, y, '█', s)
	}
	if n%8 > 0 {
		c.Set(x+n/8, y, []rune(" ░░░▒▒▓▓")[n%8], s)
	}
	return (n + 7) / 8
}

// Sparkline draws values in a line, from 0 to the greatest. Of values that share a
// cell the greatest is seen; anything above nothing is not the lowest step's blank.
func Sparkline(c *cells.Canvas, values []float64, s cells.Style) {
	var most float64
	for _, v := range values {
		most = max(most, v)
	}
	if most == 0 || c.W == 0 {
		return
	}
	n := len(values)
	for x := range min(c.W, n) {
		lo, hi := x, x+1
		if n > c.W {
			lo, hi = x*n/c.W, max((x+1)*n/c.W, x*n/c.W+1)
		}
		var v float64
		for _, o := range values[lo:hi] {
			v = max(v, o)
		}
		if v > 0 {
			c.Set(x, 0, []rune("▁▂▃▄▅▆▇█")[min(int(v/most*8), 7)], s)
		}
	}
}
