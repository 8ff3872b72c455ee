package tui

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// tabs are the views that have a number.
var tabs = []struct {
	do          action
	name, short string
}{
	{doOverview, "Overview", "Overview"},
	{doConnections, "Connections", "Conns"},
	{doMessages, "Messages", "Msgs"},
	{doPackets, "Packets", "Packets"},
	{doLadder, "Ladder", "Ladder"},
	{doFindings, "Findings", "Findings"},
	{doEndpoints, "Endpoints", "Endpoints"},
	{doTraffic, "Traffic", "Traffic"},
}

// Views are the names of the views of a capture.
func Views() []string {
	var names []string
	for _, t := range tabs {
		if t.do != doTraffic {
			names = append(names, string(t.do))
		}
	}
	return names
}

// draw draws everything.
func (s *screen) draw() *cells.Canvas {
	c := s.canvas // of the frame before: new memory costs more than what is drawn on it
	if c == nil || c.W != s.w || c.H != s.h {
		c = cells.New(s.w, s.h)
		s.canvas = c
	}
	c.Fill(' ', cells.Plain)
	s.areas = s.areas[:0]
	top, bottom := 2, 2
	if s.h < 12 {
		top, bottom = 1, 1
	}
	s.drawCrumbs(c)
	if top == 2 {
		s.drawTabs(c)
	}
	_, editing := s.prompt.(*filterPrompt)
	if s.filter.text != "" || editing {
		if !editing {
			s.drawFilter(c, top)
		}
		top++
	}
	s.body = rect{0, top, s.w, max(0, s.h-top-bottom)}
	body := c.Sub(s.body.x, s.body.y, s.body.w, s.body.h)
	s.top().draw(s, body)
	if bottom == 2 {
		s.drawStatus(c, s.h-2)
	}
	s.drawFooter(c, s.h-1)
	if s.prompt != nil {
		s.prompt.draw(s, c)
	}
	return c
}

// text is the screen as it goes to the terminal.
func (s *screen) text() string {
	if o := &s.output; o.Theme != s.theme || o.Depth != s.depth || o.ASCII != s.ascii {
		*o = cells.Output{Theme: s.theme, Depth: s.depth, ASCII: s.ascii}
	}
	return s.output.Lines(s.draw())
}

// drawCrumbs draws where one is.
func (s *screen) drawCrumbs(c *cells.Canvas) {
	line := c.Sub(0, 0, c.W, 1)
	line.Fill(' ', cells.Bar)
	right := c.W - 1
	for _, chip := range s.chips() {
		w := cells.Width(chip.text) + 2
		if chip.away != nil {
			w += 2
		}
		right -= w
		s.drawChip(line, right, 0, chip)
		right--
	}
	title := "rocescope"
	if s.ses != nil {
		title = s.masked(filepath.Base(s.ses.in.Title))
	}
	crumbs := make([]string, len(s.stack))
	room := right - 1 - min(cells.Width(title), c.W/3) - 1
	for i, v := range s.stack {
		crumbs[i] = v.title(s)
		room -= cells.Width(crumbs[i]) + 3
	}
	first := 0
	for ; room < 0 && first < len(crumbs)-1; first++ { // where it is too long, where one comes from goes first
		room += cells.Width(crumbs[first]) + 3
		if first == 0 {
			room -= 4 // the ellipsis for all that go
		}
	}
	x := 1
	if room >= -20 || c.W >= 60 { // and on very small ones the file's name
		x = line.Fit(1, 0, max(0, min(right-1, c.W/3)), cells.Bar|cells.Bold, title)
	}
	if first > 0 {
		x = line.Text(x, 0, cells.Bar, " ▸ …")
	}
	for i := first; i < len(crumbs); i++ {
		text := crumbs[i]
		if x >= right-4 {
			break
		}
		x = line.Text(x, 0, cells.Bar, " ▸ ")
		st := cells.Bar
		if i == len(s.stack)-1 {
			st |= cells.Bold
		}
		from := x
		x = line.Fit(x, 0, right-x-1, st, text)
		s.clickable(rect{from, 0, x - from, 1}, func(s *screen) { s.backTo(i + 1) })
	}
}

// clickable has the mouse do something at a place of this frame.
func (s *screen) clickable(at rect, do func(*screen)) { s.areas = append(s.areas, area{at, do}) }

// doing is an action as the mouse does it.
func doing(a action) func(*screen) { return func(s *screen) { s.do(a) } }

// chip is a state that can be taken away again.
type chip struct {
	text  string
	style cells.Style
	do    func(*screen) // a click on it
	away  func(*screen) // a click on its cross; nil: it has none
}

// drawChip draws a chip at x in a line of the frame and returns where it ends.
func (s *screen) drawChip(c *cells.Canvas, x, y int, ch chip) int {
	from := x
	x = c.Text(x, y, ch.style, " "+ch.text+" ")
	s.clickable(rect{from, y, x - from, 1}, ch.do)
	if ch.away != nil {
		from = x - 1
		x = c.Text(x, y, ch.style, "× ")
		s.clickable(rect{from, y, x - from, 1}, ch.away)
	}
	return x
}

