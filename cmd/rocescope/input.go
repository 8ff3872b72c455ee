package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/engine"
)

// input is the capture files of a command line.
type input struct {
	paths []string
	// stream says that at least one of them is a pipe or a terminal: reading
	// may wait without end, and there is no second time.
	stream bool
	live   *liveFlags // an interface, in place of files
}

func newInput(paths []string) *input {
	in := &input{paths: paths}
	for _, p := range paths {
		if p == "-" {
			info, err := os.Stdin.Stat()
			in.stream = in.stream || err != nil || !info.Mode().IsRegular()
			continue
		}
		if info, err := os.Stat(p); err == nil && !info.Mode().IsRegular() && !info.IsDir() {
			in.stream = true
		}
	}
	return in
}

// twice reports whether the input can be read a second time.
func (in *input) twice() bool {
	for _, p := range in.paths {
		if p == "-" {
			return false
		}
	}
	return !in.stream
}

// open opens the files. The header of a pipe may be long in coming: the end of
// the context ends the wait.
func (in *input) open(ctx context.Context) (captures.Source, error) {
	if in.live != nil {
		return in.live.open(ctx)
	}
	if !in.stream {
		src, err := captures.OpenFiles(in.paths)
		return src, inputError(err)
	}
	type opened struct {
		src captures.Source
		err error
	}
	done := make(chan opened, 1)
	go func() {
		defer crash.Guard()
		src, err := captures.OpenFiles(in.paths)
		done <- opened{src, err}
	}()
	select {
	case got := <-done:
		return got.src, inputError(got.err)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// onlyRead gives up what reading files does not need, before the first byte of theirs is looked at: all other files, but for the
// places of outputs, and sockets and programs. Whoever reads an interface does that when it is open. What cannot be given up
// is no reason to stop: the files are still wanted.
func (in *input) onlyRead(outputs ...string) {
	if in.live != nil || !ownProcess {
		return
	}
	_, _ = time.Now().Zone() // which reads a file the first time
	r := reach{back: true}
	for _, path := range in.paths {
		if path != "-" {
			r.read = append(r.read, path)
		}
	}
	for _, path := range outputs {
		if path != "" && path != "-" {
			r.folders = append(r.folders, folderOf(path))
		}
	}
	if in.stream {
		r.folders = append(r.folders, os.TempDir()) // for what has to be read twice
	}
	if f, err := newFence(r); err == nil && noNewPrivileges() == nil {
		_ = f.enter()
	}
	_ = denyCalls(false)
}

// folderOf is the folder that is there already in which a file or a folder is made.
func folderOf(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return path
	}
	for {
		path = filepath.Dir(path)
		if _, err := os.Stat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
	}
}

// inputError gives an error of reading captures exit code 4, and leaves the
// names of packages out of what it says.
func inputError(err error) error {
	if err == nil {
		return nil
	}
	return errInput("%w", &plainError{err})
}

// runError gives the errors of a pipeline's run their exit codes: what came
// from the source has that of an unreadable input.
func runError(err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *engine.SourceError:
		return inputError(e.Err)
	case interface{ Unwrap() []error }:
		var all []error
		for _, branch := range e.Unwrap() {
			all = append(all, runError(branch))
		}
		return errors.Join(all...)
	}
	return err
}

// plainError says what an error of package captures says to people who do not
// know that there is such a package.
type plainError struct{ err error }

func (e *plainError) Error() string { return strings.TrimPrefix(e.err.Error(), "captures: ") }
func (e *plainError) Unwrap() error { return e.err }
