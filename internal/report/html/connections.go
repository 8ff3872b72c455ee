package html

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// cellView is a cell of a table: what is shown, and what it is sorted by.
type cellView struct {
	Text  string
	Sort  string
	Class string
}

type connectionRow struct {
	Anchor string // of its plots, "" without
	ID     uint32
	Cells  []cellView
}

// columnNames head the table of connections.
var columnNames = []struct{ Name, Class, About string }{
	{"#", "num", "number of the connection"},
	{"a", "", "one queue pair"},
	{"b", "", "the other one"},
	{"over", "", "transport, and how the two were found to belong together"},
	{"state a / b", "", "the last state that a packet proves"},
	{"messages", "num", "work requests of both sides"},
	{"payload", "num", "of both directions"},
	{"goodput", "num", "the faster direction's"},
	{"sent again", "num", "packets"},
	{"NAK", "num", "RNR NAKs included"},
	{"lost", "num", "packets, before and behind the tap"},
	{"p50", "num", "latency of messages: median"},
	{"p99", "num", "latency of messages: 99 %"},
	{"findings", "num", "errors, warnings and notes"},
}

// Columns serves the template.
func (p *analysisPage) Columns() any { return columnNames }

// rows are the table of connections: those with plots first to be kept, all in the document's order.
func (b *builder) rows() []connectionRow {
	d := b.a.Document
	found := map[uint32]map[string]int{}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Connection != nil {
			if found[*f.Connection] == nil {
				found[*f.Connection] = map[string]int{}
			}
			found[*f.Connection][f.Severity]++
		}
	}
	kept := map[uint32]bool{}
	for _, id := range foremost(d, maxRows) {
		kept[id] = true
	}
	var rows []connectionRow
	for i := range d.Connections {
		if c := &d.Connections[i]; kept[c.ID] || len(d.Connections) <= maxRows {
			rows = append(rows, b.row(c, found[c.ID]))
		}
	}
	return rows
}

func (b *builder) row(c *report.Connection, found map[string]int) connectionRow {
	r := connectionRow{ID: c.ID}
	if b.plots[c.ID] {
		r.Anchor = fmt.Sprintf("connection-%d", c.ID)
	}
	add := func(text, sort, class string) { r.Cells = append(r.Cells, cellView{text, sort, class}) }
	number := func(n uint64, text, class string) {
		if n == 0 {
			text, class = "·", "none"
		}
		add(text, fmt.Sprint(n), strings.TrimSpace("num "+class))
	}
	over := c.Transport + " · " + c.EstablishedBy
	if len(c.Candidates) > 0 {
		over = fmt.Sprintf("%s · %d candidates", c.Transport, len(c.Candidates))
	}
	add(qpText(&c.A), qpText(&c.A), "mono")
	add(qpText(&c.B), qpText(&c.B), "mono")
	add(over, over, "")
	state := "state"
	if failedMessages(c) > 0 {
		state += " bad"
	}
	states := c.StateText(&c.A) + " / " + c.StateText(&c.B)
	add(states, states, state)
	var messages, payload, resent, naks, lost uint64
	goodput := 0.0
	var p50, p99 int64
	best := uint64(0)
	for _, s := range []*report.Stream{&c.AToB, &c.BToA} {
		for op, m := range s.Messages {
			if op != "atomic" {
				messages += m.Count
			}
		}
		payload += s.PayloadBytes
		resent += s.RetransmittedPackets
		naks += nakCount(s) + s.RNRNAKs
		lost += s.LostBeforeTap + s.LostBehindTap
		goodput = max(goodput, s.GoodputBPS)
		if l := &s.Latency; l.Count > best && l.P50 != nil && l.P99 != nil {
			best, p50, p99 = l.Count, *l.P50, *l.P99
		}
	}
	number(messages, report.Count(messages), "")
	number(payload, report.Bytes(payload), "")
	number(uint64(goodput), report.BitRate(goodput), "")
	number(resent, report.Count(resent), "warn")
	number(naks, report.Count(naks), "warn")
	number(lost, report.Count(lost), "warn")
	number(uint64(p50), report.Duration(time.Duration(p50)), "")
	number(uint64(p99), report.Duration(time.Duration(p99)), "")
	var parts []string
	weight := 0
	for _, s := range []struct {
		name   string
		weight int
	}{{"error", 1_000_000}, {"warning", 1000}, {"note", 1}} {
		if n := found[s.name]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, strings.ToUpper(s.name[:1])))
			weight += n * s.weight
		}
	}
	class := "num"
	switch {
	case found["error"] > 0:
		class += " bad"
	case found["warning"] > 0:
		class += " warn"
	}
	text := strings.Join(parts, " ")
	if text == "" {
		text, class = "·", "num none"
	}
	add(text, fmt.Sprint(weight), class)
	return r
}

