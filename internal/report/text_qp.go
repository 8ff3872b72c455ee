package report

import (
	"fmt"
	"strings"
	"time"
)

// queuePairs writes a view of each queue pair: its states with what proves them, its queues, and what was agreed on beside
// what is in use.
func (t *summary) queuePairs() {
	for _, c := range t.top() {
		for _, side := range []struct {
			name       string
			qp, peer   *QP
			sent, back *Stream
		}{{"a", &c.A, &c.B, &c.AToB, &c.BToA}, {"b", &c.B, &c.A, &c.BToA, &c.AToB}} {
			if !c.shows(side.name, side.qp) {
				continue
			}
			t.section(fmt.Sprintf("Queue pair %s, %s of connection %d", qpText(side.qp), side.name, c.ID))
			t.states(c, side.name)
			t.queues(c, side.qp, side.peer, side.sent, side.back)
			t.settings(side.qp, side.peer)
		}
	}
}

// shows reports whether there is anything to say of a queue pair.
func (c *Connection) shows(name string, q *QP) bool {
	if q.Negotiated != nil || q.InUse.SQSent+q.InUse.RQConsumed > 0 {
		return true
	}
	for _, s := range c.StateHistory {
		if s.QP == name {
			return true
		}
	}
	return false
}

// states is the way that the queue pair went, step by step.
func (t *summary) states(c *Connection, name string) {
	tab := &table{columns: []column{{title: "state", key: true}, {title: "frame", right: true}, {title: "at", right: true}, {title: ""}, {title: "why"}}}
	for _, s := range c.StateHistory {
		if s.QP != name {
			continue
		}
		frame, at, sure := "", "", "proven"
		if s.Frame != nil {
			frame = fmt.Sprint(*s.Frame)
		}
		if s.Time != nil && t.d.Capture.FirstNS != nil && int64(*s.Time) >= *t.d.Capture.FirstNS {
			at = Duration(time.Duration(int64(*s.Time) - *t.d.Capture.FirstNS))
		}
		if s.Presumed {
			sure = "presumed"
		}
		tab.add(text(s.State), text(frame), text(at), painted(map[bool]paint{true: dim}[s.Presumed], sure), text(ascii(s.Why)))
	}
	if len(tab.rows) == 0 {
		t.paragraph("  ", "No packet proves a state of it.", dim)
		return
	}
	tab.write(t, max(t.o.width(), 100), t.o.Style) // a reason is worth more than a margin
}

// queues says what the work queues did.
func (t *summary) queues(c *Connection, q, peer *QP, sent, back *Stream) {
	u := &q.InUse
	line := "sent no request"
	if u.SQSent > 0 {
		line = Plural(u.SQSent, "work request") + " sent"
		if reliable(c.Transport) {
			line += ", " + Count(u.SQAcked) + " acknowledged"
		} else {
			line += "; " + c.Transport + " acknowledges none"
		}
		if u.Outstanding > 0 && reliable(c.Transport) {
			line += fmt.Sprintf("; at most %s outstanding (%s)", Count(uint64(u.Outstanding)), Plural(uint64(u.OutstandingPackets), "packet"))
		}
	}
	t.paragraph("  SQ    ", line, plain)
	if u.CreditLimit != nil {
		t.paragraph("        ", fmt.Sprintf("credit: receives up to MSN %d, %s granted last", *u.CreditLimit, Count(uint64(u.Credits))), plain)
	}
	line = "no receive consumed"
	if u.RQConsumed > 0 {
		line = Plural(u.RQConsumed, "receive") + " consumed, by SENDs and WRITEs with immediate; a completion each"
	}
	if q.Negotiated != nil && q.Negotiated.SRQ {
		line += "; from a shared receive queue"
	}
	t.paragraph("  RQ    ", line, plain)
	if u.ReadDepth > 0 {
		line := fmt.Sprintf("at most %d outstanding", u.ReadDepth)
		if n := agreedDepth(q, peer); n > 0 {
			line += fmt.Sprintf(" of %d agreed on", n)
		}
		t.paragraph("  READ  ", line+" (READs and atomics)", plain)
	}
	if r := &sent.RTT; r.Count > 0 {
		line := Duration(time.Duration(*r.Mean))
		if r.Count > 1 {
			line = fmt.Sprintf("%s to %s, %s on average", Duration(time.Duration(*r.Min)), Duration(time.Duration(*r.Max)), line)
		}
		t.paragraph("  RTT   ", line+" ("+Plural(r.Count, "answer")+")", plain)
	}
	var marks []string
	if n := sent.UDPSourcePorts; n == 1 {
		marks = append(marks, fmt.Sprintf("UDP source port %d", *sent.UDPSourcePort))
	} else if n > 1 {
		marks = append(marks, fmt.Sprintf("%d UDP source ports, first %d", n, *sent.UDPSourcePort))
	}
	if len(sent.DSCP) > 0 {
		marks = append(marks, "DSCP "+numbers(sent.DSCP))
	}
	if len(sent.Priorities) > 0 {
		marks = append(marks, "priority "+numbers(sent.Priorities))
	}
	if p := sent.PausedNS; p != nil && *p > 0 {
		marks = append(marks, "paused for "+Duration(time.Duration(*p)))
	}
	if sent.ECNCE > 0 {
		marks = append(marks, Plural(sent.ECNCE, "packet")+" marked CE on the way to the tap")
	}
	if back.CNPs > 0 {
		marks = append(marks, "got "+Plural(back.CNPs, "CNP"))
	}
	if r := sent.Reaction; r != nil {
		marks = append(marks, fmt.Sprintf("%s before a CNP, %s behind it", BitRate(r.Before), BitRate(r.After)))
	}
	if len(marks) > 0 {
		t.paragraph("  wire  ", strings.Join(marks, ", "), plain)
	}
	if m := sent.Memory; m != nil {
		t.memory(m)
	}
}

