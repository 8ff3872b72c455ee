package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestExitCode(t *testing.T) {
	var (
		usage       = errUsage("usage")
		judged      = errJudged("judged")
		input       = errInput("input")
		unavailable = errUnavailable("unavailable")
		plain       = errors.New("plain")
	)
	for _, c := range []struct {
		name string
		err  error
		want ExitCode
	}{
		{"nothing", nil, 0},
		{"plain", plain, 1},
		{"usage", usage, 2},
		{"judged", judged, 3},
		{"input", input, 4},
		{"unavailable", unavailable, 5},
		{"interrupted", errInterrupted, 130},
		{"wrapped", fmt.Errorf("outer: %w", input), 4},
		{"a code around a joined error", errInput("x: %w", errors.Join(plain, plain)), 4},
		{"stdout closed", fmt.Errorf("print: %w", errStdoutClosed), 0},

		{"usage before interrupted", errors.Join(errInterrupted, usage), 2},
		{"interrupted before unavailable", errors.Join(unavailable, errInterrupted), 130},
		{"unavailable before input", errors.Join(input, unavailable), 5},
		{"input before failed", errors.Join(plain, input), 4},
		{"failed before judged", errors.Join(judged, plain), 1},
		{"judged before done", errors.Join(judged, errStdoutClosed), 3},
		{"cut off, and findings in what could be read", errors.Join(judged, fmt.Errorf("file: %w", input)), 4},
	} {
		if got := exitCode(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
}

func TestExitCodesTextHasAll(t *testing.T) {
	text := exitCodesText()
	for _, row := range exitCodes {
		if !strings.Contains(text, fmt.Sprintf("%3d  %s", row.code, row.meaning)) {
			t.Errorf("%d is missing in\n%s", row.code, text)
		}
	}
}

func TestErrorLines(t *testing.T) {
	err := errors.Join(
		errInput("b.pcap: cut off"),
		fmt.Errorf("a.pcap: %w", context.Canceled),
		errors.Join(errInput("b.pcap: cut off"), errInterrupted),
	)
	if got, want := strings.Join(errorLines(err), "|"), "b.pcap: cut off|interrupted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestNearest(t *testing.T) {
	known := []string{"analyze", "show", "demo", "fields", "findings", "opcodes", "version"}
	for word, want := range map[string]string{
		"analyse": "analyze", "shwo": "show", "opcode": "opcodes", "finding": "findings", "ver": "version",
		"xyzzy": "", "zz": "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("nearest(%q) = %q, want %q", word, got, want)
		}
	}
}
