package report

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/rocescope/rocescope/flows"
)

// TextOptions say how a text is laid out.
type TextOptions struct {
	Width int // of a line; 0 = 80
	Style Style
	Top   int // connections and findings to show at most; 0 = all

	Verbose bool // notes in full, and a view of each queue pair
}

func (o TextOptions) width() int {
	if o.Width <= 0 {
		return 80
	}
	return max(o.Width, 40)
}

// summary is a text in the making.
type summary struct {
	bytes.Buffer
	d *Document
	o TextOptions
}

// WriteText writes what a person wants to know first: what the capture is, what is wrong in it, who talked to whom and
// how it went, and what could not be judged.
func (d *Document) WriteText(w io.Writer, o TextOptions) error {
	t := &summary{d: d, o: o}
	t.headline()
	t.findings()
	t.connections()
	t.iwarp()
	t.pauses()
	t.shadow()
	if t.o.Verbose {
		t.hosts()
		t.queuePairs()
	}
	for _, c := range t.top() {
		t.series(c)
	}
	t.counters()
	t.unchecked()
	t.hints()
	_, err := w.Write(t.Bytes())
	return err
}

// section begins a part of the text.
func (t *summary) section(title string) {
	t.WriteByte('\n')
	t.WriteString(t.o.Style.paint(bold, title))
	t.WriteByte('\n')
}

// paragraph writes a sentence, the first line behind first and the others indented as far.
func (t *summary) paragraph(first, sentence string, p paint) {
	indent := strings.Repeat(" ", len(first))
	for i, line := range wrap(ascii(sentence), t.o.width()-len(first)) {
		if i == 0 {
			t.WriteString(first)
		} else {
			t.WriteString(indent)
		}
		t.WriteString(t.o.Style.paint(p, line))
		t.WriteByte('\n')
	}
}

// hanging writes a paragraph whose first line is indented otherwise than the rest.
func (t *summary) hanging(sentence, first, rest string) {
	for i, line := range wrap(ascii(sentence), t.o.width()-len(rest)) {
		if i == 0 {
			t.WriteString(first)
		} else {
			t.WriteString(rest)
		}
		t.WriteString(line + "\n")
	}
}

// headline is the first line: the capture and the verdict.
func (t *summary) headline() {
	c := &t.d.Capture
	what := Plural(c.Packets, "packet")
	if c.FirstNS != nil && c.LastNS != nil && *c.LastNS > *c.FirstNS {
		what += " in " + Duration(time.Duration(*c.LastNS-*c.FirstNS))
	}
	parts := []string{what}
	total := c.Packets
	if t.d.Filter != nil {
		parts = append(parts, Count(c.Matched)+" selected")
		total = c.Matched
	}
	p := &t.d.Protocols
	for _, n := range []struct {
		count uint64
		name  string
	}{
		{p.RoCEv2, "RoCE v2"},
		{p.RoCEv1, "RoCE v1"},
		{p.InfiniBand, "InfiniBand"},
		{p.IWARP, "iWARP"},
		{p.PFC, "pause"},
	} {
		if n.count == total && n.count > 0 {
			parts = append(parts, "all "+n.name)
		} else if n.count > 0 {
			parts = append(parts, Count(n.count)+" "+n.name)
		}
	}
	if t.rdma() {
		parts = append(parts, Plural(uint64(len(t.d.Connections)+len(t.d.IWARP))+t.d.Evicted, "connection"))
	} else {
		parts = append(parts, "no RDMA")
	}
	verdict := t.verdict()
	hidden := verdict
	if len(verdict) <= t.o.width() { // it stays on one line: its blanks are hidden from wrap
		hidden = strings.ReplaceAll(verdict, " ", "\x00")
	}
	for _, line := range wrap(ascii(t.name()+": "+strings.Join(parts, ", ")+":")+" "+hidden, t.o.width()) {
		t.WriteString(strings.Replace(line, hidden, t.o.Style.paint(t.verdictPaint(), verdict), 1) + "\n")
	}
	if t.d.Filter != nil {
		t.paragraph("", "Only what has packets that the filter selects: "+*t.d.Filter, dim)
	}
}

func (t *summary) name() string {
	files := t.d.Capture.Files
	switch len(files) {
	case 0:
		return "capture"
	case 1:
		if files[0] == "-" {
			return "standard input"
		}
		return filepath.Base(files[0])
	}
	return fmt.Sprintf("%d files from %s on", len(files), filepath.Base(files[0]))
}

// rdma reports whether anything of RDMA is in the capture.
func (t *summary) rdma() bool {
	p := &t.d.Protocols
	return p.RoCEv2+p.RoCEv1+p.InfiniBand+p.IWARP+p.SocketExchange+p.CM > 0 || len(t.d.Connections) > 0
}

// judged reports whether there was a packet of a queue pair to find fault with.
func (t *summary) judged() bool {
	p := &t.d.Protocols
	return p.RoCEv2+p.RoCEv1+p.InfiniBand+p.IWARP > 0 || len(t.d.Findings) > 0
}

// severities are how many findings there are of each.
func (t *summary) severities() map[string]uint64 {
	n := map[string]uint64{}
	for _, f := range t.d.Findings {
		n[f.Severity]++
	}
	return n
}

// Verdict is the document in a few words: how many findings of each severity, or that nothing wrong was found.
func (d *Document) Verdict() string { return (&summary{d: d}).verdict() }

