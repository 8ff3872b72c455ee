package tui

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

func findingID(f *flows.Finding) uint64 {
	return f.Frame<<20 ^ uint64(f.ID)<<8 ^ uint64(f.Conn)<<1 ^ uint64(f.Direction) + 1
}

func findingCols() []col[flows.Finding] {
	type finding = flows.Finding
	return []col[finding]{
		{name: "severity", title: "S", width: 1, text: func(_ *screen, f *finding) (string, cells.Style) { return severity(f.Severity()) }, num: func(f *finding) float64 { return float64(f.Severity()) }},
		{name: "connection", title: "conn", width: 4, right: true, text: func(_ *screen, f *finding) (string, cells.Style) {
			if f.Conn == 0 {
				return "all", cells.Faint
			}
			return fmt.Sprint(f.Conn), cells.Plain
		}, num: func(f *finding) float64 { return float64(f.Conn) }, field: func(_ *screen, f *finding) string {
			if f.Conn == 0 {
				return ""
			}
			return fmt.Sprintf("flow.id == %d", f.Conn)
		}},
		{name: "frame", title: "packet", width: 8, right: true, text: func(_ *screen, f *finding) (string, cells.Style) { return fmt.Sprint(f.Frame), cells.Plain }, num: func(f *finding) float64 { return float64(f.Frame) }, field: func(_ *screen, f *finding) string { return fmt.Sprintf("frame.number == %d", f.Frame) }},
		{name: "time", title: "time", width: 11, right: true, text: func(s *screen, f *finding) (string, cells.Style) { return s.moment(f.Time), cells.Plain }, num: func(f *finding) float64 { return float64(f.Time) }},
		{name: "count", title: "times", width: 6, right: true, text: func(_ *screen, f *finding) (string, cells.Style) { return short(f.Count), cells.Plain }, num: func(f *finding) float64 { return float64(f.Count) }},
		{name: "summary", title: "what was found", text: func(s *screen, f *finding) (string, cells.Style) {
			_, st := severity(f.Severity())
			return s.masked(f.Summary), st
		}},
		{name: "id", title: "id", width: 22, hide: true, text: func(_ *screen, f *finding) (string, cells.Style) { return f.ID.String(), cells.Faint }, field: func(_ *screen, f *finding) string { return fmt.Sprintf("finding.id == %q", f.ID) }},
	}
}

// findingLine is a finding in one line.
func (s *screen) findingLine(f *flows.Finding) string {
	letter, _ := severity(f.Severity())
	return fmt.Sprintf("%s %s (packet %d)", letter, s.masked(f.Summary), f.Frame)
}

// findingsByFrame are the findings that are in view, in the order of the capture.
func (s *screen) findingsByFrame() []flows.Finding {
	list := slices.Clone(s.snapshot().Findings)
	list = slices.DeleteFunc(list, func(f flows.Finding) bool { return f.Frame == 0 })
	slices.SortStableFunc(list, func(a, b flows.Finding) int { return cmp.Compare(a.Frame, b.Frame) })
	return slices.CompactFunc(list, func(a, b flows.Finding) bool { return a.Frame == b.Frame })
}

// findingsView is the list of findings, and what the one under the cursor means.
type findingsView struct {
	table  *grid[flows.Finding]
	listH  int
	of     uint64      // the packet that the ladder is about
	ladder *ladderView // around the finding under the cursor, where there is room; nil without
}

func newFindings() *findingsView {
	return &findingsView{table: newGrid(findingID, findingCols())}
}

func (v *findingsView) title(*screen) string { return fmt.Sprintf("Findings (%d)", v.table.n) }

func (v *findingsView) refresh(s *screen) {
	s.findConnections()
	all := s.snapshot().Findings
	if s.filter.conns != nil {
		all = slices.DeleteFunc(slices.Clone(all), func(f flows.Finding) bool { return f.Conn != 0 && !s.filter.conns[f.Conn] })
	}
	v.table.set(s, all)
}

func (v *findingsView) draw(s *screen, c *cells.Canvas) {
	if v.table.n == 0 {
		switch {
		case len(s.snapshot().Findings) > 0:
			c.Text(2, 1, cells.Note, "The connections that the filter selects have no findings.")
		case s.status.done:
			c.Text(2, 1, cells.OK, "✓ Nothing was found. What was looked for: rocescope findings lists it.")
		default:
			c.Text(2, 1, cells.Note, "Nothing was found so far.")
		}
		return
	}
	v.listH = c.H
	if !s.zoom {
		v.listH = max(4, min(v.table.n+1, c.H*s.split/100))
	}
	v.table.draw(s, c.Sub(0, 0, c.W, v.listH), true)
	if f := v.table.current(); f != nil && !s.zoom {
		panelTitle(c, rect{0, v.listH + 1, c.W, 1}, f.Check().Title, false)
		y := v.listH + 1 + drawFinding(s, c.Sub(0, v.listH+1, c.W, c.H-v.listH-1), f)
		if c.H-y >= 8 {
			v.drawLadder(s, c.Sub(0, y+1, c.W, c.H-y-1), f)
		}
	}
}

