package interop

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/lab"
)

func TestTable(t *testing.T) {
	seen, subjects, last := map[string]bool{}, map[string]bool{}, ""
	roles := map[Role]int{}
	for i := range Table {
		r := &Table[i]
		roles[r.Role]++
		name := r.String()
		if seen[name] {
			t.Errorf("two rows are alike: %s", name)
		}
		seen[name] = true
		if r.Subject != last && subjects[r.Subject] {
			t.Errorf("rows of %s do not stand together", r.Subject)
		}
		last, subjects[r.Subject] = r.Subject, true
		if r.Lacks != "" {
			continue
		}
		if strings.ContainsAny(r.expand(r.Linux), "{}") {
			t.Errorf("%s: not everything is filled in", name)
		}
		if _, err := regexp.Compile(r.Says); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if r.Ours.play == nil || r.Ours.name == "" {
			t.Errorf("%s: nobody plays the other part", name)
		}
		if (r.Listens != "") != (r.Role == Client) {
			t.Errorf("%s: a client waits for Linux to listen, a server does not", name)
		}
	}
	if roles[Client] == 0 || roles[Server] == 0 || roles[Client]+roles[Server] != len(Table) {
		t.Errorf("roles: %v of %d", roles, len(Table))
	}
}

func TestExpand(t *testing.T) {
	r := Row{}
	if got := r.expand("x -d {dev} -x {gid} {us} {it}"); got != "x -d rxe0 -x 1 10.77.0.1 10.77.0.2" {
		t.Error(got)
	}
	r.IPv6 = true
	if got := r.expand("x -x {gid} {us} {us4}"); got != "x -x 2 fd77::1 10.77.0.1" {
		t.Error(got)
	}
}

// said makes what rocescope analyze says.
func said(t *testing.T, change func(*analysis)) []byte {
	t.Helper()
	var a analysis
	a.Protocols.RoCEv2 = 100
	one := int64(100)
	a.Counters = &struct {
		List []counter `json:"list"`
	}{[]counter{{Name: "rcvd_pkts", Delta: &one, Predicted: &one, Verdict: "agrees"}}}
	change(&a)
	text, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestJudge(t *testing.T) {
	n := func(v int64) *int64 { return &v }
	find := func(id, severity string) func(*analysis) {
		return func(a *analysis) { a.Findings = append(a.Findings, finding{ID: id, Severity: severity}) }
	}
	counted := func(name, verdict string) func(*analysis) {
		return func(a *analysis) {
			a.Counters.List = append(a.Counters.List, counter{Name: name, Delta: n(3), Predicted: n(3), Verdict: verdict})
		}
	}
	bad := both("loss 2%")
	for _, test := range []struct {
		name   string
		row    Row
		change func(*analysis)
		wrong  string // in the judgement; empty: none
	}{
		{"good", Row{}, func(*analysis) {}, ""},
		{"a note", Row{}, find("psn_gap", "note"), ""},
		{"a warning", Row{}, find("timeout", "warning"), "timeout"},
		{"what a bad wire makes", Row{Wire: bad}, find("lost_before_tap", "warning"), ""},
		{"what no wire makes", Row{Wire: bad}, find("opcode_order", "error"), "opcode_order"},
		{"a program that is too hasty", Row{Late: true}, find("timeout", "warning"), ""},
		{"… and wrong besides", Row{Late: true}, find("ghost_ack", "error"), "ghost_ack"},
		{"what must be found", Row{Findings: []string{"cm_reject"}}, find("cm_reject", "warning"), ""},
		{"what may be found", Row{May: []string{"cm_reject"}}, find("cm_reject", "warning"), ""},
		{"… and is not", Row{Findings: []string{"cm_reject"}}, func(*analysis) {}, "does not find cm_reject"},
		{"an error that Linux counts", Row{}, counted("out_of_seq_request", "agrees"), "out_of_seq_request 3"},
		{"… on a bad wire", Row{Wire: bad}, counted("out_of_seq_request", "differs"), ""},
		{"a counter that differs", Row{}, counted("rdma_sends", "differs"), "rdma_sends moved by 3"},
		{"no packets", Row{}, func(a *analysis) { a.Protocols.RoCEv2 = 0 }, "no RoCE packet"},
		{"a wrong ICRC", Row{Wire: bad}, func(a *analysis) { a.ICRC.Invalid = 1 }, "1 with a wrong invariant CRC"},
		{"a lossy capture", Row{}, func(a *analysis) { a.Capture.Dropped = 2 }, "the capture lost 2"},
		{"no counters", Row{}, func(a *analysis) { a.Counters = nil }, "were not compared"},
	} {
		r := Result{Row: test.row, Ran: true}
		err := judge(&r, said(t, test.change))
		switch {
		case test.wrong == "" && err != nil:
			t.Errorf("%s: %v", test.name, err)
		case test.wrong != "" && (err == nil || !strings.Contains(err.Error(), test.wrong)):
			t.Errorf("%s: %v, where %q was looked for", test.name, err, test.wrong)
		}
	}
}

// TestPage: what was not run never looks as if it had passed.
func TestPage(t *testing.T) {
	row := Row{Subject: "WRITE", Role: Server, Linux: "ib_write_bw {us}", Ours: part{name: "serve"}}
	lacks := Row{Subject: "more", Role: Client, Lacks: "nobody does it"}
	text := Page("6.1", &lab.Image{}, []Result{
		{Row: row, Ran: true, Packets: 7},
		{Row: row, Ran: true, Failed: "first line\nsecond"},
		{Row: row},
		{Row: lacks},
	}, "")
	for _, want := range []string{
		"Of 4 rows 1 passed, 1 failed and 2 were not run.",
		"| server | `ib_write_bw 10.77.0.1` | serve |  | 7 |  | passed |\n",
		"| server | `ib_write_bw 10.77.0.1` | serve |  | 0 |  | **failed**: first line |\n",
		"| server | `ib_write_bw 10.77.0.1` | serve |  |  |  | not run |\n",
		"| client | | | | | | not run: nobody does it |\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page does not have %q:\n%s", want, text)
		}
	}
	before := Page("6.1", &lab.Image{}, []Result{{Row: row, Ran: true, Packets: 7}}, "")
	if text := Page("6.1", &lab.Image{}, []Result{{Row: row}, {Row: lacks}}, before); !strings.Contains(text, "Of 2 rows 1 passed, 0 failed and 1 were not run.") || !strings.Contains(text, "| 7 |  | passed |") {
		t.Errorf("what was not run again does not stand as it was:\n%s", text)
	}
}