func (t *summary) verdict() string {
	n := t.severities()
	var parts []string
	for _, s := range []flows.Severity{flows.Error, flows.Warning, flows.Note} {
		if name := s.String(); n[name] > 0 {
			parts = append(parts, Plural(n[name], name))
		}
	}
	lost := t.lostForGood()
	switch {
	case n["error"]+n["warning"] > 0:
		if lost != "" {
			parts = append(parts, lost)
		}
		return strings.Join(parts, ", ")
	case !t.judged():
		return "nothing to judge"
	case lost != "":
		return strings.Join(append([]string{lost}, parts...), ", ")
	case n["note"] > 0:
		return "nothing wrong found, " + parts[0]
	}
	return "nothing wrong found"
}

// lostForGood says what unreliable transports lost. No rule is broken by it, so that it is only a note; but it is lost.
func (t *summary) lostForGood() string {
	lost := map[string]uint64{}
	for i := range t.d.Connections {
		c := &t.d.Connections[i]
		if !reliable(c.Transport) {
			lost[c.Transport] += c.AToB.LostBeforeTap + c.BToA.LostBeforeTap
		}
	}
	var parts []string
	for _, transport := range slices.Sorted(maps.Keys(lost)) {
		if n := lost[transport]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s lost and, being %s, not sent again", Plural(n, "packet"), transport))
		}
	}
	return strings.Join(parts, ", ")
}

func (t *summary) verdictPaint() paint {
	n := t.severities()
	switch {
	case n["error"] > 0:
		return badBold
	case n["warning"] > 0:
		return warning
	case !t.judged():
		return plain
	case t.lostForGood() != "":
		return warning
	}
	return good
}

// findings come gravest first, each with where it is and what to try; advice that was just given is not repeated. Notes
// are named only, but for those that stand for a loss that nothing else tells.
func (t *summary) findings() {
	var told, named []*Finding
	for i := range t.d.Findings {
		f := &t.d.Findings[i]
		if t.o.Verbose || f.Severity != flows.Note.String() || f.ID == lostForGood {
			told = append(told, f)
		} else {
			named = append(named, f)
		}
	}
	if len(told)+len(named) == 0 {
		return
	}
	t.section("Findings")
	more := 0
	if t.o.Top > 0 && len(told) > t.o.Top {
		more = len(told) - t.o.Top
		told = told[:t.o.Top]
	}
	advised := map[string]bool{}
	for _, f := range told {
		first := t.o.Style.paint(severityPaint(f.Severity), severityLetter(f.Severity)) + "  "
		title := f.heading()
		for n, line := range wrap(ascii(title+UnitsApart(f.Summary)), t.o.width()-3) {
			if n > 0 {
				first = "   "
			} else if title = strings.TrimSpace(ascii(title)); strings.HasPrefix(line, title) {
				line = t.o.Style.paint(bold, title) + line[len(title):]
			}
			t.WriteString(first + line + "\n")
		}
		t.paragraph("   ", t.place(f), dim)
		if f.Try != "" && !advised[f.ID] {
			t.paragraph("   try: ", f.Try, plain)
		}
		advised[f.ID] = true
	}
	if more > 0 {
		t.paragraph("   ", fmt.Sprintf("%s; --top 0 shows all", Plural(uint64(more), "more finding")), dim)
	}
	if len(named) > 0 {
		first := t.o.Style.paint(severityPaint(named[0].Severity), severityLetter(named[0].Severity)) + "  "
		for _, line := range wrap(ascii(noteLine(named)), t.o.width()-3) {
			t.WriteString(first + line + "\n")
			first = "   "
		}
	}
}

// gluedUnit is a time as Go writes it.
var gluedUnit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(\d+(?:\.\d+)?)(ns|µs|ms|s)\b`) })

// UnitsApart writes the times in a finding's summary as the rest of the text does.
func UnitsApart(s string) string { return gluedUnit().ReplaceAllString(s, "$1 $2") }

// heading is the finding's title before its summary, where the summary does not say it again.
func (f *Finding) heading() string {
	said := f.Title
	if _, rest, ok := strings.Cut(said, ": "); ok {
		said = rest
	}
	if said == "" || strings.Contains(f.Summary, said) {
		return ""
	}
	return f.Title + ": "
}

// lostForGood is the note that is told like a warning.
const lostForGood = "lost_unnoticed"

// noteLine names notes, each kind once with how often it was found.
func noteLine(notes []*Finding) string {
	var titles []string
	count := map[string]uint64{}
	for _, f := range notes {
		if count[f.Title] == 0 {
			titles = append(titles, f.Title)
		}
		count[f.Title] += max(f.Count, 1)
	}
	for i, title := range titles {
		if n := count[title]; n > 1 {
			titles[i] += fmt.Sprintf(" (%s times)", Count(n))
		}
	}
	return Plural(uint64(len(notes)), "note") + ", which -v tells: " + strings.Join(titles, "; ")
}

// place is where a finding is.
func (t *summary) place(f *Finding) string {
	var parts []string
	if f.Connection != nil {
		where := fmt.Sprintf("connection %d", *f.Connection)
		if f.Stream != nil {
			where += " " + arrow(*f.Stream)
		}
		parts = append(parts, where)
	}
	if f.Frame != nil {
		at := fmt.Sprintf("frame %d", *f.Frame)
		if f.TimeNS != nil && t.d.Capture.FirstNS != nil && *f.TimeNS >= *t.d.Capture.FirstNS {
			at += " at " + Duration(time.Duration(*f.TimeNS-*t.d.Capture.FirstNS))
		}
		parts = append(parts, at)
	}
	if f.Count > 1 {
		parts = append(parts, Count(f.Count)+" times")
	}
	parts = append(parts, f.ID)
	return strings.Join(parts, ", ")
}

func arrow(stream string) string {
	if stream == flows.AToB.String() {
		return "a->b"
	}
	return "b->a"
}
