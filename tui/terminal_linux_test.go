package tui

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/tui/cells"
)

// breakAt makes a program of this test: a screen that breaks down, and where.
const breakAt = "ROCESCOPE_TEST_BREAK"

func TestMain(m *testing.M) {
	where := os.Getenv(breakAt)
	if where == "" {
		os.Exit(m.Run())
	}
	if err := breakDown(where, os.Getenv("CAPTURE")); err != nil {
		text, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Println(text)
		os.Exit(3)
	}
}

// breaking panics where it was told to.
type breaking struct {
	fakeControls
	where string
}

func (b *breaking) Status() Status {
	if b.where == "drawing" && b.state == Running {
		panic("a mistake while drawing")
	}
	return b.fakeControls.Status()
}

func (b *breaking) Start() error {
	if b.where == "working" {
		panic("a mistake beside the event loop")
	}
	return b.fakeControls.Start()
}

func breakDown(where, capture string) error {
	in := Input{Title: "sample", Again: true, Open: func(context.Context) (captures.Source, error) { return captures.Open(capture) }}
	if where == "tracking" {
		in.Engine.Tracker.Sink.Finding = func(*flows.Finding) { panic("a mistake while tracking") }
	}
	ses, err := NewSession(context.Background(), in)
	if err != nil {
		return err
	}
	defer ses.Close()
	return errors.Join(Run(context.Background(), ses, Options{Depth: cells.Color256, Controls: &breaking{where: where}}), ses.Err())
}

// TestAPanicLeavesTheTerminalAsItWas, whichever goroutine it comes up on.
func TestAPanicLeavesTheTerminalAsItWas(t *testing.T) {
	if _, err := exec.LookPath("tmux"); err != nil {
		t.Skip("tmux is not there")
	}
	capture := sampleFile(t, samples.Default)
	for _, c := range []struct {
		where string
		keys  []string
		says  string
	}{
		{"drawing", []string{"S", "y"}, "the screen broke down"},
		{"working", []string{"S", "y"}, "the screen broke down"},
		{"tracking", []string{"1", "q"}, "a mistake while tracking"},
	} {
		t.Run(c.where, func(t *testing.T) {
			dir := t.TempDir()
			tmux := func(args ...string) string {
				out, _ := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(dir, "tmux")}, args...)...).CombinedOutput()
				return string(out)
			}
			line := fmt.Sprintf("stty -a >%s/before; env %s=%s CAPTURE=%s %s 2>/dev/null; code=$?; stty -a >%[1]s/after; echo it ended with $code; sleep 100", dir, breakAt, c.where, capture, os.Args[0])
			if out := tmux("-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "30", line); out != "" {
				t.Fatal(out)
			}
			defer tmux("kill-server")
			await := func(text string) {
				t.Helper()
				screen := ""
				for range 1000 {
					if screen = tmux("capture-pane", "-p"); strings.Contains(screen, text) {
						return
					}
					time.Sleep(20 * time.Millisecond)
				}
				t.Fatalf("%q is not on the screen:\n%s", text, screen)
			}
			await("7 Traffic")
			for _, k := range c.keys {
				tmux("send-keys", k)
			}
			await("it ended with 3")
			if screen := tmux("capture-pane", "-p"); !strings.Contains(screen, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, screen)
			}
			if got := strings.TrimSpace(tmux("display-message", "-p", "#{alternate_on} #{mouse_any_flag} #{cursor_flag} #{bracket_paste_flag}")); got != "0 0 1" && got != "0 0 1 0" {
				t.Errorf("alternate screen, mouse, cursor, bracketed paste are %q", got)
			}
			before, err := os.ReadFile(filepath.Join(dir, "before"))
			if err != nil {
				t.Fatal(err)
			}
			after, err := os.ReadFile(filepath.Join(dir, "after"))
			if err != nil || string(after) != string(before) {
				t.Errorf("the terminal's settings are others, %v:\n%s%s", err, before, after)
			}
		})
	}
}
