package engine

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
)

// Options say what a Pipeline does. The zero value decodes on one goroutine,
// and nothing else.
type Options struct {
	// Workers is how many goroutines stage 1 has. 1 does everything on the
	// caller's goroutine, which costs the least processor time. 0 chooses: 1,
	// or for inputs from 256 MiB on as many as there are processors, 4 at most.
	Workers int
	// CheckICRC verifies every packet's ICRC.
	CheckICRC bool
	// Track runs every packet through a flows.Tracker, which Tracker sets up.
	Track   bool
	Tracker flows.Options
	// Filter fills in Batch.Matched; nil matches all. The tracker sees every
	// packet all the same. A filter that looks at marks needs Track, one that
	// looks at the end's outcome needs Outcomes too: see its Needs.
	Filter *filter.Filter
	// MaxFrames ends the run after so many frames; 0 is no limit.
	MaxFrames uint64
	// Sinks get every batch, one sink after the other.
	Sinks []Sink
	// MayBlock says that the source can wait for data without end (a pipe, an
	// interface): reading then runs on a goroutine of its own, so that the end
	// of the context ends Run even so.
	MayBlock bool
	// Outcomes asks for two passes, so that Batch.Outcome knows in the second
	// what the whole capture says. Reopen gives the same source once more.
	Outcomes bool
	Reopen   func() (captures.Source, error)
}

// Result is what Run did, also when it ended early.
type Result struct {
	Frames    uint64 // frames read
	Bytes     uint64 // their length on the wire
	Captured  uint64 // bytes of them that were captured
	Matched   uint64 // frames that the filter selects
	Truncated uint64 // frames of which the capture kept a part only
	Malformed uint64 // frames with a problem of their own
	HasTime   bool   // at least one frame has a time
	First     int64  // earliest time, nanoseconds since the Unix epoch
	Last      int64  // latest time

	Links      []dissect.LinkType   // in order of first sight
	Interfaces []captures.Interface // as the source described them
	Snapshot   *flows.Snapshot      // at the end; nil without Track
}

// SourceError is an error of the source, as against one of a sink. All frames
// in front of it went through the pipeline.
type SourceError struct{ Err error }

func (e *SourceError) Error() string { return e.Err.Error() }
func (e *SourceError) Unwrap() error { return e.Err }

// parallelFrom is the input size from which stage 1 is worth goroutines.
const parallelFrom = 256 << 20

// maxSourceErrors bounds how many resumable errors of a source a run survives.
const maxSourceErrors = 100

// Pipeline is one run from a source to its sinks.
type Pipeline struct {
	o        Options
	asked    chan struct{} // a snapshot is wanted
	snapshot atomic.Pointer[flows.Snapshot]
	progress atomic.Pointer[progress]
}

// progress is where a pass is in its source.
type progress struct {
	of           captures.Progresser
	pass, passes int64
}

// New makes a Pipeline for one call of Run.
func New(o Options) *Pipeline {
	return &Pipeline{o: o, asked: make(chan struct{}, 1)}
}

// RequestSnapshot asks for a snapshot at the next batch boundary, or at once
// while the source waits. It never blocks and may be called from any goroutine.
func (p *Pipeline) RequestSnapshot() {
	select {
	case p.asked <- struct{}{}:
	default: // one is due already
	}
}

// Snapshot returns the last one that was made on request, or by the end of the
// run; nil before. It may be called from any goroutine.
func (p *Pipeline) Snapshot() *flows.Snapshot { return p.snapshot.Load() }

// Progress returns how many bytes of the input are done and how many there are
// over all passes; total is 0 where that is not known. It may be called from
// any goroutine.
func (p *Pipeline) Progress() (done, total int64) {
	at := p.progress.Load()
	if at == nil {
		return 0, 0
	}
	done, total = at.of.Progress()
	return done + (at.pass-1)*total, total * at.passes
}

