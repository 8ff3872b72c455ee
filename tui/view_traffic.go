package tui

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// trafficView is the generator or suite that runs: what was asked, what was achieved, which rules struck, what became of cases.
type trafficView struct {
	cases  caseList
	past   []draw.Sample // bits per second achieved, as looked at
	casesY int
}

// pastKept is how many looks at the achieved rate are charted, pastEvery how far they lie apart.
const (
	pastKept  = 240
	pastEvery = 500 * time.Millisecond
)

func newTraffic() *trafficView { return &trafficView{} }

func (v *trafficView) title(s *screen) string { return "Traffic: " + s.o.Controls.Status().Title }

func (v *trafficView) draw(s *screen, c *cells.Canvas) {
	st := s.o.Controls.Status()
	facts := c
	if v.note(s, &st); len(v.past) > 1 && c.W >= 100 {
		facts = c.Sub(0, 0, c.W/2, c.H)
	}
	y := v.facts(s, facts, &st)
	if facts != c {
		y = max(y, 8)
		v.chart(s, c.Sub(c.W/2+1, 0, c.W-c.W/2-2, y))
	}
	y = v.keys(s, c, y+1, &st)
	y = v.rules(c, y, &st)
	v.casesY = y
	v.cases.draw(s, c.Sub(0, y, c.W, c.H-y), &st)
}

// facts draws what was asked for and what came of it.
func (v *trafficView) facts(s *screen, c *cells.Canvas, st *Status) int {
	style := map[State]cells.Style{Running: cells.OK, Paused: cells.Warn, Failed: cells.Bad}[st.State]
	line := st.State.String()
	if !st.Since.IsZero() {
		line += " for " + s.now().Sub(st.Since).Round(time.Second).String()
	}
	y := paragraph(c, 0, "now", style|cells.Bold, line)
	if st.Err != nil {
		y = paragraph(c, y, "why", cells.Bad, s.masked(st.Err.Error()))
	}
	y = paragraph(c, y, "asked", cells.Plain, st.Asked)
	if st.Counted != "" {
		if st.State == Running || st.State == Paused {
			y = paragraph(c, y, "achieved", cells.Bold, fmt.Sprintf("%s packets/s, %s", report.Count(uint64(st.Packet.PacketsPerSecond)), report.BitRate(st.Packet.BitsPerSecond)))
		}
		sent := report.Plural(st.Sent, "packet")
		if st.Left > 0 {
			sent += ", " + report.Count(st.Left) + " to go"
		}
		y = paragraph(c, y, st.Counted, cells.Plain, sent)
	}
	if st.Done > 0 && st.Done <= 1 {
		w := min(40, c.W-20)
		c.Text(1, y, cells.Faint|cells.Bold, "done")
		for i := range w {
			r := '░'
			if float64(i) < st.Done*float64(w) {
				r = '█'
			}
			c.Set(11+i, y, r, cells.Chart1)
		}
		c.Text(12+w, y, cells.Plain, fmt.Sprintf("%.0f %%", st.Done*100))
		y++
	}
	for _, f := range st.Facts {
		style := cells.Plain
		if f.Bad {
			style = cells.Bad
		}
		y = paragraph(c, y, f.Name, style, s.masked(f.Value))
	}
	return y
}

// note keeps what was achieved, for the chart.
func (v *trafficView) note(s *screen, st *Status) {
	if st.Counted == "" || st.State != Running && st.State != Paused {
		return
	}
	now := s.now().UnixNano()
	if n := len(v.past); n > 0 && now-v.past[n-1].Time < int64(pastEvery) {
		return
	}
	v.past = append(v.past, draw.Sample{Time: now, Value: st.Packet.BitsPerSecond})
	v.past = v.past[max(0, len(v.past)-pastKept):]
}

func (v *trafficView) chart(s *screen, c *cells.Canvas) {
	ch := draw.Chart{Title: "Achieved", Unit: bitsText, ASCII: s.ascii, Curves: []draw.Curve{{
		Name: "achieved", Style: cells.Chart1, Samples: v.past, Interval: 2 * pastEvery,
	}}}
	ch.Draw(c)
}

