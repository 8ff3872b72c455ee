package tui

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/packetline"
	"github.com/rocescope/rocescope/tui/cells"
)

// packetGrid is the list of packets. Only those in view are in memory; the others are numbers.
type packetGrid struct {
	scroller
	view   *index.View // what is listed; nil: all
	cache  []row       // by number, ascending
	want   uint64      // a packet to go to as soon as the list has it
	first  uint64      // number of the first packet, where all are listed
	anchor uint64      // the packet that the cursor is on
	at     int         // column of the cursor
	cols   []packetCol
	shown  []int
	xs     []int
	ws     []int
}

// packetCol is a column of the list of packets.
type packetCol struct {
	name, title string
	width       int
	right       bool
	text        func(s *screen, r *row) string
	filter      func(s *screen, r *row) string
}

func appended(f func([]byte, *dissect.Packet, []byte) []byte) func(*screen, *row) string {
	return func(s *screen, r *row) string { return s.masked(string(f(nil, &r.Packet, r.Data))) }
}

// leadingZeros of QPNs take room that the end of the line needs.
var leadingZeros = regexp.MustCompile(`QP=0x0{1,5}`)

// refusal is what an answer says that is none.
var refusal = regexp.MustCompile(` (?:RNR )?NAK\b[^\[]*[^\[ ]`)

// refusalFirst puts a refusal in front, for it is what the line is about, and its end may be cut off.
func refusalFirst(info string) string {
	at := refusal.FindStringIndex(info)
	if at == nil {
		return info
	}
	return info[at[0]+1:at[1]] + ", " + info[:at[0]] + info[at[1]:]
}

// packetCols are the columns that every packet has.
var packetCols = []packetCol{
	{"number", "No.", 7, true, func(_ *screen, r *row) string { return strconv.FormatUint(r.Number, 10) }, func(_ *screen, r *row) string { return fmt.Sprintf("frame.number == %d", r.Number) }},
	{"time", "Time", 11, true, func(s *screen, r *row) string { return clockText(s.clock, &r.Packet) }, nil},
	{"source", "From", 15, false, appended(packetline.AppendSource), func(_ *screen, r *row) string { return addrFilter("src", r) }},
	{"destination", "To", 15, false, appended(packetline.AppendDestination), func(_ *screen, r *row) string { return addrFilter("dst", r) }},
	{"protocol", "Proto", 6, false, appended(packetline.AppendProtocol), func(_ *screen, r *row) string {
		if r.Packet.Has(dissect.LayerBTH) {
			return "infiniband"
		}
		return ""
	}},
	{"length", "Len", 5, true, func(_ *screen, r *row) string { return strconv.Itoa(int(r.Packet.WireLen)) }, func(_ *screen, r *row) string { return fmt.Sprintf("frame.len == %d", r.Packet.WireLen) }},
	{"info", "What it says", 0, false, func(s *screen, r *row) string {
		info := packetline.AppendNotes(packetline.AppendInfo(nil, &r.Packet, r.Data), &r.Packet, &r.Mark)
		return s.masked(refusalFirst(leadingZeros.ReplaceAllString(string(info), "QP=0x")))
	}, func(s *screen, r *row) string { return columnFilter("infiniband.bth.opcode", r) }},
}

func addrFilter(side string, r *row) string {
	p := &r.Packet
	a := map[string]dissect.Addr{"src": p.Src, "dst": p.Dst}[side]
	switch {
	case p.Has(dissect.LayerIPv4):
		return "ip." + side + " == " + a.String()
	case p.Has(dissect.LayerIPv6):
		return "ipv6." + side + " == " + a.String()
	case p.Has(dissect.LayerEthernet):
		return columnFilter("eth."+side, r)
	}
	return ""
}

// columnFilter is the filter that a field has the packet's value; "" where it has none.
func columnFilter(name string, r *row) string {
	c, err := filter.LookupColumn(name)
	if err != nil || c.Needs() >= filter.NeedEnd {
		return ""
	}
	value, ok := c.Append(nil, &r.Packet, r.Data, &r.Mark, nil)
	if !ok {
		return ""
	}
	switch text := string(value); c.Kind() {
	case dissect.Bytes, dissect.Epoch:
		return c.Name()
	case dissect.Text:
		return c.Name() + " == " + strconv.Quote(text)
	default:
		return c.Name() + " == " + text
	}
}

func (g *packetGrid) build(s *screen) {
	g.cols = slices.Clone(packetCols)
	for k, most := 2, max(15, s.w/6); k <= 3; k++ { // addresses: as wide as those in view
		w := 9
		for i := range g.cache {
			w = max(w, cells.Width(g.cols[k].text(s, &g.cache[i])))
		}
		g.cols[k].width = min(w, most)
	}
	g.cols[1].width = clockWidth(s.clock)
	for _, name := range s.columns {
		c, err := filter.LookupColumn(name)
		if err != nil {
			continue
		}
		short := c.Name()
		if k := strings.LastIndex(strings.TrimPrefix(short, "infiniband."), "."); k >= 0 {
			short = strings.TrimPrefix(short, "infiniband.")
		}
		g.cols = slices.Insert(g.cols, len(g.cols)-1, packetCol{
			name: c.Name(), title: short, width: max(10, len(short)),
			text: func(s *screen, r *row) string {
				out, _ := c.Append(nil, &r.Packet, r.Data, &r.Mark, nil)
				return s.masked(string(out))
			},
			filter: func(_ *screen, r *row) string { return columnFilter(c.Name(), r) },
		})
	}
	if g.shown == nil || slices.Max(g.shown) >= len(g.cols) {
		g.shown = nil
		for i := range g.cols {
			g.shown = append(g.shown, i)
		}
	}
}

