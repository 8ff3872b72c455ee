package draw

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// machine is where the states of a queue pair stand (IBA 10.3.1): in the order in
// which one gets through them, and below, those beside the way.
var machine = []struct {
	state  flows.State
	name   string
	below  bool
	unseen bool // the wire shows nothing of it
}{
	{state: flows.StateReset, name: "RESET"},
	{state: flows.StateInit, name: "INIT"},
	{state: flows.StateRTR, name: "RTR"},
	{state: flows.StateRTS, name: "RTS"},
	{name: "SQD", below: true, unseen: true},
	{state: flows.StateSQE, name: "SQE", below: true},
	{state: flows.StateError, name: "ERROR", below: true},
}

// States draws a queue pair's state machine with the states that it went through,
// the one that it is in, and below, what proves each step. Times count from start.
// It returns how many lines it took.
func States(c *cells.Canvas, name string, state flows.State, history []flows.StateStep, start int64) int {
	reached := map[flows.State]*flows.StateStep{}
	for i := range history {
		reached[history[i].State] = &history[i]
	}
	c.Fit(0, 0, c.W, cells.Title, name)
	way := -1 // as far along the way as is proved; one does not get there but through the states before
	for i, m := range machine {
		if _, seen := reached[m.state]; seen && !m.below {
			way = i
		}
	}
	x, lowX := 0, 0
	var rts int
	for i, m := range machine {
		y := 1
		if m.below {
			y = 2
			if lowX == 0 {
				lowX = max(rts-18, 0)
				x = lowX
			}
		}
		step, seen := reached[m.state]
		seen = seen && !m.unseen
		style, l, r := cells.Faint, ' ', ' '
		switch {
		case !m.unseen && m.state == state && state != flows.StateUnknown:
			style, l, r = cells.OK|cells.Bold, '[', ']'
			if m.state == flows.StateError || m.state == flows.StateSQE {
				style = cells.Bad | cells.Bold
			}
		case seen:
			style, l, r = cells.Plain, '(', ')'
		case i < way:
			style = cells.Plain
		}
		if i > 0 && !m.below {
			arrow := cells.Faint
			if i <= way {
				arrow = cells.Plain
			}
			x = c.Text(x, y, arrow, "──▶")
		}
		if m.state == flows.StateRTS {
			rts = x
		}
		if m.below && m.name != "SQD" {
			x++
		}
		c.Set(x, y, l, style)
		x = c.Text(x+1, y, style, m.name)
		if seen && step.Presumed {
			x = c.Text(x, y, style, "?")
		}
		c.Set(x, y, r, style)
		x++
	}
	if state == flows.StateUnknown {
		c.Text(x+2, 2, cells.Faint, "unknown: nothing proves it")
	}
	y := 3
	for i := range history {
		if y >= c.H {
			break
		}
		s := &history[i]
		at := c.Text(1, y, cells.Plain|cells.Bold, cells.Pad(s.State.String(), 6))
		where := "not on the wire"
		if s.Frame > 0 {
			where = fmt.Sprintf("frame %d, +%s", s.Frame, Span(time.Duration(s.Time-start)))
		}
		at = c.Text(at+1, y, cells.Faint, cells.Pad(where, 24))
		why := s.Why
		if s.Presumed {
			why = "presumed: " + why
		}
		c.Fit(at+1, y, c.W-at-1, cells.Plain, why)
		y++
	}
	return y
}
