package report

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/flows"
)

// worthTelling is which part of a requester's time must have gone into waiting before the text speaks of it.
const worthTelling = 0.2

// waits are the parts of a time budget, in the order of their columns.
var waits = []struct {
	title string
	get   func(*TimeBudget) int64
	idle  bool // nothing to speak of
}{
	{"idle", func(b *TimeBudget) int64 { return b.Application }, true},
	{"in flight", func(b *TimeBudget) int64 { return b.InFlight }, true},
	{"time-outs", func(b *TimeBudget) int64 { return b.Timeout }, false},
	{"recovery", func(b *TimeBudget) int64 { return b.Recovery }, false},
	{"RNR", func(b *TimeBudget) int64 { return b.RNR }, false},
	{"credit", func(b *TimeBudget) int64 { return b.Credit }, false},
	{"READ depth", func(b *TimeBudget) int64 { return b.ReadDepth }, false},
	{"CNPs", func(b *TimeBudget) int64 { return b.Congestion }, false},
	{"paused", func(b *TimeBudget) int64 { return b.Paused }, false},
}

// timeTable is where each requester's time went, of those that waited for something.
func timeTable(list []*Connection, all bool) *table {
	t := &table{columns: []column{{title: "#", right: true, key: true}, {title: "stream", key: true}, {title: "of", right: true}}}
	for _, w := range waits {
		t.columns = append(t.columns, column{title: w.title, right: true})
	}
	eachStream(list, func(c *Connection, d flows.Direction, s, _ *Stream) {
		b := s.Time
		if b == nil || b.Total <= 0 {
			return
		}
		waited := int64(0)
		row := []cell{text(fmt.Sprint(c.ID)), text(arrow(d.String())), text(Duration(time.Duration(b.Total)))}
		for _, w := range waits {
			n := w.get(b)
			p := plain
			if !w.idle {
				waited += n
				if part(n, b.Total) >= worthTelling {
					p = warning
				}
			}
			row = append(row, painted(p, percent(n, b.Total)))
		}
		if all || part(waited, b.Total) >= worthTelling {
			t.add(row...)
		}
	})
	return t
}

func part(n, of int64) float64 { return float64(n) / float64(max(of, 1)) }

func percent(n, of int64) string {
	switch p := 100 * part(n, of); {
	case n <= 0:
		return ""
	case p < 0.5:
		return "<1%"
	default:
		return fmt.Sprintf("%.0f%%", p)
	}
}

// pauses are the stations that stopped their link partner.
func (t *summary) pauses() {
	tab := &table{columns: []column{
		{title: "station", key: true},
		{title: "priority", right: true},
		{title: "stops", right: true},
		{title: "lets go", right: true},
		{title: "paused", right: true},
		{title: "longest", right: true},
		{title: "data meanwhile", right: true},
		{title: "too late", right: true},
		{title: "malformed", right: true},
	}}
	for i := range t.d.Pauses {
		s := &t.d.Pauses[i]
		name := s.MAC
		for _, p := range s.Priorities {
			prio := "all (802.3x)"
			if p.Priority != nil {
				prio = fmt.Sprint(*p.Priority)
			}
			tab.add(text(name), text(prio), number(plain, p.XOFF), number(plain, p.XON), duration(p.PausedNS), duration(p.LongestNS),
				number(plain, p.Data), number(bad, p.Ignored), number(bad, s.Malformed))
			name = ""
		}
	}
	t.titled("Pause frames", tab)
}

func duration(ns int64) cell {
	if ns == 0 {
		return cell{}
	}
	return text(Duration(time.Duration(ns)))
}