// number is the packet's number at a place of the list.
func (g *packetGrid) number(i int) uint64 {
	if g.view == nil {
		return g.first + uint64(i)
	}
	n, _ := g.view.Frame(i)
	return n
}

// place is where in the list a packet is, or would be.
func (g *packetGrid) place(n uint64) (i int, exact bool) {
	if g.view != nil {
		return g.view.Find(n)
	}
	return int(n - min(n, g.first)), n >= g.first && n < g.first+uint64(g.n)
}

// count brings the list to its length. The cursor stays on its packet, also where older ones go away.
func (g *packetGrid) count(s *screen) {
	anchor := g.anchor
	s.watch(g.view)
	g.first = s.first()
	if g.view == nil {
		g.n = int(s.packets() + 1 - min(g.first, s.packets()+1))
	} else if g.n = g.view.Len(); s.frozen != nil {
		g.n, _ = g.view.Find(s.frozen.packets + 1)
	}
	switch {
	case g.want > 0:
		if i, exact := g.place(g.want); i < g.n && (exact || g.reached(s, g.want)) {
			g.cur, g.want = i, 0
			g.top = g.cur - g.height/3
		}
	case s.tailing():
		g.cur = g.n - 1
	case anchor > 0:
		if i, _ := g.place(anchor); i != g.cur {
			g.top += i - g.cur
			g.cur = i
		}
	}
	g.settle()
}

// settle keeps the cursor in view, and notes on which packet it is.
func (g *packetGrid) settle() {
	g.fit()
	if g.anchor = 0; g.cur < g.n {
		g.anchor = g.number(g.cur)
	}
}

// reached says that the list has everything up to a packet.
func (g *packetGrid) reached(s *screen, n uint64) bool {
	if g.view == nil {
		return true
	}
	complete, err := g.view.State()
	return complete || err != nil || g.view.Scanned() >= n
}

// row is a packet that is in memory; nil while it is not.
func (g *packetGrid) row(i int) *row {
	if i < 0 || i >= g.n {
		return nil
	}
	n := g.number(i)
	k, ok := slices.BinarySearchFunc(g.cache, n, func(r row, n uint64) int {
		switch {
		case r.Number < n:
			return -1
		case r.Number > n:
			return 1
		}
		return 0
	})
	if !ok {
		return nil
	}
	return &g.cache[k]
}

func (g *packetGrid) current() *row { return g.row(g.cur) }

// load has the packets in view read, and a page on either side.
func (g *packetGrid) load(s *screen, key string) {
	from, to := max(0, g.top), min(g.n, g.top+max(g.height, 1))
	missing := false
	for i := from; i < to && !missing; i++ {
		missing = g.row(i) == nil && g.number(i) >= s.status.first
	}
	if !missing {
		return
	}
	page := max(g.height, 20) // on either side, so that the next page is there already
	if s.tailing() {
		page = 0 // what is newest is looked at, and new at every look
	}
	var numbers []uint64
	for i := max(0, from-page); i < min(g.n, to+page); i++ {
		numbers = append(numbers, g.number(i))
	}
	ses := s.ses
	if s.tailing() { // they are in memory: to ask for them and to draw twice costs more
		if rows, ok := ses.rowsNow(numbers); ok {
			g.cache = rows
			return
		}
	}
	s.start(key, func() func(*screen) {
		rows := ses.rows(numbers)
		return func(*screen) { g.cache = rows }
	})
}