// chips are the states that can be taken away again.
func (s *screen) chips() []chip {
	var all []chip
	if s.frozen != nil {
		all = append(all, chip{fmt.Sprintf("frozen +%s new", report.Count(s.status.packets-s.frozen.packets)), cells.Chip, doing(doFreeze), doing(doFreeze)})
	} else if s.follow && s.ses != nil && s.ses.Live() {
		all = append(all, chip{"following", cells.Bar | cells.Bold, doing(doFollow), nil})
	}
	if s.privacy != nil {
		all = append(all, chip{"masked", cells.Chip, doing(doPrivacy), doing(doPrivacy)})
	}
	if s.find.text != "" {
		all = append(all, chip{"search " + cells.Cut(s.find.text, 16), cells.Chip, doing(doSearch), (*screen).endSearch})
	}
	if s.zoom {
		all = append(all, chip{"zoomed", cells.Chip, doing(doZoom), doing(doZoom)})
	}
	if s.count > 0 {
		none := func(s *screen) { s.count = 0 }
		all = append(all, chip{s.countText(), cells.Chip, none, none})
	}
	return all
}

func (s *screen) drawTabs(c *cells.Canvas) {
	width, shown := 0, 0
	for _, t := range tabs {
		if s.hasTab(t.do) {
			width, shown = width+len(s.tabKey(t.do))+1+len(t.name), shown+1
		}
	}
	if shown == 0 {
		return
	}
	gap := min(3, (c.W-2-width)/shown) // and where not even one blank is left between them, some names are shorter
	x := 1
	for _, t := range tabs {
		if !s.hasTab(t.do) {
			continue
		}
		st, from, name := cells.Faint, x, t.name
		if s.tab() == t.do {
			st = cells.Title | cells.Underline
		}
		if gap < 1 {
			name = t.short
		}
		x = c.Text(x, 1, cells.Key, s.tabKey(t.do))
		x = c.Text(x, 1, cells.Plain, " ")
		x = c.Text(x, 1, st, name)
		s.clickable(rect{from, 1, x - from, 1}, doing(t.do))
		x += max(gap, 1)
	}
}

// hasTab says whether a view is there to be opened.
func (s *screen) hasTab(do action) bool {
	if do == doTraffic {
		return s.o.Controls != nil
	}
	return s.ses != nil
}

// tabKey is the key in front of a tab's name.
func (s *screen) tabKey(do action) string {
	if key := s.keys.key(do); key != "" {
		return key
	}
	return "·"
}

// tab is the tab that the view in front belongs to.
func (s *screen) tab() action {
	for i := len(s.stack) - 1; i >= 0; i-- {
		switch s.stack[i].(type) {
		case *overviewView:
			return doOverview
		case *connectionsView, *connectionView:
			return doConnections
		case *messagesView, *messageView:
			return doMessages
		case *packetsView:
			return doPackets
		case *ladderView:
			return doLadder
		case *findingsView:
			return doFindings
		case *endpointsView:
			return doEndpoints
		case *trafficView:
			return doTraffic
		}
	}
	return doOverview
}

// drawFilter draws the filter in force.
func (s *screen) drawFilter(c *cells.Canvas, y int) {
	s.watch(s.filter.view)
	x := c.Text(1, y, cells.Key, s.keys.key(doFilter)+" ")
	text := s.masked(s.filter.text)
	state := s.filter.state(s)
	text = cells.Cut(text, max(8, c.W-x-cells.Width(state)-6))
	x = s.drawChip(c, x, y, chip{text, cells.Chip, doing(doFilter), doing(doClearFilter)})
	c.Text(x+1, y, cells.Faint, state)
}

// drawStatus draws what the capture is, or what there is to say.
func (s *screen) drawStatus(c *cells.Canvas, y int) {
	line := c.Sub(0, y, c.W, 1)
	line.Fill(' ', cells.Bar)
	if s.flash != "" {
		st := cells.Bar | cells.Bold
		mark := " "
		if s.flashBad {
			st, mark = cells.Chip, "✗ "
		}
		line.Fit(0, 0, c.W, st, mark+s.masked(strings.ReplaceAll(s.flash, "\n", "  ")))
		return
	}
	if s.ses == nil {
		return
	}
	text := strings.Join(s.statusParts(), " · ")
	if note := s.smallNote(); note != "" && cells.Width(text)+cells.Width(note)+4 <= c.W {
		line.Right(c.W-1, 0, cells.Bar, note)
	}
	// What the row under the cursor had no room for: where the cursor is on it, it comes first.
	cut, chosen := s.cutHere()
	cut = s.masked(cut)
	switch w := cells.Width(cut); {
	case w > 0 && w+cells.Width(text)+5 <= c.W:
		line.Right(c.W-1, 0, cells.Bar|cells.Bold, cut)
	case chosen:
		line.Fit(1, 0, c.W-2, cells.Bar|cells.Bold, cut)
		return
	}
	line.Fit(1, 0, c.W-2, cells.Bar, text)
}

