package suite

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/inject/rnic"
)

// TestMutations: every misbehaviour of our RNIC is found by the cases meant for it.
func TestMutations(t *testing.T) {
	s, err := Conformance()
	if err != nil {
		t.Fatal(err)
	}
	verbose := os.Getenv("VERBOSE") != ""
	for _, m := range rnic.Misbehaviours() {
		t.Run(m.Name, func(t *testing.T) {
			meant := s.meantFor(m.Name)
			if len(meant) == 0 {
				t.Fatal("no case is meant to find it")
			}
			res, err := Execute(context.Background(), &InMemory{Misbehave: []string{m.Name}}, s, Options{Seed: 1, Cases: meant})
			if err != nil {
				t.Fatal(err)
			}
			for i := range res.Cases {
				c := &res.Cases[i]
				if !c.finds() {
					t.Errorf("%s does not find it: %s", c.ID, c.Text())
				} else if verbose {
					t.Logf("%s: %s: %s", c.ID, c.Status, c.Seen)
				}
			}
			// For the right reason: what hangs is called hung, and nothing else is.
			hangs := strings.Contains(m.Name, "hang") || strings.Contains(m.Name, "mute") || m.Name == "error-final"
			if hung := res.Totals[Hung] > 0; hung != hangs {
				for i := range res.Cases {
					t.Errorf("a case says hung: %v; the device hangs: %v; %s", hung, hangs, res.Cases[i].Text())
				}
			}
			if slices.ContainsFunc(res.Cases, func(c CaseResult) bool { return c.Status == Broken }) {
				t.Error("a case could not be carried out")
			}
		})
	}
}
