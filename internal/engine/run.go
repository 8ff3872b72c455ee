package engine

import (
	"context"
	"errors"
	"io"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
)

// run is one pass.
type run struct {
	Result
	p       *Pipeline
	o       Options
	in      intake
	tracker *flows.Tracker
	end     *ending
	damage  []error // of the source, survived

	batch      Batch // what the sinks get
	sinkErr    error
	stage2     func() error
	lateFilter bool
	scratch    flows.Outcome
}

// newRun takes src over.
func newRun(p *Pipeline, o Options, end *ending, src captures.Source) *run {
	r := &run{p: p, o: o, end: end, in: intake{p: p, src: src, most: o.MaxFrames}}
	if o.MayBlock {
		r.in.reader, r.in.prompt = newReader(src), func() bool { return false }
		if s, ok := src.(captures.Prompter); ok {
			r.in.prompt = s.Prompt
		}
	}
	if o.Track {
		if o.Privacy != nil {
			o.Tracker.Sink = o.Privacy.Sink(o.Tracker.Sink)
		}
		r.tracker = flows.New(o.Tracker)
	}
	r.in.idle = r.publish
	r.lateFilter = o.Filter != nil && o.Filter.Needs() >= filter.NeedFlow
	r.stage2 = r.trackAndDeliver
	return r
}

// stop closes the source.
func (r *run) stop() { r.Interfaces = append(r.Interfaces, r.in.stop()...) }

// alone does everything on this goroutine, until something ends it.
func (r *run) alone(ctx context.Context) error {
	pt := newPart()
	var w worker
	w.init(r)
	for ctx.Err() == nil {
		r.in.read(ctx, pt)
		w.do(pt)
		if over, err := r.deliver(ctx, pt); over {
			return err
		}
	}
	return context.Cause(ctx)
}

func (r *run) publish() {
	if r.tracker != nil {
		r.p.snapshot.Store(r.masked(r.tracker.Snapshot()))
	}
}

// masked is a snapshot as it may leave.
func (r *run) masked(s *flows.Snapshot) *flows.Snapshot {
	if r.o.Privacy != nil {
		s = r.o.Privacy.Snapshot(s)
	}
	return s
}

// conclude is what the pass returns, of which err ended it.
func (r *run) conclude(err error) (Result, error) {
	if r.Snapshot != nil {
		r.Snapshot = r.masked(r.Snapshot)
		r.p.snapshot.Store(r.Snapshot)
	}
	return r.Result, errors.Join(append(r.damage, err)...)
}

// deliver runs stage 2 and the sinks on a part, and says whether that was the last one.
func (r *run) deliver(ctx context.Context, pt *part) (over bool, err error) {
	if pt.readErr != nil {
		return r.unread(ctx, pt.readErr)
	}
	r.account(pt)
	b := &r.batch
	b.Packets, b.Data, b.Marks, b.Matched = pt.packets[:pt.n], pt.data[:pt.n], pt.marks[:pt.n], pt.matched[:pt.n]
	b.Frames, b.end = pt.frames[:pt.n], r.end
	if fault := captures.Guard(r.stage2); fault != nil {
		if r.sinkErr != nil {
			return true, r.sinkErr
		}
		return true, &SourceError{fault}
	}
	select {
	case <-r.p.asked:
		r.publish()
	default:
	}
	if pt.err != nil {
		return true, &SourceError{pt.err}
	}
	if ctx.Err() != nil {
		return true, context.Cause(ctx)
	}
	return false, nil
}

// unread deals with what the source said in place of frames.
func (r *run) unread(ctx context.Context, err error) (over bool, _ error) {
	switch {
	case errors.Is(err, io.EOF):
		return true, nil
	case survived(err, len(r.damage)):
		r.damage = append(r.damage, &SourceError{err})
		return false, nil
	case ctx.Err() != nil:
		return true, context.Cause(ctx)
	}
	return true, &SourceError{err}
}

// account adds a part to the result.
func (r *Result) account(pt *part) {
	r.Frames += uint64(pt.n)
	r.Bytes += pt.bytes
	r.Captured += pt.captured
	r.Truncated += pt.truncated
	r.Malformed += pt.malformed
	if pt.hasTime {
		r.sawTimes(pt.earliest, pt.latest)
	}
	for _, l := range pt.links[:pt.numLinks] {
		r.sawLink(l)
	}
}

// add adds another result's counts and times.
func (r *Result) add(x *Result) {
	r.Frames += x.Frames
	r.Bytes += x.Bytes
	r.Captured += x.Captured
	r.Truncated += x.Truncated
	r.Malformed += x.Malformed
	if x.HasTime {
		r.sawTimes(x.First, x.Last)
	}
}

func (r *Result) sawTimes(earliest, latest int64) {
	if !r.HasTime {
		r.HasTime, r.First, r.Last = true, earliest, latest
	}
	r.First, r.Last = min(r.First, earliest), max(r.Last, latest)
}

func (r *run) trackAndDeliver() error {
	b := &r.batch
	if r.tracker != nil {
		r.tracker.Track(&b.Batch)
	}
	if r.lateFilter {
		for i := range b.Packets {
			b.Matched[i] = r.o.Filter.MatchEnd(&b.Packets[i], b.Data[i], &b.Marks[i], b.Outcome(i, &r.scratch))
		}
	}
	for _, m := range b.Matched {
		if m {
			r.Matched++
		}
	}
	if r.o.Privacy != nil {
		r.mask()
	}
	for _, s := range r.o.Sinks {
		if r.sinkErr = s.Batch(b); r.sinkErr != nil {
			return r.sinkErr
		}
	}
	return nil
}

// mask puts masked frames in the place of the batch's.
func (r *run) mask() {
	b := &r.batch
	r.o.Privacy.Reset()
	for i := range b.Packets {
		b.Data[i] = r.o.Privacy.Frame(&b.Packets[i], b.Data[i])
		b.Frames[i].Data = b.Data[i]
	}
}

func (r *Result) sawLink(l dissect.LinkType) {
	for _, seen := range r.Links {
		if seen == l {
			return
		}
	}
	r.Links = append(r.Links, l)
}
