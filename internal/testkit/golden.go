package testkit

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func init() {
	if flag.Lookup("update") == nil { // teatest brings one too
		flag.Bool("update", false, "write what tests got into their golden files")
	}
}

// Update tells whether `go test -update` was asked for.
func Update() bool { return flag.Lookup("update").Value.String() == "true" }

// Golden compares got with the file testdata/NAME of the test's package, or writes it under -update.
func Golden(t testing.TB, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", filepath.FromSlash(name))
	if Update() {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(string(got), "\n")); diff != "" {
		t.Errorf("%s differs (-golden +got; go test -update accepts it):\n%s", file, diff)
	}
}
