package fault

import (
	"strings"
	"testing"
)

// TestRulesAreRefused: what contradicts itself, is unknown or means nothing is refused by a sentence that says why.
func TestRulesAreRefused(t *testing.T) {
	for _, c := range []struct{ rule, want string }{
		{"", "it has no action"},
		{"dropp", "did you mean drop?"},
		{"drop when bth.opcod == 3", "unknown field"},
		{"drop when msg.latency > 1ms", "known only at the end"},
		{"drop when nvme.cmd.opc == 2", "known of a conversation, not of a packet"},
		{"drop when", "there should be a filter"},
		{"drop nth=0", "numbers from 1 on"},
		{"drop nth=8-5", "numbers from 1 on"},
		{"drop nth=1 every=2", "contradict each other"},
		{"drop nth=1 count=2", "contradict each other"},
		{"drop every=2 probability=0.1", "contradict each other"},
		{"drop probability=2", "at most 1"},
		{"drop probability=0", "above 0"},
		{"drop nth=1 nth=2", "twice"},
		{"drop after=5s before=2s", "contradict each other"},
		{"drop way=up", "out, in and both"},
		{"drop n=3", "no parameter n"},
		{"drop then duplicate", "cannot both be the packet's fate"},
		{"set bth.psn=1 then drop", "contradict each other"},
		{"set", "which field"},
		{"set bth.psm=1", "no field bth.psm; did you mean bth.psn?"},
		{"set bth.psn=0x1000000", "has 24 bits"},
		{"set bth.opcode=RC_SEND_ONYL", "cannot be"},
		{"set eth.dst=02:00", "an address"},
		{"set frame.len=3", "cannot be set"},
		{"set ip.hdr_len=3", "cannot be set"},
		{"set bth.psn=1 icrc=maybe", "stale, ok"},
		{"corrupt bit=3 byte=4", "cannot both be"},
		{"corrupt where=icrc icrc=ok", "undo"},
		{"corrupt xor=3", "byte= says which"},
		{"corrupt where=tail", "transport"},
		{"truncate", "to= says how many"},
		{"truncate to=3", "14 bytes or more"},
		{"truncate by=4 icrc=ok", "needs lengths=fix"},
		{"truncate where=reth by=4", "as a whole"},
		{"pad", "n= is missing"},
		{"options n=6", "multiple of 4"},
		{"delay", "time= is missing"},
		{"delay time=3", "time=3"},
		{"delay time=-3ms", "above 0"},
		{"reorder by=2 until=bth", "cannot both be"},
		{"reorder until=flow.nak", "cannot be waited for"},
		{"hold keep=last order=reverse", "says nothing"},
		{"hold n=1", "from 2 to"},
		{"inject", "packet= says"},
		{"inject packet=nack", "cannot be"},
		{"inject packet=cnp frame=00", "packet= says"},
		{"inject packet=ack back=yes", "needs bth.destqp="},
		{"inject packet=ack place=instead then set bth.psn=1", "not go on"},
		{"inject frame=0011", "less than an Ethernet header"},
		{"replay ago=1 n=2", "from 1 to 1"},
		{"pause priority=9", "from 0 to 7"},
		{`drop name="x`, "quote is not closed"},
		{"nth=3", "it has no action"},
		{"ETH-07", "is no rule"},
		{"PSN-05 bth.sm=3", "has no parameter"},
	} {
		r, err := Parse(c.rule)
		if c.rule == "delay time=3" { // seconds
			if err != nil || r.fate.time != 3e9 {
				t.Errorf("%s: %v", c.rule, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%q was taken: %q", c.rule, r.Text)
			continue
		}
		if !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant something about %q", c.rule, err, c.want)
		}
	}
}

func TestRulesAreRead(t *testing.T) {
	for _, c := range []struct{ rule, text, name string }{
		{"drop", "drop", "drop"},
		{"  drop   nth=3  when  bth.psn == 4 ", "drop nth=3 when bth.psn == 4", "drop"},
		{"nth=3,5-7 drop way=in", "drop way=in nth=3,5-7", "drop"},
		{"set bth.psn=+1 icrc=stale then pad n=4 every=2 name=odd when bth", "set bth.psn=+1 icrc=stale then pad n=4 name=odd every=2 when bth", "odd"},
		{`reorder until="bth.opcode == RC_ACKNOWLEDGE" when bth.psn == 1`, `reorder until="bth.opcode == RC_ACKNOWLEDGE" when bth.psn == 1`, "reorder"},
		{"psn-01 nth=7 when bth.destqp == 0x11", "drop nth=7 when (bth.opcode in {0..0xb}) && (bth.destqp == 0x11)", "PSN-01"},
		{"PSN-05 bth.psn=+2 every=9", "set bth.psn=+2 every=9 when bth.opcode in {0..0xb}", "PSN-05"},
	} {
		r, err := Parse(c.rule)
		if err != nil {
			t.Errorf("%q: %v", c.rule, err)
			continue
		}
		if r.Text != c.text || r.Name != c.name {
			t.Errorf("%q: %q called %q, want %q called %q", c.rule, r.Text, r.Name, c.text, c.name)
		}
	}
}

func TestFiles(t *testing.T) {
	s, err := ParseFile("f.yaml", []byte(`
seed: 7
rules:
  - do: drop
    when: bth.opcode == RC_RDMA_WRITE_MIDDLE
    nth: 3
    name: the third
  - fault: PSN-05 bth.psn=+2
    way: out
  - do: set ip.ttl=0 then corrupt where=payload icrc=ok
    probability: 0.01
    after: 1s
    before: 2s
`))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`drop name="the third" nth=3 when bth.opcode == RC_RDMA_WRITE_MIDDLE`,
		"set bth.psn=+2 way=out nth=3 when bth.opcode in {0..0xb}",
		"set ip.ttl=0 then corrupt where=payload icrc=ok probability=0.01 after=1s before=2s",
	}
	if s.Seed != 7 || len(s.Rules) != len(want) {
		t.Fatalf("%+v", s)
	}
	for i, r := range s.Rules {
		if r.Text != want[i] {
			t.Errorf("rule %d is %q, want %q", i, r.Text, want[i])
		}
	}
}

