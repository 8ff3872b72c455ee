package tui

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// trafficView is the generator or suite that runs: what was asked, what was achieved, which rules struck.
type trafficView struct {
	scroller
}

func newTraffic() *trafficView { return &trafficView{} }

func (v *trafficView) title(s *screen) string { return "Traffic: " + s.o.Controls.Status().Title }

func (v *trafficView) draw(s *screen, c *cells.Canvas) {
	st := s.o.Controls.Status()
	style := map[State]cells.Style{Running: cells.OK, Paused: cells.Warn, Failed: cells.Bad}[st.State]
	line := st.State.String()
	if !st.Since.IsZero() {
		line += " for " + s.now().Sub(st.Since).Round(time.Second).String()
	}
	y := paragraph(c, 0, "now", style|cells.Bold, line)
	if st.Err != nil {
		y = paragraph(c, y, "why", cells.Bad, st.Err.Error())
	}
	if st.Asked != "" {
		y = paragraph(c, y, "asked", cells.Plain, st.Asked)
	}
	if st.Packet != (Rates{}) || st.State == Running {
		y = paragraph(c, y, "achieved", cells.Bold, fmt.Sprintf("%s packets/s, %s", report.Count(uint64(st.Packet.PacketsPerSecond)), report.BitRate(st.Packet.BitsPerSecond)))
	}
	sent := report.Plural(st.Sent, "packet")
	if st.Left > 0 {
		sent += ", " + report.Count(st.Left) + " to go"
	}
	if st.Sent > 0 || st.Left > 0 {
		y = paragraph(c, y, "sent", cells.Plain, sent)
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
		y = paragraph(c, y, f.Name, style, f.Value)
	}
	y++
	y = v.keys(s, c, y, st) + 1
	if len(st.Rules) > 0 {
		panelTitle(c, rect{0, y + 1, c.W, 1}, "Rules", true)
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
		y++
	}
	v.cases(s, c, y, st)
}

// keys draws what can be done.
func (v *trafficView) keys(s *screen, c *cells.Canvas, y int, st Status) int {
	x := 1
	for _, k := range []struct {
		on bool
		do action
	}{{st.CanStart || st.CanStop, doStart}, {st.CanPause, doPause}, {st.CanRate, doRate}} {
		if k.on {
			x = c.Text(x, y, cells.Key, s.keys.key(k.do))
			x = c.Text(x+1, y, cells.Plain, s.keys.row(k.do).help) + 3
		}
	}
	return y
}

// cases draws the cases of a suite.
func (v *trafficView) cases(s *screen, c *cells.Canvas, y int, st Status) {
	if len(st.Cases) == 0 {
		return
	}
	panelTitle(c, rect{0, y + 1, c.W, 1}, fmt.Sprintf("Cases (%d)", len(st.Cases)), true)
	y++
	v.n, v.height = len(st.Cases), c.H-y
	v.fit()
	looks := map[string]struct {
		mark  string
		style cells.Style
	}{"pass": {"✓", cells.OK}, "fail": {"✗", cells.Bad}, "running": {"▸", cells.Note}, "skipped": {"-", cells.Faint}}
	for i := range min(v.height, v.n-v.top) {
		k := st.Cases[v.top+i]
		l := looks[k.Verdict]
		c.Text(1, y+i, l.style, l.mark)
		x := c.Fit(3, y+i, 46, cells.Plain, k.Name)
		if k.Took > 0 {
			c.Right(60, y+i, cells.Faint, dur(int64(k.Took)))
		}
		c.Fit(max(x+2, 62), y+i, c.W-64, l.style, k.Why)
		if v.top+i == v.cur {
			c.Restyle(0, y+i, c.W, cells.Cursor)
		}
	}
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
		case st.State == Running || st.State == Paused:
			if st.CanStop {
				s.prompt = newConfirm("Stop "+st.Title+"?", func(*screen) { run(ctl.Stop) })
				return true
			}
			s.say("This cannot be stopped but by leaving (%s).", s.keys.key(doQuit))
		case st.CanStart:
			s.prompt = newConfirm(fmt.Sprintf("Start %s, at %s?", st.Title, orElse(st.Asked, "full speed")), func(*screen) { run(ctl.Start) })
		default:
			s.say("It is over and cannot be started again.")
		}
	case doPause:
		switch {
		case !st.CanPause:
			s.say("This cannot be paused.")
		case st.State == Paused:
			run(ctl.Resume)
		case st.State == Running:
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
		return v.scroller.act(a)
	}
	return true
}

func (v *trafficView) mouse(s *screen, m mouseEvent) bool { v.wheel(m.wheel); return true }
func (v *trafficView) refresh(*screen)                    {}
func (v *trafficView) here(*screen) place                 { return place{} }
func (v *trafficView) grid() gridLike                     { return nil }
func (v *trafficView) footer() []action                   { return []action{doStart, doPause, doRate} }
