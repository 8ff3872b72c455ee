package peer

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/crash"
)

// Thread is one of a host's threads: the device of a receive queue, with its queue pairs, and its users' work. The first one also does
// what is there once: CM, answers to who asks for the host's addresses, and Makers' and Parties' work.
type Thread struct {
	h       *Host
	dev     *rnic.Device
	port    port.Port
	calls   chan call
	workers []*Worker
	spin    int64 // for how long it stays awake when idle, nanoseconds
}

func newThread(h *Host, dev *rnic.Device, p port.Port) *Thread {
	t := &Thread{h: h, dev: dev, port: p, calls: make(chan call, 64)}
	if p.Info().Interface != "" {
		t.spin = int64(awake)
	}
	return t
}

// Threads are the host's threads, the first one first.
func (h *Host) Threads() []*Thread { return h.threads }

// Least is the thread with the fewest queue pairs, for the next one. Two hosts that begin alike choose alike: where a link keeps to the
// queues, packets then arrive where their queue pair is.
func (h *Host) Least() *Thread {
	least := h.threads[0]
	for _, t := range h.threads[1:] {
		if t.dev.QPs() < least.dev.QPs() {
			least = t
		}
	}
	return least
}

// Device is the thread's.
func (t *Thread) Device() *rnic.Device { return t.dev }

// Worker is work of the host's users that a thread does once per batch, after what arrived was processed: poll completions, post
// more. Busy says that there is more to do at once.
type Worker struct {
	Work func(now int64) (busy bool)
}

// Attach begins to do a worker's work, Detach ends it. Both are for the thread itself.
func (t *Thread) Attach(w *Worker) { t.workers = append(t.workers, w) }

// Detach: see Attach.
func (t *Thread) Detach(w *Worker) {
	all := make([]*Worker, 0, len(t.workers)) // the old slice may be under way
	for _, x := range t.workers {
		if x != w {
			all = append(all, x)
		}
	}
	t.workers = all
}

// Attach and Detach are the first thread's.
func (h *Host) Attach(w *Worker) { h.threads[0].Attach(w) }

// Detach: see Attach.
func (h *Host) Detach(w *Worker) { h.threads[0].Detach(w) }

type call struct {
	f    func() error
	done chan error
}

// Do has something done by the thread, and waits for it. It is not for that thread itself; the first one may wait for others, and none
// of them for it.
func (t *Thread) Do(f func() error) error {
	c := call{f, make(chan error, 1)}
	select {
	case t.calls <- c:
		t.dev.Wake()
	case <-t.h.done:
		return t.h.ended()
	}
	select {
	case err := <-c.done:
		return err
	case <-t.h.done:
		return t.h.ended()
	}
}

// Do has something done by the first thread.
func (h *Host) Do(f func() error) error { return h.threads[0].Do(f) }

func (h *Host) ended() error {
	if h.failure != nil {
		return h.failure
	}
	return ErrClosed
}

// How an idle thread waits: first awake, so that an answer is quick, then asleep, for longer and longer. A frame wakes it, and where
// the port can be woken, what others ask by Do.
const (
	awake    = 100 * time.Microsecond
	napLeast = 50 * time.Microsecond
	napMost  = 2 * time.Millisecond
	downTime = 10 * time.Millisecond // between looks at an interface that is down
)

// start begins the threads. When one fails, all end.
func (h *Host) start() {
	var running sync.WaitGroup
	for _, t := range h.threads {
		running.Go(func() {
			defer crash.Guard()
			if err := t.run(); err != nil {
				h.failing.Do(func() { h.failure = fmt.Errorf("the port failed: %w", err) })
			}
			h.quit.Store(true)
		})
	}
	go func() {
		defer crash.Guard()
		running.Wait()
		close(h.done)
	}()
}

// run is the thread.
func (t *Thread) run() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	h := t.h
	first := t == h.threads[0]
	var idle int64
	nap := napLeast
	for !h.quit.Load() {
		calls := len(t.calls)
		for range calls {
			c := <-t.calls
			c.done <- c.f()
		}
		busy, err := t.dev.Step()
		busy = busy || calls > 0 // others may follow
		switch {
		case errors.Is(err, port.ErrDown):
			time.Sleep(downTime) // frames wait for the interface
		case err != nil:
			return err
		}
		now := h.clock()
		for _, w := range t.workers {
			busy = w.Work(now) || busy
		}
		due := int64(math.MaxInt64)
		if first {
			if now >= h.due {
				h.due = min(h.cm.Tick(now), h.resolver.Tick(now))
			}
			due = h.due
		}
		if busy {
			idle, nap = 0, napLeast
			continue
		}
		if idle == 0 {
			idle = now
		}
		if now-idle < t.spin {
			if len(h.threads) > 1 {
				runtime.Gosched() // to another of them, where there are more than processors
			}
			continue
		}
		if err := t.rest(now, due, nap); err != nil {
			return err
		}
		nap = min(2*nap, napMost)
	}
	return nil
}

// rest waits until a frame comes, something is due, or the nap is over.
func (t *Thread) rest(now, due int64, nap time.Duration) error {
	if at, ok := t.dev.Next(); ok {
		due = min(due, at)
	}
	if due != math.MaxInt64 {
		nap = min(nap, time.Duration(due-now))
	}
	if nap <= 0 {
		return nil
	}
	return t.dev.Wait(nap)
}
