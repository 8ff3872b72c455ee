package main

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// extcapLab is a folder of extcap programs with ours in it, and how tshark is made to look there: to root it takes its own
// folder only, so it runs where that one is covered by ours.
type extcapLab struct{ dir, covered string }

func newExtcapLab(t *testing.T) extcapLab {
	t.Helper()
	testkit.FindTshark(t)
	if _, err := exec.LookPath("unshare"); err != nil {
		t.Skip("unshare is not installed")
	}
	out, err := exec.Command("tshark", "-G", "folders").Output()
	if err != nil {
		t.Fatal(err)
	}
	x := extcapLab{dir: t.TempDir()}
	for line := range strings.Lines(string(out)) {
		if name, folder, ok := strings.Cut(line, ":"); ok && name == "Extcap path" {
			x.covered = strings.TrimSpace(folder)
		}
	}
	if _, err := os.Stat(x.covered); x.covered == "" || err != nil {
		t.Skip("this tshark has no extcap folder")
	}
	program := filepath.Join(t.TempDir(), "rocescope") // the test's program is rocescope by that name
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, program); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\nexec " + program + " extcap \"$@\"\n"
	if err := os.WriteFile(filepath.Join(x.dir, "rocescope"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return x
}

// tshark is a command line of tshark that has our folder.
func (x extcapLab) tshark(t *testing.T, args ...string) *exec.Cmd {
	cmd := exec.Command("unshare", append([]string{
		"--mount", "sh", "-c", `mount --bind "$0" "$1" && shift && exec tshark "$@"`, x.dir, x.covered,
	}, args...)...)
	cmd.Env = append(os.Environ(), "WIRESHARK_CONFIG_DIR="+t.TempDir())
	return cmd
}

// TestExtcapLive lets tshark capture live traffic through us.
func TestExtcapLive(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	x := newExtcapLab(t)

	var list, said bytes.Buffer
	cmd := x.tshark(t, "-D")
	cmd.Stdout, cmd.Stderr = &list, &said
	if err := lab.B.Start(cmd); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, said.String())
	}
	if want := "rocescope-" + lab.B.Iface + " (RoCE by rocescope on " + lab.B.Iface + ")"; !strings.Contains(list.String(), want) {
		t.Fatalf("tshark -D has no %q:\n%s", want, list.String())
	}

	sent := writes(20)
	for _, c := range []struct {
		name string
		args []string
	}{
		{"packet", []string{"-f", "rocev2 and not tcp"}},
		{"xdp", []string{"-o", "extcap.rocescope_" + lab.B.Iface + ".engine:xdp"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd := x.tshark(t, append([]string{
				"-i", "rocescope-" + lab.B.Iface, "-c", "30", "-l", "-T", "fields", "-e", "infiniband.bth.psn", "-e", "frame.interface_name",
			}, c.args...)...)
			var said bytes.Buffer
			cmd.Stderr = &said
			out, err := cmd.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := lab.B.Start(cmd); err != nil {
				t.Fatal(err)
			}
			over := make(chan struct{})
			resting := make(chan struct{})
			go func() { // tshark does not say when the capture has begun: send until it has what it wants
				defer close(resting)
				sender := lab.A.NewSender()
				for {
					select {
					case <-over:
						return
					default:
						sender.Send(sent)
					}
				}
			}()
			rows := 0
			for lines := bufio.NewScanner(out); lines.Scan(); rows++ {
				psn, _, _ := strings.Cut(lines.Text(), "\t")
				if psn == "" {
					t.Errorf("row %d is no RoCE packet: %q", rows+1, lines.Text())
				}
			}
			err = cmd.Wait()
			close(over)
			<-resting
			if err != nil || rows < 30 {
				t.Errorf("%d rows, want 30; %v\n%s", rows, err, said.String())
			}
		})
	}
}
