package report

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
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

// connections are two tables: who talks to whom, and what each stream carried.
func (t *summary) connections() {
	all := t.d.Connections
	if len(all) == 0 {
		return
	}
	shown := t.top()
	t.section("Connections")
	t.pairs(shown)
	if more := len(all) - len(shown); more > 0 {
		t.paragraph("  ", fmt.Sprintf("and %s, which carried less; --top 0 shows all", Plural(uint64(more), "more connection")), dim)
	}
	traffic := trafficTable(shown)
	if len(traffic.rows) > 0 {
		t.section("Traffic")
		traffic.write(t, t.o.width(), t.o.Style)
	}
	if len(all) > 1 {
		t.total()
	}
}

// top are the connections to show, in their order: those with the gravest findings, then those that carried most.
func (t *summary) top() []*Connection {
	gravest := map[uint32]flows.Severity{}
	for _, f := range t.d.Findings {
		if s, ok := flows.ParseSeverity(f.Severity); ok && f.Connection != nil {
			gravest[*f.Connection] = max(gravest[*f.Connection], s+1)
		}
	}
	list := make([]*Connection, 0, len(t.d.Connections))
	for i := range t.d.Connections {
		list = append(list, &t.d.Connections[i])
	}
	if t.o.Top <= 0 || len(list) <= t.o.Top {
		return list
	}
	carried := func(c *Connection) uint64 { return c.AToB.PayloadBytes + c.BToA.PayloadBytes }
	slices.SortStableFunc(list, func(x, y *Connection) int {
		return cmp.Or(cmp.Compare(gravest[y.ID], gravest[x.ID]), cmp.Compare(carried(y), carried(x)))
	})
	list = list[:t.o.Top]
	slices.SortFunc(list, func(x, y *Connection) int { return cmp.Compare(x.ID, y.ID) })
	return list
}

// pairs writes the table of queue pairs, one line each where addresses are short enough, else two.
func (t *summary) pairs(list []*Connection) {
	one := table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "a", key: true},
		{title: "b", key: true},
		{title: "over"}, {title: "paired by"}, {title: "state a/b"}, {title: "MTU", right: true}, {title: "VLAN", right: true}, {title: "captured"}, {title: "tap"},
	}}
	two := table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "queue pair a, b", key: true},
		{title: "over"}, {title: "paired by"}, {title: "state"}, {title: "MTU", right: true}, {title: "VLAN", right: true}, {title: "captured"}, {title: "tap"},
	}}
	for _, c := range list {
		id, over, by := fmt.Sprint(c.ID), c.Transport, pairedBy(c)
		one.add(text(id), text(qpText(&c.A)), text(qpText(&c.B)), text(over), by, bothStates(c),
			text(join(mtuText(&c.A), mtuText(&c.B))), text(join(vlanText(&c.A), vlanText(&c.B))), text(captured(c)), text(tapText(c)))
		two.add(text(id), text(qpText(&c.A)), text(over), by, stateCell(&c.A), text(mtuText(&c.A)), text(vlanText(&c.A)), text(captured(c)), text(tapText(c)))
		two.add(text(""), text(qpText(&c.B)), text(""), text(""), stateCell(&c.B), text(mtuText(&c.B)), text(vlanText(&c.B)), text(""))
	}
	if one.fits(t.o.width()) {
		one.write(t, t.o.width(), t.o.Style)
	} else {
		two.write(t, t.o.width(), t.o.Style)
	}
}

func qpText(q *QP) string {
	address, qpn := "?", "QPN ?"
	if q.Address != nil {
		address = *q.Address
	}
	if q.QPN != nil {
		qpn = QPN(*q.QPN)
	}
	return address + " " + qpn
}

func pairedBy(c *Connection) cell {
	if c.EstablishedBy != "unpaired" {
		return text(c.EstablishedBy)
	}
	if n := len(c.Candidates); n > 0 {
		return painted(warning, fmt.Sprintf("? (%d fit)", n))
	}
	return painted(warning, "unpaired")
}

