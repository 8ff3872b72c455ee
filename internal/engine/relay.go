package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/rocescope/rocescope/captures"
)

// partsPerWorker is how many parts a worker may hold: one that waits for its turn to be delivered, and one to work on meanwhile.
const partsPerWorker = 2

// relay shares a pass among workers. A part stays with the worker who read it: it is decoded there, and delivered there when its
// turn has come. So packets, which are many, never leave the core whose cache they are in; what goes from core to core is the
// turn, and with it the tracker, which is small where it is busy.
type relay struct {
	r     *run
	gone  sync.WaitGroup
	ready sync.Cond // something can be done that could not before, and not by everybody: all are woken; its lock guards all below
	lock  sync.Mutex

	most      uint64 // parts in all hands
	read      uint64 // how many parts were read
	delivered uint64 // and delivered
	reading   bool   // somebody is at it
	ended     bool   // nothing more will be read
	over      bool   // the workers go
	err       error  // why
	fault     any    // a worker's panic
}

// share is a worker and its parts.
type share struct {
	worker
	free    []*part
	waiting []*part // decoded, in order
}

func newRelay(r *run, workers int) *relay {
	y := &relay{r: r, most: uint64(workers) * partsPerWorker}
	y.ready.L = &y.lock
	// A part's frames must last until as many others were read.
	r.in.src.(captures.Lender).Lend(int(y.most))
	return y
}

// run is the caller's goroutine, one of the workers.
func (y *relay) run(ctx context.Context) error {
	for range y.most/partsPerWorker - 1 {
		y.gone.Add(1)
		go func() {
			defer y.gone.Done()
			y.work(ctx)
		}()
	}
	y.work(ctx)
	y.gone.Wait() // the frames go with the source
	if y.fault != nil {
		panic(y.fault)
	}
	return y.err
}

// work is a worker: it delivers, or else reads and decodes, until something ends the pass.
func (y *relay) work(ctx context.Context) {
	var s share
	s.init(y.r)
	for range partsPerWorker {
		s.free = append(s.free, newPart())
	}
	y.lock.Lock()
	defer func() {
		if v := recover(); v != nil { // a sink's; whoever called Run shall have it
			y.fault = fmt.Sprintf("%v\n\n%s", v, debug.Stack())
		}
		y.over = true
		y.ready.Broadcast()
		y.lock.Unlock()
	}()
	for !y.over {
		switch {
		case ctx.Err() != nil:
			y.err = context.Cause(ctx)
			return
		case len(s.waiting) > 0 && s.waiting[0].turn == y.delivered:
			if over, err := y.deliver(ctx, s.waiting[0]); over {
				y.err = err
				return
			}
			y.delivered++
			y.ready.Broadcast()
			s.free = append(s.free, s.waiting[0])
			s.waiting = append(s.waiting[:0], s.waiting[1:]...)
		case len(s.free) > 0 && !y.reading && !y.ended:
			last := len(s.free) - 1
			pt := s.free[last]
			s.free = s.free[:last]
			y.prepare(ctx, &s.worker, pt)
			s.waiting = append(s.waiting, pt)
		default:
			y.ready.Wait()
		}
	}
}

// deliver hands a part on.
func (y *relay) deliver(ctx context.Context, pt *part) (over bool, err error) {
	y.unlocked(func() { over, err = y.r.deliver(ctx, pt) })
	return over, err
}

// prepare reads and decodes a part.
func (y *relay) prepare(ctx context.Context, w *worker, pt *part) {
	y.reading = true
	y.unlocked(func() { y.r.in.read(ctx, pt) })
	y.reading = false
	y.ended = pt.readErr != nil && !survived(pt.readErr, 0)
	pt.turn = y.read
	y.read++
	y.ready.Broadcast()
	y.unlocked(func() { w.do(pt) })
}

// unlocked does something without the lock, which is held again afterwards also where it panics.
func (y *relay) unlocked(do func()) {
	y.lock.Unlock()
	defer y.lock.Lock()
	do()
}
