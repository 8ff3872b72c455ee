package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// overviewView is the whole capture: what passes, what is wrong, who is busiest, what was lost.
type overviewView struct {
	findings *grid[flows.Finding]
	busiest  *grid[flows.Connection]
	focus    int // 0 findings, 1 connections, 2 the chart
	rects    [3]rect
	read     reader // a moment of the chart
}

func newOverview() *overviewView {
	v := &overviewView{
		findings: newGrid(findingID, findingCols()),
		busiest:  newGrid(func(c *flows.Connection) uint64 { return uint64(c.ID) }, connectionCols()),
	}
	v.findings.shown = []int{0, 1, 2, 4, 5}
	return v
}

func (v *overviewView) title(*screen) string { return "Overview" }

func (v *overviewView) refresh(s *screen) {
	v.findings.set(s, s.snapshot().Findings)
	all := slices.Clone(s.snapshot().Connections)
	slices.SortStableFunc(all, func(a, b flows.Connection) int {
		x, y := a.Streams[0].Bytes+a.Streams[1].Bytes, b.Streams[0].Bytes+b.Streams[1].Bytes
		switch {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	v.busiest.set(s, all[:min(len(all), 100)])
}

func (v *overviewView) draw(s *screen, c *cells.Canvas) {
	if s.packets() == 0 {
		drawEmpty(s, c)
		return
	}
	chartH := max(5, c.H*35/100, min(c.H*55/100, c.H-v.findings.n-v.busiest.n-8)) // more where there is room
	if c.H < 16 {
		chartH = 0
	}
	factsW := min(46, c.W*2/5)
	y := 0
	if chartH > 0 {
		panelTitle(c, rect{0, 1, factsW, 1}, "Capture", false)
		v.facts(s, c.Sub(0, 1, factsW, chartH-1))
		v.rects[2] = rect{factsW + 1, 1, c.W - factsW - 1, chartH - 1}
		title := "What passed"
		title += drawRates(s, c.Sub(factsW+1, 1, c.W-factsW-1, chartH-1), &v.read)
		if v.focus == 2 && v.read.at == 0 {
			title += " (← and → read values)"
		}
		panelTitle(c, rect{factsW + 1, 1, c.W - factsW - 1, 1}, title, v.focus == 2)
		y = chartH
	} else if v.rects[2] = (rect{}); v.focus == 2 {
		v.focus = 0
	}
	rest := c.H - y
	fh := min(max(4, rest/2), v.findings.n+3)
	if v.findings.n == 0 {
		fh = 3
	}
	if s.zoom {
		fh = map[int]int{0: rest, 1: 0, 2: fh}[v.focus]
	}
	v.rects[0] = rect{0, y + 1, c.W, fh - 1}
	if fh > 1 {
		panelTitle(c, v.rects[0], "What is wrong", v.focus == 0)
		in := c.Sub(0, y+1, c.W, fh-1)
		switch {
		case v.findings.n > 0:
			v.findings.draw(s, in, v.focus == 0)
		case s.status.done:
			in.Text(1, 0, cells.OK, "✓ nothing was found")
		default:
			in.Text(1, 0, cells.Note, "nothing so far")
		}
	}
	v.rects[1] = rect{0, y + fh + 1, c.W, rest - fh - 1}
	if rest-fh > 1 {
		panelTitle(c, v.rects[1], "Busiest connections", v.focus == 1)
		in := c.Sub(0, y+fh+1, c.W, rest-fh-1)
		if v.busiest.n > 0 {
			v.busiest.draw(s, in, v.focus == 1)
		} else {
			noQueuePairs(s, in.Sub(0, 0, in.W, in.H))
		}
	}
}

// facts draws what the capture is and holds.
func (v *overviewView) facts(s *screen, c *cells.Canvas) {
	snap := s.snapshot()
	series := s.ses.rates.series()
	y := 0
	line := func(label, text string, st cells.Style) {
		if text == "" || y >= c.H {
			return
		}
		c.Text(1, y, cells.Faint|cells.Bold, label)
		c.Fit(11, y, c.W-12, st, text)
		y++
	}
	packets := report.Count(s.packets())
	if n := len(series.points); n > 1 {
		span := time.Duration(series.points[n-1].at-series.points[0].at) + series.every
		packets += " in ~" + dur(int64(span))
		if s.ses.Live() && n == maxRatePoints {
			packets = report.Count(s.packets())
		}
	}
	line("packets", packets, cells.Plain)
	p := snap.Protocols
	var kinds []string
	for _, k := range []struct {
		name string
		n    uint64
	}{{"RoCE v2", p.RoCEv2}, {"RoCE v1", p.RoCEv1}, {"InfiniBand", p.InfiniBand}, {"iWARP", p.IWARP}, {"CM", p.CM}, {"CNP", p.CNP}, {"PFC", p.PFC}, {"exchange", p.SocketExchange}, {"other", p.Other}} {
		if k.n > 0 {
			kinds = append(kinds, k.name+" "+short(k.n))
		}
	}
	for _, l := range wrapText(strings.Join(kinds, ", "), max(10, c.W-12)) {
		label := ""
		if y <= 1 {
			label = "of which"
		}
		line(label, l, cells.Plain)
	}
	icrc, st := fmt.Sprintf("%s right", short(snap.ICRC[dissect.ICRCValid])), cells.OK
	if snap.ICRC[dissect.ICRCValid] == 0 {
		icrc, st = "none right", cells.Faint
	}
	if snap.ICRC[dissect.ICRCValid]+snap.ICRC[dissect.ICRCInvalid]+snap.ICRC[dissect.ICRCUnchecked] == 0 {
		icrc = "no packet has one"
	}
	if n := snap.ICRC[dissect.ICRCInvalid]; n > 0 {
		icrc, st = fmt.Sprintf("%s wrong, %s", short(n), icrc), cells.Bad
	}
	if n := snap.ICRC[dissect.ICRCUnchecked]; n > 0 {
		icrc += fmt.Sprintf(", %s unknown", short(n))
	}
	line("ICRC", icrc, st)
	switch {
	case !s.status.lossKnown:
		line("capture", "losses not recorded", cells.Faint)
	case s.status.lost > 0:
		line("capture", "lost "+report.Plural(s.status.lost, "packet")+" itself", cells.Bad)
	default:
		line("capture", "says that it lost nothing", cells.OK)
	}
	if by := s.status.engine; by != "" {
		style := cells.Plain
		if s.status.not != "" {
			by, style = by+", "+s.masked(s.status.not), cells.Warn
		}
		for i, l := range wrapText(by, max(10, c.W-12)) {
			line(map[bool]string{true: "engine", false: ""}[i == 0], l, style)
		}
	}
	if s.ses.Live() {
		kept := fmt.Sprintf("%s in memory", report.Bytes(uint64(s.status.ring)))
		if s.status.spooled > 0 {
			kept += ", " + report.Bytes(uint64(s.status.spooled)) + " on disk"
		}
		line("kept", kept, cells.Plain)
	}
	if snap.FindingsLeft > 0 {
		line("left out", report.Plural(snap.FindingsLeft, "finding")+" for want of room", cells.Warn)
	}
	if snap.Evicted > 0 {
		line("evicted", report.Plural(snap.Evicted, "connection")+" for want of room", cells.Warn)
	}
}

func (v *overviewView) act(s *screen, a action) bool {
	switch a {
	case doNextPanel:
		v.focus = (v.focus + 1) % 3
		return true
	case doPrevPanel:
		v.focus = (v.focus + 2) % 3
		return true
	case doInto:
		switch v.focus {
		case 2:
			v.atMoment(s)
			return true
		case 0:
			if v.findings.current() != nil {
				f := newFindings()
				s.push(f)
				f.table.cur = v.findings.cur
				f.table.fit()
			}
		default:
			if c := v.busiest.current(); c != nil {
				s.push(newConnection(c.ID))
			}
		}
		return true
	}
	switch v.focus {
	case 0:
		return v.findings.act(s, a)
	case 1:
		return v.busiest.act(s, a)
	}
	return v.read.act(a)
}

// atMoment goes to the first packet from the moment on that the chart is read at.
func (v *overviewView) atMoment(s *screen) {
	if v.read.at == 0 {
		s.say("Left and right choose a moment of the chart; %s goes to its packets.", s.keys.key(doInto))
		return
	}
	ses, at := s.ses, v.read.at
	s.start("moment", func() func(*screen) {
		found := uint64(0)
		ses.index.NewReader().Each(ses.ctx, 1, func(e *index.Entry) bool {
			if !e.NoTime && e.Time >= at {
				found = e.Number
			}
			return found == 0
		})
		return func(s *screen) {
			if found == 0 {
				s.say("No packet came after that moment.")
				return
			}
			s.goFrame(found)
		}
	})
}

func (v *overviewView) mouse(s *screen, m mouseEvent) bool {
	for i, r := range v.rects {
		if !r.has(m.x, m.y) {
			continue
		}
		if m.click {
			v.focus = i
		}
		var again bool
		switch {
		case m.wheel != 0 && i == 0:
			v.findings.wheel(m.wheel)
		case m.wheel != 0:
			v.busiest.wheel(m.wheel)
		case i == 2:
			v.read.click(m.x - r.x)
			s.dragged = func(_ *screen, x, _ int) { v.read.click(x - r.x) }
		case i == 0:
			again = v.findings.click(s, m.x-r.x, m.y-r.y)
		default:
			again = v.busiest.click(s, m.x-r.x, m.y-r.y)
		}
		if again {
			v.act(s, doInto)
		}
	}
	return true
}

func (v *overviewView) here(*screen) place {
	if v.focus == 1 {
		if c := v.busiest.current(); c != nil {
			return place{conn: c.ID}
		}
	}
	if f := v.findings.current(); f != nil {
		return place{conn: f.Conn}
	}
	if c := v.busiest.current(); c != nil {
		return place{conn: c.ID}
	}
	return place{}
}

func (v *overviewView) grid() gridLike {
	switch v.focus {
	case 0:
		return v.findings
	case 1:
		return v.busiest
	}
	return nil
}

func (v *overviewView) footer() []action {
	if v.focus == 2 {
		return []action{doInto, doNextPanel}
	}
	return []action{doInto, doNextPanel, doNextFinding, doSort}
}
