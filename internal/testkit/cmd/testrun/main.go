// Command testrun runs `go test -json` with the arguments it is given, shows what go test shows, and ends with a
// summary that names every test that was skipped and why.
//
// With ROCESCOPE_CI=1 a skip fails the run unless the list allowed below excuses it: a machine with root and the
// packages that .ci/run installs is expected to run everything. A few tests that fail there are run once more, by
// themselves: those that pass then are named as unsteady, and the run goes on. Nothing else is forgiven: no data race,
// no process that died, no build.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"
)

// allowed are the skips that are no fault of the machine. Keep it short; each row says why.
var allowed = []struct {
	reason *regexp.Regexp
	when   func() bool
	why    string
}{
	{
		reason: regexp.MustCompile(`^ROCESCOPE_CAPTURES is not set`),
		when:   func() bool { return os.Getenv("ROCESCOPE_CAPTURES") == "" },
		why:    "the large captures are not part of the repository; the samples are always tested",
	},
	{
		reason: regexp.MustCompile(`@duckdb/node-api`),
		when:   func() bool { return true },
		why:    "DuckDB comes by npm, which not every machine reaches; another reader looks at the same files",
	},
	{
		reason: regexp.MustCompile(`"cocotb-config"`),
		when:   func() bool { return true },
		why:    "cocotb comes by pip, which not every machine reaches; Verilator drives the same core through the same pipe",
	},
	{
		reason: regexp.MustCompile(`^the race detector`),
		when:   func() bool { return slices.Contains(os.Args[1:], "-race") },
		why:    "what it would disturb, or has nothing to find in, runs without it",
	},
}

// event is one line of `go test -json` (see `go doc test2json`).
type event struct {
	Action      string
	Package     string
	Test        string
	Output      string
	ImportPath  string
	Elapsed     float64
	FailedBuild string
}

type testID struct{ pkg, test string }

type summary struct {
	passed, failed int
	packages       int
	failures       []string
	failing        map[testID]bool // tests of the top level that failed and may be run again
	final          bool            // something failed that running again does not answer
	unsteady       []string
	skips          map[string][]string // reason → tests
	output         map[testID][]string
}

func main() {
	begin := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
	s := read(pipe, os.Stdout)
	ran := cmd.Wait()

	ci := os.Getenv("ROCESCOPE_CI") == "1"
	if ci && s.again(os.Args[1:], goTest) {
		ran = nil
	}
	refused := s.print(os.Stdout, ci, time.Since(begin))
	if ran != nil || s.failed > 0 || refused > 0 {
		os.Exit(1)
	}
}

// mostAgain is how many failing tests may be bad luck.
const mostAgain = 4

func goTest(args ...string) error {
	cmd := exec.Command("go", append([]string{"test"}, args...)...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run()
}

// again runs the tests that failed once more, each alone, and reports whether all passed.
func (s *summary) again(args []string, goTest func(args ...string) error) bool {
	if s.final || len(s.failing) == 0 || len(s.failing) > mostAgain {
		return false
	}
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return strings.HasPrefix(arg, "./") })
	for id := range s.failing {
		if goTest(append(args, "-count=1", "-run=^"+id.test+"$", id.pkg)...) != nil {
			return false
		}
		s.unsteady = append(s.unsteady, short(id.pkg)+"."+id.test)
	}
	slices.Sort(s.unsteady)
	s.passed, s.failed, s.failures = s.passed+len(s.failing), 0, nil
	return true
}

// read follows the events, passing on what a person wants to see: a line for each package, and all that a failing
// test or build said.
func read(events io.Reader, out io.Writer) *summary {
	s := &summary{skips: map[string][]string{}, output: map[testID][]string{}, failing: map[testID]bool{}}
	lines := bufio.NewScanner(events)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Fprintln(out, lines.Text()) // not an event: go itself has something to say
			continue
		}
		s.add(e, out)
	}
	return s
}

