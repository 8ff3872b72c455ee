package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/internal/crash"
)

// ExitCode is what the process leaves behind for scripts. Every command returns an error; this file alone turns
// errors into exit codes.
type ExitCode int

const (
	exitOK          ExitCode = 0
	exitFailed      ExitCode = 1
	exitUsage       ExitCode = 2
	exitJudged      ExitCode = 3
	exitInput       ExitCode = 4
	exitUnavailable ExitCode = 5
	exitInterrupted ExitCode = 130
)

// exitCodes is the whole table in order of precedence: where several hold, the first row that holds wins.
var exitCodes = []struct {
	code    ExitCode
	meaning string
}{
	{exitUsage, "wrong usage: an unknown command or option, or a value that makes no sense; also a mistake in rocescope itself, which leaves its trace"},
	{exitInterrupted, "interrupted; what was there by then is reported"},
	{exitUnavailable, "a privilege, a device or a kernel feature is missing"},
	{exitInput, "the input is unreadable or cut off; what could be read is reported"},
	{exitFailed, "failed for any other reason"},
	{exitJudged, "judged and found wanting: findings at or above --fail-on, or failed cases"},
	{exitOK, "done; also when the reader of standard output went away"},
}

// exitError gives an error its exit code. A joined error may hold several: precedence decides.
type exitError struct {
	code ExitCode
	err  error
}

func (e *exitError) Error() string { return e.err.Error() }
func (e *exitError) Unwrap() error { return e.err }

// errUsage is for a command line that cannot be meant: exit code 2.
func errUsage(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

// errJudged is for a verdict: findings at or above --fail-on, failed cases. Exit code 3.
func errJudged(format string, args ...any) error {
	return &exitError{exitJudged, fmt.Errorf(format, args...)}
}

// errInput is for an input that cannot be read, or not to its end: exit code 4.
func errInput(format string, args ...any) error {
	return &exitError{exitInput, fmt.Errorf(format, args...)}
}

// errUnavailable is for a missing privilege, device or kernel feature: exit code 5.
func errUnavailable(format string, args ...any) error {
	return &exitError{exitUnavailable, fmt.Errorf(format, args...)}
}

// errInterrupted is the cancellation cause of the context that commands run under, after Ctrl-C or SIGTERM.
var errInterrupted = &exitError{exitInterrupted, errors.New("interrupted")}

// errStdoutClosed is what a write to standard output fails with, and the context's cancellation cause, once its
// reader has gone away (`rocescope show FILE | head`). It is nobody's mistake: the program ends quietly with 0.
var errStdoutClosed = errors.New("standard output is closed")

// exitCode finds the exit code of an error and of everything that it wraps or joins.
func exitCode(err error) ExitCode {
	if err == nil {
		return exitOK
	}
	found := map[ExitCode]bool{}
	collectExitCodes(err, found)
	for _, row := range exitCodes {
		if found[row.code] {
			return row.code
		}
	}
	return exitFailed
}

// collectExitCodes marks the codes in err's tree. A branch that ends without one is an ordinary failure.
func collectExitCodes(err error, found map[ExitCode]bool) {
	switch e := err.(type) {
	case *exitError:
		found[e.code] = true
	case *crash.Error:
		found[exitUsage] = true // as a panic that nobody lives on after
	case interface{ Unwrap() []error }:
		for _, branch := range e.Unwrap() {
			collectExitCodes(branch, found)
		}
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			collectExitCodes(inner, found)
			return
		}
		found[exitFailed] = true
	default:
		if err == errStdoutClosed { //nolint:errorlint // the end of the tree: nothing is wrapped here
			found[exitOK] = true
			return
		}
		found[exitFailed] = true
	}
}

// newExitCodesTopic is `rocescope help exit-codes`: a page, not a command.
func newExitCodesTopic() *cobra.Command {
	return &cobra.Command{
		Use:   "exit-codes",
		Short: "What each exit code means",
		Long:  exitCodesText(),
	}
}

func exitCodesText() string {
	text := "Exit codes, in the order that decides when several hold:\n\n"
	for _, row := range exitCodes {
		text += fmt.Sprintf("  %3d  %s\n", row.code, row.meaning)
	}
	return text + "\nA standard output whose reader went away (rocescope show FILE | head) is a quiet 0."
}