// shadow is what comparing READs and atomics with WRITEs found.
func (t *summary) shadow() {
	s := t.d.Shadow
	if s == nil {
		return
	}
	t.section("Shadow memory")
	line := Bytes(s.Compared) + " of answers to READs and atomics compared with what was written: "
	p := good
	switch {
	case s.Differing > 0:
		line += Plural(s.Differing, "answer") + " differ from it"
		p = bad
	case s.Compared > 0:
		line += "all as written"
	default:
		line = "No answer to a READ or atomic could be compared with what was written"
		p = plain
	}
	t.paragraph("  ", line, p)
	if s.Unknown > 0 {
		t.paragraph("  ", Bytes(s.Unknown)+" could not be compared: nobody wrote them in this capture, or it is not certain when", dim)
	}
	if s.Forgotten > 0 {
		t.paragraph("  ", Bytes(s.Forgotten)+" of memory were forgotten for want of room", dim)
	}
}

// hosts are what all queue pairs of two hosts have in common.
func (t *summary) hosts() {
	tab := &table{columns: []column{
		{title: "from", key: true},
		{title: "to", key: true},
		{title: "QPs", right: true},
		{title: "source ports", right: true},
		{title: "DSCP", right: true},
		{title: "priority", right: true},
		{title: "CE", right: true},
		{title: "CNPs", right: true},
		{title: "CNP DSCP", right: true},
		{title: "CNPs apart", right: true},
	}}
	for i := range t.d.HostPairs {
		h := &t.d.HostPairs[i]
		for _, w := range []struct {
			from, to string
			p        *HostPath
		}{{h.A, h.B, &h.AToB}, {h.B, h.A, &h.BToA}} {
			if !w.p.Seen {
				continue
			}
			apart := cell{}
			if w.p.CNPIntervalNS != nil {
				apart = text(">= " + Duration(time.Duration(*w.p.CNPIntervalNS)))
			}
			tab.add(text(w.from), text(w.to), number(plain, uint64(w.p.QPs)), number(plain, uint64(w.p.SourcePorts)), text(numbers(w.p.DSCP)), text(numbers(w.p.Priorities)),
				number(noted, w.p.ECNCE), number(noted, w.p.CNPs), text(numbers(w.p.CNPDSCP)), apart)
		}
	}
	t.titled("Hosts", tab)
}

// series is a table of how each connection went.
func (t *summary) series(c *Connection) {
	if c.Series == nil || len(c.Series.Points) == 0 {
		return
	}
	tab := &table{columns: []column{
		{title: "time", right: true, key: true},
		{title: "stream", key: true},
		{title: "goodput", right: true},
		{title: "done", right: true},
		{title: "p50", right: true},
		{title: "p99", right: true},
		{title: "in flight", right: true},
		{title: "open", right: true},
		{title: "resent", right: true},
		{title: "CE", right: true},
		{title: "CNPs", right: true},
		{title: "credits", right: true},
	}}
	base := c.Series.StartNS
	if t.d.Capture.FirstNS != nil {
		base = *t.d.Capture.FirstNS
	}
	for i := range c.Series.Points {
		p := &c.Series.Points[i]
		when := fmt.Sprintf("%.6f", float64(p.TimeNS-base)/1e9)
		for d, s := range []*PointStream{&p.AToB, &p.BToA} {
			if s.PayloadBytes+s.Messages+s.Retransmissions+s.ECNCE+s.CNPs == 0 {
				continue
			}
			goodput, p50, p99, flight, credits := "", "", "", "", ""
			if s.GoodputBPS > 0 {
				goodput = BitRate(s.GoodputBPS)
			}
			if s.Latency.P50 != nil {
				p50, p99 = Duration(time.Duration(*s.Latency.P50)), Duration(time.Duration(*s.Latency.P99))
			}
			if s.InFlight > 0 {
				flight = Bytes(s.InFlight)
			}
			if s.Credits != nil {
				credits = Count(uint64(*s.Credits))
			}
			tab.add(text(when), text(arrow(flows.Direction(d).String())), text(goodput), number(plain, s.Messages), text(p50), text(p99), text(flight),
				number(plain, uint64(s.Outstanding)), number(warning, s.Retransmissions), number(noted, s.ECNCE), number(noted, s.CNPs), text(credits))
			when = ""
		}
	}
	t.titled(fmt.Sprintf("Connection %d in steps of %s", c.ID, Duration(time.Duration(c.Series.IntervalNS))), tab)
}
