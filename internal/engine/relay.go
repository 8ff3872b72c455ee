package engine

import (
	"context"
	"sync"

	"github.com/rocescope/rocescope/captures"
)

// partsPerWorker is how many parts there are for each worker: one to work on,
// and enough others that nobody has to wait for the next.
const partsPerWorker = 3

// relay shares a pass among workers. Parts go round: read, one at a time and in
// order, and decoded by whoever read them, which has their bytes in its cache;
// delivered, in order and by the caller's goroutine, which has the tracker in
// its own. Whoever is free takes what is furthest along, so that all are busy
// whatever the stages cost.
type relay struct {
	r     *run
	self  worker
	gone  sync.WaitGroup
	ready sync.Cond // something can be done that could not before, and not by everybody: all are woken; its lock guards all below
	lock  sync.Mutex

	parts     []*part // a ring: part n of the capture is parts[n % len]
	read      uint64  // how many parts were read
	delivered uint64  // and delivered
	reading   bool    // somebody is at it
	ended     bool    // nothing more will be read
	closing   bool    // the workers go
}

func newRelay(r *run, workers int) *relay {
	y := &relay{r: r}
	y.ready.L = &y.lock
	for range workers * partsPerWorker {
		y.parts = append(y.parts, newPart())
	}
	// A part's frames must last until it comes round again.
	r.in.src.(captures.Lender).Lend(len(y.parts))
	y.self.init(r)
	for range workers - 1 {
		y.gone.Add(1)
		go y.help()
	}
	return y
}

func (y *relay) at(n uint64) *part { return y.parts[n%uint64(len(y.parts))] }

// run is the caller's goroutine.
func (y *relay) run(ctx context.Context) error {
	y.lock.Lock()
	defer func() {
		y.closing = true
		y.ready.Broadcast()
		y.lock.Unlock()
		y.gone.Wait() // the frames go with the source
	}()
	for ctx.Err() == nil {
		if y.delivered < y.read && y.at(y.delivered).decoded {
			pt := y.at(y.delivered)
			over, err := y.deliver(ctx, pt)
			if over {
				return err
			}
			y.delivered++
			y.ready.Broadcast()
			continue
		}
		if !y.step(ctx, &y.self) {
			y.ready.Wait()
		}
	}
	return context.Cause(ctx)
}

// deliver hands a part on, without the lock, which is held again afterwards also where a sink panics: the caller may want to
// live on.
func (y *relay) deliver(ctx context.Context, pt *part) (over bool, err error) {
	y.lock.Unlock()
	defer y.lock.Lock()
	return y.r.deliver(ctx, pt)
}

// help is another goroutine.
func (y *relay) help() {
	defer y.gone.Done()
	var w worker
	w.init(y.r)
	y.lock.Lock()
	defer y.lock.Unlock()
	for !y.closing {
		if !y.step(context.Background(), &w) {
			y.ready.Wait()
		}
	}
}

// step reads and decodes a part, and says whether there was one to do. The lock
// is held, but not meanwhile.
func (y *relay) step(ctx context.Context, w *worker) bool {
	if y.reading || y.ended || y.read-y.delivered == uint64(len(y.parts)) {
		return false
	}
	pt := y.at(y.read)
	y.reading = true
	y.lock.Unlock()
	y.r.in.read(ctx, pt)
	y.lock.Lock()
	y.reading, pt.decoded = false, false
	y.ended = pt.readErr != nil && !survived(pt.readErr, 0)
	y.read++
	y.ready.Broadcast()
	y.lock.Unlock()
	w.do(pt)
	y.lock.Lock()
	pt.decoded = true
	y.ready.Broadcast()
	return true
}
