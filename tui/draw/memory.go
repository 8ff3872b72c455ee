package draw

import (
	"fmt"
	"math/bits"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// Bytes prints a number of bytes in binary units, exactly where that is short.
func Bytes(n uint64) string {
	for i, unit := range []string{"EiB", "PiB", "TiB", "GiB", "MiB", "KiB"} {
		shift := 60 - 10*i
		if n < 1<<shift {
			continue
		}
		if n%(1<<shift) == 0 {
			return fmt.Sprintf("%d %s", n>>shift, unit)
		}
		return fmt.Sprintf("%.1f %s", float64(n)/float64(uint64(1)<<shift), unit)
	}
	return fmt.Sprintf("%d B", n)
}

// touched is what was done to the memory of a cell.
const (
	touchWrite = 1 << iota
	touchRead
	touchAtomic
	touchRefused
)

// touchRunes say it in letters: written, read, both, atomics.
var touchRunes = map[uint8]struct {
	r rune
	s cells.Style
}{
	0:                                    {'·', cells.Faint},
	touchWrite:                           {'W', cells.Request},
	touchRead:                            {'R', cells.Response},
	touchWrite | touchRead:               {'B', cells.Chart4},
	touchAtomic:                          {'A', cells.Atomic},
	touchAtomic | touchWrite:             {'A', cells.Atomic},
	touchAtomic | touchRead:              {'A', cells.Atomic},
	touchAtomic | touchRead | touchWrite: {'A', cells.Atomic},
}

// MemoryLines is how many lines Memory takes.
func MemoryLines(m *flows.MemoryMap) int {
	n := 1 + 2*len(m.Regions)
	if len(m.Refused) > 0 {
		n += 1 + len(m.Refused)
	}
	if m.More {
		n++
	}
	return n
}

// Memory draws the responder's memory that a requester used: a bar for each R_Key,
// from its least address to its greatest. A cell of a bar stands for several bytes;
// whatever was done to one of them is seen. top is the first line that is seen.
func Memory(c *cells.Canvas, m *flows.MemoryMap, top int) {
	y := -top
	line := func(draw func(y int)) {
		if y >= 0 && y < c.H {
			draw(y)
		}
		y++
	}
	line(func(y int) {
		c.Fit(0, y, c.W, cells.Faint, "W written  R read  B both  A atomics  X refused  · untouched; a cell shows what was done to any of its bytes")
	})
	for i := range m.Regions {
		r := &m.Regions[i]
		lo, hi, ok := extent(r)
		for _, x := range m.Refused {
			if x.RKey == r.RKey && ok && x.VA+x.Bytes > x.VA {
				lo, hi = min(lo, x.VA), max(hi, x.VA+x.Bytes)
			}
		}
		line(func(y int) {
			x := c.Text(0, y, cells.Title, fmt.Sprintf("R_Key 0x%08x", r.RKey))
			text := fmt.Sprintf("  0x%x … 0x%x, %s  %s written, %s read, %s", lo, hi, Bytes(hi-lo), plural(r.Writes, "time", "times"), plural(r.Reads, "time", "times"), plural(r.Atomics, "atomic", "atomics"))
			if r.Merged {
				text += "; ranges merged: cells may show more than was touched"
			}
			c.Fit(x, y, c.W-x, cells.Plain, text)
		})
		line(func(y int) {
			if ok {
				memoryBar(c.Sub(0, y, c.W, 1), r, m.Refused, lo, hi)
			}
		})
	}
	if len(m.Refused) > 0 {
		line(func(y int) { c.Text(0, y, cells.Title, "Refused") })
		for _, x := range m.Refused {
			line(func(y int) {
				c.Fit(1, y, c.W-1, cells.Bad, fmt.Sprintf("X frame %d: %s of %s at 0x%x under R_Key 0x%08x: %s", x.Frame, x.Op, Bytes(x.Bytes), x.VA, x.RKey, x.Status))
			})
		}
	}
	if m.More {
		line(func(y int) { c.Fit(0, y, c.W, cells.Warn, "there were more R_Keys than are kept") })
	}
}

func extent(r *flows.MemoryRegion) (lo, hi uint64, ok bool) {
	lo = ^uint64(0)
	for _, list := range [][]flows.AddressRange{r.Written, r.Read, r.Atomic} {
		for _, a := range list {
			lo, hi, ok = min(lo, a.From), max(hi, a.To), true
		}
	}
	if !ok {
		return 0, 0, false
	}
	return lo, hi, hi > lo
}

func memoryBar(c *cells.Canvas, r *flows.MemoryRegion, refused []flows.Refusal, lo, hi uint64) {
	did := make([]uint8, c.W)
	size := hi - lo
	// share is a part of the bar, by 128-bit arithmetic: regions may span all of memory.
	share := func(off uint64, up bool) int {
		h, l := bits.Mul64(off, uint64(c.W))
		q, rest := bits.Div64(h%size, l, size)
		if up && rest > 0 {
			q++
		}
		return int(q)
	}
	mark := func(from, to uint64, what uint8) {
		from, to = max(from, lo), min(to, hi)
		if to <= from {
			return
		}
		a, b := share(from-lo, false), c.W
		if to < hi {
			b = share(to-lo, true)
		}
		for x := a; x < min(max(b, a+1), c.W); x++ {
			did[x] |= what
		}
	}
	for _, a := range r.Written {
		mark(a.From, a.To, touchWrite)
	}
	for _, a := range r.Read {
		mark(a.From, a.To, touchRead)
	}
	for _, a := range r.Atomic {
		mark(a.From, a.To, touchAtomic)
	}
	for _, x := range refused {
		if x.RKey == r.RKey {
			mark(x.VA, x.VA+max(x.Bytes, 1), touchRefused)
		}
	}
	for x, d := range did {
		t := touchRunes[d&^touchRefused]
		if d&touchRefused != 0 {
			t.r, t.s = 'X', cells.Bad
		}
		c.Set(x, 0, t.r, t.s)
	}
}
