package suite

import (
	"os"
	"testing"
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
