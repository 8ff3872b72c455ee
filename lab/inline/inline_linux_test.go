package inline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/inject/fault"
)

// sequence makes packets, a millisecond apart.
func sequence(data ...string) (all []packet) {
	for i, d := range data {
		all = append(all, packet{d, int64(i) * int64(time.Millisecond)})
	}
	return all
}

func TestDiffer(t *testing.T) {
	for _, x := range []struct {
		in, out           string
		gone, fresh, late int
	}{
		{"a b c", "a b c", 0, 0, 0},
		{"a b c", "a c", 1, 0, 0},
		{"a b c", "a b b c", 0, 1, 0},
		{"a b c", "a c b", 0, 0, 1},
		{"a b c d", "b c d a", 0, 0, 1},
		{"a b c", "a B c", 1, 1, 0},
		{"a a b", "a b", 1, 0, 0},
		{"a b a c", "a b a c", 0, 0, 0},
		{"", "a", 0, 1, 0},
	} {
		d := differ(sequence(strings.Fields(x.in)...), sequence(strings.Fields(x.out)...))
		if len(d.gone) != x.gone || len(d.fresh) != x.fresh || d.late != x.late {
			t.Errorf("%q, %q: %+v", x.in, x.out, d)
		}
	}
	in, out := sequence("a", "b"), sequence("a", "b")
	out[1].time += int64(70 * time.Millisecond)
	if d := differ(in, out); d.took != 70*time.Millisecond {
		t.Errorf("it took %v", d.took)
	}
}

func TestAlters(t *testing.T) {
	frame := strings.Repeat("\x20", 80)
	with := func(at int, b byte) string { return frame[:at] + string([]byte{b}) + frame[at+1:] }
	marked := func(f string) string { return f[:15] + "\x23" + f[16:24] + "xy" + f[26:] }
	for _, x := range []struct {
		alters func(was, is string) error
		is     string
		good   bool
	}{
		{lowestBitOf(54), with(54, 0x21), true},
		{lowestBitOf(54), frame, false},
		{lowestBitOf(54), with(54, 0x22), false},
		{lowestBitOf(54), with(55, 0x21), false},
		{lowestBitOf(54), with(54, 0x21)[:79], false},
		{lowestBitOf(99), frame, false},
		{onlyMarked, marked(frame), true},
		{onlyMarked, frame, false},
		{onlyMarked, marked(with(60, 1)), false},
		{onlyMarked, marked(frame)[:70], false},
		{onlyMarked, with(15, 0xE3), false},
	} {
		if err := x.alters(frame, x.is); (err == nil) != x.good {
			t.Errorf("%q: %v", x.is, err)
		}
	}
}

// TestJudge: each judgement refuses what it is there for.
func TestJudge(t *testing.T) {
	good := func() *Result {
		return &Result{Row: Row{Rule: "drop", Effect: Effect{Lost: 1}, ClientSees: moves{"lost behind": 1}, ServerMoves: moves{"out_of_seq_request": 1}}}
	}
	taps := func() [2]*tap {
		return [2]*tap{
			{packets: [2][]packet{sequence("a", "b"), sequence("x")}, saw: moves{"lost behind": 1}},
			{packets: [2][]packet{sequence("a"), sequence("x")}, saw: moves{}},
		}
	}
	r := good()
	if err := r.judgePackets(taps()); err != nil || r.Packets != 3 || r.Lost != 1 {
		t.Errorf("%v, %+v", err, r)
	}
	if err := r.judgeFlows(taps()); err != nil {
		t.Error(err)
	}
	r.Moved = [2]map[string]int64{{}, {"out_of_seq_request": 1, "sent_pkts": 7}}
	if err := r.judgeCounters(); err != nil {
		t.Error(err)
	}

	x := taps()
	x[1].packets[0] = sequence("a", "b")
	if err := good().judgePackets(x); err == nil {
		t.Error("nothing was lost, and that passed")
	}
	if err := good().judgePackets([2]*tap{{}, {}}); err == nil {
		t.Error("no packets, and that passed")
	}
	x = taps()
	x[1].saw = moves{"ambiguous": 1}
	if err := good().judgeFlows(x); err == nil || !strings.Contains(err.Error(), "at the server flows sees") {
		t.Error(err)
	}
	r = good()
	r.Moved = [2]map[string]int64{{}, {}}
	if err := r.judgeCounters(); err == nil || !strings.Contains(err.Error(), "of the server moved by 0, not by 1") {
		t.Error(err)
	}
	r = good()
	r.Delay, r.Lost = 100*time.Millisecond, 0
	x = taps()
	x[0].packets[1][0].time += int64(20 * time.Millisecond)
	if err := r.judgePackets(x); err == nil || !strings.Contains(err.Error(), "20ms") {
		t.Error(err)
	}
}

