package html

import (
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/rocescope/rocescope/internal/report"
)

// stateBoxes are the states of a queue pair, and where a diagram has them.
var stateBoxes = []struct {
	state string
	x, y  float64
}{
	{"RESET", 10, 44}, {"INIT", 120, 44}, {"RTR", 230, 44}, {"RTS", 340, 44}, {"SQD", 450, 10}, {"SQE", 450, 78}, {"ERROR", 230, 132},
}

// stateEdges are the transitions that the specification has between them (IBA 10.3.1), but for those to RESET, which is from
// everywhere.
var stateEdges = []struct{ from, to string }{
	{"RESET", "INIT"},
	{"INIT", "RTR"},
	{"RTR", "RTS"},
	{"RTS", "SQD"},
	{"RTS", "SQE"},
	{"SQE", "RTS"},
	{"SQD", "RTS"},
	{"INIT", "ERROR"},
	{"RTR", "ERROR"},
	{"RTS", "ERROR"},
}

const (
	boxWidth  = 82.0
	boxHeight = 30.0
)

// drawStates draws the states that a queue pair was in, the last one emphasized. What is only presumed is dashed.
func drawStates(name string, q *report.QP, steps []report.StateStep) template.HTML {
	var d drawing
	d.begin("states", 545, 172, "State diagram of "+name+": "+q.State)
	at := map[string][2]float64{}
	for _, b := range stateBoxes {
		at[b.state] = [2]float64{b.x, b.y}
	}
	been := map[string]*report.StateStep{}
	for i := range steps {
		s := &steps[i]
		if old := been[s.State]; old == nil || old.Presumed && !s.Presumed {
			been[s.State] = s
		}
	}
	order := func(state string) int {
		return slices.IndexFunc(steps, func(s report.StateStep) bool { return s.State == state })
	}
	for _, e := range stateEdges {
		class := "edge"
		// Walked is what the wire shows, not what must have happened unseen.
		if from, to := order(e.from), order(e.to); from >= 0 && to > from && walkedNext(steps, e.from, e.to) {
			class = "edge walked"
		}
		d.edge(class, at[e.from], at[e.to])
	}
	for _, b := range stateBoxes {
		class, title := "state", b.state+": no packet proves it"
		if s := been[b.state]; s != nil {
			class += " been"
			title = b.state + ": " + s.Why
			if s.Presumed {
				class += " presumed"
				title += " (presumed)"
			}
		}
		if b.state == q.State {
			class += " now"
		}
		if b.state == "ERROR" || b.state == "SQE" {
			class += " failed"
		}
		d.open(class)
		d.rect("", b.x, b.y, boxWidth, boxHeight, 6, title)
		d.text("mid", b.x+boxWidth/2, b.y+20, b.state)
		d.close()
	}
	return d.end()
}

// walkedNext reports whether some step from one state leads to the other.
func walkedNext(steps []report.StateStep, from, to string) bool {
	for i := 1; i < len(steps); i++ {
		if steps[i-1].State == from && steps[i].State == to {
			return true
		}
	}
	return false
}

// edge draws an arrow between two boxes, along the shortest way.
func (d *drawing) edge(class string, from, to [2]float64) {
	x1, y1 := from[0]+boxWidth/2, from[1]+boxHeight/2
	x2, y2 := to[0], to[1]+boxHeight/2
	switch {
	case from[1] == to[1]: // beside each other
		x1 = from[0] + boxWidth
	case to[0] > from[0] && to[1] < 100: // to the right, up or down
		x1 = from[0] + boxWidth
		y1 += map[bool]float64{true: -6, false: 6}[y2 < y1]
	case to[0] < from[0] && to[1] < 100: // back
		x1, x2 = from[0], to[0]+boxWidth
		y1 += map[bool]float64{true: 6, false: -6}[y1 < y2]
		x1 += 4
	default: // down
		y1, y2 = from[1]+boxHeight, to[1]
		x2 = to[0] + boxWidth/2 + (from[0]-to[0])/5
	}
	d.path(class, fmt.Sprintf("M%g %gL%g %g", x1, y1, x2, y2), "marker-end", "url(#arrow)")
}

// stateRow is a line of the table below a diagram.
type stateRow struct {
	State, Frame, At, Sure, Why string
}

func stateRows(steps []report.StateStep, zero int64) []stateRow {
	var rows []stateRow
	for _, s := range steps {
		r := stateRow{State: s.State, Sure: "proven", Why: s.Why}
		if s.Presumed {
			r.Sure = "presumed"
		}
		if s.Frame != nil {
			r.Frame = fmt.Sprint(*s.Frame)
		}
		if s.Time != nil && int64(*s.Time) >= zero {
			r.At = report.Duration(time.Duration(int64(*s.Time) - zero))
		}
		rows = append(rows, r)
	}
	return rows
}
