package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// analysis is one run of analyze: what was asked for, and who listens while packets pass. What was not asked for is nil.
type analysis struct {
	a   *app
	in  *input
	o   *analyzeOptions
	qps []uint32

	join    *counterJoin
	chosen  *selection
	page    *pageMaker
	list    *messageSink
	log     *eventLog
	options engine.Options
}

// runAnalyze reads in to its end, or as far as that goes, and says what is in it.
func runAnalyze(ctx context.Context, a *app, in *input, o *analyzeOptions) error {
	r := &analysis{a: a, in: in, o: o}
	if err := r.check(); err != nil {
		return err
	}
	defer r.close()
	if err := r.prepare(ctx); err != nil {
		return err
	}
	in.onlyRead(o.html, o.events)
	src, err := in.open(ctx)
	if err != nil {
		return err
	}
	p := engine.New(r.options)
	stop := func() {}
	if !o.messages || !a.stdout.isTerminal {
		stop = a.startProgress(p.Progress)
	}
	got, err := p.Run(in.context(ctx), src)
	stop()
	return r.report(ctx, &got, err)
}

// check refuses what cannot be had together.
func (r *analysis) check() (err error) {
	if r.qps, err = parseQPs(r.o.qps); err != nil {
		return err
	}
	if r.join, err = newCounterJoin(&r.o.counters); err != nil {
		return err
	}
	if r.o.messages && (r.join != nil || len(r.qps) > 0) {
		return errUsage("--messages lists work requests, --qp and --counters are about queue pairs: choose one; -Y selects messages")
	}
	switch {
	case r.o.privacy.mask() == nil:
	case r.join != nil:
		return errUsage("--counters are those of a host that is named, which --privacy hides: choose one")
	case r.o.html != "" && !r.in.twice():
		return errUsage("--html with --privacy reads the capture twice: save it to a file first")
	}
	return nil
}

// prepare makes the engine's options and those who listen, and the files that they write.
func (r *analysis) prepare(ctx context.Context) (err error) {
	o, in := r.o, r.in
	r.options = engine.Options{Privacy: o.privacy.mask(), Workers: o.workers, CheckICRC: !o.noICRC, Track: true, MaxFrames: o.count, MayBlock: in.stream}
	r.options.Reopen = func() (captures.Source, error) { return in.open(ctx) }
	t := &r.options.Tracker
	if t.DecodeAs, err = o.decodeAs.parse(); err != nil {
		return err
	}
	if t.Exchanges, err = o.exchange.read(); err != nil {
		return err
	}
	t.Series, t.Shadow, t.LinkSpeed, t.ExpectCNPDSCP = o.series, o.shadow, uint64(o.speed), o.cnpDSCP
	if o.filter != "" {
		filter, needed, err := compileFilter(o.filter)
		if err != nil {
			return err
		}
		if needed.end && !in.twice() {
			return errUsage("the filter asks what is known only at the end of the capture, so that it has to be read twice: save it to a file first")
		}
		r.options.Filter, r.options.Outcomes = filter, needed.end
		r.chosen = newSelection()
		r.options.Sinks = append(r.options.Sinks, r.chosen)
		t.Sink.Finding = r.chosen.finding
	}
	if o.html != "" {
		if r.page, err = newPageMaker(in, o.html); err != nil {
			return err
		}
		t.Series = true
		if r.page.spool != nil {
			r.options.Sinks = append(r.options.Sinks, r.page.spool)
		}
	}
	if o.messages {
		r.list = newMessageSink(r.a, in, o, r.chosen)
		r.options.Sinks = append(r.options.Sinks, r.list)
		t.Sink.Message, t.Sink.IWARP = r.list.message, r.list.message
	}
	if r.join != nil {
		r.options.Sinks = append(r.options.Sinks, r.join)
	}
	if o.events != "" {
		if r.log, err = createEventLog(o.events, in.paths, in.stream); err != nil {
			return err
		}
		r.log.attach(&r.options)
	}
	return nil
}

// report shows what was found; failed is why reading ended before its time.
func (r *analysis) report(ctx context.Context, got *engine.Result, failed error) error {
	if r.log != nil {
		failed = errors.Join(failed, r.log.close(got.Snapshot))
	}
	snapshot := got.Snapshot
	if r.chosen != nil {
		snapshot = r.chosen.of(snapshot)
	}
	about := captureOf(r.in, r.o, got, failed)
	about.Filter = maskedFilter(r.options.Privacy, r.o.filter)
	d := report.NewDocument(snapshot, about)
	var unmet []error // what was asked for and cannot be had
	if r.join != nil {
		unmet = append(unmet, r.join.join(d, got))
	}
	if len(r.qps) > 0 && !d.Only(r.qps) {
		unmet = append(unmet, errUsage("no queue pair %s is in the capture", strings.Join(r.o.qps, " or ")))
	}
	if err := r.a.writeAnalysis(d, r.list, r.o); err != nil {
		return errors.Join(runError(failed), err)
	}
	if r.page != nil {
		unmet = append(unmet, r.page.write(context.WithoutCancel(ctx), r.a, r.options, got, d)) // what was read is reported, interrupted or not
	}
	return errors.Join(runError(failed), errors.Join(unmet...), r.o.failOn.judge(d))
}

func (r *analysis) close() {
	if r.page != nil {
		r.page.close()
	}
}

func (a *app) writeAnalysis(d *report.Document, list *messageSink, o *analyzeOptions) error {
	switch {
	case list != nil:
		return list.close(d)
	case o.json:
		return d.Encode(a.stdout)
	}
	t := a.textOptions(o.top)
	t.Verbose = o.verbose || len(o.qps) > 0
	return d.WriteText(a.stdout, t)
}

// parseQPs reads queue pair numbers, as people write them.
func parseQPs(list []string) ([]uint32, error) {
	var qps []uint32
	for _, text := range list {
		n, err := strconv.ParseUint(text, 0, 24)
		if err != nil {
			return nil, errUsage("--qp %s: a number of 24 bits is wanted, such as 20 or 0x14", text)
		}
		qps = append(qps, uint32(n))
	}
	return qps, nil
}

// captureOf is what the document says of the input.
func captureOf(in *input, o *analyzeOptions, got *engine.Result, err error) report.Capture {
	c := report.Capture{
		Files: in.paths, Packets: got.Frames, Bytes: got.Bytes, CapturedBytes: got.Captured,
		Truncated: got.Truncated, Malformed: got.Malformed, Matched: got.Matched,
		Interrupted: errors.Is(err, errInterrupted),
		Limited:     err == nil && o.count > 0 && got.Frames == o.count,
		ICRCOff:     o.noICRC, Filter: o.filter, Series: o.series,
	}
	if got.HasTime {
		c.First, c.Last = got.First, got.Last
	}
	for _, l := range got.Links {
		c.LinkTypes = append(c.LinkTypes, fmt.Sprint(l))
	}
	for _, i := range got.Interfaces {
		// The kernel's drops are among the interface's or beside them, depending on who counted: the larger one is sure.
		c.Dropped += uint64(max(i.Stats.Dropped, i.Stats.OSDropped, i.Stats.PacketDropped, 0))
	}
	c.Errors = sourceErrors(err)
	return c
}
