package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// pictures are screens of the program as it runs in a terminal: the command, the keys that are pressed (by tmux's names), each once
// the text before it is on the screen, and the text that has to be there in the end.
var pictures = []struct {
	file          string
	width, height int
	args          []string
	keys          []string
	until         string
}{
	{"docs/img/overview.svg", 120, 34, []string{"demo"}, nil, "findings W1 N3"},
	{"docs/img/connection.svg", 120, 40, []string{"demo"}, []string{"2", "Enter", "Tab", "Tab"}, "again 179"},
	{"docs/img/packets.svg", 120, 34, []string{"demo"}, []string{"6", "Enter", "Tab"}, "Bytes 42 to"},
	{"docs/img/ladder.svg", 120, 30, []string{"demo"}, []string{"6", "d"}, "missing: 1"},
	{"docs/img/findings.svg", 120, 30, []string{"demo"}, []string{"6"}, "Look at the requester"},
}

// drawPictures runs the program in a terminal, and writes what it shows.
func drawPictures(binary string) error {
	if _, err := exec.LookPath("tmux"); err != nil {
		fmt.Println("docgen: tmux is not there; the pictures in docs/img stay as they are")
		return nil
	}
	for _, p := range pictures {
		text, err := screenshot(binary, p.width, p.height, p.args, p.keys, p.until)
		if err != nil {
			return fmt.Errorf("%s: %w", p.file, err)
		}
		if err := write(p.file, svg(parseScreen(text, p.width, p.height), "rocescope "+strings.Join(p.args, " "))); err != nil {
			return err
		}
	}
	return nil
}

// screenshot is what a terminal of that size shows when it has come to rest, with escape sequences for colours.
func screenshot(binary string, width, height int, args, keys []string, until string) (string, error) {
	dir, err := os.MkdirTemp("", "docgen")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	tmux := func(args ...string) (string, error) {
		out, err := exec.Command("tmux", append([]string{"-u", "-S", filepath.Join(dir, "tmux")}, args...)...).CombinedOutput()
		if err != nil {
			return "", fmt.Errorf("tmux %s: %w: %s", args[0], err, bytes.TrimSpace(out))
		}
		return string(out), nil
	}
	line := "exec env HOME=" + dir + " LANG=C.UTF-8 TERM=xterm-256color NO_COLOR= COLORTERM= TZ=UTC " + binary + " " + strings.Join(args, " ")
	if _, err := tmux("-f", "/dev/null", "new-session", "-d", "-x", strconv.Itoa(width), "-y", strconv.Itoa(height), line); err != nil {
		return "", err
	}
	defer tmux("kill-server")
	// It is at rest when it has the text and has not changed for a while.
	rest := func(until string) (last string, err error) {
		same := 0
		for range 600 {
			time.Sleep(50 * time.Millisecond)
			text, err := tmux("capture-pane", "-p", "-e", "-N")
			if err != nil {
				return "", err
			}
			if same++; text != last {
				last, same = text, 0
			}
			plain, err := tmux("capture-pane", "-p")
			if err != nil {
				return "", err
			}
			if same >= 6 && strings.Contains(plain, until) {
				return last, nil
			}
		}
		return "", fmt.Errorf("%q does not come up", until)
	}
	if _, err := rest("q quit"); err != nil {
		return "", err
	}
	for _, k := range keys {
		if _, err := tmux("send-keys", k); err != nil {
			return "", err
		}
		if _, err := rest(""); err != nil {
			return "", err
		}
	}
	return rest(until)
}