// keys draws what can be done now.
func (v *trafficView) keys(s *screen, c *cells.Canvas, y int, st *Status) int {
	x := 1
	for _, k := range []struct {
		on   bool
		do   action
		help string
	}{
		{st.CanStart, doStart, "start"},
		{st.CanStop && !st.CanStart, doStart, "stop"},
		{st.CanPause, doPause, map[bool]string{true: "go on", false: "pause"}[st.State == Paused]},
		{st.CanRate, doRate, "change the rate"},
	} {
		if k.on {
			x = c.Text(x, y, cells.Key, s.keys.key(k.do))
			x = c.Text(x+1, y, cells.Plain, k.help) + 3
		}
	}
	if x == 1 {
		return y
	}
	return y + 2
}

// rules draws the fault rules and how often each struck.
func (v *trafficView) rules(c *cells.Canvas, y int, st *Status) int {
	if len(st.Rules) == 0 {
		return y
	}
	panelTitle(c, rect{0, y + 1, c.W, 1}, fmt.Sprintf("Rules (%d)", len(st.Rules)), len(st.Cases) == 0)
	c.Text(1, y+1, cells.Faint|cells.Bold, "struck")
	c.Text(12, y+1, cells.Faint|cells.Bold, "looked at")
	c.Text(24, y+1, cells.Faint|cells.Bold, "rule")
	y += 2
	for _, r := range st.Rules {
		style := cells.Faint
		if r.Applied > 0 {
			style = cells.Warn
		}
		c.Right(9, y, style, short(r.Applied))
		c.Right(21, y, cells.Faint, short(r.Seen))
		c.Fit(24, y, c.W-25, cells.Plain, r.Text)
		y++
	}
	return y + 1
}

func (v *trafficView) act(s *screen, a action) bool {
	ctl := s.o.Controls
	st := ctl.Status()
	run := func(what func() error) {
		s.start("controls", func() func(*screen) {
			err := what()
			return func(s *screen) {
				if err != nil {
					s.fail(err)
				}
			}
		})
	}
	switch a {
	case doStart:
		switch {
		case st.CanStart:
			question := "Start " + st.Title
			if st.Asked != "" {
				question += ", at " + st.Asked
			}
			s.prompt = newConfirm(question+"?", func(*screen) { run(ctl.Start) })
		case st.CanStop:
			s.prompt = newConfirm("Stop "+st.Title+"?", func(*screen) { run(ctl.Stop) })
		case st.State == Running || st.State == Paused:
			s.say("This cannot be stopped but by leaving (%s).", s.keys.key(doQuit))
		default:
			s.say("It is over and cannot be started again.")
		}
	case doPause:
		switch {
		case !st.CanPause:
			s.say("This cannot be paused%s.", map[bool]string{true: " now", false: ""}[st.State != Running])
		case st.State == Paused:
			run(ctl.Resume)
		default:
			run(ctl.Pause)
		}
	case doRate:
		if !st.CanRate {
			s.say("The rate of this cannot be changed.")
			return true
		}
		s.prompt = newAsk("Rate (10Gbps, 1Mpps, max)", st.Asked, func(s *screen, text string) error {
			run(func() error { return ctl.SetRate(text) })
			return nil
		})
	default:
		return v.cases.act(s, a, &st)
	}
	return true
}

func (v *trafficView) mouse(s *screen, m mouseEvent) bool {
	m.y -= v.casesY
	v.cases.mouse(s, m)
	return true
}

func (v *trafficView) refresh(*screen)    {}
func (v *trafficView) here(*screen) place { return place{} }
func (v *trafficView) grid() gridLike     { return nil }

func (v *trafficView) footer() []action {
	if v.cases.n > 0 {
		return []action{doInto, doStart, doPause}
	}
	return []action{doStart, doPause, doRate}
}