func (s *screen) statusParts() []string {
	st, snap := s.status, s.snapshot()
	parts := []string{report.Plural(s.packets(), "packet"), report.Plural(uint64(len(snap.Connections)), "connection")}
	var counts [flows.Error + 1]uint64
	for i := range snap.Findings {
		counts[snap.Findings[i].Severity()]++
	}
	found := ""
	for v := flows.Error; ; v-- {
		if counts[v] > 0 {
			letter, _ := severity(v)
			found += fmt.Sprintf(" %s%d", letter, counts[v])
		}
		if v == flows.Note {
			break
		}
	}
	switch {
	case found != "":
		parts = append(parts, "findings"+found)
	case s.snap != nil:
		parts = append(parts, "no findings")
	}
	switch {
	case st.failed != "":
		parts = append(parts[:1], "reading ended: "+s.masked(strings.TrimPrefix(strings.TrimPrefix(st.failed, "captures: "), s.ses.in.Title+": ")))
	case s.ses.Live() && !st.done:
		live := "live"
		if st.engine != "" {
			live += " by " + st.engine
		}
		parts = append(parts, live)
	case !st.done && st.of > 0:
		text := fmt.Sprintf("reading %d %%", st.read*100/max(st.of, 1))
		if left := s.left(); left >= time.Second {
			text += fmt.Sprintf(", %s left", report.Plural(uint64((left+time.Second/2)/time.Second), "second"))
		}
		parts = append(parts, text)
	case !st.done:
		parts = append(parts, "reading")
	}
	if st.lossKnown {
		if st.lost > 0 {
			parts = append(parts, report.Count(st.lost)+" lost by the capture itself")
		} else if s.ses.Live() {
			parts = append(parts, "none lost by the capture")
		}
	}
	if s.ses.Live() && st.not != "" {
		parts = append(parts, s.masked(st.not))
	}
	if s.ses.Live() && !st.done && st.first > 1 {
		parts = append(parts, fmt.Sprintf("bytes kept from packet %s on", report.Count(st.first)))
	}
	return parts
}

// small says that the terminal is too small for several panels.
func (s *screen) small() bool { return s.w < 80 || s.h < 24 }

// smallNote says so.
func (s *screen) smallNote() string {
	if v, ok := s.top().(*packetsView); ok && s.small() {
		return fmt.Sprintf("small: panel %d of %d", v.focus+1, len(v.rects))
	}
	return ""
}

// left is how long reading a file takes still, if it goes on as it went; 0 while that cannot be told.
func (s *screen) left() time.Duration {
	st := &s.status
	took := s.now().Sub(s.began)
	if took < 500*time.Millisecond || st.read <= 0 || st.of <= st.read {
		return 0
	}
	return time.Duration(float64(took) * float64(st.of-st.read) / float64(st.read))
}

// cutHere is a cell of the row under the cursor that is too long for its column, and whether the cursor is on it.
func (s *screen) cutHere() (text string, chosen bool) {
	if g := s.top().grid(); g != nil {
		return g.cut(s)
	}
	return "", false
}

// drawFooter draws the keys that matter here; help and quit always.
func (s *screen) drawFooter(c *cells.Canvas, y int) {
	shown := map[action]bool{}
	right := c.W - 1
	for _, a := range []action{doQuit, doHelp} {
		right = s.footerKey(c, right, y, a, true) - 2
		shown[a] = true
	}
	x := 1
	for _, a := range append(append([]action(nil), s.top().footer()...), doBack, doFilter, doNextFinding, doCopy, doWrite, doFreeze) {
		b := s.keys.row(a)
		if len(b.keys) == 0 || shown[a] || a == doBack && len(s.stack) == 1 || s.ses == nil && (a == doFilter || a == doNextFinding || a == doWrite || a == doCopy || a == doFreeze) {
			continue
		}
		if x+cells.Width(b.keys[0]+" "+b.label()) > right {
			break
		}
		shown[a] = true
		x = s.footerKey(c, x, y, a, false) + 2
	}
}

// footerKey draws a key and what it does at x, or so that it ends there; it returns its other end.
func (s *screen) footerKey(c *cells.Canvas, x, y int, a action, left bool) int {
	b := s.keys.row(a)
	if len(b.keys) == 0 {
		return x
	}
	w := cells.Width(b.keys[0] + " " + b.label())
	if left {
		x -= w
	}
	at := c.Text(x, y, cells.Key, b.keys[0])
	c.Text(at+1, y, cells.Faint, b.label())
	s.clickable(rect{x, y, w, 1}, doing(a))
	if left {
		return x
	}
	return x + w
}

// moment is a time of the capture in words: since its first packet.
func (s *screen) moment(t int64) string {
	if t == 0 {
		return "-"
	}
	base := s.base()
	if timeFormats[s.clock].name == "a" {
		return time.Unix(0, t).Format("15:04:05.000000")
	}
	if timeFormats[s.clock].name == "u" {
		return time.Unix(0, t).UTC().Format("01-02 15:04:05.000000")
	}
	return secondsText(t - base)
}

// base is the time of the first packet, as far as known.
func (s *screen) base() int64 {
	if s.ses == nil {
		return 0
	}
	return s.ses.base()
}
