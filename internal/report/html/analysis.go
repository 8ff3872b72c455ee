package html

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// Analysis is what the page of a capture is made of.
type Analysis struct {
	Document  *report.Document
	Snapshot  *flows.Snapshot // that the document was made of
	Collector *Collector      // after its look at the packets; nil: a page without plots and ladders
	Version   string          // of the program
	Origin    []Origin        // where the frames were captured, as far as the files tell
}

// Origin describes where frames were captured.
type Origin struct{ Name, Description, Filter, Program, System, Clock string }

type analysisPage struct {
	head
	Findings     []findingView
	FindingsLeft int
	Severities   []severityCount
	Connections  []connectionRow
	RowsLeft     int
	Details      []connectionView
	PlotsLeft    int
	Charts       bool
}

type severityCount struct {
	Severity string
	Count    int
}

// Write writes the page.
func (a *Analysis) Write(w io.Writer) error {
	d := a.Document
	p := &analysisPage{Charts: a.Collector != nil}
	p.head = head{
		Parts: []fact{{"Findings", "findings"}, {"Connections", "connections"}, {"Capture", "capture"}},
		Title: a.name(), Generator: Generator, Version: a.Version, Verdict: d.Verdict(), Grave: gravestOf(d), About: a.about(),
		Tiles: tiles(d), Facts: a.facts(), Limits: d.Limits(), Hints: d.Hints(),
	}
	b := &builder{a: a, zero: zeroOf(d), flags: map[uint32][]flag{}, named: map[uint64]bool{}, plots: map[uint32]bool{}}
	if a.Collector != nil {
		for _, t := range a.Collector.trails {
			b.plots[t.conn.ID] = t.plotted
		}
	}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Frame != nil {
			b.named[*f.Frame] = true
		}
	}
	counts := map[string]int{}
	for i := range d.Findings {
		counts[d.Findings[i].Severity]++
		if i < maxFindings {
			p.Findings = append(p.Findings, b.finding(i))
		}
	}
	p.FindingsLeft = len(d.Findings) - len(p.Findings)
	for s := flows.Error; ; s-- {
		if n := counts[s.String()]; n > 0 {
			p.Severities = append(p.Severities, severityCount{s.String(), n})
		}
		if s == flows.Note {
			break
		}
	}
	p.Connections = b.rows()
	p.RowsLeft = len(d.Connections) - len(p.Connections)
	p.Details = b.details()
	if p.Charts {
		p.PlotsLeft = len(d.Connections) - len(p.Details)
	}
	return execute(w, "analysis", p)
}

// builder makes the parts of a page that refer to each other.
type builder struct {
	a     *Analysis
	zero  int64
	flags map[uint32][]flag
	named map[uint64]bool // frames that findings name
	plots map[uint32]bool
	drawn map[*window]string
}

func zeroOf(d *report.Document) int64 {
	if d.Capture.FirstNS == nil {
		return 0
	}
	return *d.Capture.FirstNS
}

func gravestOf(d *report.Document) string {
	grave := "ok"
	if p := &d.Protocols; p.RoCEv2+p.RoCEv1+p.InfiniBand+p.IWARP == 0 && len(d.Findings) == 0 {
		return "none"
	}
	for i := range d.Findings {
		switch s := d.Findings[i].Severity; {
		case s == "error":
			return s
		case s == "warning":
			grave = s
		}
	}
	return grave
}

func (a *Analysis) name() string {
	switch files := a.Document.Capture.Files; len(files) {
	case 0:
		return "capture"
	case 1:
		if files[0] == "-" {
			return "standard input"
		}
		return filepath.Base(files[0])
	default:
		return fmt.Sprintf("%d files from %s on", len(files), filepath.Base(files[0]))
	}
}

