package html

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
)

// chart is a plot with axes. Its layers lie in a group whose transformation maps their numbers into the frame: the script
// zooms by changing that, and reads values back from the paths.
type chart struct {
	drawing
	x, y          axis
	width, height float64
	left, top     float64
	inner, tall   float64 // of the frame
	id            string
	zero          int64           // what times are counted from
	signs         strings.Builder // of layers that are drawn by signs: they keep their size
}

const (
	marginLeft   = 92
	marginRight  = 30
	marginTop    = 10
	marginBottom = 26
)

// newChart draws a frame with its axes.
func newChart(id, title string, width, height float64, zero int64, x, y axis) *chart {
	c := &chart{x: x, y: y, width: width, height: height, left: marginLeft, top: marginTop, id: id, zero: zero}
	c.inner, c.tall = width-marginLeft-marginRight, height-marginTop-marginBottom
	c.begin("chart", width, height, title, "id", id, "tabindex", "0", "data-x", x.data(), "data-y", y.data(),
		"data-frame", fmt.Sprintf("%g %g %g %g", c.left, c.top, c.inner, c.tall))
	c.rect("plot", c.left, c.top, c.inner, c.tall, 0, "")
	c.open("ticks")
	values, texts := y.ticks(max(2, int(c.tall/34)))
	for i, v := range values {
		at := c.py(v)
		c.line("gridline", c.left, at, c.left+c.inner, at)
		c.text("tick end", c.left-7, at+4, texts[i])
	}
	values, texts = x.ticks(max(2, int(c.inner/110)))
	for i, v := range values {
		at := c.px(v)
		c.line("gridline", at, c.top, at, c.top+c.tall)
		c.text("tick mid", at, c.top+c.tall+17, texts[i])
	}
	c.close()
	fmt.Fprintf(&c.b, `<clipPath id="%s-clip">`, id)
	c.rect("", c.left, c.top, c.inner, c.tall, 0, "")
	c.b.WriteString("</clipPath>")
	c.open("", "clip-path", "url(#"+id+"-clip)")
	c.open("data", "transform", fmt.Sprintf("translate(%g %g) scale(%.9g %.9g)", c.left, c.top+c.tall, c.inner/c.x.steps(), -c.tall/c.y.steps()))
	return c
}

func (c *chart) px(v float64) float64 { return c.left + (v-c.x.lo)/(c.x.hi-c.x.lo)*c.inner }
func (c *chart) py(v float64) float64 { return c.top + c.tall - (v-c.y.lo)/(c.y.hi-c.y.lo)*c.tall }

// layer is a path in the making.
type layer struct {
	path   strings.Builder
	frames strings.Builder // first frame of each stroke, as differences
	counts strings.Builder // packets of each stroke
	frame  int64
	many   bool // some stroke stands for several packets
}

// stroke adds a line from lo to hi, which may be a dot.
func (l *layer) stroke(x, lo, hi int64) {
	fmt.Fprintf(&l.path, "M%d %d", x, lo)
	if hi == lo {
		l.path.WriteString("h0")
		return
	}
	fmt.Fprintf(&l.path, "V%d", hi)
}

// bar adds a bar from zero to y, x to x2 wide.
func (l *layer) bar(x, y, x2 int64) { fmt.Fprintf(&l.path, "M%d 0V%dH%dV0", x, y, x2) }

// from notes which packet a stroke begins with, and of how many it is made.
func (l *layer) from(frame uint64, n int64) {
	if l.frames.Len() > 0 {
		l.frames.WriteByte(' ')
		l.counts.WriteByte(' ')
	}
	l.frames.WriteString(strconv.FormatInt(int64(frame)-l.frame, 10))
	l.counts.WriteString(strconv.FormatInt(n, 10))
	l.frame = int64(frame)
	l.many = l.many || n > 1
}

// add draws a layer. Its name is what the script calls its values.
func (c *chart) add(l *layer, class, name string) {
	if l.path.Len() == 0 {
		return
	}
	attrs := []string{"data-name", name}
	if l.frames.Len() > 0 {
		attrs = append(attrs, "data-f", l.frames.String())
	}
	if l.many {
		attrs = append(attrs, "data-n", l.counts.String())
	}
	c.path("layer "+class, l.path.String(), attrs...)
}

// addSigns draws a layer by signs. They stand outside of the scaled group, and the script moves them.
func (c *chart) addSigns(s *scatter, sign, name string) {
	if s.n == 0 {
		return
	}
	var d drawing
	d.open("signs "+sign, "data-name", name)
	s.each(func(at, lo, hi, n int64, frame uint64) {
		for _, y := range [...]int64{lo, hi} {
			vx, vy := float64(at-c.zero), float64(y)
			d.use("sign-"+sign, c.px(vx), c.py(vy), "data-p", fmt.Sprintf("%d %d %d %d", c.x.step(vx), c.y.step(vy), frame, n))
			if hi == lo {
				return
			}
		}
	})
	d.close()
	c.signs.WriteString(d.b.String())
}

// finish closes the chart.
func (c *chart) finish() template.HTML {
	c.close()
	c.b.WriteString(c.signs.String())
	c.close()
	c.rect("frame", c.left, c.top, c.inner, c.tall, 0, "")
	return c.end()
}