// drawLadder draws the packets around the one that proves a finding.
func (v *findingsView) drawLadder(s *screen, c *cells.Canvas, f *flows.Finding) {
	if f.Conn == 0 || f.Frame == 0 || !s.status.done { // while packets come, working out what to draw would go on with them
		return
	}
	switch l := v.ladder; {
	case l == nil || l.conn != f.Conn:
		v.leave(s)
		v.ladder = newLadder(f.Conn, f.Frame)
		v.ladder.refresh(s)
	case v.of != f.Frame:
		l.want = f.Frame
	}
	v.of = f.Frame
	panelTitle(c, rect{0, 1, c.W, 1}, fmt.Sprintf("Around packet %d (%s: all of the ladder)", f.Frame, s.keys.key(doLadderHere)), false)
	v.ladder.draw(s, c.Sub(0, 1, c.W, c.H-1))
}

// leave gives up what was worked out for the ladder.
func (v *findingsView) leave(s *screen) {
	if v.ladder != nil && v.ladder.list.view != nil {
		old := v.ladder.list.view
		s.start("", func() func(*screen) { old.Close(); return nil })
	}
}

// drawFinding explains a finding: what, where, why it is one, what to try.
func drawFinding(s *screen, c *cells.Canvas, f *flows.Finding) (lines int) {
	k := f.Check()
	_, st := severity(f.Severity())
	y := paragraph(c, 0, f.Severity().String(), st, s.masked(f.Summary))
	where := s.masked(f.Where)
	if f.Conn != 0 {
		where = s.connTitle(f.Conn)
		if f.HasStream {
			where += ", stream " + way(f.Direction)
		}
	}
	if where != "" {
		where += "; "
	}
	where += fmt.Sprintf("packet %d at %s s", f.Frame, s.moment(f.Time))
	if f.Count > 1 {
		where += fmt.Sprintf(", %s times, last in packet %d", report.Count(f.Count), f.Last)
	}
	y = paragraph(c, y, "where", cells.Plain, where)
	if r := f.Recovery; r.Recovered+r.Open > 0 {
		text := fmt.Sprintf("%s sent again (%s), recovered %d times", report.Plural(r.Packets, "packet"), report.Bytes(r.Bytes), r.Recovered)
		if r.Longest > 0 {
			text += ", after " + dur(r.Longest) + " at most"
		}
		if r.Open > 0 {
			text += fmt.Sprintf("; %d not over when the capture ended", r.Open)
		}
		y = paragraph(c, y, "cost", cells.Plain, text)
	}
	y = paragraph(c, y, "means", cells.Plain, k.Explain)
	y = paragraph(c, y, "rule", cells.Plain, k.Rule)
	y = paragraph(c, y, "try", cells.OK, k.Try)
	return paragraph(c, y, "id", cells.Faint, k.ID)
}

func (v *findingsView) act(s *screen, a action) bool {
	f := v.table.current()
	switch a {
	case doInto:
		if f != nil && f.Frame > 0 {
			s.goFrame(f.Frame)
		}
		return true
	case doNextFinding, doPrevFinding:
		if f != nil && f.Frame > 0 && a == doNextFinding {
			s.goFrame(f.Frame)
			s.say("%s", s.findingLine(f))
			return true
		}
		return false
	}
	return v.table.act(s, a)
}

func (v *findingsView) mouse(s *screen, m mouseEvent) bool {
	switch {
	case m.wheel != 0:
		v.table.wheel(m.wheel)
	case m.click && m.y == v.listH:
		s.holdSplit()
	case m.y < v.listH && v.table.click(s, m.x, m.y):
		v.act(s, doInto)
	}
	return true
}

func (v *findingsView) here(s *screen) place {
	if f := v.table.current(); f != nil {
		return place{conn: f.Conn, frame: f.Frame}
	}
	return place{}
}

func (v *findingsView) grid() gridLike { return v.table }

func (v *findingsView) footer() []action {
	return []action{doInto, doLadderHere, doNextFinding, doSort}
}
