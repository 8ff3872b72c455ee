package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// TestFileCutWhileItIsRead takes a file's end away under the built program, which waits at that moment for a reader of its
// output: exit code 4 and one sentence, whole lines until then.
func TestFileCutWhileItIsRead(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "rocescope")
	build := exec.Command("go", "build", "-o", binary, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, args := range [][]string{{"show"}, {"show", "-V"}, {"analyze", "--messages"}} {
		for name, keep := range map[string]int64{"to nothing": 0, "within a packet": 9_000_001} {
			t.Run(strings.Join(args, " ")+", "+name, func(t *testing.T) {
				file := filepath.Join(t.TempDir(), "big.pcapng")
				g := traffic.New(traffic.Config{Connections: 4, HostPairs: 2, Payload: 1024})
				if err := g.WriteFile(file, 20_000, true); err != nil {
					t.Fatal(err)
				}
				cmd := exec.Command(binary, append(args, file)...)
				var complaint strings.Builder
				cmd.Stderr = &complaint
				out, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				r := bufio.NewReader(out)
				if _, err := r.ReadString('\n'); err != nil {
					t.Errorf("no line comes before the cut: %v", err)
				}
				if err := os.Truncate(file, keep); err != nil {
					t.Fatal(err)
				}
				rest, err := io.ReadAll(r)
				if err != nil {
					t.Fatal(err)
				}
				err = cmd.Wait()
				var exit *exec.ExitError
				if !errors.As(err, &exit) || exit.ExitCode() != int(exitInput) {
					t.Errorf("ended with %v, want exit code %d", err, int(exitInput))
				}
				if text := complaint.String(); !strings.Contains(text, "cut while it was read") || strings.Contains(text, "goroutine") {
					t.Errorf("it says %q", text)
				}
				if len(rest) == 0 || rest[len(rest)-1] != '\n' {
					t.Error("the output does not end with a whole line")
				}
			})
		}
	}
}
