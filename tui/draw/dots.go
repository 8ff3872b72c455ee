package draw

import "github.com/rocescope/rocescope/tui/cells"

// dots is a canvas of finer grain: Braille characters have 2 by 4 dots each. In
// ASCII a cell is one dot wide, and two high.
type dots struct {
	w, h   int // in dots
	ascii  bool
	cellsW int
	masks  []uint8
	styles []cells.Style
}

func newDots(c *cells.Canvas, ascii bool) *dots {
	g := &dots{w: c.W * 2, h: c.H * 4, ascii: ascii, cellsW: c.W}
	if ascii {
		g.w, g.h = c.W, c.H*2
	}
	g.masks = make([]uint8, c.W*c.H)
	g.styles = make([]cells.Style, c.W*c.H)
	return g
}

// brailleBits are the dots of a Braille character, by row and column.
var brailleBits = [4][2]uint8{{0x01, 0x08}, {0x02, 0x10}, {0x04, 0x20}, {0x40, 0x80}}

// set draws a dot; y counts from the top. Of several styles in a cell the last
// one is seen.
func (g *dots) set(x, y int, s cells.Style) {
	if x < 0 || y < 0 || x >= g.w || y >= g.h {
		return
	}
	if g.ascii {
		i := y/2*g.cellsW + x
		g.masks[i] |= 1 << (y % 2)
		g.styles[i] = s
		return
	}
	i := y/4*g.cellsW + x/2
	g.masks[i] |= brailleBits[y%4][x%2]
	g.styles[i] = s
}

// flush puts the cells that have dots onto the canvas.
func (g *dots) flush(c *cells.Canvas) {
	for i, m := range g.masks {
		if m == 0 {
			continue
		}
		r := 0x2800 + rune(m)
		if g.ascii {
			r = []rune(" '.:")[m]
		}
		c.Set(i%g.cellsW, i/g.cellsW, r, g.styles[i])
	}
}
