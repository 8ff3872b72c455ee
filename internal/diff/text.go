package diff

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rocescope/rocescope/internal/report"
)

// WriteText writes the document for people: what differs first, then what the
// clocks and delays are. top is how many packets, streams and messages are
// listed; 0 is all.
func (d *Document) WriteText(w io.Writer, top int) error {
	t := &text{w: w, top: top}
	t.line("%s", d.Verdict())
	t.sides(d)
	t.packets(d)
	t.clock(d)
	t.streams(d)
	t.messages(d)
	t.findings(d)
	return t.err
}

// Verdict is the comparison in one sentence.
func (d *Document) Verdict() string {
	p := d.Packets
	if p != nil && p.Matched == 0 && d.A.Packets > 0 && d.B.Packets > 0 {
		if m := d.Messages; m != nil && m.Matched > 0 {
			return "The captures have no packet in common: their messages are compared, as of two runs."
		}
		return "The captures have no packet in common."
	}
	if p == nil {
		if !d.Different() {
			return "The logs tell the same."
		}
		return "The logs tell different things: " + d.above() + "."
	}
	var parts []string
	for _, x := range []struct {
		n    uint64
		what string
	}{
		{p.Lost, "lost"},
		{p.Duplicated, "duplicated"},
		{p.Reordered, "reordered"},
		{p.Changed, "changed"},
		{p.Marked, "marked with congestion"},
		{p.Appeared, "seen behind the path only"},
		{p.OnlyA, "in A only"},
		{p.OnlyB, "in B only"},
	} {
		if x.n > 0 {
			parts = append(parts, report.Count(x.n)+" "+x.what)
		}
	}
	if len(parts) == 0 {
		return report.Plural(p.Matched, "packet") + " matched, none lost, duplicated, reordered or changed."
	}
	return report.Plural(p.Matched, "packet") + " matched; " + strings.Join(parts, ", ") + "."
}

// above says what differs above the packets.
func (d *Document) above() string {
	var parts []string
	if n := len(d.Differ); n > 0 {
		parts = append(parts, report.Plural(uint64(n)+d.Messages.NotListed, "message"))
	}
	if n := len(d.Findings); n > 0 {
		parts = append(parts, report.Plural(uint64(n), "finding"))
	}
	return strings.Join(parts, " and ")
}

type text struct {
	w   io.Writer
	top int
	err error
}

func (t *text) line(format string, args ...any) {
	if t.err == nil {
		_, t.err = fmt.Fprintf(t.w, format+"\n", args...)
	}
}

// some is how many of n are listed.
func (t *text) some(n int) int {
	if t.top > 0 && n > t.top {
		return t.top
	}
	return n
}

func (t *text) rest(n int, what string) {
	if n > t.some(n) {
		t.line("  … and %s more %s: --top 0 or --json has all", report.Count(uint64(n-t.some(n))), what)
	}
}

func (t *text) sides(d *Document) {
	for _, s := range []struct {
		name    string
		side    *SideDoc
		outside uint64
	}{{"A", &d.A, outside(d, 0)}, {"B", &d.B, outside(d, 1)}} {
		if d.Packets == nil {
			t.line("  %s  %s", s.name, s.side.Name)
			continue
		}
		more := ""
		if s.outside > 0 {
			more = fmt.Sprintf("; %s from when the other was not running", report.Count(s.outside))
		}
		t.line("  %s  %s: %s, %s compared%s", s.name, s.side.Name, report.Plural(s.side.Frames, "frame"), report.Count(s.side.Packets), more)
		for _, e := range s.side.Errors {
			t.line("     read in part: %s", strings.TrimPrefix(e, "captures: "))
		}
	}
}

func outside(d *Document, side int) uint64 {
	switch {
	case d.Packets == nil:
		return 0
	case side == 0:
		return d.Packets.OutsideA
	}
	return d.Packets.OutsideB
}

