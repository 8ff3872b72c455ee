//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// terminal is a program in a tmux window of 120 by 40 cells. The server is this
// one's own.
type terminal struct {
	socket string
	dir    string
	pid    int
	began  time.Time
}

const lookEvery = 5 * time.Millisecond

// openTerminal starts a program.
func openTerminal(args ...string) (*terminal, error) {
	if _, err := exec.LookPath("tmux"); err != nil {
		return nil, errMissing{"tmux"}
	}
	if _, err := exec.LookPath(args[0]); err != nil {
		return nil, errMissing{args[0]}
	}
	dir, err := os.MkdirTemp("", "rocescope-bench")
	if err != nil {
		return nil, err
	}
	t := &terminal{socket: filepath.Join(dir, "tmux"), dir: dir, began: time.Now()}
	cmd := append([]string{"-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40", "-s", "bench", "-e", "TERM=screen-256color"}, "exec "+quoted(args))
	if _, err := t.tmux(cmd...); err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	pid, err := t.tmux("display-message", "-p", "-t", "bench", "#{pane_pid}")
	if err != nil {
		t.close()
		return nil, err
	}
	t.pid, err = strconv.Atoi(strings.TrimSpace(pid))
	return t, err
}

// errMissing says that a program is not there: rows about it are left out.
type errMissing struct{ program string }

func (e errMissing) Error() string { return e.program + " is not there" }

func isMissing(err error) bool {
	var m errMissing
	return errors.As(err, &m)
}

func quoted(args []string) string {
	var out []string
	for _, a := range args {
		out = append(out, "'"+strings.ReplaceAll(a, "'", `'\''`)+"'")
	}
	return strings.Join(out, " ")
}

func (t *terminal) tmux(args ...string) (string, error) {
	out, err := exec.Command("tmux", append([]string{"-S", t.socket}, args...)...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, strings.TrimSpace(string(out)))
	}
	return string(out), nil
}

// await waits until the screen matches, and returns how long that took since from.
func (t *terminal) await(from time.Time, what *regexp.Regexp, most time.Duration) (time.Duration, error) {
	var screen string
	for time.Since(from) < most {
		var err error
		if screen, err = t.tmux("capture-pane", "-p", "-t", "bench"); err != nil {
			return 0, err
		}
		if what.MatchString(screen) {
			return time.Since(from), nil
		}
		time.Sleep(lookEvery)
	}
	return 0, fmt.Errorf("%s did not come up within %s; the screen is\n%s", what, most, screen)
}

// keys presses keys.
func (t *terminal) keys(keys ...string) error {
	_, err := t.tmux(append([]string{"send-keys", "-t", "bench"}, keys...)...)
	return err
}

// memory is what the program and its children had resident at their highest.
func (t *terminal) memory() (bytes int64) {
	for _, pid := range append(children(t.pid), t.pid) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if err != nil {
			continue
		}
		if m := regexp.MustCompile(`VmHWM:\s*(\d+) kB`).FindSubmatch(status); m != nil {
			n, _ := strconv.ParseInt(string(m[1]), 10, 64)
			bytes += n << 10
		}
	}
	return bytes
}

// cpu is the processor time of the program, without its children.
func (t *terminal) cpu() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", t.pid))
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	user, _ := strconv.ParseInt(fields[11], 10, 64)
	system, _ := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * time.Second / 100 // USER_HZ is 100 wherever Linux runs
}

func children(pid int) (all []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, l := range lists {
		text, _ := os.ReadFile(l)
		for _, f := range strings.Fields(string(text)) {
			if n, err := strconv.Atoi(f); err == nil {
				all = append(append(all, n), children(n)...)
			}
		}
	}
	return all
}

func (t *terminal) close() error {
	_, err := t.tmux("kill-server")
	return errors.Join(err, os.RemoveAll(t.dir))
}
