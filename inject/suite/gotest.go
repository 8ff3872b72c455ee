package suite

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
)

// TB is what Run needs of a *testing.T.
type TB interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// Run runs a suite from a test of a core's own: "conformance" with a tier behind a slash ("conformance/quick"), or the path of a
// scenario file. Each bad case is an error of the test. It returns what became of all.
func Run(t TB, target Target, suite string, options ...Options) *Result {
	t.Helper()
	var o Options
	if len(options) > 0 {
		o = options[0]
	}
	s, tier, err := Load(suite)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	o.Tier = cmp.Or(tier, o.Tier)
	res, err := Execute(context.Background(), target, s, o)
	if err != nil {
		t.Fatalf("%v", err)
		return res
	}
	for i := range res.Cases {
		c := &res.Cases[i]
		switch {
		case c.Status.Bad():
			t.Errorf("%s: %s\n%s", c.ID, c.Title, c.Text())
		case c.Status == Reported || c.Status == Disputed || c.Status == Documented:
			t.Logf("%s: %s: %s (%s)", c.ID, c.Status, c.Seen, c.Why)
		}
	}
	return res
}

// Load finds a suite: the built-in one by name, with a tier or without, or a file.
func Load(name string) (s *Scenario, tier string, err error) {
	if rest, ok := strings.CutPrefix(name, "conformance"); ok && (rest == "" || rest[0] == '/') {
		s, err = Conformance()
		return s, strings.TrimPrefix(rest, "/"), err
	}
	s, err = ReadFile(name)
	return s, "", err
}

// Summary is the result in one sentence.
func (r *Result) Summary() string {
	var parts []string
	for _, s := range Statuses {
		if n := r.Totals[s]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, s))
		}
	}
	text := fmt.Sprintf("%d cases in %v: %s", len(r.Cases), time.Duration(r.Took).Round(time.Millisecond), strings.Join(parts, ", "))
	if r.Stopped != "" {
		text += "; " + r.Stopped
	}
	return text
}
