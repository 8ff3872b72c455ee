package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
)

// programs are what the test binary is when it is called by another name.
var programs = map[string]func(){"rocescope": checkedMain}

func TestMain(m *testing.M) {
	testscript.Main(m, programs)
}

// TestScripts runs testdata/script/*.txtar: commands as a user types them, and what they print, word for word.
// `go test -update` accepts what they print now. Each script finds every sample in its folder $SAMPLES, and
//
//	code N rocescope ARGS…
//
// checks an exit code, with the output left for stdout, stderr and cmp as usual.
func TestScripts(t *testing.T) {
	dir := t.TempDir()
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, s.Capture.File), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       testkit.Update(),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", dir)
			env.Setenv("NO_COLOR", "")
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"code": exitCodeCommand,
		},
	})
}

// exitCodeCommand is `code N program args…`. What the program printed is checked by stdout, stderr and cmp as after exec.
func exitCodeCommand(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: code N program [args...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
