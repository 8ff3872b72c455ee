package rnic

import "github.com/rocescope/rocescope/dissect"

// Divert gives a connected queue pair's packets to f instead of its requester and responder, for who speaks for it by SendFrame. They have
// passed all checks of addresses, partition and ICRC. f is called as OnManagement's handlers are. It returns the PSN that the queue pair
// would send next.
func (q *QP) Divert(f func(frame []byte, at int64)) (next dissect.PSN) {
	q.dev.lock()
	defer q.dev.unlock()
	q.diverted = f
	q.req.deadline = 0
	return q.req.max
}

// diversion is a frame of the batch that was diverted.
type diversion struct {
	q     *QP
	index int
}

// Outer is what the packets of a connected queue pair go out in.
func (q *QP) Outer() dissect.Outer {
	q.dev.lock()
	defer q.dev.unlock()
	return q.dev.outer(&q.attr.AH, q.qpn, q.attr.DestQPN)
}
