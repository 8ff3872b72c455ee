package draw

import (
	"fmt"

	"github.com/rocescope/rocescope/tui/cells"
)

// Range is bytes From ≤ i < To with a style.
type Range struct {
	From, To int
	Style    cells.Style
}

// Hex is bytes as numbers and as letters. Ranges are drawn in their order: the last
// one that has a byte decides.
type Hex struct {
	Data   []byte
	Wire   int // bytes that there were on the wire; those that were not captured are said to be missing
	Ranges []Range
	Top    int // first line that is seen
	Cursor int // a byte; -1 = none
}

// PerLine is how many bytes a line of w cells holds: 16, 8 or 4.
func (h *Hex) PerLine(w int) int {
	for _, n := range []int{16, 8} {
		if w >= h.textAt(n)+n {
			return n
		}
	}
	return 4
}

// textAt is where letters begin with n bytes a line.
func (h *Hex) textAt(n int) int { return hexAt + n*3 + (n-1)/8 + 1 }

const hexAt = 6 // "0000  "

// byteAt is where byte k of a line stands.
func byteAt(k int) int { return hexAt + k*3 + k/8 }

// Lines is how many lines there are at a width.
func (h *Hex) Lines(w int) int {
	n := h.PerLine(w)
	lines := (len(h.Data) + n - 1) / n
	if h.Wire > len(h.Data) {
		lines++
	}
	return lines
}

// Reveal is the Top, close to the one there is, at which a byte is seen in w by height cells.
func (h *Hex) Reveal(w, height, i int) int {
	line := i / h.PerLine(w)
	return max(min(h.Top, line), line-height+1)
}

// ByteAt is the byte under a cell, -1 where there is none.
func (h *Hex) ByteAt(w, x, y int) int {
	n := h.PerLine(w)
	for k := range n {
		if at := byteAt(k); x >= at && x < at+2 || x == h.textAt(n)+k {
			if i := (h.Top+y)*n + k; i < len(h.Data) {
				return i
			}
		}
	}
	return -1
}

func (h *Hex) style(i int) cells.Style {
	s := cells.Plain
	for _, r := range h.Ranges {
		if i >= r.From && i < r.To {
			s = r.Style
		}
	}
	if i == h.Cursor {
		s |= cells.Reverse
	}
	return s
}

// Draw draws the lines from Top on.
func (h *Hex) Draw(c *cells.Canvas) {
	n := h.PerLine(c.W)
	for y := range c.H {
		first := (h.Top + y) * n
		if first >= len(h.Data) {
			if first < len(h.Data)+n && h.Wire > len(h.Data) {
				c.Text(0, y, cells.Faint, fmt.Sprintf("… %s more on the wire, not captured", plural(uint64(h.Wire-len(h.Data)), "byte", "bytes")))
			}
			return
		}
		c.Text(0, y, cells.Faint, fmt.Sprintf("%04x", first))
		for k := range min(n, len(h.Data)-first) {
			i := first + k
			b, s := h.Data[i], h.style(i)
			c.Text(byteAt(k), y, s, fmt.Sprintf("%02x", b))
			if k > 0 && byteAt(k)-byteAt(k-1) == 3 && s != cells.Plain && h.style(i-1) == s { // a range is one piece
				c.Set(byteAt(k)-1, y, ' ', s)
			}
			r := rune('·')
			if b >= 0x20 && b < 0x7f {
				r = rune(b)
			}
			c.Set(h.textAt(n)+k, y, r, s)
		}
	}
}
