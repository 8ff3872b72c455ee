package html

import (
	"fmt"
	"html/template"
	"math"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// legend is a line of a plot's key.
type legend struct {
	Class string // of the swatch
	Sign  string // the sign's name, where there is one
	Text  string
	Count string
}

// plot is a chart with what belongs to it.
type plot struct {
	ID     string
	Title  string
	About  string
	SVG    template.HTML
	Legend []legend
	Note   string // what was left out
}

// psnLayers is how the layers of a space are shown.
var psnLayers = [numLayers]struct{ class, sign, name string }{
	layerRequest: {"request", "", "request"},
	layerAnswer:  {"answer", "", "answer"},
	layerResent:  {"resent", "", "sent again"},
	layerGap:     {"gap", "gap", "PSNs missing before"},
	layerLate:    {"late", "late", "late (reordered)"},
	layerCE:      {"ce", "ce", "congestion experienced"},
	layerDamaged: {"damaged", "damaged", "wrong ICRC"},
	layerRNR:     {"rnr", "rnr", "RNR NAK"},
	layerNAK:     {"nak", "nak", "NAK"},
}

// psnPlot draws the PSNs of one requester over time; nil where it sent no request.
func (t *trail) psnPlot(d flows.Direction, zero int64, flags []flag) *plot {
	s := &t.spaces[d]
	if s.layers[layerRequest].n+s.layers[layerResent].n == 0 {
		return nil
	}
	lo, hi := int64(math.MaxInt64), int64(math.MinInt64)
	for i := range s.layers {
		s.layers[i].each(func(_, l, h, _ int64, _ uint64) { lo, hi = min(lo, l), max(hi, h) })
	}
	room := max(1, (hi-lo)/25)
	x := newAxis(kindTime, float64(t.span.first-zero), float64(t.span.last-zero), 0)
	y := newAxis(kindPSN, float64(lo-room), float64(hi+room), uint32(s.base))
	from, to := ends(d)
	p := &plot{
		ID:    fmt.Sprintf("psn-%d%s", t.conn.ID, from),
		Title: fmt.Sprintf("PSNs of %s’s requests over time", from),
		About: fmt.Sprintf("What %s sent, and the PSNs that %s’s answers name.", from, to),
	}
	c := newChart(p.ID, fmt.Sprintf("%s, connection %d: %s from PSN %s to %s", p.Title, t.conn.ID,
		report.Plural(s.layers[layerRequest].n, "request packet"), psnAt(s.base, lo), psnAt(s.base, hi)), 1080, 300, zero, x, y)
	columns := false
	for i := range s.layers {
		of, how := &s.layers[i], psnLayers[i]
		if of.n == 0 {
			continue
		}
		p.Legend = append(p.Legend, legend{how.class, how.sign, how.name, report.Count(of.n)})
		columns = columns || of.cols != nil
		if how.sign != "" {
			c.addSigns(of, how.sign, how.name)
			continue
		}
		var l layer
		of.each(func(at, lo, hi, n int64, frame uint64) {
			l.stroke(c.x.step(float64(at-zero)), c.y.step(float64(lo)), c.y.step(float64(hi)))
			l.from(frame, n)
		})
		class := how.class
		if of.n <= 400 {
			class += " few"
		}
		c.add(&l, class, how.name)
	}
	c.addFlags(flags)
	if columns {
		p.Note = fmt.Sprintf("There are too many packets to draw each: a stroke has all of a kind in 1/%d of the time, from the lowest PSN to the highest. Signs that lie "+
			"too close are drawn once.", s.layers[layerRequest].columns)
	}
	p.SVG = c.finish()
	return p
}

// psnAt is the PSN of an offset.
func psnAt(base dissect.PSN, at int64) string {
	return report.PSN(uint32(int64(base)+at) & 0xFFFFFF)
}

// ends are the names of a direction's ends.
func ends(d flows.Direction) (from, to string) {
	if d == flows.AToB {
		return "a", "b"
	}
	return "b", "a"
}

// flag is a finding in a plot: a mark at its time that leads to it.
type flag struct {
	id       string // of the finding in the page
	severity string
	title    string
	at       int64
}

// addFlags draws findings at the upper edge.
func (c *chart) addFlags(flags []flag) {
	var d drawing
	for _, f := range flags {
		v := float64(f.at - c.zero)
		fmt.Fprintf(&d.b, `<a href="#%s">`, f.id)
		d.open("flag "+f.severity, "data-at", fmt.Sprint(c.x.step(v)), "transform", fmt.Sprintf("translate(%.2f 0)", c.px(v)))
		d.title(fmt.Sprintf("%s: %s, at %s", f.severity, f.title, report.Duration(time.Duration(f.at-c.zero))))
		d.line("pole", 0, c.top, 0, c.top+c.tall)
		d.path("pennant", fmt.Sprintf("M0 %gh9l-3 4.5l3 4.5h-9z", c.top))
		d.close()
		d.b.WriteString("</a>")
	}
	c.signs.WriteString(d.b.String())
}