func TestJudgeWire(t *testing.T) {
	r := &Result{Row: Row{Rule: "drop"}}
	for text, want := range map[string]string{
		`{"directions":[{},{}],"rules":[{"struck":1}]}`:              "",
		`{"directions":[{},{}],"rules":[{"struck":2}]}`:              "struck 2 packets",
		`{"directions":[{},{}],"rules":[]}`:                          "struck 0 packets",
		`{"directions":[{"lost":3},{}],"rules":[{"struck":1}]}`:      "lost packets of its own",
		`{"directions":[{},{"not_taken":1}],"rules":[{"struck":1}]}`: "lost packets of its own",
		`what`: "what rocescope wire said",
	} {
		if err := r.judgeWire([]byte(text)); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// TestTable: each action on each kind of packet is there once, and every rule can be read.
func TestTable(t *testing.T) {
	var names []string
	for i := range Table {
		r := &Table[i]
		if slices.Contains(names, r.Name) {
			t.Errorf("%s is there twice", r.Name)
		}
		names = append(names, r.Name)
		if r.Rule == "" {
			if (r.Effect != Effect{}) || len(r.Differs)+len(r.ClientSees)+len(r.ServerSees) > 0 {
				t.Errorf("%s has no rule, and an effect", r.Name)
			}
			continue
		}
		if _, err := fault.Parse(r.Rule); err != nil {
			t.Error(err)
		}
	}
	for _, action := range []string{"drop of", "duplicate of", "reorder of", "delay of", "corruption of", "ECN on"} {
		for _, kind := range []string{"a WRITE middle", "an ACK", "a READ response", "a CM message"} {
			if !slices.Contains(names, action+" "+kind) {
				t.Errorf("the table has no %s %s", action, kind)
			} else if r := &Table[slices.Index(names, action+" "+kind)]; len(r.Differs) == 0 && r.Delay == 0 {
				t.Errorf("nothing shows in the two captures of %s", r.Name)
			}
		}
	}
}

func TestPage(t *testing.T) {
	text := Page("6.1.0", []Result{
		{Row: Row{Name: "one", Rule: "drop nth=1"}, Ran: true, Packets: 7, Effect: Effect{Lost: 1}, Took: 1500 * time.Microsecond, Differed: moves{"lost " + theACK: 1}, Saw: [2]map[string]int64{{"lost behind": 1}, {}}, Moved: [2]map[string]int64{{}, {"out_of_seq_request": 1}}},
		{Row: Row{Name: "two"}, Ran: true, Failed: "it failed\nat length"},
		{Row: Row{Name: "three"}},
	})
	for _, want := range []string{
		"| one | `drop nth=1` | 7 | 1 | 0 | 0 | 1.5 ms | 1 lost RC\\_ACKNOWLEDGE from the server | lost behind +1 |  |  | out\\_of\\_seq\\_request +1 | passed |",
		"**failed**: it failed |", "| three |  | | | | | | | | | | | not run |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
}
