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
	"github.com/rocescope/rocescope/internal/crash"
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
	switch b.where {
	case "working":
		panic("a mistake beside the event loop")
	case "elsewhere":
		go func() {
			defer crash.Guard()
			panic("a mistake on a goroutine of its own")
		}()
		time.Sleep(time.Hour)
	}
	return b.fakeControls.Start()
}

// breakingSource panics while it is read, as soon as there is a screen.
type breakingSource struct{ captures.Source }

func (*breakingSource) ReadBatch([]captures.Frame) (int, error) {
	for awaited := os.Getenv("AWAIT"); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(awaited); err == nil {
			panic("a mistake while reading")
		}
	}
}

func (*breakingSource) Interfaces() []captures.Interface { return nil }
func (*breakingSource) Close() error                     { return nil }

func breakDown(where, capture string) error {
	in := Input{Title: "sample", Again: true, Open: func(context.Context) (captures.Source, error) { return captures.Open(capture) }}
	switch where {
	case "reading": // which a source that may wait does on a goroutine of its own
		in.Live, in.Engine.MayBlock = true, true
		in.Open = func(context.Context) (captures.Source, error) { return &breakingSource{}, nil }
	case "tracking":
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
		code  int
		says  string
	}{
		{"drawing", []string{"S", "y"}, 3, "the screen broke down"},
		{"working", []string{"S", "y"}, 3, "the screen broke down"},
		{"tracking", []string{"1", "q"}, 3, "a mistake while tracking"},
		{"reading", []string{"q"}, 3, "a mistake while reading"},
		{"elsewhere", []string{"S", "y"}, 2, "panic: a mistake on a goroutine of its own"},
	} {
		t.Run(c.where, func(t *testing.T) {
			dir := t.TempDir()
			tmux := func(args ...string) string {
				out, _ := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(dir, "tmux")}, args...)...).CombinedOutput()
				return string(out)
			}
			line := fmt.Sprintf("stty -a >%[1]s/before; env %[2]s=%[3]s CAPTURE=%[4]s AWAIT=%[1]s/await %[5]s 2>%[1]s/trace; code=$?; stty -a >%[1]s/after; echo it ended with $code; sleep 100",
				dir, breakAt, c.where, capture, os.Args[0])
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
			await("8 Traffic")
			if err := os.WriteFile(filepath.Join(dir, "await"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if c.where == "reading" {
				await("reading ended: a mistake")
			}
			for _, k := range c.keys {
				tmux("send-keys", k)
			}
			await(fmt.Sprint("it ended with ", c.code))
			trace, err := os.ReadFile(filepath.Join(dir, "trace"))
			if err != nil {
				t.Fatal(err)
			}
			if screen := tmux("capture-pane", "-p"); !strings.Contains(screen+string(trace), c.says) {
				t.Errorf("it does not say %q:\n%s\n%s", c.says, screen, trace)
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
