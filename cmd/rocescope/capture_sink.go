package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/sink"
	"github.com/rocescope/rocescope/internal/sink/clickhouse"
	"github.com/rocescope/rocescope/internal/sink/metrics"
	"github.com/rocescope/rocescope/internal/sink/parquet"
)

// captureSinkOptions are those of capture --sink.
type captureSinkOptions struct {
	sinkOptions
	to    string
	every time.Duration
}

func (o *captureSinkOptions) addLive(f *pflag.FlagSet) {
	f.StringVar(&o.to, "sink", "", "analyze at the same time, and write rows `where`: clickhouse://…, jsonl:FILE, csv:FOLDER or parquet:FOLDER, as \"rocescope export --help\" explains")
	f.DurationVar(&o.every, "sink-interval", 10*time.Second, "with --sink: how `often` connections and findings are brought up to date, and the length of an interval of series")
	o.add(f)
}

// where is the format and the destination of --sink.
func (o *captureSinkOptions) where() (format, dest string) {
	if strings.HasPrefix(o.to, "clickhouse://") {
		return "clickhouse", o.to
	}
	format, dest, _ = strings.Cut(o.to, ":")
	return format, dest
}

// checkLive finds what cannot be meant.
func (o *captureSinkOptions) checkLive() error {
	if o.to == "" {
		return nil
	}
	if o.every < 100*time.Millisecond {
		return errUsage("--sink-interval cannot be %v; it is 100ms or more", o.every)
	}
	switch format, dest := o.where(); {
	case format == "clickhouse":
		if _, err := clickhouse.ParseTarget(o.to); err != nil {
			return errUsage("--sink: %w", err)
		}
	case format != "jsonl" && format != "csv" && format != "parquet" || dest == "":
		return errUsage("--sink cannot be %q; it is clickhouse://…, jsonl:FILE, csv:FOLDER or parquet:FOLDER", o.to)
	}
	return o.check()
}

// reach is what the sink needs while the capture goes on.
func (o *captureSinkOptions) reach() (r reach) {
	switch format, dest := o.where(); format {
	case "clickhouse":
		t, err := clickhouse.ParseTarget(dest)
		if err != nil {
			return r // checkLive said so
		}
		for _, p := range t.Ports() {
			if n, err := strconv.ParseUint(p, 10, 16); err == nil {
				r.ports = append(r.ports, uint16(n))
			}
		}
	case "parquet":
		if dir, err := filepath.Abs(dest); err == nil {
			r.folders = append(r.folders, dir)
		}
	}
	return r
}

// rowSink makes rows of a capture that goes on.
type rowSink struct {
	a         *app
	o         *captureSinkOptions
	writer    sink.Writer
	collector *sink.Collector
	look      *lookout
	due       atomic.Bool // a snapshot is to be taken for rows
	taken     *flows.Snapshot
	quit      chan struct{}
	gone      chan struct{}
	failed    error
}

// openOutlets opens what needs sockets and files: the sink's, the event log's and the counters'.
func (s *session) openOutlets(ctx context.Context) error {
	if s.o.sink.to != "" {
		o := &s.o.sink
		o.force = s.o.force
		run := sink.Run{Probe: o.name(), ID: runOf(o.name(), nil)}
		format, dest := o.where()
		w, err := s.a.openSink(ctx, format, dest, &o.sinkOptions, run, false)
		if err != nil {
			return err
		}
		c, err := sink.NewCollector(sink.Options{Run: run, Tables: o.tables, Writer: w})
		if err != nil {
			return errors.Join(err, w.Close())
		}
		s.rows = &rowSink{a: s.a, o: o, writer: w, collector: c, quit: make(chan struct{}), gone: make(chan struct{})}
	}
	if s.o.events != "" {
		var err error
		if s.events, err = createEventLog(s.o.events, []string{s.o.live.name}, true); err != nil {
			return err
		}
	}
	if s.o.metrics != "" {
		var err error
		if s.scrape, err = metrics.Listen(s.o.metrics); err != nil {
			return err
		}
	}
	return nil
}

// begin takes a snapshot for rows now and then.
func (r *rowSink) begin(l *lookout) {
	r.look = l
	go func() {
		defer close(r.gone)
		tick := time.NewTicker(r.o.every)
		defer tick.Stop()
		for {
			select {
			case <-r.quit:
				return
			case <-tick.C:
			}
			before := l.pipeline.Snapshot()
			l.pipeline.RequestSnapshot()
			for l.pipeline.Snapshot() == before {
				select {
				case <-r.quit:
					return
				case <-time.After(10 * time.Millisecond):
				}
			}
			r.due.Store(true)
			l.queue.Wake() // no packet may come that would lead to Batch
		}
	}()
}

// Batch implements engine.Sink. That rows cannot be written must not end the capture: it is said in the end.
func (r *rowSink) Batch(b *engine.Batch) error {
	if r.failed != nil {
		return nil
	}
	r.failed = r.collector.Batch(&b.Batch)
	if r.failed == nil && r.due.CompareAndSwap(true, false) {
		r.failed = r.update(r.look.pipeline.Snapshot())
	}
	if r.failed != nil {
		fmt.Fprintf(r.a.stderr, "rocescope: no more rows are written: %v\n", sinkError(r.failed))
	}
	return nil
}

func (r *rowSink) update(s *flows.Snapshot) error {
	if s == nil || s == r.taken {
		return nil
	}
	r.taken = s
	err := r.collector.Update(s)
	if w, ok := r.writer.(*parquet.Writer); ok {
		err = errors.Join(err, w.Settle())
	}
	return err
}

// end ends the snapshots.
func (r *rowSink) end() {
	close(r.quit)
	<-r.gone
}

// close writes what is left, and says what was written.
func (r *rowSink) close(s *flows.Snapshot) error {
	var err error
	if r.failed == nil {
		err = r.update(s)
	}
	err = errors.Join(err, r.collector.Close(s))
	r.a.sayExported(r.collector.Totals(), r.o.to, r.writer)
	if err == nil {
		err = r.failed
	}
	return sinkError(err)
}

// bothSinks calls two sinks.
func bothSinks(a, b flows.Sink) flows.Sink {
	return flows.Sink{Message: both(a.Message, b.Message), IWARP: both(a.IWARP, b.IWARP), Finding: both(a.Finding, b.Finding), Connection: both(a.Connection, b.Connection)}
}

func both[T any](f, g func(*T)) func(*T) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(v *T) {
		f(v)
		g(v)
	}
}
