package draw

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/testkit"
	"github.com/rocescope/rocescope/tui/cells"
)

// golden compares a picture with the one that was looked at: as it is, in ASCII, and
// with colours.
func golden(t *testing.T, name string, w, h int, draw func(c *cells.Canvas, ascii bool)) {
	t.Helper()
	name = fmt.Sprintf("%s_%dx%d", name, w, h)
	c := cells.New(w, h)
	draw(c, false)
	testkit.Golden(t, name+".txt", []byte(c.Plain()))
	colored := &cells.Output{Theme: cells.ThemeByName("dark"), Depth: cells.Color256}
	testkit.Golden(t, name+".ansi", []byte(colored.Lines(c)+"\n"))
	c = cells.New(w, h)
	draw(c, true)
	mono := (&cells.Output{Theme: cells.ThemeByName("mono"), ASCII: true}).Lines(c)
	for _, r := range mono {
		if r > 0x7e {
			t.Errorf("%q is not in ASCII", r)
		}
	}
	if strings.ContainsRune(mono, '?') && !strings.ContainsRune(c.Plain(), '?') {
		t.Error("a character has no counterpart in ASCII")
	}
	testkit.Golden(t, name+".ascii", []byte(mono+"\n"))
}

// tracked is a sample's packets, marks and connections.
func tracked(t *testing.T, name string) ([]dissect.Packet, []flows.Mark, *flows.Snapshot) {
	t.Helper()
	data, err := samples.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	frames, err := testkit.ParseCapture(data)
	if err != nil {
		t.Fatal(err)
	}
	packets, bytes := testkit.Decode(frames)
	marks := make([]flows.Mark, len(packets))
	tr := flows.New(flows.Options{Series: true})
	tr.Track(&flows.Batch{Packets: packets, Data: bytes, Marks: marks})
	tr.Finish()
	return packets, marks, tr.Snapshot()
}

// busiest is the connection with the most packets.
func busiest(s *flows.Snapshot) *flows.Connection {
	var best *flows.Connection
	for i := range s.Connections {
		c := &s.Connections[i]
		if best == nil || c.Streams[0].Packets+c.Streams[1].Packets > best.Streams[0].Packets+best.Streams[1].Packets {
			best = c
		}
	}
	return best
}

func TestLadder(t *testing.T) {
	packets, marks, s := tracked(t, samples.Default)
	conn := busiest(s)
	found := map[uint64]*flows.Finding{}
	for i := range s.Findings {
		found[s.Findings[i].Frame] = &s.Findings[i]
	}
	var steps []Step
	for i := range packets {
		if marks[i].Conn != conn.ID {
			continue
		}
		st := StepOf(&packets[i], &marks[i])
		if f := found[st.Frame]; f != nil {
			st.Finding, st.Severity = f.ID.String(), f.Severity()
		}
		steps = append(steps, st)
	}
	rungs := Fold(steps, time.Millisecond, nil)
	first := 0
	for i := range rungs {
		if rungs[i].Kind == RungGap {
			first = i
			break
		}
	}
	for _, w := range []int{48, 80, 120} {
		golden(t, "ladder", w, 24, func(c *cells.Canvas, _ bool) {
			l := Ladder{A: "requester 10.0.0.1 QP 17", B: "responder 10.0.0.2 QP 18", Start: steps[0].Time, Rungs: rungs, Top: max(first-8, 0), Selected: first + 1}
			l.Draw(c)
		})
	}
}

