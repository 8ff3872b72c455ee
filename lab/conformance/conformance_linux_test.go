package conformance

import (
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/inject/suite"
)

// TestList: every deviation is of a case that there is, once, with a pattern that can be one, a place and a reason.
func TestList(t *testing.T) {
	all, err := suite.Conformance()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := all.Select(&suite.Options{Cases: Smoke}); err != nil {
		t.Error(err)
	}
	seen := map[string]bool{}
	for _, d := range Deviations {
		if _, err := all.Select(&suite.Options{Cases: []string{d.Case}}); err != nil {
			t.Error(err)
		}
		if _, err := regexp.Compile(d.Seen); err != nil || d.Seen == "" {
			t.Errorf("%s: %q: %v", d.Case, d.Seen, err)
		}
		if seen[d.Case] || d.Why == "" || !strings.Contains(d.Where, ".c: ") {
			t.Errorf("%s is there twice, or without a reason or a place: %+v", d.Case, d)
		}
		if d.Status == suite.Passed || d.Status == suite.Hung {
			t.Errorf("%s: %s is no deviation that a driver may have", d.Case, d.Status)
		}
		seen[d.Case] = true
	}
}

// TestCompare: only the outcome that the list has is taken.
func TestCompare(t *testing.T) {
	for _, x := range []struct {
		c    suite.CaseResult
		want string // "": it is taken
	}{
		{suite.CaseResult{ID: "BTH-01", Status: suite.Passed}, ""},
		{suite.CaseResult{ID: "BTH-01", Status: suite.Skipped}, ""},
		{suite.CaseResult{ID: "BTH-01", Status: suite.Failed, Seen: "ACK"}, "BTH-01 failed, which is no known deviation"},
		{suite.CaseResult{ID: "BTH-01", Status: suite.Reported, Seen: "ACK"}, "BTH-01 reported, which is no known deviation"},
		{suite.CaseResult{ID: "LEN-06", Status: suite.Failed, Seen: "NAK-OP: NAK: remote operational error, PSN 0, MSN 0"}, ""},
		{suite.CaseResult{ID: "LEN-06", Status: suite.Failed, Seen: "DROP: nothing"}, "LEN-06 failed otherwise"},
		{suite.CaseResult{ID: "LEN-06", Status: suite.Hung, Seen: "NAK-OP: NAK: remote operational error, PSN 0, MSN 0"}, "LEN-06 hung otherwise"},
		{suite.CaseResult{ID: "LEN-06", Status: suite.Passed}, "LEN-06 passed, though"},
		{suite.CaseResult{ID: "CC-01", Status: suite.Failed, Seen: "10"}, "CC-01 failed otherwise"},
		{suite.CaseResult{ID: "ACK-06", Status: suite.Disputed, Seen: "1: SUCCESS"}, ""},
	} {
		err := Compare(&suite.Result{Cases: []suite.CaseResult{x.c}})
		switch {
		case x.want == "" && err != nil:
			t.Errorf("%s %s: %v", x.c.ID, x.c.Status, err)
		case x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)):
			t.Errorf("%s %s: %v; want %q", x.c.ID, x.c.Status, err, x.want)
		}
	}
}

// TestPage: the page counts by role, explains what the list explains, and says of the rest that nobody did.
func TestPage(t *testing.T) {
	r := &suite.Result{Tier: "quick", Cases: []suite.CaseResult{
		{ID: "BTH-01", Role: "responder", Status: suite.Passed},
		{ID: "LEN-06", Role: "responder", Status: suite.Failed, Seen: "NAK-OP: x|y"},
		{ID: "LEN-07", Role: "responder", Status: suite.Failed, Seen: "DROP: nothing"},
		{ID: "ACK-06", Role: "requester", Status: suite.Disputed, Seen: "1: SUCCESS", Why: "nobody knows"},
		{ID: "D34", Role: "requester", Status: suite.Skipped, Why: "no ping"},
	}}
	Add(r, &suite.Result{Tier: "soak", Cases: []suite.CaseResult{
		{ID: "LEN-HUGE", Role: "responder", Status: suite.Failed, Seen: "1: none"},
		{ID: "BTH-01", Role: "responder", Status: suite.Broken},
	}})
	text, err := Page("6.1.0", r, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"tier soak, against Linux 6.1.0", "They are of 2 runs", "| responder | 4 | 1 | 3 | 0 | 0 |", "| requester | 2 | 0 | 0 | 1 | 1 |", `failed: NAK-OP: x\|y | copy\_data says`, "| D34 | no ping |",
		"failed: DROP: nothing | **not yet explained** |  |", "(it does not count: nobody knows)",
		"## Not run", "| LIFE-04 | soak | 2^24 packets on one QP",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q:\n%s", want, text)
		}
	}
	if _, left, _ := strings.Cut(text, "## Not run"); strings.Contains(left, "| LEN-06 |") || strings.Contains(left, "| LEN-HUGE |") {
		t.Errorf("cases that were run are among those that were not:\n%s", left)
	}
}