func (t *text) packets(d *Document) {
	if len(d.Listed) == 0 {
		return
	}
	t.line("\nPackets")
	for i := range d.Listed[:t.some(len(d.Listed))] {
		p := &d.Listed[i]
		t.line("  %-10s %-22s %-24s %s PSN %s%s", p.Kind, p.frames(), p.Opcode, d.Streams[p.Stream].way(), hex24(p.PSN), p.more())
	}
	t.rest(len(d.Listed)+int(d.Packets.NotListed), "packets")
}

func (s *StreamDoc) way() string {
	return fmt.Sprintf("%s → %s QP %#x", s.Src, s.Dst, s.DestQP)
}

func hex24(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// frames names the frames of a packet.
func (p *PacketDoc) frames() string {
	name := func(side string, f *uint64) string {
		if f == nil {
			return side + " -"
		}
		return fmt.Sprintf("%s #%d", side, *f)
	}
	return name("A", p.FrameA) + "  " + name("B", p.FrameB)
}

// more is what there is to say of a packet besides its name.
func (p *PacketDoc) more() string {
	var parts []string
	for _, f := range p.Copies {
		parts = append(parts, fmt.Sprintf("again in #%d", f))
	}
	if p.LateNS != nil {
		parts = append(parts, "late by "+report.Duration(time.Duration(*p.LateNS)))
	}
	if p.Cut > 0 {
		parts = append(parts, fmt.Sprintf("%d bytes cut off", p.Cut))
	}
	for i := range p.Changes {
		parts = append(parts, p.Changes[i].text())
	}
	switch {
	case p.BadA && p.BadB:
		parts = append(parts, "ICRC wrong in both")
	case p.BadA:
		parts = append(parts, "ICRC wrong in A")
	case p.BadB:
		parts = append(parts, "ICRC wrong in B")
	}
	if p.Edge {
		parts = append(parts, "at the edge of what the other capture has")
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + strings.Join(parts, ", ")
}

func (c *ChangeDoc) text() string {
	s := c.Field
	if c.Before != c.After { // else no value is shown: --privacy
		s += fmt.Sprintf(" %#x → %#x", c.Before, c.After)
	}
	switch n := len(c.Bits); {
	case n == 1:
		s += fmt.Sprintf(" (byte %d, bit %d)", c.Bits[0][0], c.Bits[0][1])
	case n > 1:
		s += fmt.Sprintf(" (%d bits, from byte %d on)", n, c.Offset)
	}
	return s
}

func (t *text) clock(d *Document) {
	c := d.Clock
	if c == nil {
		return
	}
	t.line("\nClocks")
	if !c.Bounded {
		t.line("  Which capture packets pass first cannot be told: B's clock is ahead of A's by %s, a one-way delay included.", precise(c.OffsetNS))
		return
	}
	t.line("  B's clock is ahead of A's by %s ± %s, and gains %.3f ± %.3f ppm (from %s that both have).",
		precise(c.OffsetNS), report.Duration(time.Duration(c.OffsetErrorNS)), c.DriftPPM, c.DriftErrorPPM, report.Plural(uint64(c.Samples), "packet"))
	if c.BentNS > 0 {
		t.line("  No steady drift explains all: one of the clocks was set, or times are off by up to %s.", report.Duration(time.Duration(c.BentNS)))
	}
}

// precise is a time to the microsecond, however long.
func precise(ns int64) string { return fmt.Sprintf("%.6f s", float64(ns)/1e9) }

func (t *text) streams(d *Document) {
	if len(d.Streams) == 0 {
		return
	}
	t.line("\nStreams%29s%9s %9s %7s %7s %7s %7s   %s", "A", "B", "matched", "lost", "dup", "reord", "chang", "delay p50 / p99, jitter")
	for i := range d.Streams[:t.some(len(d.Streams))] {
		s := &d.Streams[i]
		if s.Matched+s.Lost+s.OnlyA+s.OnlyB+s.Duplicated == 0 {
			continue // a damaged QPN, or what is outside
		}
		delay := ""
		if x := s.Delay; x != nil && x.P50 != nil {
			delay = report.Duration(time.Duration(*x.P50)) + " / " + report.Duration(time.Duration(*x.P99))
			if s.JitterNS != nil {
				delay += ", " + report.Duration(time.Duration(*s.JitterNS))
			}
		}
		t.line("  %s", s.way())
		t.line("%36d%9d %9d %7d %7d %7d %7d   %s", s.PacketsA, s.PacketsB, s.Matched, s.Lost, s.Duplicated, s.Reordered, s.Changed, delay)
	}
	t.rest(len(d.Streams), "streams")
	for i := range d.Rewrites {
		w := &d.Rewrites[i]
		t.line("  The path rewrote %s from %d to %d in %s.", w.Field, w.Before, w.After, report.Plural(w.Packets, "packet"))
	}
}

func (t *text) messages(d *Document) {
	m := d.Messages
	if m == nil {
		return
	}
	by := "QP and PSN"
	if m.MatchedBy == "order" {
		by = "their order between the same hosts"
	}
	t.line("\nMessages")
	t.line("  %s in A, %s in B; %s matched by %s; in A only %s, in B only %s; completed %s and %s; sent again %s and %s times.", report.Count(m.A), report.Count(m.B),
		report.Count(m.Matched), by, report.Count(m.OnlyA), report.Count(m.OnlyB), report.Count(m.CompletedA), report.Count(m.CompletedB), report.Count(m.ResendsA), report.Count(m.ResendsB))
	if a, b := m.LatencyA, m.LatencyB; a != nil && b != nil && a.P50 != nil {
		verdict := map[string]string{
			"a_faster": "A is faster", "b_faster": "B is faster",
			"same": "no difference that could not be chance", "unknown": "too few to compare",
		}[m.Verdict]
		t.line("  Latency p50 %s and %s, p99 %s and %s: %s (95 %% confidence of the medians).", report.Duration(time.Duration(*a.P50)), report.Duration(time.Duration(*b.P50)),
			report.Duration(time.Duration(*a.P99)), report.Duration(time.Duration(*b.P99)), verdict)
	}
	for i := range d.Differ[:t.some(len(d.Differ))] {
		t.line("  %s", d.Differ[i].text())
	}
	t.rest(len(d.Differ)+int(m.NotListed), "messages")
}

func (p *MessageDiff) text() string {
	s := fmt.Sprintf("%s from %s to %s, PSN %s: ", p.Op, p.From, p.To, hex24(p.FirstPSN))
	switch {
	case p.StatusA == nil:
		return s + fmt.Sprintf("in B only (#%d, %s)", *p.FrameB, *p.StatusB)
	case p.StatusB == nil:
		return s + fmt.Sprintf("in A only (#%d, %s)", *p.FrameA, *p.StatusA)
	case *p.StatusA != *p.StatusB:
		return s + fmt.Sprintf("%s in A, %s in B", *p.StatusA, *p.StatusB)
	case p.BytesA != p.BytesB:
		return s + fmt.Sprintf("%d bytes in A, %d in B", p.BytesA, p.BytesB)
	}
	return s + fmt.Sprintf("sent again %s in A, %s in B", report.Plural(uint64(p.ResendsA), "time"), report.Plural(uint64(p.ResendsB), "time"))
}

func (t *text) findings(d *Document) {
	if len(d.Findings) == 0 {
		return
	}
	t.line("\nFindings that one side alone shows")
	for i := range d.Findings[:t.some(len(d.Findings))] {
		f := &d.Findings[i]
		t.line("  %s  %-8s %s #%d, %s: %s", strings.ToUpper(f.Side), f.Severity, f.ID, f.Frame, f.Where, f.Summary)
	}
	t.rest(len(d.Findings), "findings")
}
