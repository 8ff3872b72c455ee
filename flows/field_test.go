package flows

import (
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestFields asks each field of each packet of a capture that has all there is.
func TestFields(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	begun(x)
	m := x.A.Write(4000)
	m.Packets[1].Drop()
	m.Packets[2].MarkCE()
	x.B.NAK(m.First.Add(1), dissect.NAKSequence)
	m.ResendFrom(1)
	x.B.Answer(m)
	n := x.A.Write(10)
	n.Packets[0].Duplicate(300)
	x.B.Answer(n)
	x.A.Write(10).Packets[0].BreakICRC()
	x.B.RNR(x.A.Send(3000).Last, 1)
	x.B.CNP()
	x.B.Ack(x.A.Next.Add(50), 1)
	s := look(x.Frames())

	seen := map[string]map[uint64]int{}
	for i := range s.marks {
		mark := &s.marks[i]
		var o Outcome
		for j := range s.messages {
			if msg := &s.messages[j]; mark.Bits&MarkMessage != 0 && msg.Index == mark.Message && msg.Direction == mark.Direction && mark.Bits&MarkRequest != 0 {
				o.Message, o.EstablishedBy = msg, s.Connections[0].Evidence
			}
		}
		if mark.Bits&MarkFinding != 0 {
			for _, f := range s.occurrences {
				if f.Frame == uint64(i+1) {
					o.Findings, o.Severity = append(o.Findings, f.ID), max(o.Severity, f.Severity())
				}
			}
		}
		for _, f := range Fields() {
			if v, ok := f.Get(mark, &o); ok {
				if seen[f.Name] == nil {
					seen[f.Name] = map[uint64]int{}
				}
				seen[f.Name][v]++
			}
			if _, ok := f.Get(mark, nil); ok && f.AtEnd {
				t.Errorf("%s is known only at the end, and tells a value before", f.Name)
			}
		}
	}
	one := func(name string, v uint64, n int) {
		t.Helper()
		if got := seen[name][v]; got != n {
			t.Errorf("%s is %d for %d packets, want %d", name, v, got, n)
		}
	}
	one("flow.nak", 1, 1)
	one("flow.rnr", 1, 1)
	one("flow.ce", 1, 1)
	one("flow.cnp", 1, 1)
	one("flow.ghost", 1, 1)
	one("flow.bad_icrc", 1, 1)
	one("flow.gap", 1, 2)
	one("flow.duplicate", 1, 1)
	one("flow.retransmission", 1, 3)
	one("msg.size", 4000, 6)
	one("msg.resends", 3, 6)
	one("msg.op", uint64(OpWrite), 9)
	one("finding.severity", uint64(Error), 1)
	for _, f := range Fields() {
		if f.Name == "flow.reordered" || strings.Contains(f.Name, "upper") { // for those see TestUpperFields
			continue
		}
		if len(seen[f.Name]) == 0 {
			t.Errorf("no packet has %s", f.Name)
		}
		if f.Text == "" || strings.ToLower(f.Name) != f.Name || !strings.Contains(f.Name, ".") {
			t.Errorf("%+v", f)
		}
		for v := range seen[f.Name] {
			if f.Values != nil && f.Values(v) == "" {
				t.Errorf("value %d of %s has no name", v, f.Name)
			}
		}
	}
}