func stateCell(q *QP) cell {
	switch q.State {
	case flows.StateUnknown.String():
		return painted(dim, "?")
	case flows.StateError.String(), flows.StateSQE.String():
		return painted(bad, q.State)
	}
	return text(q.State)
}

func bothStates(c *Connection) cell {
	a, b := stateCell(&c.A), stateCell(&c.B)
	p := a.paint
	if b.paint == bad || p == plain {
		p = b.paint
	}
	return painted(p, a.text+"/"+b.text)
}

func mtuText(q *QP) string {
	if q.PathMTU == nil {
		return ""
	}
	return fmt.Sprint(*q.PathMTU)
}

func vlanText(q *QP) string {
	if q.VLAN == nil {
		return ""
	}
	return fmt.Sprint(*q.VLAN)
}

// join is what two ends say, once where they agree or where one says nothing.
func join(a, b string) string {
	if a == b || b == "" {
		return a
	}
	if a == "" {
		return b
	}
	return a + "/" + b
}

func tapText(c *Connection) string {
	if c.Tap == flows.TapUnknown.String() {
		return ""
	}
	return c.Tap
}

func captured(c *Connection) string {
	if c.Directions == "one" && c.AToB.Packets+c.BToA.Packets > 0 {
		return "one way"
	}
	return ""
}

// operations are the words for what a stream carried, in the order of their rows.
var operations = []struct{ key, name string }{
	{"write", "WRITE"},
	{"read", "READ"},
	{"send", "SEND"},
	{"compare_swap", "CMP+SWAP"},
	{"fetch_add", "FETCH+ADD"},
	{"flush", "FLUSH"},
	{"atomic_write", "ATOMIC WRITE"},
}

// trafficTable has a row for each operation of each stream. What a stream's requests met with (resends, NAKs, loss)
// stands in its first row: answers are counted where they were sent, but told here to the requester that got them.
func trafficTable(list []*Connection) *table {
	t := &table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "stream", key: true},
		{title: "operation"},
		{title: "messages", right: true},
		{title: "bytes", right: true},
		{title: "failed", right: true},
		{title: "open", right: true},
		{title: "goodput", right: true},
		{title: "p50", right: true},
		{title: "p99", right: true},
		{title: "resent", right: true},
		{title: "why"},
		{title: "NAK", right: true},
		{title: "RNR", right: true},
		{title: "RNR wait", right: true},
		{title: "lost before tap", right: true},
		{title: "lost behind tap", right: true},
		{title: "not captured", right: true},
		{title: "ghost ACK", right: true},
		{title: "reordered", right: true},
		{title: "net copies", right: true},
		{title: "unclear", right: true},
		{title: "bad ICRC", right: true},
		{title: "CE", right: true},
		{title: "CNP got", right: true},
		{title: "DSCP", right: true},
	}}
	for _, c := range list {
		for _, d := range []flows.Direction{flows.AToB, flows.BToA} {
			addStream(t, c, d)
		}
	}
	return t
}

func addStream(t *table, c *Connection, d flows.Direction) {
	s, back := c.Stream(d), c.Stream(d.Reverse())
	var story []cell
	if len(s.Messages) > 0 || s.troubled() {
		story = streamStory(s, back)
	}
	id := text(fmt.Sprint(c.ID))
	first := true
	for _, op := range operations {
		m, ok := s.Messages[op.key]
		if !ok {
			continue
		}
		var open uint64
		if reliable(c.Transport) && m.Count > m.Completed+m.Failed {
			open = m.Count - m.Completed - m.Failed
		}
		row := []cell{id, text(arrow(d.String())), text(op.name), text(Count(m.Count)), text(Bytes(m.Bytes)), number(bad, m.Failed), number(warning, open)}
		if first {
			row = append(row, story...)
		}
		t.add(row...)
		first = false
	}
	if first && story != nil {
		t.add(append([]cell{id, text(arrow(d.String())), text("answers"), text(""), text(""), text(""), text("")}, story...)...)
	}
}

