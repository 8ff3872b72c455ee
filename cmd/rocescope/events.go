package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/events"
	"github.com/rocescope/rocescope/internal/version"
)

// eventLog is the file that --events names. It is a sink of the pipeline.
type eventLog struct {
	path    string
	file    *os.File
	buf     *bufio.Writer
	w       *events.Writer
	trickle bool  // the input is a pipe or an interface: what happened is in the file at once
	rest    error // why nothing more is written
}

// createEventLog opens the log, before privileges go and the capture is read. It overwrites a log, and nothing else.
func createEventLog(path string, files []string, trickle bool) (*eventLog, error) {
	if path == "-" {
		return nil, errUsage("--events -: standard output has the report; name a file for the log")
	}
	var file *os.File
	err := asInvoker(func() (err error) {
		file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("--events: %w", err)
	}
	begin := make([]byte, 64)
	n, _ := io.ReadFull(file, begin)
	if n > 0 && !events.IsLog(begin[:n]) {
		file.Close()
		return nil, errUsage("--events %s: that file is there already, and no event log; it is left alone: choose another name, or remove it", path)
	}
	err = file.Truncate(0)
	if err == nil {
		_, err = file.Seek(0, io.SeekStart)
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("--events: %w", err)
	}
	l := &eventLog{path: path, file: file, buf: bufio.NewWriterSize(file, 1<<18), trickle: trickle}
	l.w = events.New(l.buf, "rocescope "+version.Get().Version, files)
	return l, nil
}

// attach makes a run write the log.
func (l *eventLog) attach(o *engine.Options) {
	o.Sinks = append(o.Sinks, l)
	l.w.Listen(&o.Tracker.Sink)
}

// Batch implements engine.Sink. A disk that is full ends the log, not what it is of: that is said in the end.
func (l *eventLog) Batch(b *engine.Batch) error {
	if l.rest != nil {
		return nil
	}
	err := l.w.Batch(b)
	if err == nil && l.trickle {
		err = l.buf.Flush()
	}
	l.rest = l.failed(err)
	return nil
}

// close writes the end.
func (l *eventLog) close(s *flows.Snapshot) error {
	if l.rest != nil {
		return errors.Join(l.rest, l.file.Close())
	}
	return l.failed(errors.Join(l.w.Close(s), l.buf.Flush(), l.file.Close()))
}

func (l *eventLog) failed(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("write the event log %s: %w", l.path, err)
}
