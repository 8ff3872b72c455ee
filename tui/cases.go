package tui

import (
	"context"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/tui/cells"
)

// caseList is the cases of a suite, and all that is known of the one under the cursor. At the end of the list the cursor goes
// along with what runs.
type caseList struct {
	scroller
	along bool // the cursor is to stay on the newest
	begun bool
}

// verdicts are how verdicts look: a mark for each, for colour is never alone.
var verdicts = [...]struct {
	mark  string
	style cells.Style
}{
	CaseRuns:    {"▸", cells.Note},
	CasePassed:  {"✓", cells.OK},
	CaseFailed:  {"✗", cells.Bad},
	CaseNoted:   {"!", cells.Warn},
	CaseSkipped: {"-", cells.Faint},
}

func (l *caseList) draw(s *screen, c *cells.Canvas, st *Status) {
	if l.n = len(st.Cases); l.n == 0 {
		return
	}
	if l.along = l.along || !l.begun; l.along {
		l.cur = l.n - 1
	}
	l.begun = true
	of := ""
	if st.Total > 0 {
		of = fmt.Sprintf(" of %d", st.Total)
	}
	panelTitle(c, rect{0, 1, c.W, 1}, fmt.Sprintf("Cases (%d%s)", l.n, of), true)
	h := c.H - 1
	if !s.zoom && h >= 10 {
		h = min(l.n, max(4, h*2/5))
	}
	l.height = h
	l.fit()
	for y := range min(h, l.n-l.top) {
		k := &st.Cases[l.top+y]
		look := verdicts[k.Verdict]
		c.Text(1, y+1, look.style, look.mark)
		c.Fit(3, y+1, 12, cells.Bold, k.Name)
		c.Fit(16, y+1, 10, look.style, k.Status)
		if k.Took > 0 {
			c.Right(37, y+1, cells.Faint, dur(int64(k.Took)))
		}
		x := c.Fit(39, y+1, max(20, c.W/2-39), cells.Plain, k.Title)
		if k.Verdict == CaseFailed || k.Verdict == CaseNoted {
			c.Fit(x+2, y+1, c.W-x-4, look.style, s.masked(k.Seen))
		}
		if l.top+y == l.cur {
			cursorRow(c, y+1, c.W-1, cells.Cursor)
		}
	}
	l.bar(c, c.W-1, 1)
	if h+2 < c.H && !s.zoom {
		l.detail(s, c.Sub(0, h+1, c.W, c.H-h-1), &st.Cases[l.cur])
	}
}

// detail draws one case: what is required, what was seen, the packets that show it.
func (l *caseList) detail(s *screen, c *cells.Canvas, k *Case) {
	look := verdicts[k.Verdict]
	panelTitle(c, rect{0, 1, c.W, 1}, k.Name+": "+k.Title, false)
	y := paragraph(c, 1, "required", cells.Plain, k.Required)
	y = paragraph(c, y, "seen", look.style, s.masked(k.Seen))
	y = paragraph(c, y, "why", cells.Plain, k.Why)
	y = paragraph(c, y, "rule", cells.Faint, k.Rule)
	if k.Verdict == CaseFailed || k.Verdict == CaseNoted {
		y = paragraph(c, y, "again", cells.Faint, s.masked(k.Again))
	}
	if len(k.Packets) == 0 || y >= c.H-1 {
		return
	}
	title := "the packets that show it"
	if k.Verdict == CaseRuns {
		title = "its newest packets"
	}
	if k.Capture != "" {
		title += "; " + s.keys.key(doInto) + ": all of them, as ladder, list and findings"
	}
	c.Fit(1, y, c.W-2, cells.Faint|cells.Bold, title)
	y++
	for _, p := range k.Packets[max(0, len(k.Packets)-(c.H-y)):] {
		c.Right(6, y, cells.Faint, fmt.Sprint(p.Number))
		c.Right(18, y, cells.Faint, fmt.Sprintf("%.6f", p.Time.Seconds()))
		lane, style := "us ◀── device", cells.Response
		if p.Ours {
			lane, style = "us ──▶ device", cells.Request
		}
		x := c.Text(20, y, style, lane)
		c.Fit(x+2, y, c.W-x-3, style, s.masked(p.Text))
		y++
	}
}

func (l *caseList) act(s *screen, a action, st *Status) bool {
	if a == doInto {
		if l.cur < len(st.Cases) {
			l.open(s, &st.Cases[l.cur])
		}
		return true
	}
	if !l.scroller.act(a) {
		return false
	}
	l.along = l.cur == l.n-1
	return true
}

func (l *caseList) mouse(s *screen, m mouseEvent) {
	if m.wheel != 0 {
		l.wheel(m.wheel)
		l.along = l.cur == l.n-1
		return
	}
	if i := l.top + m.y - 1; m.y > 0 && m.y <= l.height && i < l.n {
		l.cur, l.along = i, i == l.n-1
	}
}

// open shows the packets of a case as a capture of its own, beginning with the ladder.
func (l *caseList) open(s *screen, k *Case) {
	if k.Capture == "" {
		s.say("%s: its packets are there when it has ended.", k.Name)
		return
	}
	path, title := k.Capture, k.Name
	s.start("open "+path, func() func(*screen) {
		ses, err := NewSession(context.Background(), Input{
			Title: title, Again: true, Command: "rocescope tui " + path,
			Open: func(context.Context) (captures.Source, error) { return captures.Open(path) },
		})
		if err == nil {
			select { // a case is small; should it not be, the screen fills up meanwhile
			case <-ses.index.Done():
			case <-time.After(2 * time.Second):
			}
		}
		return func(s *screen) {
			if err != nil {
				s.fail(err)
				return
			}
			s.take(ses)
			s.push(newOverview())
			if all := s.snapshot().Connections; len(all) > 0 {
				s.push(newLadder(all[0].ID, 0))
			}
		}
	})
}