// memory says which of its peer's memory the queue pair used.
func (t *summary) memory(m *MemoryMap) {
	first := "  uses  "
	for i, r := range m.Regions {
		if i == 8 {
			t.paragraph(first, fmt.Sprintf("and %s more; --json has all", Plural(uint64(len(m.Regions)-i), "rkey")), dim)
			break
		}
		var parts []string
		for _, p := range []struct {
			what   string
			n      uint64
			ranges []AddrRange
		}{{"written", r.Writes, r.Written}, {"read", r.Reads, r.Read}, {"atomics", r.Atomics, r.Atomic}} {
			if p.n == 0 || len(p.ranges) == 0 {
				continue
			}
			last := p.ranges[len(p.ranges)-1]
			var bytes uint64
			for _, a := range p.ranges {
				bytes += a.To - a.From
			}
			where := fmt.Sprintf("0x%x to 0x%x", p.ranges[0].From, last.To)
			if len(p.ranges) > 1 {
				where += fmt.Sprintf(" in %d ranges", len(p.ranges))
			}
			parts = append(parts, fmt.Sprintf("%s %s (%s, %s)", p.what, where, Bytes(bytes), Plural(p.n, "message")))
		}
		t.paragraph(first, fmt.Sprintf("rkey 0x%x: %s", r.RKey, strings.Join(parts, "; ")), plain)
		first = "        "
	}
}

// agreedDepth is how many READs and atomics the two ends agreed that q has outstanding; 0 where that is not known.
func agreedDepth(q, peer *QP) int {
	n := 0
	for _, v := range []*int{depthOf(q.Negotiated, true), depthOf(peer.Negotiated, false)} {
		if v != nil && (n == 0 || *v < n) {
			n = *v
		}
	}
	return n
}

func depthOf(n *Negotiated, asks bool) *int {
	switch {
	case n == nil:
		return nil
	case asks:
		return n.InitiatorDepth
	}
	return n.ResponderResources
}

// settings are what was agreed on beside what is in use.
func (t *summary) settings(q, peer *QP) {
	tab := &table{columns: []column{{title: "setting", key: true}, {title: "agreed on"}, {title: "in use"}}}
	n, u := q.Negotiated, &q.InUse
	if n == nil {
		n = &Negotiated{}
	}
	row := func(name, agreed, used string, differ bool) {
		if agreed+used == "" {
			return
		}
		p := plain
		if differ {
			p = warning
		}
		tab.add(text(name), text(agreed), painted(p, used))
	}
	opt := func(v *int) string {
		if v == nil {
			return ""
		}
		return fmt.Sprint(*v)
	}
	used := ""
	if u.PathMTU > 0 {
		used = fmt.Sprint(u.PathMTU)
	}
	row("path MTU", opt(n.PathMTU), used, n.PathMTU != nil && used != "" && *n.PathMTU != u.PathMTU)
	agreed, first := "", ""
	if n.StartPSN != nil {
		agreed = PSN(*n.StartPSN)
	}
	if q.FirstPSN != nil && u.SQSent > 0 {
		first = PSN(*q.FirstPSN)
	}
	row("first PSN", agreed, first, agreed != "" && first != "" && agreed != first)
	used = ""
	if u.Retries > 0 {
		used = fmt.Sprint(u.Retries)
	}
	row("retries", opt(n.RetryCount), used, n.RetryCount != nil && u.Retries > *n.RetryCount)
	rnr := opt(n.RNRRetryCount)
	if rnr == "7" {
		rnr = "7 (for ever)"
	}
	row("RNR retries", rnr, "", false)
	agreed, used = "", ""
	if n.AckTimeoutNS != nil && n.AckTimeoutCode != nil {
		agreed = fmt.Sprintf("%s (n = %d)", Duration(time.Duration(*n.AckTimeoutNS)), *n.AckTimeoutCode)
	}
	if u.TimeoutMinNS > 0 {
		used = Duration(time.Duration(u.TimeoutMinNS))
		if u.TimeoutMaxNS > u.TimeoutMinNS {
			used += " to " + Duration(time.Duration(u.TimeoutMaxNS))
		}
		if len(u.TimeoutCodes) > 0 {
			var fit []string
			for _, code := range u.TimeoutCodes {
				fit = append(fit, fmt.Sprint(code))
			}
			used += " (n = " + strings.Join(fit, " or ") + ")"
		}
	}
	row("ACK time-out", agreed, used, false)
	if len(tab.rows) > 0 {
		tab.write(t, t.o.width(), t.o.Style)
	}
}

func numbers(list []int) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(list), " ", ", "), "[]")
}
