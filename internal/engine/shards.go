package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

const (
	// window is how many reads the fastest worker may be ahead of the slowest.
	window = 64
	// ahead is how many reads a worker wants to find, else it reads itself: so many that others seldom wait for it.
	ahead = 16
)

// shards shares a pass by pairs of addresses. Whoever has little left to go through reads, and notes whose each frame is. Each worker
// decodes and tracks what is between its pairs, so that neither packets nor trackers go from core to core, but only frames that
// nobody has changed since. At the end the trackers are put together. It may turn out that the capture cannot be shared (see
// flows.Together): then all is as if this pass had not been.
type shards struct {
	r       *run // reads, and counts what all workers see
	d       *dealing
	workers []*shard

	steps atomic.Uint64 // reads that ended, by which who waits for one sees it

	lock    sync.Mutex // guards all below; r is whose reading is
	moved   sync.Cond  // something below has changed; its lock is lock
	slots   [window]slot
	read    int    // reads so far
	reading bool   // somebody is at the next one
	ended   bool   // there will be no more
	err     error  // why
	begun   []int  // reads that each worker has gone through or is at
	crossed string // why the capture cannot be shared
	fault   any    // a worker's panic

	newest   int64        // time in the capture; whoever reads has it
	classify func() error // notes whose the frames of the slot being read are; made once, for it allocates
}

// slot is a read.
type slot struct {
	part           // its frames
	owner  []uint8 // whose each is
	newest []int64 // the newest time in the capture up to each
}

// everybody is in the place of an owner.
const everybody = 255

// shard is a worker and its tracker.
type shard struct {
	of      *shards
	index   int
	tracker *flows.Tracker
	decoder dissect.Decoder
	slot    *slot // what it goes through
	pt      *part // what of that it decodes
	batch   flows.Batch
	counted Result
}

// leastShards is how many workers make sharing worth while. Two are faster by turns, for what one reads stays in its cache. With more,
// all would wait for the one tracker, of which each packet takes as long as of reading and decoding together, or longer.
const leastShards = 3

// sharable says whether so many workers share a pass: if all that is wanted is what trackers know at the end, and nothing of what lies in
// packets, for who has read a frame has its bytes in the cache, and checks the ICRC sooner than others bring them over.
func sharable(o Options, workers int) bool {
	s := &o.Tracker.Sink
	return workers >= leastShards && workers <= mostWorkers && o.Track && !o.CheckICRC && o.Reopen != nil && o.Filter == nil && len(o.Sinks) == 0 && !o.Tracker.Shadow &&
		s.Message == nil && s.IWARP == nil && s.Finding == nil && s.Connection == nil && s.Joined == nil && s.Turned == nil && s.Step == nil
}

// newShards takes src over.
func newShards(p *Pipeline, o Options, d *dealing, src captures.Source) *shards {
	src.(captures.Lender).Lend(window)
	reader := o
	reader.Track = false
	s := &shards{r: newRun(p, reader, nil, src), d: d, begun: make([]int, d.workers)}
	s.moved.L = &s.lock
	for i := range s.slots {
		s.slots[i] = slot{part: part{room: make([]captures.Frame, BatchSize)}, owner: make([]uint8, BatchSize), newest: make([]int64, BatchSize)}
	}
	s.classify = s.owners
	for i := range d.workers {
		o.Tracker.Share = &flows.Share{Index: i, Of: d.workers, Owner: d.owner}
		w := &shard{of: s, index: i, tracker: flows.New(o.Tracker), pt: newPart()}
		w.decoder.CheckICRC = o.CheckICRC
		w.batch = flows.Batch{Newest: make([]int64, BatchSize), Common: make([]bool, BatchSize)}
		s.workers = append(s.workers, w)
	}
	return s
}

// run is the caller's goroutine, one of the workers. crossed says why the capture cannot be shared.
func (s *shards) run(ctx context.Context) (crossed string, err error) {
	var others sync.WaitGroup
	for _, w := range s.workers[1:] {
		others.Go(func() { w.work(ctx) })
	}
	s.workers[0].work(ctx)
	others.Wait()
	s.r.stop() // the frames go with the source
	if s.fault != nil {
		panic(s.fault)
	}
	if s.crossed != "" {
		return s.crossed, nil
	}
	trackers := make([]*flows.Tracker, len(s.workers))
	for i, w := range s.workers {
		trackers[i] = w.tracker
		s.r.add(&w.counted)
	}
	s.r.Matched = s.r.Frames // there is no filter
	s.r.Snapshot, crossed = flows.Together(trackers)
	return crossed, s.err
}

