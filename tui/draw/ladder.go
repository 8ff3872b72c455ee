package draw

import (
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// Step is a packet of a ladder.
type Step struct {
	Frame     uint64
	Time      int64
	Direction flows.Direction // A's packets go from left to right
	PSN       dissect.PSN
	Text      string // what it is: "WRITE Middle"
	Style     cells.Style
	Again     bool // sent again, or copied
	AfterGap  bool // PSNs before it are missing
	Spans     bool // takes more PSNs than one: a READ request
	Answer    bool // of a responder
	Event     bool // must be seen: never folded
	Finding   string
	Severity  flows.Severity // of the finding
}

// StepOf makes a step of a packet. The opcode's name goes without its transport.
func StepOf(p *dissect.Packet, m *flows.Mark) Step {
	s := Step{
		Frame: p.Number, Time: p.Time, Direction: m.Direction, PSN: p.PSN,
		Again:    m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkUnclear) != 0,
		AfterGap: m.Has(flows.MarkAfterGap),
		Answer:   m.Has(flows.MarkResponse),
	}
	op := p.Op()
	s.Text = op.Name
	if i := strings.IndexByte(s.Text, ' '); i > 0 && s.Text[:i] == op.Transport.String() {
		s.Text = s.Text[i+1:]
	}
	s.Spans = !s.Answer && op.Family == dissect.Read
	s.Style = cells.Request
	switch {
	case m.Bits&flows.MarkBadICRC != 0:
		s.Text, s.Style, s.Event = s.Text+", damaged", cells.Bad, true
	case m.Has(flows.MarkNAK):
		s.Text, s.Style, s.Event = "NAK "+p.Syndrome.NAK().String(), cells.Bad, true
	case m.Has(flows.MarkRNR):
		s.Text, s.Style, s.Event = "RNR NAK", cells.Warn, true
	case m.Has(flows.MarkCNP):
		s.Text, s.Style = "CNP", cells.Congestion
	case s.Again:
		s.Style = cells.Warn
	case s.Answer:
		s.Style = cells.Response
	case op.Family == dissect.CompareSwap, op.Family == dissect.FetchAdd, op.Family == dissect.AtomicWrite:
		s.Style = cells.Atomic
	}
	switch {
	case m.Has(flows.MarkUnclear):
		s.Text += " (again or copy)"
	case m.Has(flows.MarkDuplicate):
		s.Text += " (copy)"
	case m.Has(flows.MarkRetransmission):
		s.Text += " (again)"
	case m.Has(flows.MarkReordered):
		s.Text += " (late)"
		s.Event = true
	case m.Has(flows.MarkGhost):
		s.Text += " (no request seen)"
		s.Event = true
	}
	if m.Has(flows.MarkCE) {
		s.Text += " CE"
	}
	s.Event = s.Event || s.AfterGap || m.Has(flows.MarkFinding)
	return s
}

// RungKind is what a row of a ladder is.
type RungKind uint8

// The kinds.
const (
	RungPacket RungKind = iota
	RungFolded          // several packets of a kind
	RungGap             // PSNs that are missing
	RungWait            // time in which nothing was seen
)

// Rung is a row of a ladder.
type Rung struct {
	Kind RungKind
	Step // of the first packet, or of the one behind a gap or a wait
	// Of folded ones.
	Count     int
	LastPSN   dissect.PSN
	LastFrame uint64
	Missing   uint32        // PSNs of a gap; 0 = how many cannot be told
	Wait      time.Duration // of a wait
}

// Has reports whether the row stands for the frame.
func (r *Rung) Has(frame uint64) bool {
	switch r.Kind {
	case RungPacket:
		return r.Frame == frame
	case RungFolded:
		return frame >= r.Frame && frame <= r.LastFrame
	}
	return false
}

const foldFrom = 4 // as many packets of a kind, and more, become one row

// Fold makes the rows of a ladder. Runs of packets that differ in nothing but their
// PSN become one row, unless open says that a frame has to be seen; silences of wait
// or more become one.
func Fold(steps []Step, wait time.Duration, open func(frame uint64) bool) []Rung {
	var rungs []Rung
	var before [2]*Step // by direction: the last request
	for i := 0; i < len(steps); {
		s := &steps[i]
		if i > 0 && wait > 0 {
			if d := time.Duration(s.Time - steps[i-1].Time); d >= wait {
				rungs = append(rungs, Rung{Kind: RungWait, Step: *s, Wait: d})
			}
		}
		if s.AfterGap {
			r := Rung{Kind: RungGap, Step: *s}
			if b := before[s.Direction&1]; b != nil && !b.Spans && !s.Answer {
				if n := s.PSN.Sub(b.PSN) - 1; n > 0 {
					r.Missing = uint32(n)
				}
			}
			rungs = append(rungs, r)
		}
		j := i + 1
		for j < len(steps) && alike(s, &steps[j]) && steps[j].PSN == steps[j-1].PSN.Add(1) &&
			(wait == 0 || time.Duration(steps[j].Time-steps[j-1].Time) < wait) && (open == nil || !open(steps[j].Frame)) {
			j++
		}
		if j-i < foldFrom || s.Event || open != nil && open(s.Frame) {
			j = i + 1
			rungs = append(rungs, Rung{Kind: RungPacket, Step: *s})
		} else {
			last := &steps[j-1]
			rungs = append(rungs, Rung{Kind: RungFolded, Step: *s, Count: j - i, LastPSN: last.PSN, LastFrame: last.Frame})
		}
		if !s.Answer {
			before[s.Direction&1] = &steps[j-1]
		}
		i = j
	}
	return rungs
}

