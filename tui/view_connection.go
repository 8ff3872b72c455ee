package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// section is a part of what is known of a connection; there is a panel for each.
type section struct {
	title string
	draw  func(v *connectionView, s *screen, c *cells.Canvas, k *flows.Connection, focused bool)
}

// sections are the panels of a connection, in the order of tab.
var sections []section

func init() { // their functions refer to the view, which refers to them
	sections = []section{
		{"Numbers", (*connectionView).drawNumbers},
		{"States", (*connectionView).drawStates},
		{"PSNs", (*connectionView).drawPSN},
		{"Charts", (*connectionView).drawCharts},
		{"Messages", (*connectionView).drawMessages},
		{"Findings", (*connectionView).drawFindings},
		{"Memory", (*connectionView).drawMemory},
	}
}

const sectionCharts, sectionMessages, sectionFindings = 3, 4, 5

// connectionView is one connection: who they are, in which state, what passed, what went wrong.
type connectionView struct {
	id       uint32
	focus    int
	messages messageList
	findings *grid[flows.Finding]
	psn      psnPoints
	rects    []rect
	of       []int // the sections in rects
	scroll   int
	read     reader // a moment of the charts
}

func newConnection(id uint32) *connectionView {
	v := &connectionView{id: id, messages: newMessageList(id), findings: newGrid(findingID, findingCols())}
	v.findings.shown = []int{0, 2, 3, 4, 5}
	return v
}

func (v *connectionView) title(s *screen) string { return s.connTitle(v.id) }

func (v *connectionView) refresh(s *screen) {
	var mine []flows.Finding
	for _, f := range s.snapshot().Findings {
		if f.Conn == v.id {
			mine = append(mine, f)
		}
	}
	v.findings.set(s, mine)
	v.messages.refresh(s)
	v.psn.refresh(s, v.id)
}

func (v *connectionView) draw(s *screen, c *cells.Canvas) {
	k := s.connection(v.id)
	v.rects, v.of = v.rects[:0], v.of[:0]
	if k == nil {
		c.Text(2, 1, cells.Note, "This connection is not in the table any more: it was joined to another, or evicted.")
		return
	}
	y := v.drawHead(s, c, k)
	x := 1
	for i, sec := range sections {
		st := cells.Faint
		if i == v.focus {
			st = cells.Title | cells.Underline
		}
		title := sec.title
		switch i {
		case sectionMessages:
			if v.messages.loaded {
				title += fmt.Sprintf(" (%s)", report.Count(uint64(v.messages.total)))
			}
		case sectionFindings:
			title += fmt.Sprintf(" (%d)", v.findings.n)
		}
		v.rects, v.of = append(v.rects, rect{x, y, cells.Width(title), 1}), append(v.of, i)
		x = c.Text(x, y, st, title) + 2
	}
	y++
	body := rect{0, y, c.W, c.H - y}
	if s.zoom || body.h < 26 || c.W < 110 {
		v.panel(s, c, k, v.focus, body)
		return
	}
	// Two by two on large screens: what has the keys first.
	show := []int{v.focus}
	for _, i := range []int{1, 2, 3, 4, 5, 0, 6} {
		if i != v.focus && len(show) < v.panels(body) {
			show = append(show, i)
		}
	}
	slices.Sort(show)
	columns, rows := 2, (len(show)+1)/2
	for i, k2 := range show {
		px, py := i%columns, i/columns
		r := rect{body.w * px / columns, body.y + body.h*py/rows, body.w/columns - 1, body.h/rows - 1}
		v.panel(s, c, k, k2, r)
	}
}

// panels is how many panels there is room for.
func (v *connectionView) panels(r rect) int {
	if r.h >= 45 {
		return 6
	}
	return 4
}

func (v *connectionView) panel(s *screen, c *cells.Canvas, k *flows.Connection, i int, r rect) {
	title := sections[i].title
	if i == sectionCharts {
		title += readSeries(s, k, &v.read)
	}
	panelTitle(c, rect{r.x, r.y + 1, r.w, 1}, title, i == v.focus)
	r.y, r.h = r.y+1, r.h-1
	v.rects, v.of = append(v.rects, r), append(v.of, i)
	sections[i].draw(v, s, c.Sub(r.x, r.y, r.w, r.h), k, i == v.focus)
}

