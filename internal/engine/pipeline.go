package engine

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/privacy"
)

// Options say what a Pipeline does. The zero value decodes on one goroutine,
// and nothing else.
type Options struct {
	// Workers is how many goroutines share the work. 1, as well as 0, does
	// everything on the caller's goroutine, which costs the least processor time;
	// so do all numbers where the source may block or cannot lend
	// (captures.Lender). With more, sinks are called from any of them, one at a
	// time. Three or more without sinks and CheckICRC, and with Reopen, share
	// the capture by pairs of addresses where its beginning shows enough of them.
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
	// what the whole capture says. Reopen gives the same source once more; it may
	// be called for a look at its beginning, and where a pass has to be done again.
	Outcomes bool
	Reopen   func() (captures.Source, error)
	// Privacy masks who talked in all that leaves the pipeline: the packets and frames that sinks get, what the tracker
	// tells its sink, snapshots. The tracker itself and the filter see the originals. nil masks nothing.
	Privacy *privacy.Mask
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
	p.watch(src, pass, passes)
	n := workersFor(o, src)
	if sharable(o, n) {
		if d := p.survey(n); d != nil {
			s := newShards(p, o, d, src)
			crossed, err := s.run(ctx)
			if crossed == "" {
				return s.r.conclude(err)
			}
			if src, err = o.Reopen(); err != nil {
				return Result{}, &SourceError{err}
			}
			p.watch(src, pass, passes)
		}
	}
	r := newRun(p, o, end, src)
	var err error
	if n > 1 {
		err = newRelay(r, n).run(ctx, n)
	} else {
		err = r.alone(ctx)
	}
	r.stop()
	if r.tracker != nil {
		r.tracker.Finish()
		r.Snapshot = r.tracker.Snapshot()
	}
	return r.conclude(err)
}

// watch lets Progress look at a pass.
func (p *Pipeline) watch(src captures.Source, pass, passes int64) {
	if of, ok := src.(captures.Progresser); ok {
		p.progress.Store(&progress{of, pass, passes})
	}
}

func workersFor(o Options, src captures.Source) int {
	if _, ok := src.(captures.Lender); !ok || o.MayBlock {
		return 1
	}
	return max(1, o.Workers)
}
