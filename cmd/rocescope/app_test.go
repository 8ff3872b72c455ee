package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestFirstSignalEndsTheContext(t *testing.T) {
	ctx, _, stop := withSignals(context.Background())
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case <-ctx.Done():
	case <-time.After(10 * time.Second):
		t.Fatal("the context goes on after SIGTERM")
	}
	if cause := context.Cause(ctx); !errors.Is(cause, errInterrupted) {
		t.Errorf("ended because of %v", cause)
	}
}

func TestClosedStdoutEndsTheRun(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	reader.Close()
	ctx, end := context.WithCancelCause(context.Background())
	out := newOutput(writer, end)
	if _, err := out.Write([]byte("row\n")); err != nil {
		t.Errorf("a buffered write failed: %v", err)
	}
	if err := out.Flush(); !errors.Is(err, errStdoutClosed) {
		t.Errorf("flushing into a closed pipe gives %v", err)
	}
	if !errors.Is(context.Cause(ctx), errStdoutClosed) {
		t.Errorf("the run goes on: %v", context.Cause(ctx))
	}
	if _, err := out.Write([]byte("row\n")); !errors.Is(err, errStdoutClosed) {
		t.Errorf("the error did not stick: %v", err)
	}
}

func TestColor(t *testing.T) {
	for _, c := range []struct {
		mode     colorMode
		terminal bool
		noColor  string
		want     bool
	}{
		{colorAuto, true, "", true},
		{colorAuto, false, "", false},
		{colorAuto, true, "1", false},
		{colorAlways, false, "1", true},
		{colorNever, true, "", false},
	} {
		t.Setenv("NO_COLOR", c.noColor)
		t.Setenv("TERM", "xterm")
		a := &app{color: c.mode, stdout: &output{isTerminal: c.terminal}}
		if got := a.styles().on; got != c.want {
			t.Errorf("%+v: coloured %v", c, got)
		}
	}
}

func TestExpand(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("recording", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("version", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	a := &app{stdout: &output{}}
	root := newRoot(a, "")
	if !hasCommand(root, a.fileCommand()) {
		root.AddCommand(&cobra.Command{Use: a.fileCommand()})
	}
	for line, want := range map[string]string{
		"recording":                     "analyze recording",
		"recording --json":              "analyze recording --json",
		"--color never recording":       "analyze --color never recording",
		"--color=never recording":       "analyze --color=never recording",
		"-":                             "analyze -",
		"absent.pcap":                   "analyze absent.pcap",
		"version":                       "version",
		"absent":                        "absent",
		"help recording":                "help recording",
		"--help":                        "--help",
		"__complete analyze recording.": "__complete analyze recording.",
	} {
		if got := strings.Join(a.expand(root, strings.Fields(line)), " "); got != want {
			t.Errorf("%q means %q, want %q", line, got, want)
		}
	}
}

// The table names each command as it names itself, and a run that says a command's name makes only that one.
func TestCommandNames(t *testing.T) {
	a := &app{stdout: &output{}}
	for _, g := range commands() {
		for _, c := range g.commands {
			if name := c.make(a).Name(); name != c.name {
				t.Errorf("%s calls itself %s", c.name, name)
			}
		}
	}
	if only := newRoot(a, alone([]string{"version"})); hasCommand(only, "analyze") || !hasCommand(only, "version") {
		t.Error("version is not made alone")
	}
	for _, all := range []string{"man", "help", "trace.pcap"} {
		if alone([]string{all}) != "" {
			t.Errorf("%s gets one command only", all)
		}
	}
}
