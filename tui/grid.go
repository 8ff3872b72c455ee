package tui

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/tui/cells"
)

// scroller is a cursor in a list of rows of which some are in view.
type scroller struct {
	n, cur, top, height int
}

// fit keeps the cursor within the rows, and in view.
func (s *scroller) fit() {
	s.cur = max(0, min(s.cur, s.n-1))
	if s.cur < s.top {
		s.top = s.cur
	}
	if s.height > 0 && s.cur >= s.top+s.height {
		s.top = s.cur - s.height + 1
	}
	s.top = max(0, min(s.top, s.n-s.height))
}

// act moves, and says whether the action was a movement.
func (s *scroller) act(a action) bool {
	switch a {
	case doUp:
		s.cur--
	case doDown:
		s.cur++
	case doPageUp:
		s.cur -= max(1, s.height-1)
	case doPageDown:
		s.cur += max(1, s.height-1)
	case doTop:
		s.cur = 0
	case doBottom:
		s.cur = s.n - 1
	default:
		return false
	}
	s.fit()
	return true
}

// wheel scrolls without moving the cursor out of view.
func (s *scroller) wheel(rows int) {
	s.top = max(0, min(s.top+rows, s.n-s.height))
	s.cur = max(s.top, min(s.cur, s.top+s.height-1))
	s.fit()
}

// bar draws where in the list one is, in the column at x.
func (s *scroller) bar(c *cells.Canvas, x, y int) {
	if s.n <= s.height || s.height < 3 {
		return
	}
	size := max(1, s.height*s.height/s.n)
	at := s.top * (s.height - size) / max(1, s.n-s.height)
	for i := range s.height {
		r := '│'
		if i >= at && i < at+size {
			r = '█'
		}
		c.Set(x, y+i, r, cells.Border)
	}
}

// col is a column of a grid.
type col[T any] struct {
	name  string // in the config file and menus
	title string
	width int // 0: takes what is left
	right bool
	text  func(s *screen, t *T) (string, cells.Style)
	num   func(t *T) float64           // to sort by; nil sorts by the text
	field func(s *screen, t *T) string // the filter that selects packets with this value; nil = none
	hide  bool                         // not shown unless chosen
	least int                          // with width 0: at least so wide
	most  int                          // with width 0: at most; 0 = no limit
	spare int                          // left out where there is no room, greatest first; 0 never
}

// grid is a table of things that are in memory: sortable, with a cursor that stays on its row.
type grid[T any] struct {
	scroller
	cols  []col[T]
	shown []int // indexes in cols
	items []T
	order []int
	id    func(*T) uint64
	at    int // column of the cursor, an index in shown
	sort  int // index in cols; -1 as it comes
	desc  bool
	xs    []int // where the shown columns begin, as drawn last
	ws    []int // and how wide they are
}

func newGrid[T any](id func(*T) uint64, cols []col[T]) *grid[T] {
	g := &grid[T]{cols: cols, id: id, sort: -1}
	for i := range cols {
		if !cols[i].hide {
			g.shown = append(g.shown, i)
		}
	}
	return g
}

// set replaces the rows; the cursor stays on its thing.
func (g *grid[T]) set(s *screen, items []T) {
	var at uint64
	if it := g.current(); it != nil {
		at = g.id(it)
	}
	g.items = items
	g.sorted(s, at)
}

func (g *grid[T]) sorted(s *screen, keep uint64) {
	g.order = g.order[:0]
	for i := range g.items {
		g.order = append(g.order, i)
	}
	if g.sort >= 0 {
		c := &g.cols[g.sort]
		slices.SortStableFunc(g.order, func(a, b int) int {
			x, y := &g.items[a], &g.items[b]
			var r int
			if c.num != nil {
				r = cmp.Compare(c.num(x), c.num(y))
			} else {
				p, _ := c.text(s, x)
				q, _ := c.text(s, y)
				r = strings.Compare(p, q)
			}
			if g.desc {
				return -r
			}
			return r
		})
	}
	g.n = len(g.order)
	if keep != 0 {
		for i, k := range g.order {
			if g.id(&g.items[k]) == keep {
				g.cur = i
				break
			}
		}
	}
	g.fit()
}