func TestFold(t *testing.T) {
	step := func(frame uint64, psn dissect.PSN) Step {
		return Step{Frame: frame, Time: int64(frame) * 1000, PSN: psn, Text: "WRITE Middle"}
	}
	var steps []Step
	for i := range 10 {
		steps = append(steps, step(uint64(i)+1, dissect.PSN(0xFFFFFC).Add(i)))
	}
	text := func(rungs []Rung) string {
		var b strings.Builder
		for i := range rungs {
			r := &rungs[i]
			switch r.Kind {
			case RungPacket:
				fmt.Fprintf(&b, "%d ", r.Frame)
			case RungFolded:
				fmt.Fprintf(&b, "%d-%d(%d..%d) ", r.Frame, r.LastFrame, r.PSN, r.LastPSN)
			case RungGap:
				fmt.Fprintf(&b, "gap(%d) ", r.Missing)
			case RungWait:
				fmt.Fprintf(&b, "wait(%s) ", r.Wait)
			}
		}
		return strings.TrimSpace(b.String())
	}
	late := append([]Step(nil), steps...)
	for i := 6; i < len(late); i++ {
		late[i].Time += 5_000_000
	}
	gap := append(append([]Step(nil), steps[:4]...), steps[7:]...)
	gap[4].AfterGap, gap[4].Event = true, true
	for _, c := range []struct {
		name  string
		steps []Step
		open  func(uint64) bool
		want  string
	}{
		{"PSNs that wrap", steps, nil, "1-10(16777212..5)"},
		{"a frame to be seen", steps, func(f uint64) bool { return f == 6 }, "1-5(16777212..0) 6 7-10(2..5)"},
		{"a silence", late, nil, "1-6(16777212..1) wait(5.001ms) 7-10(2..5)"},
		{"missing PSNs, over the wrap", gap, nil, "1-4(16777212..16777215) gap(3) 8 9 10"},
		{"few", steps[:3], nil, "1 2 3"},
		{"none", nil, nil, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := text(Fold(c.steps, time.Millisecond, c.open)); got != c.want {
				t.Errorf("%s\nshould be %s", got, c.want)
			}
		})
	}
}

func TestChart(t *testing.T) {
	var smooth, spiky Curve
	smooth = Curve{Name: "goodput", Style: cells.Chart1, Interval: time.Millisecond, Zero: true}
	spiky = Curve{Name: "p99", Style: cells.Chart3, Interval: time.Millisecond}
	for i := range 2000 {
		at := int64(i) * 1_000_000
		if i < 700 || i > 900 {
			smooth.Samples = append(smooth.Samples, Sample{at, 40e9 + 30e9*math.Sin(float64(i)/150)})
		}
		v := 5000.0
		if i == 1234 {
			v = 80e9
		}
		spiky.Samples = append(spiky.Samples, Sample{at, v})
	}
	ch := Chart{Title: "rate", Curves: []Curve{smooth, spiky}, Cursor: 1_500_000_000, Events: []Event{{800_000_000, '!', cells.Bad}}}
	for _, size := range [][2]int{{30, 6}, {80, 12}, {120, 20}} {
		golden(t, "chart", size[0], size[1], func(c *cells.Canvas, ascii bool) {
			ch.ASCII = ascii
			ch.Draw(c)
		})
	}
	logged := Chart{Title: "latency", Curves: []Curve{{Name: "max", Style: cells.Chart2, Samples: []Sample{{0, 2000}, {10, 90_000}, {20, 3000}, {30, 5e6}, {40, 2500}}}}, Log: true, Unit: func(v float64) string { return Span(time.Duration(v)) }}
	golden(t, "chart_log", 80, 12, func(c *cells.Canvas, ascii bool) {
		logged.ASCII = ascii
		logged.Draw(c)
	})
	golden(t, "chart_empty", 40, 6, func(c *cells.Canvas, ascii bool) { (&Chart{Title: "nothing"}).Draw(c) })
}

// TestChartKeepsExtremes: a value that stands out is seen however many share its cell.
func TestChartKeepsExtremes(t *testing.T) {
	const n = 100_000
	for _, at := range []int{0, 1, 777, 50_000, n - 1} {
		cu := Curve{Style: cells.Chart1}
		for i := range n {
			v := 1.0
			if i == at {
				v = 100
			}
			cu.Samples = append(cu.Samples, Sample{int64(i), v})
		}
		c := cells.New(60, 10)
		(&Chart{Curves: []Curve{cu}}).Draw(c)
		seen := false
		for x := axisWidth; x < c.W; x++ {
			r := c.At(x, 0).R
			seen = seen || r > 0x2800 && r < 0x2900
		}
		if !seen {
			t.Errorf("the peak at %d is not seen:\n%s", at, c.Plain())
		}
	}
}

