package html

import (
	"html/template"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// lines puts each element on a line of its own, for people to compare.
func lines(svg template.HTML) []byte {
	return []byte(strings.ReplaceAll(string(svg), "><", ">\n<") + "\n")
}

func TestDrawings(t *testing.T) {
	frame := func(n uint64) *uint64 { return &n }
	for _, d := range []struct {
		name string
		svg  template.HTML
	}{
		{"ladder", drawLadder("Packets", "a 10.0.0.1", "b <10.0.0.2>", []rung{
			{frame: "1", at: 1000, right: true, label: "WRITE First", class: "request"},
			{at: 3000, right: true, label: "PSN 0x000002 is missing", note: "not in this capture", class: "lost"},
			{frame: "2", at: 3000, right: true, label: "WRITE Last", note: "PSNs missing before", class: "request"},
			{frame: "3", at: 5000, label: "NAK: PSN sequence error", class: "nak", flag: true},
			{frame: "4", at: 9_000_000, right: true, label: "WRITE Middle", note: "sent again", class: "resent", full: "all of it"},
		}, 12)},
		{"states", drawStates("a", &report.QP{State: "ERROR"}, []report.StateStep{
			{QP: "a", State: "INIT", Why: "CM", Presumed: true}, {QP: "a", State: "RTS", Frame: frame(7), Why: "sent a request"}, {QP: "a", State: "ERROR", Why: "NAK"},
		})},
		{"memory", newRegionView(&report.MemoryRegion{
			RKey: 0x71d, Writes: 3, Reads: 1, Written: []report.AddrRange{{From: 0x1000, To: 0x2000}, {From: 0x3000, To: 0x3100}}, Read: []report.AddrRange{{From: 0x1000, To: 0x1800}},
		}, []report.Refusal{{Operation: "read", RKey: 0x71d, VA: 0x4000, Bytes: 64}}).SVG},
		{"budget", newBudgetView("time", &report.TimeBudget{Total: 1000, Application: 250, InFlight: 745, RNR: 5}).SVG},
		{"chart", func() template.HTML {
			c := newChart("c", "A chart", 400, 200, 0, newAxis(kindTime, 0, 2e6, 0), newAxis(kindPSN, -1, 9, 0xFFFFFE))
			var l layer
			l.stroke(c.x.step(0), c.y.step(0), c.y.step(0))
			l.from(10, 1)
			l.stroke(c.x.step(1e6), c.y.step(2), c.y.step(6))
			l.from(12, 5)
			c.add(&l, "request", "request")
			s := &scatter{span: &timespan{0, 2e6}, most: 10}
			s.add(5e5, 3, 77)
			c.addSigns(s, "nak", "NAK")
			c.addFlags([]flag{{"finding-1", "warning", "Lost", 1e6}})
			return c.finish()
		}()},
	} {
		t.Run(d.name, func(t *testing.T) { testkit.Golden(t, d.name+".svg", lines(d.svg)) })
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		a    axis
		n    int
		want string
	}{
		{newAxis(kindTime, 1.11e9, 1.25e9, 0), 7, "1.12 s, 1.14 s, 1.16 s, 1.18 s, 1.20 s, 1.22 s, 1.24 s"},
		{newAxis(kindTime, 0, 900, 0), 3, "0 ns, 500 ns"},
		{newAxis(kindPSN, -2, 6, 0xFFFFFE), 4, "0xfffffc, 0xfffffe, 0x000000, 0x000002, 0x000004"},
		{newAxis(kindRate, 0, 40e9, 0), 4, "0 Gbit/s, 10 Gbit/s, 20 Gbit/s, 30 Gbit/s, 40 Gbit/s"},
		{newAxis(kindBytes, 0, 65536, 0), 4, "0 KiB, 20 KiB, 40 KiB, 60 KiB"},
		{newAxis(kindSpan, 5, 8, 0), 4, "100 us, 1.00 ms, 10.0 ms, 100 ms"},
		{newAxis(kindCount, 0, 17, 0), 4, "0, 5, 10, 15"},
	} {
		if _, texts := c.a.ticks(c.n); strings.Join(texts, ", ") != c.want {
			t.Errorf("%s: %s, want %s", c.a.data(), strings.Join(texts, ", "), c.want)
		}
	}
}

// TestExtremesAreKept: whatever is too much to be drawn, the highest and lowest of each column are.
func TestExtremesAreKept(t *testing.T) {
	s := &scatter{span: &timespan{0, 1000}, most: 10, columns: 4}
	for i := range int64(1000) {
		y := i % 7
		switch i {
		case 333:
			y = 5000
		case 666:
			y = -5000
		}
		s.add(i, y, uint64(i+1))
	}
	lo, hi, n, last := int64(0), int64(0), int64(0), int64(-1)
	s.each(func(at, l, h, count int64, frame uint64) {
		lo, hi, n = min(lo, l), max(hi, h), n+count
		if at <= last {
			t.Errorf("column at %d behind one at %d", at, last)
		}
		last = at
		if int64(frame) > at+1 {
			t.Errorf("the column around %d begins with frame %d", at, frame)
		}
	})
	if lo != -5000 || hi != 5000 || n != 1000 {
		t.Errorf("from %d to %d, %d points; want -5000, 5000 and 1000", lo, hi, n)
	}
}

func TestOffsetsPassTheWrap(t *testing.T) {
	var s space
	var got []int64
	for _, psn := range []dissect.PSN{0xFFFFFE, 0xFFFFFF, 0, 1, 0xFFFFFF, 2} {
		at := s.offset(psn)
		s.at = at
		got = append(got, at)
	}
	if want := []int64{0, 1, 2, 3, 1, 4}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestMedian(t *testing.T) {
	var s spread
	for _, ns := range []int64{100, 1000, 1100, 1200, 90_000_000} {
		s.add(ns)
	}
	if m := s.median(); m < 1024 || m > 1280 || s.lo != 100 || s.hi != 90_000_000 {
		t.Errorf("median %d of %d to %d; want 1100 within an eighth", m, s.lo, s.hi)
	}
}

// TestCollectorAllocates nothing per packet, once it is full.
func TestCollectorAllocates(t *testing.T) {
	s := &scatter{span: &timespan{0, 1 << 20}, most: 10, columns: 4}
	for i := range int64(100) {
		s.add(i, i, 1)
	}
	var l load
	if n := testing.AllocsPerRun(100, func() { s.add(77, 5, 9); l.latency.add(1234) }); n > 0 {
		t.Errorf("%v allocations per packet", n)
	}
}