func (a *Analysis) about() string {
	d := a.Document
	parts := []string{report.Plural(d.Capture.Packets, "packet")}
	if s := span(d); s > 0 {
		parts[0] += " in " + report.Duration(s)
	}
	parts = append(parts, report.Plural(uint64(len(d.Connections))+d.Evicted, "connection"))
	text := strings.Join(parts, ", ")
	if d.Filter != nil {
		text += ". Only what has packets that the filter selects: " + *d.Filter
	}
	return text
}

func span(d *report.Document) time.Duration {
	if d.Capture.FirstNS == nil || d.Capture.LastNS == nil {
		return 0
	}
	return time.Duration(*d.Capture.LastNS - *d.Capture.FirstNS)
}

// tiles are the numbers that say most of a capture.
func tiles(d *report.Document) []tile {
	var messages, done, failed, payload, resent, naks, rnrs, lost, packets uint64
	goodput := 0.0
	for i := range d.Connections {
		for _, s := range []*report.Stream{&d.Connections[i].AToB, &d.Connections[i].BToA} {
			for op, m := range s.Messages {
				if op == "atomic" { // the sum of its kinds
					continue
				}
				messages += m.Count
				done += m.Completed
				failed += m.Failed
			}
			packets += s.Packets
			payload += s.PayloadBytes
			resent += s.RetransmittedPackets
			naks += nakCount(s)
			rnrs += s.RNRNAKs
			lost += s.LostBeforeTap + s.LostBehindTap
			goodput += s.GoodputBPS
		}
	}
	list := []tile{
		{"Messages", report.Count(messages), report.Count(done) + " completed", ""},
		{"Payload", report.Bytes(payload), report.Plural(packets, "packet"), ""},
		{"Goodput", report.BitRate(goodput), "of all connections together", ""},
		{"Sent again", report.Count(resent), percent(resent, packets) + " of packets", ""},
		{"NAKs", report.Count(naks), report.Count(rnrs) + " RNR besides", ""},
		{"Lost", report.Count(lost), "packets, as far as seen", ""},
		{"Wrong ICRC", report.Count(d.ICRC.Invalid), report.Count(d.ICRC.Valid) + " right", ""},
	}
	if failed > 0 {
		list[0].About += ", " + report.Count(failed) + " failed"
		list[0].Class = "bad"
	}
	for i, n := range map[int]uint64{3: resent, 4: naks, 5: lost, 6: d.ICRC.Invalid} {
		if n > 0 {
			list[i].Class = "warn"
		}
	}
	return list
}

func percent(part, of uint64) string {
	switch {
	case of == 0 || part == 0:
		return "0 %"
	case float64(part)/float64(of) < 0.0005:
		return "< 0.05 %"
	}
	return fmt.Sprintf("%.3g %%", 100*float64(part)/float64(of))
}

func nakCount(s *report.Stream) uint64 {
	n := &s.NAKs
	return n.PSNSequenceError + n.InvalidRequest + n.RemoteAccessError + n.RemoteOperationalError + n.InvalidRDRequest
}

// facts say how the capture was made.
func (a *Analysis) facts() []fact {
	c := &a.Document.Capture
	var list []fact
	add := func(name, value string) {
		if value != "" {
			list = append(list, fact{name, value})
		}
	}
	add("Files", strings.Join(c.Files, ", "))
	if c.First != nil && c.Last != nil {
		first, _ := c.First.MarshalText()
		last, _ := c.Last.MarshalText()
		add("First packet", string(first))
		add("Last packet", string(last))
	}
	add("Packets", report.Count(c.Packets))
	add("Bytes on the wire", report.Bytes(c.Bytes))
	if c.CapturedBytes != c.Bytes {
		add("Bytes captured", report.Bytes(c.CapturedBytes))
	}
	add("Link types", strings.Join(c.LinkTypes, ", "))
	for _, o := range a.Origin {
		for _, f := range []fact{
			{"Interface", strings.TrimSpace(o.Name + " " + o.Description)},
			{"Capture filter", o.Filter},
			{"Captured by", o.Program},
			{"Captured on", o.System},
			{"Time stamps", o.Clock},
		} {
			add(f.Name, f.Value)
		}
	}
	add("Packets lost by the capture", report.Count(c.Dropped))
	icrc := &a.Document.ICRC
	switch {
	case icrc.Off:
		add("ICRC", "not checked")
	default:
		add("ICRC", fmt.Sprintf("%s right, %s wrong, %s not checked", report.Count(icrc.Valid), report.Count(icrc.Invalid), report.Count(icrc.Unchecked)))
	}
	add("Analyzed by", "rocescope "+a.Version)
	return list
}

