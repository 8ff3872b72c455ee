package engine

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
)

// partsPerLeg makes a leg take long, compared with waking who waits for it and with bringing the tracker over from another core,
// and keeps what is read and decoded of it small enough for a core's own cache.
const partsPerLeg = 8

// leg is a run of parts that stay with the worker who read them.
type leg struct {
	turn  uint64 // how many legs come before
	parts [partsPerLeg]*part
	n     int // parts read
}

// spins is how often a worker looks again before it sleeps: for some part of a millisecond. To be woken costs as much, and more where
// the kernel puts who is woken on the core of who wakes it, beside one that is idle.
const spins = 3000

// spin waits a little for what another worker is about to do, and says whether it is done.
func spin(done func() bool) bool {
	for range spins {
		if done() {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// relay shares a pass among workers. Each has one leg: it reads it, decodes it, and delivers it when its turn has come. So
// packets, which are many, never leave the core whose cache they are in; what goes from core to core is the turn, and with it
// the tracker, which is small where it is busy. A worker does not read ahead while it waits: his turn would come meanwhile, and
// all others wait for him.
type relay struct {
	r    *run
	gone sync.WaitGroup

	source sync.Mutex // guards reading, and
	read   uint64     // how many legs were read
	ended  bool       // nothing more will be

	delivered atomic.Uint64 // how many legs were; changed with the lock held

	lock   sync.Mutex // guards all below
	passed sync.Cond  // the turn went on, or all is over; its lock is lock
	over   bool       // the workers go
	err    error      // why
	fault  any        // a worker's panic
}

func newRelay(r *run, workers int) *relay {
	y := &relay{r: r}
	y.passed.L = &y.lock
	// A part's frames must last until as many others were read as all workers hold.
	r.in.src.(captures.Lender).Lend(workers * partsPerLeg)
	return y
}

// run is the caller's goroutine, one of the workers.
func (y *relay) run(ctx context.Context, workers int) error {
	for range workers - 1 {
		y.gone.Go(func() { y.work(ctx) })
	}
	y.work(ctx)
	y.gone.Wait() // the frames go with the source
	if y.fault != nil {
		panic(y.fault)
	}
	return y.err
}

// work is a worker, until something ends the pass.
func (y *relay) work(ctx context.Context) {
	var l leg
	for i := range l.parts {
		l.parts[i] = newPart()
	}
	var w worker
	w.init(y.r)
	defer func() {
		if v := recover(); v != nil { // a sink's; whoever called Run shall have it
			y.end(nil, fmt.Sprintf("%v\n\n%s", v, debug.Stack()))
		}
	}()
	for y.fill(ctx, &l) {
		for _, pt := range l.parts[:l.n] {
			w.do(pt)
		}
		if !y.await(l.turn) {
			return
		}
		if over, err := y.deliver(ctx, &l); over {
			y.end(err, nil)
			return
		}
		y.pass()
	}
}

// fill reads a leg, and says whether there was something to read.
func (y *relay) fill(ctx context.Context, l *leg) bool {
	if !spin(y.source.TryLock) {
		y.source.Lock()
	}
	defer y.source.Unlock()
	for l.n = 0; l.n < len(l.parts) && !y.ended; l.n++ {
		pt := l.parts[l.n]
		y.r.in.read(ctx, pt)
		y.ended = pt.readErr != nil && !survived(pt.readErr, 0)
	}
	l.turn = y.read
	y.read++
	return l.n > 0
}

// await waits for a turn, and says whether it comes.
func (y *relay) await(turn uint64) bool {
	spin(func() bool { return y.delivered.Load() == turn })
	y.lock.Lock()
	defer y.lock.Unlock()
	for y.delivered.Load() != turn && !y.over {
		y.passed.Wait()
	}
	return !y.over
}

// deliver hands a leg's parts on.
func (y *relay) deliver(ctx context.Context, l *leg) (over bool, err error) {
	for _, pt := range l.parts[:l.n] {
		if over, err = y.r.deliver(ctx, pt); over {
			return true, err
		}
	}
	return false, nil
}

// pass gives the turn to whose leg is next.
func (y *relay) pass() {
	y.lock.Lock()
	y.delivered.Add(1)
	y.lock.Unlock()
	y.passed.Broadcast()
}

// end sends the workers away. Whoever has the turn calls it, or a worker that panicked without it.
func (y *relay) end(err error, fault any) {
	y.lock.Lock()
	if !y.over {
		y.over, y.err, y.fault = true, err, fault
	}
	y.lock.Unlock()
	y.passed.Broadcast()
}