// Run takes src over, puts all of it through the pipeline and closes it. It
// returns early when the context ends (the error is its cause), a sink fails
// (the sink's error) or the source does (a *SourceError). Resumable errors of
// the source do not end the run; they are joined to what it returns. In each
// case Result and Snapshot hold what was done by then.
func (p *Pipeline) Run(ctx context.Context, src captures.Source) (Result, error) {
	if !p.o.Outcomes {
		return p.pass(ctx, src, p.o, nil, 1, 1)
	}
	if p.o.Reopen == nil {
		src.Close()
		return Result{}, errors.New("engine: a second pass needs a source that can be opened again")
	}
	end := newEnding()
	first := p.o
	first.Sinks, first.Filter, first.Track = nil, nil, true
	first.Tracker.Sink = end.sink()
	got, err := p.pass(ctx, src, first, nil, 1, 2)
	if ctx.Err() != nil {
		return got, err
	}
	end.close(got.Snapshot)
	if src, err = p.o.Reopen(); err != nil {
		return got, &SourceError{err}
	}
	second := p.o
	second.Track = true
	return p.pass(ctx, src, second, end, 2, 2)
}

func (p *Pipeline) pass(ctx context.Context, src captures.Source, o Options, end *ending, pass, passes int64) (Result, error) {
	if of, ok := src.(captures.Progresser); ok {
		p.progress.Store(&progress{of, pass, passes})
	}
	r := newRun(p, o, end, workersFor(o, src))
	r.start(src)
	err := r.loop(ctx)
	r.stop()
	if r.tracker != nil {
		r.tracker.Finish()
		r.Snapshot = r.tracker.Snapshot()
		p.snapshot.Store(r.Snapshot)
	}
	return r.Result, errors.Join(append(r.damage, err)...)
}

func workersFor(o Options, src captures.Source) int {
	if o.Workers > 0 {
		return o.Workers
	}
	if of, ok := src.(captures.Progresser); ok && !o.MayBlock {
		if _, total := of.Progress(); total >= parallelFrom {
			return min(runtime.GOMAXPROCS(0), 4)
		}
	}
	return 1
}

// run is one pass.
type run struct {
	Result
	p       *Pipeline
	o       Options
	tracker *flows.Tracker
	end     *ending

	src    captures.Source
	reader *reader // where the source may block
	frames []captures.Frame
	damage []error // of the source, survived

	parts   []*part
	self    worker        // this goroutine's
	tasks   chan *part    // for the other workers
	helpers chan struct{} // a helper is gone

	base, prev int64 // time of the first frame, and of the last one read
	batch      Batch // what the sinks get
	sinkErr    error
	stage2     func() error
	lateFilter bool
	scratch    flows.Outcome
}

func newRun(p *Pipeline, o Options, end *ending, workers int) *run {
	r := &run{p: p, o: o, end: end}
	n := 1
	if workers > 1 {
		n = 4 * workers
		r.tasks = make(chan *part, n)
		r.helpers = make(chan struct{}, workers-1)
	}
	for range n {
		r.parts = append(r.parts, newPart())
	}
	r.frames = make([]captures.Frame, n*BatchSize)
	if o.Track {
		r.tracker = flows.New(o.Tracker)
	}
	r.lateFilter = o.Filter != nil && o.Filter.Needs() >= filter.NeedFlow
	r.stage2 = r.trackAndDeliver
	r.self.init(r)
	return r
}

// start takes src over and lets the helpers in.
func (r *run) start(src captures.Source) {
	r.src = src
	if r.o.MayBlock {
		r.reader = newReader(src)
	}
	for range cap(r.helpers) {
		go func() {
			var w worker
			w.init(r)
			for pt := range r.tasks {
				w.do(pt)
				pt.done <- struct{}{}
			}
			r.helpers <- struct{}{}
		}()
	}
}

// stop ends what start began, and closes the source.
func (r *run) stop() {
	if r.tasks != nil {
		close(r.tasks)
		for range cap(r.helpers) {
			<-r.helpers
		}
	}
	if r.reader != nil {
		r.Interfaces = r.reader.stop()
		return
	}
	r.Interfaces = append(r.Interfaces, r.src.Interfaces()...)
	r.src.Close()
}

// loop reads, until something ends it.
func (r *run) loop(ctx context.Context) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		frames := r.frames
		if r.o.MaxFrames > 0 {
			left := r.o.MaxFrames - r.Frames
			if left == 0 {
				return nil
			}
			frames = frames[:min(uint64(len(frames)), left)]
		}
		n, err := r.read(ctx, frames)
		if err == nil {
			if err = r.frameBatch(ctx, frames[:n]); err != nil {
				return err
			}
			continue
		}
		var damage *captures.FileError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &damage) && damage.Resumable && len(r.damage) < maxSourceErrors:
			r.damage = append(r.damage, &SourceError{err})
		case ctx.Err() != nil:
			return context.Cause(ctx)
		default:
			return &SourceError{err}
		}
	}
}

