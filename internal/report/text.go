package report

import (
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
)

// TextOptions say how a text is laid out.
type TextOptions struct {
	Width int // of a line; 0 = 80
	Style Style
	Top   int // connections and findings to show at most; 0 = all
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
		parts = append(parts, Plural(uint64(len(t.d.Connections))+t.d.Evicted, "connection"))
	} else {
		parts = append(parts, "no RDMA")
	}
	// The verdict stays on one line: its blanks are hidden from wrap.
	verdict := t.verdict()
	hidden := strings.ReplaceAll(verdict, " ", "\x00")
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

func (t *summary) verdict() string {
	n := t.severities()
	var parts []string
	for _, s := range []flows.Severity{flows.Error, flows.Warning, flows.Note} {
		if name := s.String(); n[name] > 0 {
			parts = append(parts, Plural(n[name], name))
		}
	}
	switch {
	case n["error"]+n["warning"] > 0:
		return strings.Join(parts, ", ")
	case !t.judged():
		return "nothing to judge"
	case n["note"] > 0:
		return "nothing wrong found, " + parts[0]
	}
	return "nothing wrong found"
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
	}
	return good
}

// findings come gravest first, each with where it is and what to try; advice that was just given is not repeated.
func (t *summary) findings() {
	if len(t.d.Findings) == 0 {
		return
	}
	t.section("Findings")
	shown := t.d.Findings
	if t.o.Top > 0 && len(shown) > t.o.Top {
		shown = shown[:t.o.Top]
	}
	advised := map[string]bool{}
	for i := range shown {
		f := &shown[i]
		first := t.o.Style.paint(severityPaint(f.Severity), severityLetter(f.Severity)) + "  "
		for n, line := range wrap(ascii(f.Summary), t.o.width()-3) {
			if n > 0 {
				first = "   "
			}
			t.WriteString(first + line + "\n")
		}
		t.paragraph("   ", t.place(f), dim)
		if f.Try != "" && !advised[f.ID] {
			t.paragraph("   try: ", f.Try, plain)
		}
		advised[f.ID] = true
	}
	if more := len(t.d.Findings) - len(shown); more > 0 {
		t.paragraph("   ", fmt.Sprintf("%s more; --top 0 shows all", Plural(uint64(more), "finding")), dim)
	}
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
