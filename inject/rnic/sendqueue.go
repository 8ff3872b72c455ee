package rnic

import (
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
)

// sendQueue is the ring of a queue pair's send work requests. Who posts writes at tail; the device reads behind it and moves head.
type sendQueue struct {
	mu     sync.Mutex // posters
	tail   atomic.Uint32
	head   atomic.Uint32
	mask   uint32
	depth  uint32
	maxSGE uint32
	inline uint32
	ring   []sendWQE
	sges   []SGE  // maxSGE for each place of the ring
	data   []byte // maxInline for each place of the ring
}

func (s *sendQueue) init(cap *QPCap) {
	size := roundUp(cap.MaxSendWR)
	s.ring = make([]sendWQE, size)
	s.sges = make([]SGE, int(size)*cap.MaxSGE)
	s.data = make([]byte, int(size)*cap.MaxInline)
	s.mask, s.depth, s.maxSGE, s.inline = size-1, uint32(cap.MaxSendWR), uint32(cap.MaxSGE), uint32(cap.MaxInline)
}

func (s *sendQueue) at(i uint32) *sendWQE { return &s.ring[i&s.mask] }

// sgl returns the list of the work request at i.
func (s *sendQueue) sgl(i uint32, w *sendWQE) []SGE {
	at := (i & s.mask) * s.maxSGE
	return s.sges[at : at+uint32(w.nsge)]
}

// inlined returns the inline data of the work request at i.
func (s *sendQueue) inlined(i uint32) []byte {
	at := (i & s.mask) * s.inline
	return s.data[at : at+s.inline]
}

// PostSend hands work requests to the send queue, all of them or, with an error, those before the one that it names.
func (q *QP) PostSend(wrs ...SendWR) error {
	s := &q.sq
	s.mu.Lock()
	defer s.mu.Unlock()
	switch State(q.state.Load()) {
	case RESET, INIT, RTR:
		return fmt.Errorf("rnic: post to the send queue of QP %#x: %w: it is %v, and must be RTS", q.qpn, ErrState, q.State())
	}
	tail := s.tail.Load()
	var err error
	for i := range wrs {
		wr := &wrs[i]
		if tail-s.head.Load() >= s.depth {
			err = fmt.Errorf("rnic: post to the send queue of QP %#x: %w: it holds %d work requests that are not completed", q.qpn, ErrQueueFull, s.depth)
			break
		}
		if err = q.fill(tail, wr); err != nil {
			break
		}
		tail++
	}
	s.tail.Store(tail)
	q.ring()
	return err
}

// fill checks a work request and writes it into the place for it.
func (q *QP) fill(at uint32, wr *SendWR) error {
	s := &q.sq
	if wr.Op >= numOps || !operations[wr.Op].on[q.typ] {
		return invalid("post send", "%v has no operation %v", q.typ, wr.Op)
	}
	op := &operations[wr.Op]
	length := listLength(wr.SGL)
	if wr.Flags&Inline != 0 {
		length = uint64(len(wr.Inline))
	}
	switch {
	case len(wr.SGL) > int(s.maxSGE):
		return invalid("post send", "%d elements in the list; the queue pair has room for %d", len(wr.SGL), s.maxSGE)
	case wr.Flags&Inline != 0 && len(wr.SGL) > 0:
		return invalid("post send", "a work request has a list or inline data, not both")
	case wr.Flags&Inline != 0 && (wr.Op.answered() || length > uint64(s.inline)):
		return invalid("post send", "%d bytes of inline data for a %v; the queue pair has room for %d in SEND and WRITE", length, wr.Op, s.inline)
	case wr.Flags&Inline == 0 && len(wr.Inline) > 0:
		return invalid("post send", "inline data without the flag Inline")
	case length > maxMessage:
		return invalid("post send", "%d bytes; a message has at most 2^31", length)
	case op.fixed != 0 && length != uint64(op.fixed):
		return invalid("post send", "the answer of an atomic has %d bytes; the list has room for %d", op.fixed, length)
	case q.typ == dissect.UD && wr.AH == nil:
		return invalid("post send", "a datagram needs an address handle")
	case q.typ == dissect.UD && wr.AH.pd != q.pd:
		return invalid("post send", "the address handle belongs to another protection domain")
	case q.typ == dissect.UD && length > uint64(q.dev.mtu):
		return invalid("post send", "%d bytes; a datagram on this port has at most %d", length, q.dev.mtu)
	}
	w := s.at(at)
	*w = sendWQE{
		id: wr.ID, op: wr.Op, flags: wr.Flags, nsge: uint8(len(wr.SGL)), imm: wr.Imm, rkey: wr.RKey, dstQP: wr.DstQP, qkey: wr.QKey,
		length: uint32(length), remoteVA: wr.RemoteVA, compare: wr.CompareAdd, swap: wr.Swap, ah: wr.AH,
	}
	if q.sigAll {
		w.flags |= Signaled
	}
	copy(s.sges[(at&s.mask)*s.maxSGE:], wr.SGL)
	if wr.Flags&Inline != 0 {
		copy(s.inlined(at), wr.Inline)
	}
	return nil
}