func TestPSNs(t *testing.T) {
	var p PSNs
	psn := uint32(1<<24 - 400) // wraps soon
	at := int64(1_000_000)
	for i := range 1000 {
		at += 2000
		p.Add(at, psn&0xFFFFFF, PSNNew)
		if i == 500 {
			psn += 60
			p.Add(at+500, psn&0xFFFFFF, PSNGap)
			p.Add(at+1000, (psn-60)&0xFFFFFF, PSNNAK)
			at += 100_000
			for k := range uint32(60) {
				at += 2000
				p.Add(at, (psn-60+k)&0xFFFFFF, PSNAgain)
			}
		}
		if i%8 == 7 {
			p.Add(at+900, psn&0xFFFFFF, PSNAcknowledged)
		}
		psn++
	}
	for _, size := range [][2]int{{38, 8}, {80, 16}, {120, 24}} {
		golden(t, "psn", size[0], size[1], p.Draw)
	}
	golden(t, "psn_none", 40, 4, (&PSNs{}).Draw)
	if p.at != 1<<24-400+1059 {
		t.Errorf("the last PSN is counted as %d", p.at)
	}
}

// TestPSNsStayBounded: years in few intervals, and what stands out is kept.
func TestPSNsStayBounded(t *testing.T) {
	var p PSNs
	for i := range int64(300_000) {
		p.Add(i*1_000_000, uint32(i*7)&0xFFFFFF, PSNNew)
	}
	p.Add(150_000*1_000_000, 5, PSNNAK)
	if len(p.intervals) > maxIntervals {
		t.Errorf("%d intervals", len(p.intervals))
	}
	if p.Count(PSNNew) != 300_000 || p.Count(PSNNAK) != 1 {
		t.Error("packets are lost")
	}
	last := p.intervals[len(p.intervals)-1]
	if want := int64(299_999 * 7); last.hi[PSNNew] != want {
		t.Errorf("the last PSN is %d, should be %d: it wraps", last.hi[PSNNew], want)
	}
	c := cells.New(100, 20)
	p.Draw(c, false)
	if !strings.ContainsRune(c.Sub(axisWidth, 1, 90, 18).Plain(), '×') {
		t.Errorf("the NAK is not seen:\n%s", c.Plain())
	}
}

func TestStates(t *testing.T) {
	_, _, s := tracked(t, "peer_gone")
	conn := busiest(s)
	for _, w := range []int{60, 100} {
		golden(t, "states", w, 12, func(c *cells.Canvas, _ bool) {
			n := States(c, "QP 17 of 10.0.0.1", conn.A.State, conn.A.History, conn.FirstSeen)
			States(c.Sub(0, n+1, c.W, c.H-n-1), "QP 18 of 10.0.0.2", conn.B.State, conn.B.History, conn.FirstSeen)
		})
	}
	golden(t, "states_unknown", 60, 4, func(c *cells.Canvas, _ bool) { States(c, "QP 3", flows.StateUnknown, nil, 0) })
}

func TestMemory(t *testing.T) {
	m := flows.MemoryMap{
		Regions: []flows.MemoryRegion{
			{
				RKey: 0x1234, Writes: 12, Reads: 3, Atomics: 1,
				Written: []flows.AddressRange{{From: 0x10000, To: 0x14000}, {From: 0x18000, To: 0x18001}},
				Read:    []flows.AddressRange{{From: 0x13000, To: 0x15000}},
				Atomic:  []flows.AddressRange{{From: 0x1fff8, To: 0x20000}},
			},
			{RKey: 0x99, Writes: 2, Written: []flows.AddressRange{{From: 0, To: 1}, {From: 1<<64 - 4096, To: 1<<64 - 1}}, Merged: true},
		},
		Refused: []flows.Refusal{{Op: flows.OpWrite, VA: 0x20000, RKey: 0x1234, Bytes: 4096, Status: flows.StatusRemAccess, Frame: 77}},
		More:    true,
	}
	for _, w := range []int{60, 120} {
		golden(t, "memory", w, MemoryLines(&m), func(c *cells.Canvas, _ bool) { Memory(c, &m, 0) })
	}
}

func TestHistogram(t *testing.T) {
	var buckets []flows.LatencyBucket
	for i := range 20 {
		from := int64(1000) << i / 4
		buckets = append(buckets, flows.LatencyBucket{From: from, To: from * 2, Count: uint64(1e6 / (1 + (i-6)*(i-6)*200))})
	}
	buckets[19].To, buckets[19].Count = 0, 1
	for _, size := range [][2]int{{60, 5}, {100, 20}} {
		golden(t, "histogram", size[0], size[1], func(c *cells.Canvas, _ bool) { Histogram(c, buckets) })
	}
}