// current is the thing under the cursor; nil without rows.
func (g *grid[T]) current() *T {
	if g.cur < 0 || g.cur >= len(g.order) {
		return nil
	}
	return &g.items[g.order[g.cur]]
}

func (g *grid[T]) row(i int) *T { return &g.items[g.order[i]] }

// sortBy sorts by a column; again by the same turns the order around.
func (g *grid[T]) sortBy(s *screen, c int) {
	if g.sort == c {
		if g.desc = !g.desc; g.desc == (g.cols[c].num != nil) { // all the way round
			g.sort = -1
		}
	} else {
		g.sort, g.desc = c, g.cols[c].num != nil
	}
	g.sortAs(s, g.sort, g.desc)
}

// sortAs sorts by a column, -1 for none.
func (g *grid[T]) sortAs(s *screen, c int, desc bool) {
	g.sort, g.desc = c, desc
	var at uint64
	if it := g.current(); it != nil {
		at = g.id(it)
	}
	g.sorted(s, at)
}

func (g *grid[T]) act(s *screen, a action) bool {
	switch a {
	case doLeft:
		g.at = max(0, g.at-1)
	case doRight:
		g.at = min(len(g.shown)-1, g.at+1)
	default:
		return g.scroller.act(a)
	}
	return true
}

// draw draws the grid: titles, then rows.
func (g *grid[T]) draw(s *screen, c *cells.Canvas, focused bool) {
	g.height = max(0, c.H-1)
	g.fit()
	width := c.W - 1
	widths := g.widths(width)
	g.ws = widths
	g.xs = g.xs[:0]
	x := 0
	for i, k := range g.shown {
		g.xs = append(g.xs, x)
		if widths[i] < 0 {
			continue
		}
		title := g.cols[k].title
		if g.sort == k {
			title += map[bool]string{false: "▲", true: "▼"}[g.desc]
		}
		st := cells.Faint | cells.Bold
		if focused && i == g.at {
			st = cells.Title | cells.Underline
		}
		if x < width {
			if g.cols[k].right {
				c.Right(min(x+widths[i], width), 0, st, cells.Cut(title, widths[i]))
			} else {
				c.Fit(x, 0, min(widths[i], width-x), st, title)
			}
		}
		x += widths[i] + 1
	}
	for y := range min(g.height, g.n-g.top) {
		it := g.row(g.top + y)
		for i, k := range g.shown {
			if g.xs[i] >= width || widths[i] < 0 {
				continue
			}
			text, st := g.cols[k].text(s, it)
			w := min(widths[i], width-g.xs[i])
			if g.cols[k].right {
				c.Right(g.xs[i]+w, y+1, st, cells.Cut(text, w))
			} else {
				c.Fit(g.xs[i], y+1, w, st, text)
			}
		}
		if g.top+y == g.cur {
			st := cells.Bold
			if focused {
				st = cells.Cursor
			}
			cursorRow(c, y+1, width, st)
		}
	}
	g.bar(c, c.W-1, 1)
}

// cursorRow shows that the cursor is on a line.
func cursorRow(c *cells.Canvas, y, w int, st cells.Style) {
	if st == cells.Bold {
		c.Add(0, y, w, cells.Bold)
		return
	}
	c.Restyle(0, y, w, st)
}

