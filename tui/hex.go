package tui

import (
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// hexPane shows a packet's bytes. Its cursor is a byte; those of the field in the tree are marked.
type hexPane struct {
	cur, top, height, width int
}

func (h *hexPane) act(a action, n int) bool {
	per := max((&draw.Hex{}).PerLine(h.width), 1)
	switch a {
	case doLeft:
		h.cur--
	case doRight:
		h.cur++
	case doUp:
		if h.cur >= per {
			h.cur -= per
		}
	case doDown:
		if h.cur+per < n {
			h.cur += per
		}
	case doPageUp:
		h.cur -= per * max(1, h.height-1)
	case doPageDown:
		h.cur += per * max(1, h.height-1)
	case doTop:
		h.cur = 0
	case doBottom:
		h.cur = n - 1
	default:
		return false
	}
	h.cur = max(0, min(h.cur, n-1))
	return true
}

// draw draws the bytes; those of from up to to are marked, and the cursor is shown where the pane has the keys.
func (h *hexPane) draw(c *cells.Canvas, r *row, from, to int, focused bool) {
	h.width, h.height = c.W, c.H
	x := draw.Hex{Data: r.Data, Wire: int(r.Packet.WireLen), Top: h.top, Cursor: -1}
	if to > from {
		x.Ranges = []draw.Range{{From: from, To: to, Style: cells.Marked}}
	}
	show := from
	if focused {
		show, x.Cursor = h.cur, h.cur
	}
	if focused || to > from {
		x.Top = x.Reveal(c.W, c.H, min(show, max(0, len(r.Data)-1)))
	}
	h.top = max(0, min(x.Top, x.Lines(c.W)-c.H))
	x.Top = h.top
	x.Draw(c)
}

// byteAt is the byte that is drawn at a place; -1 for none.
func (h *hexPane) byteAt(x, y int, data []byte) int {
	d := draw.Hex{Data: data, Wire: len(data), Top: h.top}
	return d.ByteAt(h.width, x, y)
}
