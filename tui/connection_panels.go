package tui

import (
	"fmt"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
	"github.com/rocescope/rocescope/tui/draw"
)

// psnPoints is the PSNs over time of both directions of a connection, from the index.
type psnPoints struct {
	plots  [2]*draw.PSNs
	loaded bool
	at     uint64 // packets of the capture when it was made
}

// refresh has the plot made anew when there are more packets.
func (p *psnPoints) refresh(s *screen, conn uint32) {
	if p.loaded && p.at == s.packets() {
		return
	}
	ses, upTo := s.ses, s.packets()
	s.start(fmt.Sprintf("psn %d", conn), func() func(*screen) {
		plots := [2]*draw.PSNs{{}, {}}
		ses.index.NewReader().Each(ses.ctx, 1, func(e *index.Entry) bool {
			if e.Mark.Conn != 0 && !e.NoTime && ses.index.Connection(e.Mark.Conn) == conn {
				for d := range flows.Direction(2) {
					if class, ok := draw.ClassOf(&e.Mark, d); ok {
						plots[d].Add(e.Time, e.Mark.PSNOffset, class)
					}
				}
			}
			return e.Number < upTo
		})
		return func(*screen) { p.plots, p.loaded, p.at = plots, true, upTo }
	})
}

func (v *connectionView) drawPSN(s *screen, c *cells.Canvas, _ *flows.Connection, _ bool) {
	if !v.psn.loaded {
		c.Text(1, 0, cells.Faint, "…")
		return
	}
	var show []int
	for d, p := range v.psn.plots {
		if p.Count(draw.PSNNew)+p.Count(draw.PSNAgain)+p.Count(draw.PSNGap) > 0 {
			show = append(show, d)
		}
	}
	if len(show) == 0 {
		c.Text(1, 0, cells.Faint, "no requests seen")
		return
	}
	for i, d := range show {
		from, to := c.H*i/len(show), c.H*(i+1)/len(show)
		part := c.Sub(0, from, c.W, to-from)
		if len(show) > 1 {
			part.Text(1, 0, cells.Bold, map[int]string{0: "A's requests", 1: "B's requests"}[d])
			part = part.Sub(0, 1, part.W, part.H-1)
		}
		v.psn.plots[d].Draw(part, s.ascii)
	}
}

func (v *connectionView) drawStates(s *screen, c *cells.Canvas, k *flows.Connection, _ bool) {
	y := -v.scroll
	if v.scroll > 0 {
		all := cells.New(c.W, c.H+v.scroll+40)
		v.states(s, all, k)
		for row := range c.H {
			for x := range c.W {
				cell := all.At(x, row-y)
				c.Set(x, row, cell.R, cell.S)
			}
		}
		return
	}
	v.states(s, c, k)
}

func (v *connectionView) states(s *screen, c *cells.Canvas, k *flows.Connection) {
	y := 0
	for i, q := range []*flows.QP{&k.A, &k.B} {
		name := map[int]string{0: "A ", 1: "B "}[i] + s.qpName(q)
		y += draw.States(c.Sub(1, y, c.W-2, c.H-y), name, q.State, q.History, s.base())
		y = v.settings(c, y, q) + 1
	}
}

// settings draws what a queue pair agreed on, and what its traffic shows.
func (v *connectionView) settings(c *cells.Canvas, y int, q *flows.QP) int {
	if n := q.Negotiated; n.Set {
		text := fmt.Sprintf("start PSN 0x%06x", n.StartPSN)
		for _, f := range []struct {
			name string
			v    int
		}{{"retries", n.RetryCount}, {"RNR retries", n.RNRRetryCount}, {"ACK timeout code", n.AckTimeout}, {"READs answered at a time", n.ResponderResources}, {"READs outstanding", n.InitiatorDepth}} {
			if f.v >= 0 {
				text += fmt.Sprintf(", %s %d", f.name, f.v)
			}
		}
		y = paragraph(c, y, "agreed", cells.Plain, text)
	}
	u := q.InUse
	if u.SQSent+u.RQConsumed > 0 {
		text := fmt.Sprintf("%s sent, %s acknowledged, at most %d outstanding", report.Count(u.SQSent), report.Count(u.SQAcked), u.Outstanding)
		if u.RQConsumed > 0 {
			text += fmt.Sprintf("; %s receives consumed", report.Count(u.RQConsumed))
		}
		if u.CreditLimit >= 0 {
			text += fmt.Sprintf("; %s granted to it last", report.Plural(uint64(u.Credits), "credit"))
		}
		if u.Retries > 0 {
			text += fmt.Sprintf("; one message begun again %d times", u.Retries)
		}
		y = paragraph(c, y, "seen", cells.Plain, text)
	}
	return y
}

func (v *connectionView) drawMemory(s *screen, c *cells.Canvas, k *flows.Connection, _ bool) {
	switch {
	case k.Detail == nil:
		c.Text(1, 0, cells.Faint, "Memory is kept of the first connections of a capture only; this is not one of them.")
		return
	case s.privacy != nil:
		c.Text(1, 0, cells.Faint, "Keys and addresses are masked.")
		return
	}
	y := -v.scroll
	drawn := false
	for d := range k.Detail.Memory {
		m := &k.Detail.Memory[d]
		if len(m.Regions)+len(m.Refused) == 0 {
			continue
		}
		drawn = true
		if y >= 0 {
			c.Text(1, y, cells.Bold, map[int]string{0: "B's memory, as A names it", 1: "A's memory, as B names it"}[d])
		}
		y++
		top := max(0, -y)
		if lines := draw.MemoryLines(m); top < lines {
			draw.Memory(c.Sub(1, max(y, 0), c.W-2, c.H-max(y, 0)), m, top)
		}
		y += draw.MemoryLines(m) + 1
	}
	if !drawn {
		c.Text(1, 0, cells.Faint, "No message named memory: only WRITEs, READs and atomics do.")
	}
	v.scroll = max(0, min(v.scroll, y+v.scroll-c.H))
}