func alike(a, b *Step) bool {
	return a.Direction == b.Direction && a.Text == b.Text && a.Again == b.Again && !a.Event && !b.Event &&
		!b.AfterGap && a.Answer == b.Answer && a.Finding == "" && b.Finding == ""
}

// Ladder is the packets between two queue pairs as arrows between two lanes.
type Ladder struct {
	A, B     string // what stands on top of the lanes: who they are
	Start    int64  // times count from here
	Rungs    []Rung
	Top      int // the first row that is seen
	Selected int // -1 = none
}

// Draw draws a line for the lanes' names and as many rows as there is room for.
func (l *Ladder) Draw(c *cells.Canvas) {
	left, right := 20, 19
	switch {
	case c.W < 60:
		left, right = 9, 3
	case c.W < 100:
		left, right = 20, 4
	case c.W >= 140:
		right = c.W * 3 / 10 // what a finding says in full
	}
	x1, x2 := left, c.W-right-1
	if x2-x1 < 12 {
		x1, x2, right = 0, c.W-3, 2
	}
	c.Fit(max(0, x1-1), 0, (x2-x1)/2-1, cells.Title, l.A)
	b := cells.Cut(l.B, (x2-x1)/2-1)
	c.Right(x2+2, 0, cells.Title, b)
	for y := 1; y < c.H; y++ {
		i := l.Top + y - 1
		c.Set(x1, y, '│', cells.Border)
		c.Set(x2, y, '│', cells.Border)
		if i < 0 || i >= len(l.Rungs) {
			continue
		}
		l.row(c, y, x1, x2, &l.Rungs[i])
		if i == l.Selected {
			for x := range c.W {
				c.Add(x, y, 1, cells.Reverse)
			}
		}
	}
}

func (l *Ladder) row(c *cells.Canvas, y, x1, x2 int, r *Rung) {
	room := x2 - x1 - 1
	switch r.Kind {
	case RungGap:
		text := fmt.Sprintf(" PSNs in front of 0x%06x are missing ", r.PSN)
		if r.Missing > 0 {
			text = fmt.Sprintf(" missing: %s, PSN %s ", Count(uint64(r.Missing)), psnRange(r.PSN.Add(-int(r.Missing)), r.PSN.Add(-1)))
		}
		fillRow(c, x1+1, y, room, '┈', cells.Bad, text)
		return
	case RungWait:
		fillRow(c, x1+1, y, room, ' ', cells.Faint, fmt.Sprintf(" · · ·  nothing for %s  · · · ", Span(r.Wait)))
		return
	}
	if x1 >= 9 {
		c.Right(8, y, cells.Faint, fmt.Sprint(r.Frame))
	}
	if x1 >= 20 {
		c.Right(19, y, cells.Faint, fmt.Sprintf("%.6f", float64(r.Time-l.Start)/1e9))
	}
	name, psn := " "+r.Text, fmt.Sprintf("  PSN 0x%06x ", r.PSN)
	if r.Kind == RungFolded {
		name = fmt.Sprintf(" %s × %s", Count(uint64(r.Count)), r.Text)
		psn = fmt.Sprintf("  PSN %s ", psnRange(r.PSN, r.LastPSN))
	}
	text := cells.Cut(name, room-3-cells.Width(psn)) + psn
	line := '─'
	switch {
	case r.Kind == RungFolded:
		line = '═'
	case r.Again:
		line = '╌'
	}
	fillRow(c, x1+1, y, room, line, r.Style, text)
	if r.Direction == flows.AToB {
		c.Set(x2-1, y, '▶', r.Style)
	} else {
		c.Set(x1+1, y, '◀', r.Style)
	}
	if r.Finding != "" {
		s := severityStyle(r.Severity)
		c.Set(x2+1, y, severityLetter(r.Severity), s|cells.Bold)
		if c.W-x2 > 8 {
			c.Fit(x2+3, y, c.W-x2-3, s, r.Finding)
		}
	}
}

// fillRow draws a text in the middle of a line.
func fillRow(c *cells.Canvas, x, y, w int, line rune, s cells.Style, text string) {
	for i := range w {
		c.Set(x+i, y, line, s)
	}
	text = cells.Cut(text, w-2)
	c.Text(x+(w-cells.Width(text))/2, y, s, text)
}

func psnRange(a, b dissect.PSN) string {
	if a == b {
		return fmt.Sprintf("0x%06x", a)
	}
	return fmt.Sprintf("0x%06x–0x%06x", a, b)
}

func plural(n uint64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

func severityStyle(s flows.Severity) cells.Style {
	return [...]cells.Style{cells.Note, cells.Warn, cells.Bad}[min(s, 2)]
}

// severityLetter says a severity where there is no colour.
func severityLetter(s flows.Severity) rune { return []rune("NWE")[min(s, 2)] }
