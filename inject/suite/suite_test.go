package suite

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/inject/fault"
)

// TestClean: our own RNIC passes the whole built-in suite.
func TestClean(t *testing.T) {
	o := Options{Seed: 1}
	if only := os.Getenv("CASE"); only != "" {
		o.Only = []string{only}
	}
	res := Run(t, &InMemory{}, "conformance/full", o)
	t.Log(res.Summary())
}

// TestRows: every row of the fault catalogue, and every reported device failure, has a case or a written reason why not.
func TestRows(t *testing.T) {
	rows, err := Coverage()
	if err != nil {
		t.Fatal(err)
	}
	if want := len(fault.Catalogue()) + len(failures); len(rows) != want || want != 199+57 {
		t.Errorf("%d rows where the catalogue has 199 and the reports are 57", len(rows))
	}
	covered := 0
	for _, r := range rows {
		switch {
		case len(r.Cases) == 0 && r.Why == "":
			t.Errorf("%s (%s) has no case, and no reason why not", r.ID, r.What)
		case len(r.Cases) > 0 && r.Why != "":
			t.Errorf("%s has cases, and a reason why it has none", r.ID)
		case len(r.Cases) > 0:
			covered++
		}
	}
	t.Logf("%d of %d rows have cases", covered, len(rows))
}

// TestDeterminism: the same seed makes the same packets, byte by byte; another seed others.
func TestDeterminism(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	packets := func(seed uint64) []byte {
		dir := t.TempDir()
		res, err := Execute(t.Context(), &InMemory{}, s, Options{Seed: seed, Captures: dir, Cases: []string{"IP-08", "ICRC-03", "D27", "LOAD-03", "PSN-09", "RSP-02", "UC-01"}})
		if err != nil {
			t.Fatal(err)
		}
		var all []byte
		for i := range res.Cases {
			data, err := os.ReadFile(res.Cases[i].Capture)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
		}
		return all
	}
	one, again, other := packets(5), packets(5), packets(6)
	if !bytes.Equal(one, again) {
		t.Error("the same seed made other packets")
	}
	if bytes.Equal(one, other) {
		t.Error("another seed made the same packets")
	}
}

// TestBadScenarios: what is wrong with a file is said with its place.
func TestBadScenarios(t *testing.T) {
	for _, x := range []struct{ text, want string }{
		{"name: x\n", "it has no cases"},
		{"cases:\n  - {id: BTH-01, stepz: []}\n", "bad.yaml:2: "},
		{"cases:\n  - id: NEW-1\n    steps:\n      - {send: RC_SEND_ONLY}\n", "no row of the fault catalogue"},
		{"cases:\n  - id: BTH-01\n    steps:\n      - {send: RC_SENT}\n", "bad.yaml:4: case BTH-01: step 1: \"RC_SENT\" is no opcode"},
		{"cases:\n  - id: BTH-01\n    steps:\n      - {send: RC_SEND_ONLY, wait: 1ms}\n", "a step does one thing"},
		{"cases:\n  - id: BTH-01\n    steps:\n      - {send: RC_SEND_ONLY, expect: MAYBE}\n", "expect cannot be \"MAYBE\""},
		{"cases:\n  - id: BTH-01\n    faults: [\"drop nth=1 every=2\"]\n    steps: []\n", "case BTH-01: fault"},
		{"cases:\n  - id: BTH-01\n    steps:\n      - {packets: {filter: \"bth.pns == 3\", max: 0}}\n", "did you mean"},
		{"cases:\n  - {id: BTH-01, steps: []}\n  - {id: bth-01, steps: []}\n", "there are two of this id"},
		{"cases:\n  - {id: BTH-01, tier: later, steps: []}\n", "tier cannot be \"later\""},
		{"cases:\n  - id: BTH-01\n    steps:\n      - {state: DEAD}\n", "state cannot be \"DEAD\"; there are RESET"},
		{"target: {adress: 10.9.0.2}\ncases:\n  - {id: BTH-01, steps: []}\n", "bad.yaml:1: "},
		{"name: x\ntarget: {port: 7}\ncases:\n  - {id: BTH-01, steps: []}\n", "bad.yaml:2: target: it needs an address, or a pipe"},
		{"target: {address: 10.9.0.2, pipe: ./sim, hook: ./hook}\ncases:\n  - {id: BTH-01, steps: []}\n", "has no address"},
		{"target: {pipe: ./sim}\ncases:\n  - {id: BTH-01, steps: []}\n", "pipe needs hook"},
		{"target: {address: 10.9.0.2, connect: tcp}\ncases:\n  - {id: BTH-01, steps: []}\n", "connect cannot be \"tcp\"; there are socket, cm, hand"},
		{"target: {address: 10.9.0.2, connect: cm, hook: ./hook}\ncases:\n  - {id: BTH-01, steps: []}\n", "contradict each other"},
		{"target: {address: 10.9.0.2, connect: hand}\ncases:\n  - {id: BTH-01, steps: []}\n", "belong together"},
		{"target: {address: 10.9.0.2, connect: hand, hand: [a, b, c]}\ncases:\n  - {id: BTH-01, steps: []}\n", "of the bystander"},
		{"target: {address: memory, connect: cm}\ncases:\n  - {id: BTH-01, steps: []}\n", "our own RNIC in memory needs no"},
		{"target: {address: 10.9.0.2, patience: -1s}\ncases:\n  - {id: BTH-01, steps: []}\n", "patience cannot be negative"},
	} {
		_, err := Parse("bad.yaml", []byte(x.text))
		if err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v; want %q", x.text, err, x.want)
		}
	}
}

