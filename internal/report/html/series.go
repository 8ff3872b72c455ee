package html

import (
	"html/template"
	"math"
	"strings"
)

// Mark is one value of a Series: a stroke at a time from Low to High, both included.
type Mark struct{ At, Low, High int64 }

// Series is one line of a Chart: strokes from the lowest to the highest value of a part of the time, or, with Bars, their number.
type Series struct {
	Name  string
	Class string // how it looks: "range dir0", "range dir1", "middle dir0", "resent", "bar dir0"…
	Marks []Mark
	Width int64 // of a bar, ns
}

// Chart is a plot over time for pages of other packages. Its values are durations in nanoseconds, or numbers.
type Chart struct {
	ID, Title, About string
	From, To         int64 // nanoseconds since what the axis counts from
	Numbers          bool
	Series           []Series
}

const (
	wideWidth  = 1120
	wideHeight = 230
)

// Draw draws the figure.
func (c *Chart) Draw() (template.HTML, error) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, s := range c.Series {
		for _, m := range s.Marks {
			lo, hi = min(lo, float64(m.Low)), max(hi, float64(m.High))
		}
	}
	k := kindTime
	if c.Numbers {
		k, lo = kindCount, 0
	}
	room := max((hi-lo)*0.06, 1)
	if lo != 0 {
		lo -= room
	}
	p := plot{ID: c.ID, Title: c.Title, About: c.About}
	drawn := newChart(c.ID, c.Title, wideWidth, wideHeight, 0, newAxis(kindTime, float64(c.From), float64(c.To), 0), newAxis(k, lo, hi+room, 0))
	for _, s := range c.Series {
		var l layer
		for _, m := range s.Marks {
			x := drawn.x.step(float64(m.At))
			if s.Width > 0 {
				l.bar(x, drawn.y.step(float64(m.High)), drawn.x.step(float64(m.At+s.Width)))
			} else {
				l.stroke(x, drawn.y.step(float64(m.Low)), drawn.y.step(float64(m.High)))
			}
		}
		drawn.add(&l, s.Class, s.Name)
		looks := strings.Fields(s.Class)
		p.Legend = append(p.Legend, legend{Class: looks[len(looks)-1], Text: s.Name})
	}
	p.SVG = drawn.finish()
	return text("plot", p)
}

// Parts are what a page of another package shares with ours: its looks, and what its script makes of charts and of the button
// for dark and light.
type Parts struct {
	Style template.CSS
	JS    template.JS
	Tools template.HTML // buttons that zoom all charts of a section
}

// Shared returns the parts.
func Shared() (Parts, error) {
	tools, err := text("tools", "the whole comparison")
	return Parts{template.CSS(styleSheet), template.JS(script), tools}, err
}