// widths shares the width: columns without one of their own get what is left. Where that is too little, columns that can be
// spared get none.
func (g *grid[T]) widths(width int) []int {
	out := make([]int, len(g.shown))
	gone := map[int]bool{}
	for {
		left, open, least, spare := width, 0, 0, -1
		for i, k := range g.shown {
			c := &g.cols[k]
			if gone[i] {
				continue
			}
			left -= c.width + 1
			if c.width == 0 {
				open++
				least += max(c.least, 12)
			}
			if c.spare > 0 && i != g.at && (spare < 0 || c.spare >= g.cols[g.shown[spare]].spare) {
				spare = i
			}
		}
		if left < least && spare >= 0 {
			gone[spare] = true
			continue
		}
		for i, k := range g.shown {
			switch c := &g.cols[k]; {
			case gone[i]:
				out[i] = -1
			case c.width == 0:
				out[i] = max(left/max(open, 1), min(max(c.least, 12), width))
				if c.most > 0 {
					out[i] = min(out[i], c.most)
				}
			default:
				out[i] = c.width
			}
		}
		return out
	}
}

// click puts the cursor where the mouse is; true if a row was clicked that had the cursor already.
func (g *grid[T]) click(s *screen, x, y int) (again bool) {
	for i := len(g.xs) - 1; i >= 0; i-- {
		if x >= g.xs[i] {
			g.at = i
			break
		}
	}
	if y == 0 {
		if g.at < len(g.shown) {
			by, desc := g.sortedBy()
			s.remember(func(s *screen) { g.sortAs(s, by, desc) })
			g.sortBy(s, g.shown[g.at])
		}
		return false
	}
	if i := g.top + y - 1; i < g.n {
		again = g.cur == i
		g.cur = i
		g.fit()
	}
	return again
}

// cell is the value under the cursor, and the filter that selects it.
func (g *grid[T]) cell(s *screen) (name, value, filter string) {
	it := g.current()
	if it == nil || g.at >= len(g.shown) {
		return "", "", ""
	}
	c := &g.cols[g.shown[g.at]]
	value, _ = c.text(s, it)
	if c.field != nil {
		filter = c.field(s, it)
	}
	return c.title, value, filter
}

// cut is the cell under the cursor with its title, where the column is too narrow for it.
func (g *grid[T]) cut(s *screen) (full string, chosen bool) {
	it := g.current()
	if it == nil || g.at >= len(g.ws) || len(g.ws) != len(g.shown) || g.ws[g.at] < 0 {
		return "", false
	}
	c := &g.cols[g.shown[g.at]]
	text, _ := c.text(s, it)
	if cells.Width(text) <= g.ws[g.at] {
		return "", false
	}
	return c.title + ": " + text, true
}

// line is a row as text, for searches and copies.
func (g *grid[T]) line(s *screen, i int) string {
	var parts []string
	for _, k := range g.shown {
		text, _ := g.cols[k].text(s, g.row(i))
		parts = append(parts, text)
	}
	return strings.Join(parts, "  ")
}

// columnChoices are the columns for the menu.
func (g *grid[T]) columnChoices() (names []string, on []bool) {
	for i := range g.cols {
		names = append(names, cmp.Or(g.cols[i].title, g.cols[i].name))
		on = append(on, slices.Contains(g.shown, i))
	}
	return names, on
}

func (g *grid[T]) toggleColumn(i int) {
	if k := slices.Index(g.shown, i); k >= 0 {
		if len(g.shown) > 1 {
			g.shown = slices.Delete(g.shown, k, k+1)
		}
	} else {
		g.shown = append(g.shown, i)
		slices.Sort(g.shown)
	}
	g.at = min(g.at, len(g.shown)-1)
}

// gridLike is what menus and searches need of a grid of anything.
type gridLike interface {
	columnChoices() ([]string, []bool)
	toggleColumn(int)
	sortBy(*screen, int)
	sortAs(s *screen, c int, desc bool)
	sortedBy() (int, bool)
	cell(*screen) (name, value, filter string)
	line(*screen, int) string
	cut(*screen) (full string, chosen bool)
	scroll() *scroller
}

func (g *grid[T]) scroll() *scroller     { return &g.scroller }
func (g *grid[T]) sortedBy() (int, bool) { return g.sort, g.desc }
