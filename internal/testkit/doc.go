// Package testkit holds what tests of several packages share: the folder of large captures with its manifests, tshark as
// an oracle, golden files. Only tests import it. What is right is their affair.
//
// A helper that needs something which this machine does not have skips the test with a reason; `make test` lists the
// reasons at its end.
package testkit

import (
	"os"
	"path/filepath"
	"testing"
)

// ModuleRoot is the folder that holds go.mod.
func ModuleRoot(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			t.Fatal("no go.mod above the test's folder")
		}
		dir = parent
	}
}

// SkipUnderRace skips a test that measures allocations or speed, which the race detector changes, or that has no
// goroutines for it to watch.
func SkipUnderRace(t testing.TB) {
	t.Helper()
	if RaceEnabled {
		t.Skip("the race detector changes what this test measures, or has nothing to find in it")
	}
}