// TestState: a step holds the state of the device's queue pair against what it has to come to.
func TestState(t *testing.T) {
	const head = "target: {address: memory, patience: 2s}\ncases:\n  - id: OWN-1\n    title: t\n    required: r\n    rule: IBA 9.9\n    steps:\n"
	const refused = "      - {send: RC_RDMA_WRITE_ONLY, fault: RETH-01, expect: NAK-ACC}\n"
	for _, x := range []struct {
		steps, seen string
		want        Status
	}{
		{"      - {send: RC_RDMA_WRITE_ONLY, expect: ACK}\n      - {state: RTS}\n", "as required", Passed},
		{refused + "      - {state: ERROR}\n", "as required", Passed},
		{refused + "      - {state: RTS}\n", "it is in ERROR", Failed},
		{"      - {state: ERROR}\n", "it is in RTS", Failed},
	} {
		s, err := Parse("own.yaml", []byte(head+x.steps))
		if err != nil {
			t.Fatal(err)
		}
		if s.Target == nil || s.Target.Address != "memory" || s.Target.Patience != 2*time.Second {
			t.Errorf("the target was read as %+v", s.Target)
		}
		res, err := Execute(t.Context(), &InMemory{}, s, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if c := &res.Cases[0]; c.Status != x.want || c.Seen != x.seen {
			t.Errorf("%s: %s, seen %q; want %s, %q\n%s", x.steps, c.Status, c.Seen, x.want, x.seen, c.Text())
		}
	}
}

// TestProfiles: what a profile says that a device does not do is documented and no failure, but a hang stays one.
func TestProfiles(t *testing.T) {
	all, err := Profiles()
	if err != nil || len(all) < 2 {
		t.Fatal(all, err)
	}
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		misbehave, id string
		want          Status
	}{{"atomic-empty", "ATM-03-EQUAL", Documented}, {"opcode-silent", "BTH-02", Documented}, {"rkey-unchecked", "RETH-01", Failed}, {"zero-write-hang", "LEN-05", Hung}} {
		i := slices.IndexFunc(all, func(p *Profile) bool { return p.Name == "ernic" })
		res, err := Execute(t.Context(), &InMemory{Misbehave: []string{x.misbehave}}, s, Options{Profile: all[i], Cases: []string{x.id}})
		if err != nil {
			t.Fatal(err)
		}
		if c := &res.Cases[0]; c.Status != x.want {
			t.Errorf("%s: %s is %s; want %s\n%s", x.misbehave, x.id, c.Status, x.want, c.Text())
		}
	}
}