func (g *packetGrid) draw(s *screen, c *cells.Canvas, focused bool) {
	g.build(s)
	g.height = max(0, c.H-1)
	g.count(s)
	width := c.W - 1
	widths := make([]int, len(g.shown))
	left := width
	for i, k := range g.shown {
		widths[i] = g.cols[k].width
		if name := g.cols[k].name; width < 99 && (name == "protocol" || name == "length") && i != g.at { // the last column says as much
			widths[i] = -1
		}
		left -= widths[i] + 1
	}
	g.xs, g.ws = g.xs[:0], widths
	x := 0
	for i, k := range g.shown {
		if g.cols[k].width == 0 {
			widths[i] = max(left, 20)
		}
		g.xs = append(g.xs, x)
		if widths[i] < 0 {
			continue
		}
		st := cells.Faint | cells.Bold
		if focused && i == g.at {
			st = cells.Title | cells.Underline
		}
		if g.cols[k].right {
			c.Right(min(x+widths[i], width), 0, st, cells.Cut(g.cols[k].title, widths[i]))
		} else {
			c.Fit(x, 0, min(widths[i], width-x), st, g.cols[k].title)
		}
		x += widths[i] + 1
	}
	for y := range min(g.height, g.n-g.top) {
		i := g.top + y
		r := g.row(i)
		if r == nil {
			n := g.number(i)
			c.Right(7, y+1, cells.Faint, strconv.FormatUint(n, 10))
			if n < s.status.first {
				c.Text(9, y+1, cells.Faint, "its bytes are not kept any more")
			} else {
				c.Text(9, y+1, cells.Faint, "…")
			}
		} else {
			st := packetStyle(r)
			for _, rule := range s.rules {
				if rule.match(r) {
					st = rule.style
				}
			}
			for k, col := range g.shown {
				if g.xs[k] >= width || widths[k] < 0 {
					continue
				}
				text, w := g.cols[col].text(s, r), min(widths[k], width-g.xs[k])
				if g.cols[col].right {
					c.Right(g.xs[k]+w, y+1, st, cells.Cut(text, w))
				} else {
					c.Fit(g.xs[k], y+1, w, st, text)
				}
			}
			if s.find.hits(r.Number) {
				c.Restyle(0, y+1, 7, cells.Marked)
			}
			for _, m := range s.marks {
				if m == r.Number {
					c.Restyle(0, y+1, 7, cells.Chip)
				}
			}
		}
		if i == g.cur {
			st := cells.Bold
			if focused {
				st = cells.Cursor
			}
			cursorRow(c, y+1, width, st)
		}
	}
	g.bar(c, c.W-1, 1)
}

// packetStyle is the colour of what a packet means.
func packetStyle(r *row) cells.Style {
	p, m := &r.Packet, &r.Mark
	switch {
	case p.ICRC == dissect.ICRCInvalid && p.Has(dissect.LayerICRC) || p.Malformed():
		return cells.Bad
	case !p.Has(dissect.LayerBTH):
		if p.Proto == dissect.ProtoPause {
			return cells.Congestion
		}
		return cells.Faint
	case p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindNAK:
		return cells.Bad
	case p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindRNR:
		return cells.Warn
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkAfterGap|flows.MarkReordered) != 0:
		return cells.Warn
	case p.Op().Family == dissect.Congestion || p.ECN() == 3:
		return cells.Congestion
	case p.Op().Role == dissect.Response:
		return cells.Response
	}
	return cells.Plain
}

func (g *packetGrid) act(s *screen, a action) bool {
	switch a {
	case doLeft:
		g.at = max(0, g.at-1)
		return true
	case doRight:
		g.at = min(len(g.shown)-1, g.at+1)
		return true
	}
	if !g.scroller.act(a) {
		return false
	}
	g.settle()
	g.want = 0
	if s.follow && a != doBottom {
		s.follow = false
	}
	return true
}

func (g *packetGrid) click(x, y int) (again bool) {
	for i := len(g.xs) - 1; i >= 0; i-- {
		if x >= g.xs[i] {
			g.at = i
			break
		}
	}
	if i := g.top + y - 1; y > 0 && i < g.n {
		again = g.cur == i
		g.cur = i
		g.settle()
	}
	return again
}

func (g *packetGrid) cell(s *screen) (name, value, filter string) {
	r := g.current()
	if r == nil || g.at >= len(g.shown) {
		return "", "", ""
	}
	c := &g.cols[g.shown[g.at]]
	if c.filter != nil {
		filter = c.filter(s, r)
	}
	return c.title, c.text(s, r), filter
}

// cut is the cell under the cursor with its title, where the column is too narrow for it; while the cursor is on none that is cut
// off, the first of the row that is.
func (g *packetGrid) cut(s *screen) (full string, chosen bool) {
	r := g.current()
	if r == nil || len(g.ws) != len(g.shown) {
		return "", false
	}
	for i, k := range g.shown {
		c := &g.cols[k]
		text := c.text(s, r)
		if g.ws[i] < 0 || cells.Width(text) <= g.ws[i] || c.width == 0 && i != g.at {
			continue
		}
		if full == "" || i == g.at {
			full, chosen = c.title+": "+text, i == g.at
		}
	}
	return full, chosen
}

func (g *packetGrid) line(s *screen, i int) string {
	r := g.row(i)
	if r == nil {
		return ""
	}
	var parts []string
	for _, k := range g.shown {
		parts = append(parts, g.cols[k].text(s, r))
	}
	return strings.Join(parts, "  ")
}

func (g *packetGrid) columnChoices() (names []string, on []bool) {
	for i := range g.cols {
		names = append(names, g.cols[i].title)
		on = append(on, slices.Contains(g.shown, i))
	}
	return names, on
}

func (g *packetGrid) toggleColumn(i int) {
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

func (g *packetGrid) sortBy(*screen, int)       {}
func (g *packetGrid) sortAs(*screen, int, bool) {}
func (g *packetGrid) sortedBy() (int, bool)     { return -1, false }
func (g *packetGrid) scroll() *scroller         { return &g.scroller }