func (s *summary) add(e event, out io.Writer) {
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "build-output":
		fmt.Fprint(out, e.Output)
	case "output":
		if e.Test == "" {
			if e.Output != "PASS\n" {
				fmt.Fprint(out, e.Output)
			}
			return
		}
		s.output[id] = append(s.output[id], e.Output)
	case "pass":
		if e.Test == "" {
			s.packages++
			return
		}
		s.passed++
		delete(s.output, id)
	case "skip":
		if e.Test == "" { // a package without test files
			return
		}
		reason := skipReason(s.output[id])
		s.skips[reason] = append(s.skips[reason], short(e.Package)+"."+e.Test)
		delete(s.output, id)
	case "fail":
		if e.Test == "" {
			s.packages++
			if !s.anyFailing(e.Package) {
				s.final = true
			}
			if e.FailedBuild != "" {
				s.failed++
				s.failures = append(s.failures, short(e.Package)+" (does not build)")
			}
			s.unfinished(e.Package, out)
			return
		}
		s.failed++
		s.failures = append(s.failures, short(e.Package)+"."+e.Test)
		top, _, _ := strings.Cut(e.Test, "/")
		s.failing[testID{e.Package, top}] = true
		said := strings.Join(s.output[id], "")
		s.final = s.final || strings.Contains(said, "DATA RACE")
		fmt.Fprint(out, said)
		delete(s.output, id)
	}
}

func (s *summary) anyFailing(pkg string) bool {
	for id := range s.failing {
		if id.pkg == pkg {
			return true
		}
	}
	return false
}

// unfinished shows what tests said that never ended, because their process did.
func (s *summary) unfinished(pkg string, out io.Writer) {
	for id, lines := range s.output {
		if id.pkg == pkg {
			s.failed++
			s.final = true
			s.failures = append(s.failures, short(pkg)+"."+id.test+" (never ended)")
			fmt.Fprint(out, strings.Join(lines, ""))
			delete(s.output, id)
		}
	}
}

var sourceLine = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

// skipReason is the last thing that a test said before it was skipped.
func skipReason(output []string) string {
	reason := ""
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "=== ") || strings.HasPrefix(line, "--- ") {
			continue
		}
		reason = sourceLine.ReplaceAllString(line, "")
	}
	if reason == "" {
		return "no reason given"
	}
	return reason
}

func short(pkg string) string {
	return strings.TrimPrefix(pkg, "github.com/rocescope/rocescope/")
}

// print writes the summary and returns how many skips are not excused (always 0 outside of CI).
func (s *summary) print(w io.Writer, ci bool, took time.Duration) int {
	skipped, refused := 0, 0
	var reasons []string
	for reason, tests := range s.skips {
		skipped += len(tests)
		reasons = append(reasons, reason)
	}
	slices.Sort(reasons)
	fmt.Fprintln(w)
	for _, reason := range reasons {
		tests := s.skips[reason]
		slices.Sort(tests)
		verdict := ""
		if ci {
			why, ok := excuse(reason)
			if ok {
				verdict = " [allowed: " + why + "]"
			} else {
				verdict = " [NOT ALLOWED here: this machine is meant to run everything]"
				refused += len(tests)
			}
		}
		fmt.Fprintf(w, "skipped: %s%s\n", reason, verdict)
		for i, test := range tests {
			if i == 5 && len(tests) > 6 {
				fmt.Fprintf(w, "         and %d more\n", len(tests)-i)
				break
			}
			fmt.Fprintf(w, "         %s\n", test)
		}
	}
	for _, test := range s.unsteady {
		fmt.Fprintf(w, "UNSTEADY: %s failed, and passed when it was run again by itself: mend the test\n", test)
	}
	for _, failure := range s.failures {
		fmt.Fprintf(w, "FAILED:  %s\n", failure)
	}
	fmt.Fprintf(w, "%d tests passed, %d skipped, %d failed; %d packages, %s\n",
		s.passed, skipped, s.failed, s.packages, took.Round(100*time.Millisecond))
	return refused
}

func excuse(reason string) (why string, ok bool) {
	for _, row := range allowed {
		if row.reason.MatchString(reason) && row.when() {
			return row.why, true
		}
	}
	return "", false
}
