package rnic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
)

// recvQueue is a ring of receive work requests, of a queue pair or shared. Who posts writes at tail; the device takes at head.
type recvQueue struct {
	mu     sync.Mutex // posters
	ids    []uint64
	counts []uint8
	sges   []SGE // maxSGE for each place of the ring
	mask   uint32
	depth  uint32
	maxSGE uint32
	tail   atomic.Uint32
	head   atomic.Uint32
}

func (r *recvQueue) init(depth, maxSGE int) {
	size := roundUp(depth)
	r.ids, r.counts, r.sges = make([]uint64, size), make([]uint8, size), make([]SGE, int(size)*maxSGE)
	r.mask, r.depth, r.maxSGE = size-1, uint32(depth), uint32(maxSGE)
}

// post adds work requests; what names the queue in errors.
func (r *recvQueue) post(what string, wrs []RecvWR) error {
	tail := r.tail.Load()
	defer func() { r.tail.Store(tail) }()
	for i := range wrs {
		wr := &wrs[i]
		switch {
		case tail-r.head.Load() >= r.depth:
			return fmt.Errorf("rnic: post to %s: %w: it holds %d work requests", what, ErrQueueFull, r.depth)
		case len(wr.SGL) > int(r.maxSGE):
			return invalid("post receive", "%d elements in the list; the queue has room for %d", len(wr.SGL), r.maxSGE)
		}
		at := tail & r.mask
		r.ids[at], r.counts[at] = wr.ID, uint8(len(wr.SGL))
		copy(r.sges[at*r.maxSGE:], wr.SGL)
		tail++
	}
	return nil
}

// posted returns how many work requests wait.
func (r *recvQueue) posted() int { return int(r.tail.Load() - r.head.Load()) }

// take moves the oldest work request into w. It runs on the device's goroutine.
func (r *recvQueue) take(w *recvWQE) bool {
	head := r.head.Load()
	if head == r.tail.Load() {
		return false
	}
	at := head & r.mask
	list := r.sges[at*r.maxSGE : at*r.maxSGE+uint32(r.counts[at])]
	w.id = r.ids[at]
	w.sgl = append(w.sgl[:0], list...)
	w.len = listLength(list)
	r.head.Store(head + 1)
	return true
}

// PostRecv hands work requests to the receive queue, all of them or, with an error, those before the one that it names.
func (q *QP) PostRecv(wrs ...RecvWR) error {
	if q.srq != nil {
		return invalid("post receive", "QP %#x takes its receives from a shared queue; post there", q.qpn)
	}
	q.rq.mu.Lock()
	defer q.rq.mu.Unlock()
	if q.State() == RESET {
		return fmt.Errorf("rnic: post to the receive queue of QP %#x: %w: it is RESET, and must be INIT at least", q.qpn, ErrState)
	}
	err := q.rq.post("a receive queue", wrs)
	if q.State() == ERROR { // behind the posting: the device flushes what it sees when it changes the state
		q.ring()
	}
	return err
}

// SRQ is a receive queue that many queue pairs share.
type SRQ struct {
	pd    *PD
	rq    recvQueue
	limit atomic.Uint32
	uses  int
}

// CreateSRQ makes a shared receive queue.
func (pd *PD) CreateSRQ(maxWR, maxSGE int) (*SRQ, error) {
	if maxSGE == 0 {
		maxSGE = 1
	}
	if maxWR < 1 || maxWR > maxQueue || maxSGE < 1 || maxSGE > maxSGEs {
		return nil, fmt.Errorf("rnic: create a shared receive queue: %d work requests of %d elements; it must have 1 … %d of 1 … %d", maxWR, maxSGE, maxQueue, maxSGEs)
	}
	s := &SRQ{pd: pd}
	s.rq.init(maxWR, maxSGE)
	pd.dev.verbs.Lock()
	pd.uses++
	pd.dev.verbs.Unlock()
	return s, nil
}

// PostRecv hands work requests to the queue, all of them or, with an error, those before the one that it names.
func (s *SRQ) PostRecv(wrs ...RecvWR) error {
	s.rq.mu.Lock()
	defer s.rq.mu.Unlock()
	return s.rq.post("a shared receive queue", wrs)
}

// Arm asks for an event when fewer than limit work requests wait.
func (s *SRQ) Arm(limit int) { s.limit.Store(uint32(limit)) }

// take is recvQueue.take, with the event that Arm asks for.
func (s *SRQ) take(w *recvWQE) bool {
	ok := s.rq.take(w)
	if l := s.limit.Load(); l != 0 && s.rq.posted() < int(l) {
		s.limit.Store(0)
		s.pd.dev.event(Event{Type: EventSRQLimitReached, SRQ: s})
	}
	return ok
}

// Destroy ends a shared receive queue that no queue pair uses any more.
func (s *SRQ) Destroy() error {
	s.pd.dev.verbs.Lock()
	defer s.pd.dev.verbs.Unlock()
	if s.uses > 0 {
		return errors.New("rnic: destroy a shared receive queue: queue pairs still use it")
	}
	s.pd.uses--
	return nil
}
