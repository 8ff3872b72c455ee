package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/rocescope/rocescope/captures"
)

const (
	// legsPerWorker is how many legs a worker may hold: one that waits for its turn to be delivered, and one to work on meanwhile.
	legsPerWorker = 2
	// partsPerLeg makes a leg take long, compared with waking who waits for it.
	partsPerLeg = 8
)

// leg is a run of parts that stay with the worker who read them.
type leg struct {
	turn  uint64 // how many legs come before
	parts [partsPerLeg]*part
	n     int // parts read
}

// relay shares a pass among workers. A leg is decoded by the worker who read it, and delivered there when its turn has come. So
// packets, which are many, never leave the core whose cache they are in; what goes from core to core is the turn, and with it
// the tracker, which is small where it is busy.
type relay struct {
	r     *run
	gone  sync.WaitGroup
	ready sync.Cond // something can be done that could not before, and not by everybody: all are woken; its lock guards all below
	lock  sync.Mutex

	workers   int
	read      uint64 // how many legs were read
	delivered uint64 // and delivered
	reading   bool   // somebody is at it
	ended     bool   // nothing more will be read
	over      bool   // the workers go
	err       error  // why
	fault     any    // a worker's panic
}

// share is a worker and its legs.
type share struct {
	worker
	free    []*leg
	waiting []*leg // decoded, in order
}

func newRelay(r *run, workers int) *relay {
	y := &relay{r: r, workers: workers}
	y.ready.L = &y.lock
	// A part's frames must last until as many others were read as all workers may hold.
	r.in.src.(captures.Lender).Lend(workers * legsPerWorker * partsPerLeg)
	return y
}

// run is the caller's goroutine, one of the workers.
func (y *relay) run(ctx context.Context) error {
	for range y.workers - 1 {
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
	for range legsPerWorker {
		l := &leg{}
		for i := range l.parts {
			l.parts[i] = newPart()
		}
		s.free = append(s.free, l)
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
			l := s.waiting[0]
			var over bool
			y.unlocked(func() { over, y.err = y.deliver(ctx, l) })
			if over {
				return
			}
			y.delivered++
			y.ready.Broadcast()
			s.waiting = append(s.waiting[:0], s.waiting[1:]...)
			s.free = append(s.free, l)
		case len(s.free) > 0 && !y.reading && !y.ended:
			last := len(s.free) - 1
			l := s.free[last]
			s.free = s.free[:last]
			y.reading = true
			y.unlocked(func() { y.fill(ctx, l) })
			y.reading = false
			l.turn = y.read
			y.read++
			y.ready.Broadcast()
			y.unlocked(func() { s.decodeLeg(l) })
			s.waiting = append(s.waiting, l)
		default:
			y.ready.Wait()
		}
	}
}

// fill reads a leg. Only one worker does at a time, and ended is that one's.
func (y *relay) fill(ctx context.Context, l *leg) {
	for l.n = 0; l.n < len(l.parts) && !y.ended; l.n++ {
		pt := l.parts[l.n]
		y.r.in.read(ctx, pt)
		y.ended = pt.readErr != nil && !survived(pt.readErr, 0)
	}
}

func (s *share) decodeLeg(l *leg) {
	for _, pt := range l.parts[:l.n] {
		s.do(pt)
	}
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

// unlocked does something without the lock, which is held again afterwards also where it panics.
func (y *relay) unlocked(do func()) {
	y.lock.Unlock()
	defer y.lock.Lock()
	do()
}
