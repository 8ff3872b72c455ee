// Package cells is a grid of characters with a meaning each: what everything on
// the screen is drawn onto. A Theme turns meanings into colours at the very end.
//
// It does not know what is drawn, nor how it gets to a terminal.
package cells

import (
	"strings"
	"unicode"
)

// Cell is one character of the screen.
type Cell struct {
	R rune
	S Style
}

// Canvas is a rectangle of cells. What lies outside it is not drawn, so that nobody has to calculate where it ends.
type Canvas struct {
	W, H   int
	cells  []Cell
	stride int
	at     int
}

// New makes an empty canvas.
func New(w, h int) *Canvas {
	w, h = max(w, 0), max(h, 0)
	c := &Canvas{W: w, H: h, cells: make([]Cell, w*h), stride: w}
	c.Fill(' ', Plain)
	return c
}

// Sub is a part of the canvas, cut off where it does not lie within.
func (c *Canvas) Sub(x, y, w, h int) *Canvas {
	x, y = min(max(x, 0), c.W), min(max(y, 0), c.H)
	w, h = min(max(w, 0), c.W-x), min(max(h, 0), c.H-y)
	return &Canvas{W: w, H: h, cells: c.cells, stride: c.stride, at: c.at + y*c.stride + x}
}

func (c *Canvas) inside(x, y int) bool { return x >= 0 && y >= 0 && x < c.W && y < c.H }

// At is a cell; an empty one outside.
func (c *Canvas) At(x, y int) Cell {
	if !c.inside(x, y) {
		return Cell{' ', Plain}
	}
	return c.cells[c.at+y*c.stride+x]
}

// Set draws one character.
func (c *Canvas) Set(x, y int, r rune, s Style) {
	if c.inside(x, y) {
		c.cells[c.at+y*c.stride+x] = Cell{r, s}
	}
}

// row is a line of the canvas.
func (c *Canvas) row(y int) []Cell { return c.cells[c.at+y*c.stride:][:c.W] }

// Fill draws the same everywhere.
func (c *Canvas) Fill(r rune, s Style) {
	if c.H == 0 {
		return
	}
	first := c.row(0)
	for x := range first {
		first[x] = Cell{r, s}
	}
	for y := 1; y < c.H; y++ {
		copy(c.row(y), first)
	}
}

// Text draws a text in one line and returns where it ends. Characters that take two cells, or none, are drawn as a point.
func (c *Canvas) Text(x, y int, s Style, text string) int {
	for _, r := range text {
		if x >= c.W {
			return x
		}
		c.Set(x, y, single(r), s)
		x++
	}
	return x
}

// Fit draws a text in at most w cells; one that is too long ends in an ellipsis.
func (c *Canvas) Fit(x, y, w int, s Style, text string) int {
	if w <= 0 {
		return x
	}
	n := Width(text)
	if n <= w {
		return c.Text(x, y, s, text)
	}
	return c.Text(x, y, s, Cut(text, w))
}

// Right draws a text that ends in front of x.
func (c *Canvas) Right(x, y int, s Style, text string) { c.Text(x-Width(text), y, s, text) }

// Add adds attributes to the cells of a line.
func (c *Canvas) Add(x, y, w int, s Style) {
	for i := range w {
		if c.inside(x+i, y) {
			c.cells[c.at+y*c.stride+x+i].S |= s
		}
	}
}

// Restyle gives the cells of a line another style.
func (c *Canvas) Restyle(x, y, w int, s Style) {
	for i := range w {
		if c.inside(x+i, y) {
			c.cells[c.at+y*c.stride+x+i].S = s
		}
	}
}

// Box draws a border with a title.
func (c *Canvas) Box(s Style, title string, titleStyle Style) {
	if c.W < 2 || c.H < 2 {
		return
	}
	for x := 1; x < c.W-1; x++ {
		c.Set(x, 0, '─', s)
		c.Set(x, c.H-1, '─', s)
	}
	for y := 1; y < c.H-1; y++ {
		c.Set(0, y, '│', s)
		c.Set(c.W-1, y, '│', s)
	}
	c.Set(0, 0, '┌', s)
	c.Set(c.W-1, 0, '┐', s)
	c.Set(0, c.H-1, '└', s)
	c.Set(c.W-1, c.H-1, '┘', s)
	if title != "" {
		c.Fit(2, 0, c.W-4, titleStyle, " "+title+" ")
	}
}

// Plain is what stands on the canvas, without colours and without blanks at the ends of lines.
func (c *Canvas) Plain() string {
	var b strings.Builder
	for y := range c.H {
		line := make([]rune, c.W)
		for x := range c.W {
			line[x] = c.At(x, y).R
		}
		b.WriteString(strings.TrimRight(string(line), " "))
		b.WriteByte('\n')
	}
	return b.String()
}

// Width is how many cells a text takes.
func Width(text string) int {
	n := 0
	for range text {
		n++
	}
	return n
}

// Cut shortens a text to w cells, the last of which is then an ellipsis.
func Cut(text string, w int) string {
	if Width(text) <= w {
		return text
	}
	if w <= 0 {
		return ""
	}
	return string([]rune(text)[:w-1]) + "…"
}

// Pad brings a text to w cells: it is cut, or blanks follow.
func Pad(text string, w int) string {
	if n := Width(text); n < w {
		return text + strings.Repeat(" ", w-n)
	}
	return Cut(text, w)
}

// single is a character that takes one cell.
func single(r rune) rune {
	switch {
	case r < 0x20 || r == 0x7f:
		return '·'
	case r < 0x300:
		return r
	case unicode.Is(unicode.Mn, r) || unicode.Is(unicode.Me, r) || unicode.Is(unicode.Cf, r):
		return '·'
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe6f, r >= 0xff00 && r <= 0xff60, r >= 0x1f300 && r <= 0x1faff, r >= 0x20000:
		return '·'
	}
	return r
}