func failedMessages(c *report.Connection) (n uint64) {
	for _, s := range []*report.Stream{&c.AToB, &c.BToA} {
		for op, m := range s.Messages {
			if op != "atomic" {
				n += m.Failed
			}
		}
	}
	return n
}

func qpText(q *report.QP) string {
	address, qpn := "?", "QPN ?"
	if q.Address != nil {
		address = *q.Address
	}
	if q.QPN != nil {
		qpn = report.QPN(*q.QPN)
	}
	if q.VLAN != nil {
		qpn += fmt.Sprintf(" (VLAN %d)", *q.VLAN)
	}
	return address + " " + qpn
}

// connectionView is what the page shows of one connection.
type connectionView struct {
	ID       uint32
	Anchor   string
	A, B     string
	About    string
	Findings []flag
	Wide     []*plot // over the whole width
	Small    []*plot
	Budgets  []*budgetView
	QPs      []qpView
	Memory   []*memoryView
	Numbers  string
}

// Link and Text serve the template.
func (f flag) Link() string     { return "#" + f.id }
func (f flag) Text() string     { return f.title }
func (f flag) Severity() string { return f.severity }

type qpView struct {
	Name     string
	State    string
	SVG      any
	Steps    []stateRow
	Settings []settingRow
	Queues   string
}

type settingRow struct{ Name, Agreed, Used string }

// pairedBy says how the two queue pairs of a connection were found to belong together, by the document's word.
var pairedBy = map[string]string{
	"cm": "paired by the CM handshake", "socket": "paired by an exchange over a socket", "inferred": "paired by inference", "unpaired": "the other side is not known",
}

func (b *builder) details() []connectionView {
	if b.a.Collector == nil {
		return nil
	}
	known := map[uint32]*report.Connection{}
	for i := range b.a.Document.Connections {
		known[b.a.Document.Connections[i].ID] = &b.a.Document.Connections[i]
	}
	var list []connectionView
	for _, t := range b.a.Collector.trails {
		if c := known[t.conn.ID]; c != nil && t.plotted {
			list = append(list, b.detail(t, c))
		}
	}
	slices.SortFunc(list, func(x, y connectionView) int { return cmp.Compare(x.ID, y.ID) })
	return list
}

func (b *builder) detail(t *trail, c *report.Connection) connectionView {
	v := connectionView{
		ID: c.ID, Anchor: fmt.Sprintf("connection-%d", c.ID), A: qpText(&c.A), B: qpText(&c.B), Findings: b.flags[c.ID],
		About: c.Transport + ", " + pairedBy[c.EstablishedBy],
	}
	if c.Evidence != "" {
		v.About += ": " + c.Evidence
	}
	if c.Directions == "one" {
		v.About += ". Only one direction was captured"
	}
	if c.Tap != "unknown" {
		v.About += ". Captured " + c.Tap
		if c.Tap == "between" {
			v.About += " the two ends"
		}
	}
	v.About += "."
	if text := carries(c.Upper); text != "" {
		v.About += " " + text + "."
	}
	for d := range t.spaces {
		if p := t.psnPlot(flows.Direction(d), b.zero, b.flags[c.ID]); p != nil {
			v.Wide = append(v.Wide, p)
		}
	}
	for _, p := range []*plot{t.goodputPlot(b.zero), t.inFlightPlot(b.zero), t.latencyPlot(b.zero), histogramPlot(t.conn), t.creditPlot(b.zero)} {
		if p != nil {
			v.Small = append(v.Small, p)
		}
	}
	for _, x := range []*budgetView{newBudgetView("Where a’s time went", c.AToB.Time), newBudgetView("Where b’s time went", c.BToA.Time)} {
		if x != nil {
			v.Budgets = append(v.Budgets, x)
		}
	}
	for _, m := range []*memoryView{newMemoryView("b’s memory, as a used it", c.AToB.Memory), newMemoryView("a’s memory, as b used it", c.BToA.Memory)} {
		if m != nil {
			v.Memory = append(v.Memory, m)
		}
	}
	v.QPs = []qpView{b.qp("a", c, &c.A), b.qp("b", c, &c.B)}
	v.Numbers = t.numbers(b.zero)
	return v
}