// work is a worker, until nothing is left.
func (w *shard) work(ctx context.Context) {
	s := w.of
	defer func() {
		if v := recover(); v != nil { // whoever called Run shall have it
			s.giveUp("", fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	follow := w.follow
	for w.slot = s.next(ctx, w.index); w.slot != nil; w.slot = s.next(ctx, w.index) {
		if err := captures.Guard(follow); err != nil {
			s.giveUp(err.Error(), nil) // another pass says what was whole
		} else if why := w.tracker.Crossed(); why != "" {
			s.giveUp(why, nil)
		}
	}
	if s.good() {
		w.tracker.Reach(s.newest)
		w.tracker.Finish()
	}
}

// good says whether reading has come to its end, and trackers are to finish.
func (s *shards) good() bool {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.crossed == "" && s.fault == nil
}

// next returns the read behind the one that a worker has gone through; nil when there is none.
func (s *shards) next(ctx context.Context, me int) *slot {
	s.lock.Lock()
	defer s.lock.Unlock()
	spun := false
	for s.crossed == "" && s.fault == nil {
		switch n := s.begun[me]; {
		case !s.ended && !s.reading && s.read < n+ahead && s.read < slices.Min(s.begun)+window-1: // whose last one is in use
			s.fill(ctx)
		case n < s.read:
			s.begun[me]++
			s.moved.Broadcast() // there may be room to read now
			return &s.slots[n%window]
		case s.ended:
			return nil
		case !spun:
			spun = true
			before := s.steps.Load()
			s.lock.Unlock()
			spin(func() bool { return s.steps.Load() != before })
			s.lock.Lock()
		default:
			s.moved.Wait()
		}
	}
	return nil
}

// fill reads. The lock is held before and behind it.
func (s *shards) fill(ctx context.Context) {
	s.reading = true
	s.lock.Unlock()
	over, err := ctx.Err() != nil, context.Cause(ctx)
	var fault error
	if !over {
		slot := &s.slots[s.read%window]
		s.r.in.read(ctx, &slot.part)
		if slot.readErr != nil {
			over, err = s.r.unread(ctx, slot.readErr)
		}
		fault = captures.Guard(s.classify)
	}
	s.lock.Lock()
	s.reading = false
	if s.ended, s.err = over, err; !over {
		s.read++
	}
	if fault != nil {
		s.crossed = fault.Error() // another pass says what was whole
	}
	s.steps.Add(1)
	s.moved.Broadcast()
}

// owners notes whose the frames are that have just been read.
func (s *shards) owners() error {
	slot := &s.slots[s.read%window]
	for i := range slot.frames {
		f := &slot.frames[i]
		s.newest = max(s.newest, f.Time)
		slot.owner[i], slot.newest[i] = everybody, s.newest
		if src, dst, plain := dissect.Between(f.Link, f.Data); plain {
			slot.owner[i] = uint8(s.d.owner(src, dst))
		}
		s.r.sawLink(f.Link)
	}
	return nil
}

// giveUp sends all away: the capture cannot be shared, or a worker panicked.
func (s *shards) giveUp(crossed string, fault any) {
	s.lock.Lock()
	if s.crossed == "" && s.fault == nil {
		s.crossed, s.fault = crossed, fault
	}
	s.lock.Unlock()
	s.moved.Broadcast()
}

// follow decodes and tracks what of a read is the worker's, and what is everybody's, which the first worker counts.
func (w *shard) follow() error {
	slot, pt, b, n := w.slot, w.pt, &w.batch, 0
	pt.reset()
	for i, owner := range slot.owner[:len(slot.frames)] {
		if owner != uint8(w.index) && owner != everybody {
			continue
		}
		f, p, prev := &slot.frames[i], &pt.packets[n], slot.prev
		if i > 0 {
			prev = slot.frames[i-1].Time
		}
		p.Number, p.Time, p.Base, p.Prev, p.Iface = slot.first+uint64(i), f.Time, slot.base, prev, uint16(f.Iface)
		p.NoTime, p.Direction = !f.HasTime, uint8(f.Direction)
		w.decoder.Decode(f.Link, f.Data, f.WireLen, p)
		pt.data[n], b.Newest[n], b.Common[n] = f.Data, slot.newest[i], owner == everybody
		if owner != everybody || w.index == 0 {
			pt.count(p)
			pt.n++
		}
		if n++; n == BatchSize {
			w.track(n)
			n = 0
		}
	}
	w.track(n)
	return nil
}

// track tracks n packets of the worker's part.
func (w *shard) track(n int) {
	pt, b := w.pt, &w.batch
	b.Packets, b.Data, b.Marks = pt.packets[:n], pt.data[:n], pt.marks[:n]
	w.tracker.Track(b)
	w.counted.account(pt)
	pt.reset()
}