// findingView is a finding as the page shows it.
type findingView struct {
	report.Finding
	Anchor  string
	Letter  string
	Heading string
	Where   string
	Conn    string // anchor of the connection, "" without
	Plot    string // id of the plot to jump to, "" without
	At      int64  // in the plot, nanoseconds
	Ladder  *ladderView
	SeeAlso string // anchor of the finding that has the ladder
	Open    bool
}

type ladderView struct {
	Title string
	SVG   any
}

func (b *builder) finding(i int) findingView {
	f := &b.a.Document.Findings[i]
	v := findingView{Finding: *f, Anchor: fmt.Sprintf("finding-%d", i+1), Letter: strings.ToUpper(f.Severity[:1]), Open: i == 0 && f.Severity != "note"}
	v.Heading, v.Summary = f.Title, report.UnitsApart(f.Summary)
	var parts []string
	if f.Connection != nil {
		where := fmt.Sprintf("connection %d", *f.Connection)
		if f.Stream != nil {
			where += map[bool]string{true: ", a → b", false: ", b → a"}[*f.Stream == flows.AToB.String()]
		}
		parts = append(parts, where)
	}
	if f.Frame != nil {
		parts = append(parts, fmt.Sprintf("frame %d", *f.Frame))
	}
	if f.TimeNS != nil && *f.TimeNS >= b.zero {
		parts = append(parts, "at "+report.Duration(time.Duration(*f.TimeNS-b.zero)))
	}
	if f.Count > 1 {
		parts = append(parts, report.Count(f.Count)+" times")
	}
	v.Where = strings.Join(parts, " · ")
	if f.Connection == nil || b.a.Collector == nil {
		return v
	}
	if b.plots[*f.Connection] {
		v.Conn = fmt.Sprintf("connection-%d", *f.Connection)
		if f.TimeNS != nil {
			b.flags[*f.Connection] = append(b.flags[*f.Connection], flag{v.Anchor, f.Severity, f.Title, *f.TimeNS})
			v.Plot, v.At = v.Conn, *f.TimeNS-b.zero
		}
	}
	if t := b.a.Collector.byID[*f.Connection]; t != nil && f.Frame != nil {
		b.ladder(&v, t, *f.Frame)
	}
	return v
}

// ladder gives a finding the diagram of its packets, or the name of the finding before it that shows them.
func (b *builder) ladder(v *findingView, t *trail, frame uint64) {
	w := t.ladder.of(frame)
	if w == nil || len(w.rows) == 0 {
		return
	}
	if at, ok := b.drawn[w]; ok {
		v.SeeAlso = at
		return
	}
	if b.drawn == nil {
		b.drawn = map[*window]string{}
	}
	b.drawn[w] = v.Anchor
	title := fmt.Sprintf("Packets of connection %d around frame %d, the first at %s", t.conn.ID, frame, exactly(w.rows[0].at-b.zero))
	v.Ladder = &ladderView{title, drawLadder(title, "a  "+endText(&t.conn.A), "b  "+endText(&t.conn.B), w.rungs(b.zero, b.named), w.before)}
}

// exactly writes a moment with all that time stamps give.
func exactly(ns int64) string { return fmt.Sprintf("%d.%09d s", ns/1e9, ns%1e9) }

func endText(q *flows.QP) string {
	address, qpn := "?", "QPN ?"
	if !q.Addr.IsZero() {
		address = q.Addr.String()
	}
	if q.Known {
		qpn = report.QPN(q.QPN)
	}
	return address + " " + qpn
}