func (b *builder) qp(name string, c *report.Connection, q *report.QP) qpView {
	var steps []report.StateStep
	for _, s := range c.StateHistory {
		if s.QP == name {
			steps = append(steps, s)
		}
	}
	v := qpView{Name: name + "  " + qpText(q), State: c.StateText(q), Steps: stateRows(steps, b.zero)}
	v.SVG = drawStates(name, q, steps)
	u := &q.InUse
	parts := []string{report.Plural(u.SQSent, "work request") + " sent, " + report.Count(u.SQAcked) + " acknowledged"}
	if u.Outstanding > 0 {
		parts = append(parts, fmt.Sprintf("at most %d outstanding", u.Outstanding))
	}
	if u.ReadDepth > 0 {
		parts = append(parts, fmt.Sprintf("at most %d READs and atomics", u.ReadDepth))
	}
	parts = append(parts, report.Plural(u.RQConsumed, "receive")+" consumed")
	v.Queues = strings.Join(parts, "; ")
	v.Settings = settings(q)
	return v
}

func settings(q *report.QP) []settingRow {
	var rows []settingRow
	add := func(name, agreed, used string) {
		if agreed != "" || used != "" {
			rows = append(rows, settingRow{name, agreed, used})
		}
	}
	n := q.Negotiated
	if n == nil {
		n = &report.Negotiated{}
	}
	whole := func(v *int) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	}
	psn := func(v *uint32) string {
		if v == nil {
			return ""
		}
		return report.PSN(*v)
	}
	used := func(v int) string {
		if v == 0 {
			return ""
		}
		return fmt.Sprint(v)
	}
	add("path MTU", whole(n.PathMTU), used(q.InUse.PathMTU))
	add("first PSN", psn(n.StartPSN), psn(q.FirstPSN))
	add("retries", whole(n.RetryCount), used(q.InUse.Retries))
	add("RNR retries", whole(n.RNRRetryCount), "")
	timeout := ""
	if n.AckTimeoutNS != nil {
		timeout = report.Duration(time.Duration(*n.AckTimeoutNS))
	}
	waited := ""
	if q.InUse.TimeoutMinNS > 0 {
		waited = report.Duration(time.Duration(q.InUse.TimeoutMinNS))
	}
	add("ACK time-out", timeout, waited)
	add("READs answered at a time", whole(n.ResponderResources), "")
	add("READs outstanding", whole(n.InitiatorDepth), used(int(q.InUse.ReadDepth)))
	return rows
}

// numbers are what the charts draw, as a text in columns: a table would be some ten thousand cells, which browsers are slow to make.
func (t *trail) numbers(zero int64) string {
	var b strings.Builder
	names := [...]string{"goodput", "sent again", "messages", "least", "median", "most", "in flight", "credits"}
	row := func(at, direction string, cells [len(names)]string) {
		fmt.Fprintf(&b, "%12s  %-6s", at, direction)
		for i, c := range cells {
			fmt.Fprintf(&b, "%*s", len(names[i])+7, c)
		}
		b.WriteByte('\n')
	}
	row("from", "", names)
	points := t.pointBins(t.bin())
	for i := range loadBins {
		at := report.Duration(time.Duration(t.span.first - zero + int64(float64(i)*t.bin())))
		for d := range t.load {
			l, p := &t.load[d][i], &points[d][i]
			if l.payload == 0 && l.resent == 0 && l.latency.n == 0 && p.inFlight == 0 && !p.told {
				continue
			}
			cells := [len(names)]string{report.BitRate(float64(l.payload) * 8e9 / max(t.bin(), 1))}
			if l.resent > 0 {
				cells[1] = report.Count(uint64(l.resent))
			}
			if s := &l.latency; s.n > 0 {
				cells[2] = report.Count(uint64(s.n))
				for j, ns := range [...]int64{s.lo, s.median(), s.hi} {
					cells[3+j] = report.Duration(time.Duration(ns))
				}
			}
			if p.inFlight > 0 {
				cells[6] = report.Bytes(p.inFlight)
			}
			if p.told {
				cells[7] = report.Count(uint64(p.credits))
			}
			row(at, directionNames[d], cells)
			at = ""
		}
	}
	return b.String()
}