func reliable(transport string) bool {
	return transport == "RC" || transport == "RD" || transport == "XRC"
}

// troubled reports whether a stream without requests has something to tell all the same.
func (s *Stream) troubled() bool {
	return s.RetransmittedPackets+s.LostBeforeTap+s.LostBehindTap+s.CaptureLost+s.Reordered+s.NetworkDuplicates+s.Ambiguous+
		s.BadICRC+s.ECNCE > 0
}

func streamStory(s, back *Stream) []cell {
	var goodput, p50, p99 string
	if s.GoodputBPS > 0 {
		goodput = BitRate(s.GoodputBPS)
	}
	if l := &s.Latency; l.P50 != nil && l.P99 != nil {
		bound := ""
		if l.Coalesced > 0 {
			bound = "<="
		}
		p50, p99 = bound+Duration(time.Duration(*l.P50)), bound+Duration(time.Duration(*l.P99))
	}
	var wait string
	if back.RNRWaitNS > 0 {
		wait = Duration(time.Duration(back.RNRWaitNS))
	}
	return []cell{
		text(goodput), text(p50), text(p99),
		number(warning, s.RetransmittedPackets), text(s.Retransmissions.text()),
		number(bad, back.NAKs.total()), number(warning, back.RNRNAKs), painted(warning, wait),
		number(bad, s.LostBeforeTap), number(bad, s.LostBehindTap), number(warning, s.CaptureLost), number(warning, back.GhostAcks),
		number(warning, s.Reordered), number(warning, s.NetworkDuplicates), number(warning, s.Ambiguous), number(bad, s.BadICRC),
		number(noted, s.ECNCE), number(noted, back.CNPs), text(s.dscp()),
	}
}

// dscp are the code points of a stream, where they are not what everything has.
func (s *Stream) dscp() string {
	if len(s.DSCP) == 0 || len(s.DSCP) == 1 && s.DSCP[0] == 0 {
		return ""
	}
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(s.DSCP), " ", ","), "[]")
}

func (r Retransmissions) text() string {
	var parts []string
	for _, c := range []struct {
		n    uint64
		name string
	}{{r.NAK, "NAK"}, {r.RNR, "RNR"}, {r.Timeout, "time-out"}, {r.Spurious, "needless"}} {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", c.name, Count(c.n)))
		}
	}
	return strings.Join(parts, ", ")
}

// number is a count; nothing to say of 0.
func number(p paint, n uint64) cell {
	if n == 0 {
		return cell{}
	}
	return painted(p, Count(n))
}

// total adds all connections up, those not shown too.
func (t *summary) total() {
	sum := map[string]MessageCounts{}
	var payload, resent, failed uint64
	for i := range t.d.Connections {
		for _, s := range []*Stream{&t.d.Connections[i].AToB, &t.d.Connections[i].BToA} {
			payload += s.PayloadBytes
			resent += s.RetransmittedPackets
			for op, m := range s.Messages {
				sum[op] = sum[op].plus(m)
			}
		}
	}
	var parts []string
	for _, op := range operations {
		if m, ok := sum[op.key]; ok {
			parts = append(parts, Count(m.Count)+" "+op.name)
			failed += m.Failed
		}
	}
	if payload > 0 {
		parts = append(parts, Bytes(payload)+" of payload on the wire")
	}
	if resent > 0 {
		parts = append(parts, Plural(resent, "packet")+" sent again")
	}
	if failed > 0 {
		parts = append(parts, Plural(failed, "message")+" failed")
	}
	if len(parts) > 0 {
		t.WriteByte('\n')
		t.paragraph("  ", "All together: "+strings.Join(parts, ", "), plain)
	}
}