// drawHead draws who they are and how one knows.
func (v *connectionView) drawHead(s *screen, c *cells.Canvas, k *flows.Connection) int {
	how, st := pairing(k.Evidence)
	x := c.Text(1, 0, cells.Bold, "A ")
	x = c.Text(x, 0, cells.Request, s.qpName(&k.A))
	x = c.Text(x, 0, cells.Faint, " "+shortState(k.A.State)+"   ")
	x = c.Text(x, 0, cells.Bold, "B ")
	x = c.Text(x, 0, cells.Response, s.qpName(&k.B))
	x = c.Text(x, 0, cells.Faint, " "+shortState(k.B.State)+"   ")
	x = c.Text(x, 0, cells.Plain, k.Transport.String()+"   ")
	if m := max(k.A.PathMTU, k.B.PathMTU); m > 0 {
		x = c.Text(x, 0, cells.Plain, fmt.Sprintf("MTU %d   ", m))
	}
	c.Text(x, 0, cells.Faint, fmt.Sprintf("tap: %s", k.Tap))
	text := s.masked(k.Why)
	if len(k.Candidates) > 0 {
		var names []string
		for _, q := range k.Candidates {
			names = append(names, s.addr(q.Addr)+" "+qpn(q.QPN))
		}
		text += "; candidates: " + strings.Join(names, ", ")
	}
	if k.Directions == 1 {
		text += "; only one direction was captured"
	}
	x = c.Text(1, 1, cells.Faint, "paired by ")
	x = c.Text(x, 1, st, how)
	if text != "" {
		c.Fit(x, 1, c.W-x-1, cells.Faint, ": "+text)
	}
	return 2
}

// drawNumbers draws what both streams count, side by side.
func (v *connectionView) drawNumbers(s *screen, c *cells.Canvas, k *flows.Connection, focused bool) {
	w := (c.W - 24) / 2
	c.Text(24, 0, cells.Request|cells.Bold, "A → B")
	c.Text(24+w, 0, cells.Response|cells.Bold, "B → A")
	y := 1 - v.scroll
	line := func(label string, f func(*flows.Stream) (string, cells.Style)) {
		a, as := f(&k.Streams[0])
		b, bs := f(&k.Streams[1])
		if a == "" && b == "" {
			return
		}
		if y >= 1 {
			c.Fit(1, y, 22, cells.Faint, label)
			c.Fit(24, y, w-1, as, orElse(a, "·"))
			c.Fit(24+w, y, w-1, bs, orElse(b, "·"))
		}
		y++
	}
	count := func(label string, st cells.Style, f func(*flows.Stream) uint64) {
		line(label, func(x *flows.Stream) (string, cells.Style) {
			if n := f(x); n > 0 {
				return report.Count(n), st
			}
			return "", cells.Faint
		})
	}
	line("packets, bytes", func(x *flows.Stream) (string, cells.Style) {
		return report.Count(x.Packets) + ", " + report.Bytes(x.Bytes), cells.Plain
	})
	for op := range flows.NumOperations {
		line(op.String(), func(x *flows.Stream) (string, cells.Style) {
			m := x.Messages[op]
			if m.Count == 0 {
				return "", cells.Faint
			}
			text := fmt.Sprintf("%s, %s, %s done", report.Count(m.Count), report.Bytes(m.Bytes), report.Count(m.Completed))
			if m.Failed > 0 {
				return text + ", " + report.Count(m.Failed) + " failed", cells.Bad
			}
			return text, cells.Plain
		})
	}
	line("goodput", func(x *flows.Stream) (string, cells.Style) {
		if x.Goodput == 0 {
			return "", cells.Faint
		}
		return report.BitRate(x.Goodput), cells.Plain
	})
	line("latency p50, p99, max", func(x *flows.Stream) (string, cells.Style) {
		l := x.Latency
		if l.Count == 0 {
			return "", cells.Faint
		}
		mark := ""
		if l.Coalesced > 0 {
			mark = "≤"
		}
		approx := ""
		if l.Coarse {
			approx = "~"
		}
		return fmt.Sprintf("%s%s%s, %s%s%s, %s%s", mark, approx, dur(l.P50), mark, approx, dur(l.P99), mark, dur(l.Max)), cells.Plain
	})
	line("round trip min, mean", func(x *flows.Stream) (string, cells.Style) {
		if x.RTT.Count == 0 {
			return "", cells.Faint
		}
		return dur(x.RTT.Min) + ", " + dur(x.RTT.Mean), cells.Plain
	})
	count("acknowledgements", cells.Plain, func(x *flows.Stream) uint64 { return x.Acks })
	count("packets sent again", cells.Warn, func(x *flows.Stream) uint64 { return x.RetransmittedPackets })
	for cause := range flows.NumCauses {
		count("  runs, "+cause.String(), cells.Warn, func(x *flows.Stream) uint64 { return x.Retransmissions[cause] })
	}
	line("NAKs", func(x *flows.Stream) (string, cells.Style) {
		n := uint64(0)
		for _, k := range x.NAKs {
			n += k
		}
		return orNone(n), cells.Bad
	})
	count("RNR NAKs", cells.Warn, func(x *flows.Stream) uint64 { return x.RNRNAKs })
	count("lost before this tap", cells.Bad, func(x *flows.Stream) uint64 { return x.LostBeforeTap })
	count("lost behind this tap", cells.Bad, func(x *flows.Stream) uint64 { return x.LostBehindTap })
	count("lost by the capture", cells.Warn, func(x *flows.Stream) uint64 { return x.CaptureLost })
	count("unclear: lost, copied", cells.Note, func(x *flows.Stream) uint64 { return x.Ambiguous })
	count("reordered", cells.Warn, func(x *flows.Stream) uint64 { return x.Reordered })
	count("network duplicates", cells.Warn, func(x *flows.Stream) uint64 { return x.NetworkDuplicates })
	count("duplicate requests", cells.Warn, func(x *flows.Stream) uint64 { return x.Duplicates })
	count("ghost ACKs", cells.Note, func(x *flows.Stream) uint64 { return x.GhostAcks })
	count("wrong ICRC", cells.Bad, func(x *flows.Stream) uint64 { return x.BadICRC })
	count("congestion experienced", cells.Congestion, func(x *flows.Stream) uint64 { return x.ECNCE })
	count("CNPs", cells.Congestion, func(x *flows.Stream) uint64 { return x.CNPs })
	if k.Detail != nil {
		for i, part := range budgetParts {
			line(part.label, func(x *flows.Stream) (string, cells.Style) {
				b := &k.Detail.Budget[btoi(x == &k.Streams[1])]
				d := part.of(b)
				if d <= 0 {
					return "", cells.Faint
				}
				text := part.mark + dur(int64(d))
				if i > 0 {
					text += ", " + share(d, b.Total)
				}
				return text, part.style
			})
		}
	}
	v.scroll = max(0, min(v.scroll, y+v.scroll-c.H))
}