// read is ReadBatch for sources that do not block; for others it also serves
// requests for snapshots while it waits, and ends with the context.
func (r *run) read(ctx context.Context, dst []captures.Frame) (int, error) {
	if r.reader == nil {
		return r.src.ReadBatch(dst)
	}
	r.reader.ask(dst)
	for {
		select {
		case got := <-r.reader.got:
			r.reader.answered()
			return got.n, got.err
		case <-r.p.asked:
			r.publish()
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
}

func (r *run) publish() {
	if r.tracker != nil {
		r.p.snapshot.Store(r.tracker.Snapshot())
	}
}

// frameBatch puts what one read gave through both stages.
func (r *run) frameBatch(ctx context.Context, frames []captures.Frame) error {
	n := r.split(frames)
	parts := r.parts[:n]
	shared := r.tasks != nil && n > 1
	if shared {
		for _, pt := range parts {
			r.tasks <- pt // there is room for all
		}
	}
	for i, pt := range parts {
		if shared {
			r.help(pt)
		} else {
			r.self.do(pt)
		}
		if err := r.deliver(ctx, pt); err != nil {
			if shared { // the frames are borrowed: nobody may look at them any more
				for _, rest := range parts[i+1:] {
					r.help(rest)
				}
			}
			return err
		}
	}
	return nil
}

// help works on whatever part is next in line until pt is done.
func (r *run) help(pt *part) {
	for {
		select {
		case <-pt.done:
			return
		case other := <-r.tasks:
			r.self.do(other)
			other.done <- struct{}{}
		}
	}
}

// split cuts frames into parts and settles what depends on the order: numbers
// and times. A frame without a time takes that of the frame before; in front of
// the first that has one, that one's.
func (r *run) split(frames []captures.Frame) (parts int) {
	if r.Frames == 0 {
		for i := range frames {
			if frames[i].HasTime {
				r.prev, r.base = frames[i].Time, frames[i].Time
				break
			}
		}
	}
	for len(frames) > 0 {
		pt := r.parts[parts]
		parts++
		n := min(BatchSize, len(frames))
		pt.frames, frames = frames[:n], frames[n:]
		pt.first, pt.prev = r.Frames+1, r.prev
		for i := range pt.frames {
			f := &pt.frames[i]
			switch {
			case !f.HasTime:
				f.Time = r.prev
			case !r.HasTime:
				r.HasTime, r.base = true, f.Time
				r.First, r.Last = f.Time, f.Time
			default:
				r.First, r.Last = min(r.First, f.Time), max(r.Last, f.Time)
			}
			r.prev = f.Time
		}
		r.Frames += uint64(n)
	}
	return parts
}

// deliver runs stage 2 and the sinks on a part.
func (r *run) deliver(ctx context.Context, pt *part) error {
	r.Bytes += pt.bytes
	r.Captured += pt.captured
	r.Truncated += pt.truncated
	r.Malformed += pt.malformed
	r.Frames -= uint64(len(pt.frames) - pt.n)
	for _, l := range pt.links[:pt.numLinks] {
		r.sawLink(l)
	}
	b := &r.batch
	b.Packets, b.Data, b.Marks, b.Matched = pt.packets[:pt.n], pt.data[:pt.n], pt.marks[:pt.n], pt.matched[:pt.n]
	b.end = r.end
	if fault := captures.Guard(r.stage2); fault != nil {
		if r.sinkErr != nil {
			return r.sinkErr
		}
		return &SourceError{fault}
	}
	select {
	case <-r.p.asked:
		r.publish()
	default:
	}
	if pt.err != nil {
		return &SourceError{pt.err}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return nil
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
	for _, s := range r.o.Sinks {
		if r.sinkErr = s.Batch(b); r.sinkErr != nil {
			return r.sinkErr
		}
	}
	return nil
}

func (r *run) sawLink(l dissect.LinkType) {
	for _, seen := range r.Links {
		if seen == l {
			return
		}
	}
	r.Links = append(r.Links, l)
}
