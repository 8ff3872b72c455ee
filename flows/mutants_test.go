package flows

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// mutation is what turns report.go into one by which the check named in the environment is never found.
var mutation = []struct{ old, new string }{
	{"func (t *Tracker) addFinding(f *Finding) {", "func (t *Tracker) addFinding(f *Finding) {\n\tif f.ID.String() == mutant {\n\t\treturn\n\t}"},
	{"bool { return f.Count == 0 })", "bool { return f.Count == 0 || f.ID.String() == mutant })"},
	{"import (", "import (\n\t\"os\""},
	{"// findingSet is", "var mutant = os.Getenv(\"" + mutantEnv + "\")\n\n// findingSet is"},
}

const mutantEnv = "ROCESCOPE_MUTANT"

// TestEachCheckDisabled builds this package's tests against a tracker that can be told to leave one check out, and runs, for each
// row of the table with that row disabled, the tests that are about it: one of them must fail. Rows that have a case in checks_test.go
// are left to TestChecksAreWatched, which does the same within one process. With nothing disabled all pass.
func TestEachCheckDisabled(t *testing.T) {
	testkit.SkipUnderRace(t)
	if os.Getenv(mutantEnv) != "" || testing.Short() {
		t.Skip("builds the tests once more: not in the short run, and not within itself")
	}
	binary := buildMutable(t)
	run := func(mutant, tests string) ([]byte, error) {
		cmd := exec.Command(binary, "-test.failfast", "-test.run", tests)
		cmd.Env = append(os.Environ(), mutantEnv+"="+mutant)
		return cmd.CombinedOutput()
	}
	var wg sync.WaitGroup
	room := make(chan struct{}, 2)
	var all []string
	for i := range Checks() {
		id := Checks()[i].ID
		if slices.ContainsFunc(checkCases, func(c checkCase) bool { return c.id == id }) {
			continue
		}
		tests := testsOf(t, id)
		all = append(all, tests)
		wg.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			switch out, err := run(id, tests); {
			case err == nil:
				t.Errorf("no test fails when %s is never found:\n%s", id, out)
			case !strings.Contains(string(out), "--- FAIL"):
				t.Errorf("with %s disabled: %v\n%s", id, err, out)
			}
		})
	}
	if out, err := run("none of them", strings.Join(slices.Compact(all), "|")); err != nil {
		t.Errorf("with nothing disabled: %v\n%s", err, out)
	}
	wg.Wait()
}

// buildMutable compiles this package's tests with the mutation in place.
func buildMutable(t *testing.T) string {
	t.Helper()
	source, err := filepath.Abs("report.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	changed := string(text)
	for _, m := range mutation {
		if strings.Count(changed, m.old) != 1 {
			t.Fatalf("report.go has changed: %q is not there once; bring the mutation up to date", m.old)
		}
		changed = strings.Replace(changed, m.old, m.new, 1)
	}
	dir := t.TempDir()
	mutant := filepath.Join(dir, "report.go")
	if err := os.WriteFile(mutant, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {source: mutant}})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "flows.test")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}

var testNames = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// testsOf is a pattern of the tests that are about a check: all of the files that name it.
func testsOf(t *testing.T, id string) string {
	t.Helper()
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Error(err)
	}
	var names []string
	for _, file := range files {
		if file == "checks_test.go" || file == "accuracy_test.go" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Error(err)
		}
		if strings.Contains(string(text), strconv.Quote(id)) {
			for _, m := range testNames.FindAllSubmatch(text, -1) {
				names = append(names, string(m[1]))
			}
		}
	}
	return "^(" + strings.Join(names, "|") + ")$"
}
