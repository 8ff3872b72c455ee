package load

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// strand is the queue pairs of a Requester that live on one of the host's threads, and their part of the result. All of it is that
// thread's while a round runs; strands share nothing but what does not change then.
type strand struct {
	*Requester
	thread *peer.Thread
	qps    []*asker
	cq     *rnic.CQ

	worker  peer.Worker
	done    chan struct{}
	running bool
	polled  [64]rnic.Completion
	settled int     // queue pairs that have done all of the round
	posted  int     // messages that are under way, on all queue pairs
	budget  int     // how many may be
	burst   int     // how many a queue pair posts in its turn
	turns   []int32 // queue pairs that may post, in turn: a ring of as many as there are
	first   int
	waiting int

	last         int64 // when something completed
	begun, ended int64 // the round
	window       window
	Result       Result

	count atomic.Uint64 // messages of the round, for others to see
}

func newStrand(r *Requester, t *peer.Thread) *strand {
	s := &strand{Requester: r, thread: t, burst: max(1, turnPackets/r.plan.packets()), Result: newResult()}
	s.worker.Work = s.work
	return s
}

// add adds a queue pair, which is to be made.
func (r *strand) add(q *asker) {
	q.strand, q.index = r, len(r.qps)
	r.qps = append(r.qps, q)
}

// begin makes what the queue pairs need, when all are there.
func (r *strand) begin(receives int) (err error) {
	r.turns, r.budget = make([]int32, len(r.qps)), max(1, r.plan.budget()*len(r.qps)/r.plan.QPs)
	r.cq, err = r.thread.Device().CreateCQ(len(r.qps) * (r.plan.Depth + receives))
	return err
}

// end gives back what begin made.
func (r *strand) end() error {
	if r.cq == nil {
		return nil
	}
	return errors.Join(r.thread.Do(r.stop), r.cq.Destroy())
}

// start begins a round.
func (r *strand) start() error {
	r.done, r.settled = make(chan struct{}), 0
	r.last = r.h.Now()
	r.begun, r.ended = r.last, r.last
	for _, q := range r.qps {
		if q.settled = false; r.plan.Rally != WriteRally { // there the other side begins
			r.queue(q, r.last)
		}
		r.settleIf(q, r.last)
	}
	r.count.Store(0)
	r.window.begin(r.last)
	r.running = true
	r.thread.Attach(&r.worker)
	return nil
}

// messages is how many all strands completed in this round.
func (r *strand) messages() (sum uint64) {
	for _, s := range r.strands {
		sum += s.count.Load()
	}
	return sum
}

// stop ends a round, if it runs.
func (r *strand) stop() error {
	if r.running {
		r.running = false
		r.ended = r.h.Now()
		r.thread.Detach(&r.worker)
		close(r.done)
	}
	return nil
}

// work is done once per batch.
func (r *strand) work(now int64) (busy bool) {
	if !r.running {
		return false
	}
	for {
		n := r.cq.Poll(r.polled[:])
		for i := range r.polled[:n] {
			r.completed(&r.polled[i], now)
		}
		if n > 0 {
			r.last, busy = now, true
		}
		if n < len(r.polled) {
			break
		}
	}
	switch {
	case r.plan.Rally == WriteRally:
		busy = r.look(now) || busy
	case r.plan.Rally == SendRally && r.plan.Transport != dissect.RC:
		r.giveUp(now)
	}
	if r.waiting > 0 {
		r.postTurns(now)
		busy = busy || r.waiting > 0 && r.posted < r.budget
	}
	r.count.Store(r.Result.Messages)
	if r == r.strands[0] {
		r.window.look(now, r.messages(), &r.Result)
	}
	switch {
	case r.settled == len(r.qps):
		_ = r.stop()
	case now-r.last > int64(r.plan.Stall):
		r.Result.fail(fmt.Errorf("nothing completed for %v: %w", r.plan.Stall, ErrStalled))
		_ = r.stop()
	}
	return busy
}
