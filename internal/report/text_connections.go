package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/flows"
)

// connections are three tables: who talks to whom, what each stream carried, and what went wrong on the way.
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
	t.titled("Traffic", trafficTable(shown))
	if len(all) > 1 {
		t.total()
	}
	t.titled("Upper protocols", upperTable(shown))
	t.titled("Trouble", troubleTable(shown))
	t.titled("Time", timeTable(shown, t.o.Verbose))
}

// titled writes a table under its title, if it has a row.
func (t *summary) titled(title string, tab *table) {
	if len(tab.rows) > 0 {
		t.section(title)
		tab.write(t, t.o.width(), t.o.Style)
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
		{title: "over"},
		{title: "paired by"},
		{title: "state a/b"},
		{title: "MTU", right: true},
		{title: "VLAN", right: true},
		{title: "captured"},
		{title: "tap"},
	}}
	two := table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "queue pair a, b", key: true},
		{title: "over"},
		{title: "paired by"},
		{title: "state"},
		{title: "MTU", right: true},
		{title: "VLAN", right: true},
		{title: "captured"},
		{title: "tap"},
	}}
	for _, c := range list {
		id, over, by := fmt.Sprint(c.ID), c.Transport, pairedBy(c)
		one.add(text(id), text(qpText(&c.A)), text(qpText(&c.B)), text(over), by, bothStates(c),
			text(join(mtuText(&c.A), mtuText(&c.B))), text(join(vlanText(&c.A), vlanText(&c.B))), text(captured(c)), text(tapText(c)))
		two.add(text(id), text(qpText(&c.A)), text(over), by, stateCell(c, &c.A), text(mtuText(&c.A)), text(vlanText(&c.A)), text(captured(c)), text(tapText(c)))
		two.add(text(""), text(qpText(&c.B)), text(""), text(""), stateCell(c, &c.B), text(mtuText(&c.B)), text(vlanText(&c.B)), text(""))
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

// StateText is a queue pair's state in a word, "closed" where it ended in order.
func (c *Connection) StateText(q *QP) string { return stateCell(c, q).text }

// stateCell is a state. ERROR is bad only if work was lost by it: the queue pairs of a connection that was closed in order
// end there too.
func stateCell(c *Connection, q *QP) cell {
	switch q.State {
	case flows.StateUnknown.String():
		return painted(dim, "?")
	case flows.StateError.String(), flows.StateSQE.String():
		if c.AToB.failed()+c.BToA.failed() > 0 {
			return painted(bad, q.State)
		}
		if c.closed(q) {
			return text("closed")
		}
	}
	return text(q.State)
}

// closed reports whether what brought a queue pair to ERROR is the end of its connection, DREQ or DREP.
func (c *Connection) closed(q *QP) bool {
	name, last := "a", ""
	if q == &c.B {
		name = "b"
	}
	for _, s := range c.StateHistory {
		if s.QP == name {
			last = s.Why
		}
	}
	return strings.HasPrefix(last, "DREQ") || strings.HasPrefix(last, "DREP")
}

// failed is how many messages ended with an error.
func (s *Stream) failed() (n uint64) {
	for op, m := range s.Messages {
		if op != "atomic" {
			n += m.Failed
		}
	}
	return n
}

func bothStates(c *Connection) cell {
	a, b := stateCell(c, &c.A), stateCell(c, &c.B)
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
	if reliable(c.Transport) && c.Directions == "one" && c.AToB.Packets+c.BToA.Packets > 0 {
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
	{"immediate", "IMMEDIATE"},
	{"terminate", "TERMINATE"},
}

// trafficTable has a row for each operation of each stream. What is known of the stream as a whole stands in its first
// row; the goodput of a stream that only READs is that of the answers.
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
		{title: "lat p50", right: true},
		{title: "lat p99", right: true},
		{title: "DSCP", right: true},
	}}
	eachStream(list, func(c *Connection, d flows.Direction, s, back *Stream) {
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
			row := []cell{text(fmt.Sprint(c.ID)), text(arrow(d.String())), text(op.name), text(Count(m.Count)), text(Bytes(m.Bytes)), number(bad, m.Failed), number(warning, open)}
			if first {
				row = append(row, speedCells(s, back)...)
			}
			t.add(row...)
			first = false
		}
	})
	return t
}

func speedCells(s, back *Stream) []cell {
	var goodput, p50, p99 string
	switch {
	case s.GoodputBPS > 0:
		goodput = BitRate(s.GoodputBPS)
	case back.GoodputBPS > 0 && len(back.Messages) == 0:
		goodput = BitRate(back.GoodputBPS)
	}
	if l := &s.Latency; l.P50 != nil && l.P99 != nil {
		bound := ""
		if l.Coalesced > 0 {
			bound = "<="
		}
		p50, p99 = bound+Duration(time.Duration(*l.P50)), bound+Duration(time.Duration(*l.P99))
	}
	return []cell{text(goodput), text(p50), text(p99), text(s.dscp())}
}

// troubleTable has a row for each stream that met with some. NAKs, RNR NAKs and CNPs are counted where they were sent, but
// told here to the requester that got them.
func troubleTable(list []*Connection) *table {
	t := &table{columns: []column{
		{title: "#", right: true, key: true},
		{title: "stream", key: true},
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
	}}
	eachStream(list, func(c *Connection, d flows.Direction, s, back *Stream) {
		var wait string
		if back.RNRWaitNS > 0 {
			wait = Duration(time.Duration(back.RNRWaitNS))
		}
		row := []cell{
			text(fmt.Sprint(c.ID)), text(arrow(d.String())),
			number(warning, s.RetransmittedPackets), text(s.Retransmissions.text()),
			number(bad, back.NAKs.total()), number(warning, back.RNRNAKs), painted(warning, wait),
			number(bad, s.LostBeforeTap), number(bad, s.LostBehindTap), number(warning, s.CaptureLost), number(warning, back.GhostAcks),
			number(warning, s.Reordered), number(warning, s.NetworkDuplicates), number(warning, s.Ambiguous), number(bad, s.BadICRC),
			number(noted, s.ECNCE), number(noted, back.CNPs),
		}
		if slices.ContainsFunc(row[2:], func(c cell) bool { return c.text != "" }) {
			t.add(row...)
		}
	})
	return t
}

// eachStream calls f for both streams of each connection, with the stream that runs the other way.
func eachStream(list []*Connection, f func(c *Connection, d flows.Direction, s, back *Stream)) {
	for _, c := range list {
		f(c, flows.AToB, &c.AToB, &c.BToA)
		f(c, flows.BToA, &c.BToA, &c.AToB)
	}
}

func reliable(transport string) bool {
	return transport == "RC" || transport == "RD" || transport == "XRC"
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