// TestFilesAreRefused: errors have the line and the excerpt.
func TestFilesAreRefused(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"", "it has no rules"},
		{"rules:\n  - drop: 1\n", "f.yaml:2: \"drop\" is no key here"},
		{"rules:\n  - do: drop\n    nht: 3\n", "f.yaml:3: \"nht\" is no key here; did you mean nth?"},
		{"rules:\n  - when: bth\n", "f.yaml:2: the rule does nothing"},
		{"rules:\n  - do: drop\n    when: bth.psm == 3\n", "f.yaml:3: unknown field"},
		{"rules:\n  - do: drop\n    nth: 3\n    every: 2\n", "f.yaml:4: nth and every contradict each other"},
		{"rules:\n  - do: drop\n  - do: drup\n", "f.yaml:3: there is no action drup"},
		{"rules:\n  - do: drop\n    fault: PSN-01\n", "cannot both be"},
		{"rules:\n  - fault: PSN-99\n", "f.yaml:2: there is no fault PSN-99"},
		{"rules:\n  - fault: ETH-07\n", "f.yaml:2: ETH-07 is no rule"},
		{"seed: x\nrules:\n  - do: drop\n", "f.yaml:1: seed"},
		{"rules: drop\n", "f.yaml:1: here should be a list"},
	} {
		_, err := ParseFile("f.yaml", []byte(c.file))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant something about %q", c.file, err, c.want)
		}
		if err != nil && strings.Contains(c.want, "f.yaml:") && strings.Count(err.Error(), "\n") == 0 {
			t.Errorf("%q: no excerpt: %v", c.file, err)
		}
	}
}