// share is a part of a whole in hundredths.
func share(part, whole time.Duration) string {
	if part*200 < whole {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", 100*float64(part)/float64(whole))
}

// budgetParts is where the time of a requester went: all of it, what was lost, the rest.
var budgetParts = []struct {
	label, mark string // the mark says that it is estimated
	style       cells.Style
	of          func(*flows.Budget) time.Duration
}{
	{"time as a requester", "", cells.Plain, func(b *flows.Budget) time.Duration { return b.Total }},
	{"  waited, RNR", "", cells.Warn, func(b *flows.Budget) time.Duration { return b.RNR }},
	{"  waited, time-outs", "", cells.Warn, func(b *flows.Budget) time.Duration { return b.Timeout }},
	{"  waited, behind NAKs", "", cells.Warn, func(b *flows.Budget) time.Duration { return b.Recovery }},
	{"  waited, credits", "", cells.Warn, func(b *flows.Budget) time.Duration { return b.Credit }},
	{"  waited, READ depth", "", cells.Warn, func(b *flows.Budget) time.Duration { return b.ReadDepth }},
	{"  slowed by CNPs", "~", cells.Congestion, func(b *flows.Budget) time.Duration { return b.Congestion }},
	{"  paused", "~", cells.Congestion, func(b *flows.Budget) time.Duration { return b.Paused }},
	{"  in flight", "", cells.Plain, func(b *flows.Budget) time.Duration { return b.InFlight }},
	{"  nothing to send", "", cells.Plain, func(b *flows.Budget) time.Duration { return b.Application }},
}

func orNone(n uint64) string {
	if n == 0 {
		return ""
	}
	return report.Count(n)
}

func (v *connectionView) drawCharts(s *screen, c *cells.Canvas, k *flows.Connection, _ bool) {
	top := drawConnCharts(s, c, k, v.scroll*btoi(v.focus == sectionCharts), &v.read, &v.psn)
	if v.focus == sectionCharts {
		v.scroll = top
	}
}

func (v *connectionView) drawMessages(s *screen, c *cells.Canvas, _ *flows.Connection, focused bool) {
	v.messages.draw(s, c, focused)
}

func (v *connectionView) drawFindings(s *screen, c *cells.Canvas, _ *flows.Connection, focused bool) {
	if v.findings.n == 0 {
		c.Text(1, 0, cells.Faint, map[bool]string{true: "nothing was found", false: "nothing so far"}[s.status.done])
		return
	}
	h := c.H
	if h >= 14 {
		h = min(v.findings.n+1, h/2)
	}
	v.findings.draw(s, c.Sub(0, 0, c.W, h), focused)
	if f := v.findings.current(); f != nil && h < c.H {
		drawFinding(s, c.Sub(0, h+1, c.W, c.H-h-1), f)
	}
}

func (v *connectionView) act(s *screen, a action) bool {
	switch a {
	case doNextPanel:
		v.focus, v.scroll = (v.focus+1)%len(sections), 0
		return true
	case doPrevPanel:
		v.focus, v.scroll = (v.focus+len(sections)-1)%len(sections), 0
		return true
	}
	switch v.focus {
	case sectionCharts:
		if v.read.act(a) {
			return true
		}
	case sectionMessages:
		if a == doInto {
			v.messages.into(s)
			return true
		}
		return v.messages.table.act(s, a)
	case sectionFindings:
		if a == doInto {
			if f := v.findings.current(); f != nil && f.Frame > 0 {
				s.goFrame(f.Frame)
			}
			return true
		}
		return v.findings.act(s, a)
	}
	switch a {
	case doInto:
		s.push(newLadder(v.id, 0))
	case doLeft:
		return v.act(s, doPrevPanel)
	case doRight:
		return v.act(s, doNextPanel)
	case doDown:
		v.scroll++
	case doUp:
		v.scroll = max(0, v.scroll-1)
	case doPageDown:
		v.scroll += 10
	case doPageUp:
		v.scroll = max(0, v.scroll-10)
	case doTop:
		v.scroll = 0
	default:
		return false
	}
	return true
}

func (v *connectionView) mouse(s *screen, m mouseEvent) bool {
	for i := len(v.rects) - 1; i >= 0; i-- {
		r := v.rects[i]
		if !r.has(m.x, m.y) {
			continue
		}
		if m.click {
			v.focus = v.of[i]
		}
		switch v.of[i] {
		case sectionMessages:
			if m.wheel != 0 {
				v.messages.table.wheel(m.wheel)
			} else if r.h > 1 && v.messages.table.click(s, m.x-r.x, m.y-r.y) {
				v.messages.into(s)
			}
		case sectionFindings:
			if m.wheel != 0 {
				v.findings.wheel(m.wheel)
			} else if r.h > 1 && v.findings.click(s, m.x-r.x, m.y-r.y) {
				v.act(s, doInto)
			}
		case sectionCharts:
			if m.wheel == 0 && r.h > 1 {
				v.read.click(m.x - r.x)
				s.dragged = func(_ *screen, x, _ int) { v.read.click(x - r.x) }
			}
			v.scroll = max(0, v.scroll+max(-1, min(m.wheel, 1)))
		default:
			v.scroll = max(0, v.scroll+m.wheel)
		}
		return true
	}
	return false
}

func (v *connectionView) here(*screen) place {
	p := place{conn: v.id}
	switch v.focus {
	case sectionMessages:
		if m := v.messages.table.current(); m != nil {
			p.frame = m.FirstFrame
		}
	case sectionFindings:
		if f := v.findings.current(); f != nil {
			p.frame = f.Frame
		}
	}
	return p
}

func (v *connectionView) grid() gridLike {
	switch v.focus {
	case sectionMessages:
		return v.messages.table
	case sectionFindings:
		return v.findings
	}
	return nil
}

func (v *connectionView) footer() []action {
	return []action{doInto, doNextPanel, doLadderHere, doNextFinding, doZoom}
}
