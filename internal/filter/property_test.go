package filter

import (
	"math/rand/v2"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// frames makes random frames: those of the examples, damaged and cut, and pure
// noise.
func randomShots(t testing.TB, r *rand.Rand, n int) []*shot {
	var base []*shot
	for _, e := range examples {
		base = append(base, e.make(t))
	}
	var out []*shot
	for range n {
		frame := append([]byte(nil), base[r.IntN(len(base))].frame...)
		for range r.IntN(4) {
			frame[r.IntN(len(frame))] = byte(r.Uint32())
		}
		if r.IntN(3) == 0 {
			frame[min(42, len(frame)-1)] = byte(r.Uint32()) // the opcode, where there is no tag
		}
		wire := len(frame)
		switch r.IntN(8) {
		case 0:
			frame = frame[:r.IntN(len(frame))]
			wire = len(frame)
		case 1:
			frame = frame[:r.IntN(len(frame))]
		case 2:
			for i := range frame {
				frame[i] = byte(r.Uint32())
			}
		}
		s := decode(frame, wire)
		s.m = &flows.Mark{Bits: flows.MarkBits(r.Uint32()), Conn: r.Uint32N(3), Direction: flows.Direction(r.IntN(2)), Round: uint16(r.IntN(4))}
		if r.IntN(8) == 0 {
			*s.m = flows.Mark{}
		}
		s.o = &flows.Outcome{Severity: flows.Severity(r.IntN(3))}
		if r.IntN(2) == 0 {
			s.o.Message = &flows.Message{Op: flows.Operation(r.IntN(9)), Status: flows.Status(r.IntN(9)), Bytes: r.Uint64()}
			s.o.Findings = []flows.FindingID{0}
		}
		out = append(out, s)
	}
	return out
}

// The specialised tests say what the generic reader says, for every field and
// whatever the packet decoded before held.
func TestFastEqualsGeneric(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	shots := randomShots(t, r, 3000)
	for i := 1; i < len(shots); i++ { // decode over the packet before, as readers do
		s, d := shots[i], dissect.Decoder{CheckICRC: true}
		p := shots[i-1].p
		d.Decode(dissect.LinkEthernet, s.frame, int(s.p.WireLen), &p)
		s.p = p
	}
	fast := 0
	for _, sym := range symbols().order {
		if sym.whole {
			continue
		}
		for i := range sym.rows {
			row := &sym.rows[i]
			if manyValued(row) {
				continue
			}
			for range 3 {
				var values []uint64
				for range 200 {
					s := shots[r.IntN(len(shots))]
					if v, ok := row.number(&s.p, s.frame, s.m, s.o); ok {
						values = append(values, v)
					}
				}
				values = append(values, 0, maxUint)
				set := makeSpans([]span{{values[r.IntN(len(values))], maxUint}, {0, values[0] / 2}, {values[0], values[0]}})
				if r.IntN(2) == 0 {
					set = spans{{values[0], values[0]}}
				}
				test := &numberTest{mask: maxUint, lo: set[0].lo, size: set[0].hi - set[0].lo}
				if len(set) > 1 {
					test.rest = set
				}
				m := fastNumber(row, test)
				if m == nil {
					break
				}
				fast++
				for _, s := range shots {
					v, ok := row.number(&s.p, s.frame, s.m, s.o)
					want := ok && set.has(v)
					if got := m(&s.p, s.frame, s.m, s.o); got != want {
						t.Fatalf("%s in %x is %v for %x (%v), frame %x", sym.name, set, got, v, ok, s.frame)
					}
				}
				for _, s := range shots[:10] {
					if row.g != nil && m(&s.p, s.frame, nil, nil) {
						t.Fatalf("%s passes without a mark", sym.name)
					}
				}
			}
		}
	}
	if fast < 150 {
		t.Errorf("only %d specialised tests were compared", fast)
	}
}

// What the prefilter rejects, the filter rejects.
func TestPrefilterIsConservative(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	shots := randomShots(t, r, 400)
	var srcs []string
	eachExample(func(_ string, _ func(testing.TB) *shot, src string, _ bool) { srcs = append(srcs, src) })
	for range 3000 {
		src := randomFilter(r, srcs, 4)
		f, err := Compile(src)
		if err != nil {
			t.Fatal(err)
		}
		pre := f.Prefilter()
		for _, s := range shots {
			if f.MatchEnd(&s.p, s.frame, s.m, s.o) && !pre.May(&s.p) {
				t.Fatalf("%s matches, but its prefilter rejects %v to %x (BTH %v)", src, s.p.Opcode, s.p.DestQP, s.p.Has(dissect.LayerBTH))
			}
		}
	}
}

func randomFilter(r *rand.Rand, srcs []string, depth int) string {
	if depth == 0 || r.IntN(4) == 0 {
		return "(" + srcs[r.IntN(len(srcs))] + ")"
	}
	sub := func() string { return randomFilter(r, srcs, depth-1) }
	switch r.IntN(5) {
	case 0, 1:
		return "(" + sub() + " and " + sub() + ")"
	case 2:
		return "(" + sub() + " or " + sub() + " or " + sub() + ")"
	case 3:
		return "not " + sub()
	}
	return "(" + sub() + " xor " + sub() + ")"
}

func TestPrefilterRejects(t *testing.T) {
	only := func(ops ...dissect.Opcode) (s OpcodeSet) {
		for _, o := range ops {
			s.add(o)
		}
		return s
	}
	without := func(ops ...dissect.Opcode) OpcodeSet {
		s := only(ops...)
		for i := range s {
			s[i] = ^s[i]
		}
		return s
	}
	withHeader := func(l dissect.Layer) (s OpcodeSet) {
		for _, o := range dissect.Opcodes() {
			if o.Has(l) {
				s.add(o.Code)
			}
		}
		return s
	}
	for _, c := range []struct {
		src  string
		want Prefilter
	}{
		{"", everything},
		{"bth.opcode == RC_ACKNOWLEDGE", Prefilter{Opcodes: only(0x11)}},
		{"bth.opcode in {RC_ACKNOWLEDGE, 4} and bth.opcode != 4", Prefilter{Opcodes: only(0x11)}},
		{"bth.opcode & 0xe0 == 0x80", Prefilter{Opcodes: OpcodeSet{2: 1<<32 - 1}}},
		{"not bth.opcode == CNP", Prefilter{Opcodes: without(0x81), WithoutBTH: true}},
		{"bth.opcode != CNP", Prefilter{Opcodes: without(0x81)}},
		{"not (bth.opcode == 1 or bth.opcode == 2)", Prefilter{Opcodes: without(1, 2), WithoutBTH: true}},
		{"bth.destqp == 0x11", Prefilter{Opcodes: allOpcodes, DestQP: 0x11, HasDestQP: true}},
		{"bth.destqp == 0x11 and bth.psn > 5 and bth.opcode == 6", Prefilter{Opcodes: only(6), DestQP: 0x11, HasDestQP: true}},
		{"bth.destqp == 0x11 or bth.destqp == 0x11 and reth", Prefilter{Opcodes: allOpcodes, DestQP: 0x11, HasDestQP: true}},
		{"bth.destqp == 0x11 or bth.destqp == 0x12", Prefilter{Opcodes: allOpcodes}},
		{"bth.destqp == 0x11 and bth.destqp == 0x12", Prefilter{DestQP: 0x12, HasDestQP: true}},
		{"bth.destqp == 0x11 or ip.src == 10.0.0.1", everything},
		{"reth", Prefilter{Opcodes: withHeader(dissect.LayerRETH)}},
		{"aeth.msn == 5 and bth.a", Prefilter{Opcodes: withHeader(dissect.LayerAETH)}},
		{"immdt contains 00", Prefilter{Opcodes: withHeader(dissect.LayerImmDt)}},
		{"not reth", everything},
		{"not bth", Prefilter{WithoutBTH: true}},
		{"flow.retransmission and bth.opcode == 6", Prefilter{Opcodes: only(6)}},
		{"flow.retransmission or bth.opcode == 6", everything},
		{"bth.psn > aeth.msn", Prefilter{Opcodes: withHeader(dissect.LayerAETH)}},
		{"udp", everything},
	} {
		f, err := Compile(c.src)
		if err != nil {
			t.Fatal(err)
		}
		got := f.Prefilter()
		if c.want.Opcodes.empty() && got.Opcodes.empty() { // the QP says nothing then
			got.DestQP, c.want.DestQP = 0, 0
		}
		if got != c.want {
			t.Errorf("%q: %+v, want %+v", c.src, got, c.want)
		}
	}
}