func TestSparkline(t *testing.T) {
	var values []float64
	for i := range 400 {
		values = append(values, float64(i%100))
	}
	values[201] = 400
	golden(t, "sparkline", 40, 1, func(c *cells.Canvas, _ bool) { Sparkline(c, values, cells.Chart1) })
}

func TestHex(t *testing.T) {
	var data []byte
	for i := range 70 {
		data = append(data, byte(i*7+32))
	}
	for _, w := range []int{36, 50, 80} {
		golden(t, "hex", w, 8, func(c *cells.Canvas, _ bool) {
			(&Hex{Data: data, Wire: 100, Ranges: []Range{{14, 34, cells.Marked}, {20, 22, cells.Bad}}, Cursor: 40}).Draw(c)
		})
	}
	for _, w := range []int{36, 50, 80} {
		h := Hex{Data: data, Cursor: -1}
		n := h.PerLine(w)
		for i := range data {
			x, y := byteAt(i%n), i/n
			if h.ByteAt(w, x, y) != i || h.ByteAt(w, x+1, y) != i || h.ByteAt(w, h.textAt(n)+i%n, y) != i {
				t.Errorf("width %d: byte %d is not where it is drawn", w, i)
			}
		}
		if h.ByteAt(w, 0, 0) != -1 || h.ByteAt(w, byteAt(0), 100) != -1 {
			t.Error("there is a byte where none is")
		}
		if top := h.Reveal(w, 2, 69); top != 69/n-1 {
			t.Errorf("width %d: the last byte is seen from line %d on", w, top)
		}
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{Short(0), "0"},
		{Short(0.25), "0.25"},
		{Short(7), "7"},
		{Short(999.4), "999"},
		{Short(999.6), "1 k"},
		{Short(1250), "1.25 k"},
		{Short(98.7e9), "98.7 G"},
		{Short(-5e6), "-5 M"},
		{Short(3e15), "3000 T"},
		{Span(0), "0"},
		{Span(999), "999 ns"},
		{Span(1250), "1.25 µs"},
		{Span(98_700_000), "98.7 ms"},
		{Span(12 * time.Second), "12 s"},
		{Span(time.Hour), "60.0 min"},
		{Span(700 * time.Millisecond), "700 ms"},
		{Span(-1500), "-1.5 µs"},
		{Count(0), "0"},
		{Count(999), "999"},
		{Count(1234567), "1 234 567"},
		{Bytes(1 << 20), "1 MiB"},
		{Bytes(1536), "1.5 KiB"},
		{Bytes(12), "12 B"},
		{Bytes(1<<64 - 1), "16.0 EiB"},
	} {
		if c.got != c.want {
			t.Errorf("%q, should be %q", c.got, c.want)
		}
	}
}

// TestAnySize draws everything at every small size: nothing may panic.
func TestAnySize(t *testing.T) {
	packets, marks, s := tracked(t, samples.Default)
	conn := busiest(s)
	var steps []Step
	var p PSNs
	for i := range packets {
		steps = append(steps, StepOf(&packets[i], &marks[i]))
		if class, ok := ClassOf(&marks[i], flows.AToB); ok {
			p.Add(packets[i].Time, marks[i].PSNOffset, class)
		}
	}
	rungs := Fold(steps, time.Millisecond, nil)
	m := flows.MemoryMap{Regions: []flows.MemoryRegion{{RKey: 1, Written: []flows.AddressRange{{From: 5, To: 6}}}}}
	ch := Chart{Curves: []Curve{{Name: "x", Samples: []Sample{{5, 1}, {9, 2}}}}}
	for w := range 30 {
		for h := range 8 {
			for _, ascii := range []bool{false, true} {
				c := cells.New(w, h)
				(&Ladder{A: "a", B: "b", Rungs: rungs}).Draw(c)
				ch.ASCII = ascii
				ch.Draw(c)
				p.Draw(c, ascii)
				States(c, "QP", conn.A.State, conn.A.History, 0)
				Memory(c, &m, 0)
				Histogram(c, conn.Streams[0].Latencies)
				Sparkline(c, []float64{1, 2, 3}, cells.Plain)
				(&Hex{Data: make([]byte, 40)}).Draw(c)
			}
		}
	}
}
