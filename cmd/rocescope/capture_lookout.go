package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/sink/metrics"
)

// sayEvery is how often findings are printed: their sentences come with a snapshot of everything, which costs something.
const sayEvery = 250 * time.Millisecond

// lookout analyzes while a capture goes on, behind a queue of its own, so that the file never waits for it.
type lookout struct {
	a        *app
	out      io.Writer
	style    styles
	findings bool // print them
	queue    *captures.Queue
	pipeline *engine.Pipeline
	done     chan error
	hush     chan struct{} // closed to end the printing of findings
	hushed   chan struct{} // closed when it has ended

	rows   *rowSink  // nil without --sink
	events *eventLog // nil without --events

	pending []flows.Finding // of the batch at hand
	times   map[foundAs]uint64

	mu      sync.Mutex
	waiting []found // to be printed
}

// found is a finding that is to be printed when a snapshot has its sentence.
type found struct {
	as    foundAs
	frame uint64
	time  int64
	where string
	times uint64
	plain string // what is said of it without a sentence
}

// newLookout begins to analyze. rows, log and traffic are fed, where they are not nil.
func newLookout(a *app, o *captureOptions, ifaces []captures.Interface, rows *rowSink, log *eventLog, traffic *metrics.Traffic) *lookout {
	l := &lookout{
		a: a, out: a.stdout, style: a.styles(), findings: o.findings, queue: captures.NewQueue(0, ifaces), done: make(chan error, 1),
		times: map[foundAs]uint64{},
	}
	if o.write == "-" {
		l.out = a.stderr
	}
	eo := engine.Options{Workers: 1, Privacy: o.privacy.mask(), CheckICRC: true, Track: true, MayBlock: true}
	if l.findings {
		eo.Sinks = append(eo.Sinks, l)
		eo.Tracker.Sink.Finding = func(f *flows.Finding) { l.pending = append(l.pending, *f) }
	}
	if traffic != nil {
		eo.Sinks = append(eo.Sinks, engine.SinkFunc(func(b *engine.Batch) error { traffic.Batch(&b.Batch); return nil }))
		eo.Tracker.Sink = bothSinks(eo.Tracker.Sink, traffic.Sink())
	}
	if l.rows = rows; rows != nil {
		eo.Sinks = append(eo.Sinks, rows)
		eo.Tracker.Sink = bothSinks(eo.Tracker.Sink, rows.collector.Sink())
	}
	if l.events = log; log != nil {
		log.attach(&eo)
	}
	eo.Tracker.MaxDetails, eo.Tracker.Exchanges = -1, o.known
	l.pipeline = engine.New(eo)
	if rows != nil {
		rows.begin(l)
	}
	go func() {
		_, err := l.pipeline.Run(context.Background(), l.queue)
		l.done <- err
	}()
	if l.findings {
		l.hush, l.hushed = make(chan struct{}), make(chan struct{})
		go l.speak()
	}
	return l
}

// Batch implements engine.Sink: it remembers what was found in the packets of a batch.
func (l *lookout) Batch(b *engine.Batch) error {
	for i := range l.pending {
		f := &l.pending[i]
		var p *dissect.Packet
		if len(b.Packets) > 0 {
			if at := f.Frame - b.Packets[0].Number; at < uint64(len(b.Packets)) {
				p = &b.Packets[at]
			}
		}
		l.note(f, p)
	}
	l.pending = l.pending[:0]
	return nil
}

// note remembers a finding when it is new, and again each time that there are ten times as many of it.
func (l *lookout) note(f *flows.Finding, p *dissect.Packet) {
	k := foundAs{f.ID, f.Conn, f.Direction}
	l.times[k]++
	if !isPowerOfTen(l.times[k]) {
		return
	}
	n := found{as: k, frame: f.Frame, time: f.Time, where: f.Where, times: l.times[k], plain: f.Check().Title}
	if f.Detail != "" {
		n.plain += ": " + f.Detail
	}
	if p != nil && p.IsTransport() {
		n.where = fmt.Sprintf("%v → %v QP 0x%06x PSN %d", p.Src, p.Dst, p.DestQP, uint32(p.PSN))
	}
	l.mu.Lock()
	l.waiting = append(l.waiting, n)
	l.mu.Unlock()
}

// speak prints findings while the capture goes on.
func (l *lookout) speak() {
	defer close(l.hushed)
	tick := time.NewTicker(sayEvery)
	defer tick.Stop()
	var asked []found
	var before *flows.Snapshot
	for {
		select {
		case <-l.hush:
			l.say(asked, l.pipeline.Snapshot())
			return
		case <-tick.C:
		}
		if s := l.pipeline.Snapshot(); len(asked) > 0 && s != before {
			l.say(asked, s)
			asked = nil
		}
		if len(asked) > 0 {
			continue // the snapshot is on its way
		}
		l.mu.Lock()
		asked, l.waiting = l.waiting, nil
		l.mu.Unlock()
		if len(asked) > 0 {
			before = l.pipeline.Snapshot()
			l.pipeline.RequestSnapshot()
		}
	}
}

// say prints findings with the sentences that a snapshot has of them.
func (l *lookout) say(list []found, s *flows.Snapshot) {
	for i := range list {
		n := &list[i]
		text := n.plain
		if s != nil {
			for j := range s.Findings {
				if f := &s.Findings[j]; n.as == (foundAs{f.ID, f.Conn, f.Direction}) {
					text = f.Summary
					break
				}
			}
		}
		check := (&flows.Finding{ID: n.as.id}).Check()
		line := fmt.Sprintf("%s  %s  %s: %s  [packet %d", time.Unix(0, n.time).Format("15:04:05.000000"), l.severity(check.Severity), check.ID, text, n.frame)
		if n.where != "" {
			line += ", " + n.where
		}
		if n.times > 1 {
			line += fmt.Sprintf(", %s times so far", report.Count(n.times))
		}
		fmt.Fprintln(l.out, line+"]") // that it cannot be written ends the program, or is said at the end
	}
	if len(list) > 0 {
		_ = l.a.stdout.Flush()
	}
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
	if l.rows != nil {
		l.rows.end()
	}
	l.queue.End(nil)
	err := <-l.done
	if l.rows != nil {
		err = errors.Join(err, l.rows.close(l.pipeline.Snapshot()))
	}
	if l.events != nil {
		err = errors.Join(err, l.events.close(l.pipeline.Snapshot()))
	}
	if l.findings {
		close(l.hush)
		<-l.hushed
		for i := range l.pending { // what only the end of the capture told
			l.note(&l.pending[i], nil)
		}
		l.pending = nil
		l.say(l.waiting, l.pipeline.Snapshot())
	}
	if s := l.pipeline.Snapshot(); s != nil {
		fmt.Fprintln(l.a.stderr, summaryLine(s))
	}
	return err
}
