package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// lookout analyzes while a capture goes on, behind a queue of its own, so that the file never waits for it.
type lookout struct {
	a        *app
	out      io.Writer
	style    styles
	findings bool // print them
	queue    *captures.Queue
	pipeline *engine.Pipeline
	done     chan error

	pending []flows.Finding
	times   map[foundAs]uint64
	counts  map[flows.Severity]uint64
}

func newLookout(a *app, o *captureOptions, ifaces []captures.Interface) *lookout {
	l := &lookout{
		a: a, out: a.stdout, style: a.styles(), findings: o.findings, queue: captures.NewQueue(0, ifaces), done: make(chan error, 1),
		times: map[foundAs]uint64{}, counts: map[flows.Severity]uint64{},
	}
	if o.write == "-" {
		l.out = a.stderr
	}
	eo := engine.Options{Workers: 1, CheckICRC: true, Track: true, MayBlock: true, Sinks: []engine.Sink{l}}
	eo.Tracker.Sink.Finding = func(f *flows.Finding) { l.pending = append(l.pending, *f) }
	eo.Tracker.MaxDetails = -1
	l.pipeline = engine.New(eo)
	go func() {
		_, err := l.pipeline.Run(context.Background(), l.queue)
		l.done <- err
	}()
	return l
}

// Batch implements engine.Sink: it prints what was found in the packets of a batch.
func (l *lookout) Batch(b *engine.Batch) error {
	for i := range l.pending {
		f := &l.pending[i]
		var p *dissect.Packet
		if len(b.Packets) > 0 {
			if at := f.Frame - b.Packets[0].Number; at < uint64(len(b.Packets)) {
				p = &b.Packets[at]
			}
		}
		if err := l.found(f, p); err != nil {
			return err
		}
	}
	l.pending = l.pending[:0]
	return nil
}

// found prints a finding when it is new, and again each time that there are ten times as many of it.
func (l *lookout) found(f *flows.Finding, p *dissect.Packet) error {
	k := foundAs{f.ID, f.Conn, f.Direction}
	l.times[k]++
	n := l.times[k]
	if n == 1 {
		l.counts[f.Severity()]++
	}
	if !l.findings || !isPowerOfTen(n) {
		return nil
	}
	c := f.Check()
	where := f.Where
	if p != nil && p.IsTransport() {
		where = fmt.Sprintf("%v → %v QP 0x%06x PSN %d", p.Src, p.Dst, p.DestQP, uint32(p.PSN))
	}
	line := fmt.Sprintf("%s  %s  %s: %s", time.Unix(0, f.Time).Format("15:04:05.000000"), l.severity(f.Severity()), c.ID, c.Title)
	if f.Detail != "" {
		line += ": " + f.Detail
	}
	line += fmt.Sprintf("  [packet %d", f.Frame)
	if where != "" {
		line += ", " + where
	}
	if n > 1 {
		line += fmt.Sprintf(", %s times so far", report.Count(n))
	}
	if _, err := fmt.Fprintln(l.out, line+"]"); err != nil {
		return err
	}
	return l.a.stdout.Flush()
}

func isPowerOfTen(n uint64) bool {
	for n%10 == 0 && n > 0 {
		n /= 10
	}
	return n == 1
}

// severity is a finding's severity, as wide as the widest.
func (l *lookout) severity(s flows.Severity) string {
	text := fmt.Sprintf("%-7s", s)
	switch s {
	case flows.Error:
		return l.style.bad(text)
	case flows.Warning:
		return l.style.warning(text)
	}
	return l.style.note(text)
}

// line is what there is, for the line each second. It asks for the next one's snapshot.
func (l *lookout) line() string {
	l.pipeline.RequestSnapshot()
	s := l.pipeline.Snapshot()
	if s == nil {
		return "no connection yet"
	}
	return summaryLine(s)
}

// summaryLine is a snapshot in one line.
func summaryLine(s *flows.Snapshot) string {
	messages, again := uint64(0), uint64(0)
	for i := range s.Connections {
		for d := range s.Connections[i].Streams {
			st := &s.Connections[i].Streams[d]
			for k := range st.Messages {
				messages += st.Messages[k].Completed
			}
			again += st.RetransmittedPackets
		}
	}
	found := map[flows.Severity]uint64{}
	for i := range s.Findings {
		found[s.Findings[i].Severity()]++
	}
	parts := []string{report.Plural(uint64(len(s.Connections)), "connection"), report.Plural(messages, "message") + " completed"}
	if again > 0 {
		parts = append(parts, report.Count(again)+" sent again")
	}
	for _, sev := range []flows.Severity{flows.Error, flows.Warning, flows.Note} {
		if n := found[sev]; n > 0 {
			parts = append(parts, report.Plural(n, sev.String()))
		}
	}
	return strings.Join(parts, ", ")
}

// finish waits until all that is queued was looked at, and says what was found.
func (l *lookout) finish() error {
	l.queue.End(nil)
	err := <-l.done
	for i := range l.pending { // what only the end of the capture told
		if ferr := l.found(&l.pending[i], nil); err == nil {
			err = ferr
		}
	}
	l.pending = nil
	if s := l.pipeline.Snapshot(); s != nil {
		fmt.Fprintln(l.a.stderr, summaryLine(s))
	}
	return err
}
