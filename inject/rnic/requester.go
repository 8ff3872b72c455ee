package rnic

import (
	"github.com/rocescope/rocescope/dissect"
)

// requester is the sending half of a queue pair: which work requests have begun, which packet is next, and what is unanswered.
//
//	head ≤ cur ≤ begun ≤ tail, as indices of the send queue
//	una ≤ next ≤ max, as PSNs: the oldest unanswered, the next to be sent, the next never sent
//
// una lies in the work request at head, next in that at cur. To go back is to set cur and next to head and una.
type requester struct {
	head, cur, begun uint32
	una, next, max   dissect.PSN

	ssn       uint32 // of the newest message, 24 bits
	limit     uint32 // LSN: the newest message that credits allow
	unlimited bool   // the responder gives no credits

	depth    int // READs and atomics that were sent and are not answered
	span     int // PSNs that their answers will take
	sinceAck int // packets since the last AckReq

	retries, rnrRetries uint8
	wentBack            bool        // because of a hole in the answers, and una has not moved since
	behind              dissect.PSN // of the newest answer behind that hole
	draining            bool        // SQD: the event is owed
	failing             bool        // the work request at cur has a local error, and waits for those before it

	deadline int64 // of an answer; 0 = none is awaited
	wait     int64 // until when an RNR NAK forbids to send
}

// outstanding is how many PSNs are unanswered: up to 2^23, those of the longest READ by the smallest path MTU.
func (r *requester) outstanding() int { return int(uint32(r.max-r.una) & 0xFFFFFF) }

// begin starts the requester with the attributes of RTS.
func (r *requester) begin(q *QP) {
	psn := q.attr.SQPSN
	head := q.sq.head.Load()
	*r = requester{
		head: head, cur: head, begun: head, una: psn, next: psn, max: psn, unlimited: true,
		retries: q.attr.RetryCnt, rnrRetries: q.attr.RNRRetry,
	}
}

// emptied is called when the send queue was flushed.
func (r *requester) emptied(head uint32) {
	r.head, r.cur, r.begun = head, head, head
	r.una, r.next = r.max, r.max
	r.depth, r.span, r.failing = 0, 0, false
	r.deadline, r.wait = 0, 0
}

// drained reports whether all that has begun is completed.
func (q *QP) drained() bool { return q.req.head == q.req.begun }

// checkDrained owes the event of SQD no longer once the queue has drained.
func (q *QP) checkDrained() {
	if q.req.draining && q.State() == SQD && q.drained() {
		q.req.draining = false
		if q.attr.EnSQDNotify {
			q.dev.event(Event{Type: EventSQDrained, QP: q})
		}
	}
}

// request sends the next request packet, and reports whether it did.
func (q *QP) request() bool {
	r, d := &q.req, q.dev
	if !requests[q.State()] || r.failing || r.wait != 0 {
		return false
	}
	if r.cur == q.sq.tail.Load() {
		return false
	}
	w := q.sq.at(r.cur)
	if r.cur == r.begun {
		if q.State() != RTS || !q.beginMessage(w) {
			return false
		}
	} else if !q.mayGoOn(w) {
		return false
	}
	if q.tuning.Paced && !q.rate.allows(q) {
		return false
	}
	var n int
	if q.typ == dissect.UD {
		n = q.writeDatagram(w)
	} else {
		n = q.writeRequest(w)
	}
	if w.status != Success {
		q.localError(w)
		return false
	}
	d.out.commit(n)
	d.counters.TxRequests++
	if q.tuning.Paced {
		q.rate.sent(q, n)
	}
	q.advance(w)
	return true
}

// beginMessage gives a work request its PSNs, if it may begin now.
func (q *QP) beginMessage(w *sendWQE) bool {
	r := &q.req
	if w.flags&Fence != 0 && r.depth > 0 {
		return false
	}
	w.packets = max(1, (w.length+q.mtu-1)/q.mtu)
	if w.op >= OpCompareSwap {
		w.packets = 1
	}
	w.first, w.asked = r.max, r.max
	if !q.mayGoOn(w) {
		return false
	}
	if q.typ == dissect.RC && r.begun != r.head && r.outstanding()+int(w.packets) >= 1<<23 {
		return false // PSNs further ahead could not be told from old ones (IBA 9.7.1)
	}
	ssn := (r.ssn + 1) & 0xFFFFFF
	if q.tuning.Credits && !q.credit(w, ssn) {
		return false
	}
	r.ssn, w.ssn = ssn, ssn
	w.status = Success
	r.begun++
	return true
}

// credit reports whether end-to-end credits let a message begin: those that take a receive work request may go one beyond the limit
// (IBA 9.7.7.2).
func (q *QP) credit(w *sendWQE, ssn uint32) bool {
	r := &q.req
	takes := operations[w.op].family == dissect.Send || operations[w.op].flags&dissect.WithImm != 0
	return r.unlimited || !takes || dissect.MSN(ssn).Sub(dissect.MSN(r.limit).Add(1)) <= 0
}

// mayGoOn reports whether window and depth have room for the next packet of a work request. Answers to READs have a window of the
// same size, so that a lost one does not cost all that the depth lets be asked for.
func (q *QP) mayGoOn(w *sendWQE) bool {
	r := &q.req
	if q.typ != dissect.RC {
		return true
	}
	if w.op.answered() {
		return r.depth < q.attr.MaxRdAtomic && r.span < q.tuning.Window
	}
	return r.next.Sub(r.una)-r.span < q.tuning.Window
}

// writeRequest writes the packet at next, of RC or UC.
func (q *QP) writeRequest(w *sendWQE) int {
	r, d := &q.req, q.dev
	op := &operations[w.op]
	at := uint32(r.next.Sub(w.first))
	pos, flags := position(at, w.packets), op.flags
	if w.op.answered() {
		pos = dissect.Only
	}
	last := pos == dissect.Only || pos == dissect.Last
	if !last {
		flags = 0
	}
	info := opcodes[q.typ][op.family][pos][flags]
	room := d.out.room()
	bth, payload := q.peer.begin(room, info, q, r.next)
	offset := at * q.mtu
	n := uint32(0)
	ok := false
	if w.op.answered() {
		ok = d.allowed(q.sq.sgl(r.cur, w), q.pd, LocalWrite)
	} else {
		n = min(w.length-offset, q.mtu)
		ok = q.copyOut(payload[:n], w, offset)
	}
	if !ok {
		w.status = LocProtErr
		return 0
	}
	head := room[q.peer.bth:]
	for _, l := range info.Headers {
		v := info.View(head, l)
		switch l {
		case dissect.LayerRETH:
			h := dissect.RETH(v)
			h.SetVA(w.remoteVA + uint64(offset))
			h.SetRKey(w.rkey)
			h.SetDMALen(w.length - offset)
		case dissect.LayerAtomicETH:
			h := dissect.AtomicETH(v)
			h.SetVA(w.remoteVA)
			h.SetRKey(w.rkey)
			if w.op == OpFetchAdd {
				h.SetSwapAdd(w.compare)
			} else {
				h.SetSwapAdd(w.swap)
				h.SetCompare(w.compare)
			}
		case dissect.LayerImmDt:
			dissect.ImmDt(v).SetData(w.imm)
		case dissect.LayerIETH:
			dissect.IETH(v).SetRKey(w.imm)
		}
	}
	if q.typ == dissect.RC && q.wantsAck(w, last) {
		bth.SetAckReq(true)
		r.sinceAck = 0
	} else {
		r.sinceAck++
	}
	if last && w.flags&Solicited != 0 && (op.family == dissect.Send || op.flags&dissect.WithImm != 0) {
		bth.SetSE(true)
	}
	return d.finish(&q.peer, room, info, int(n), &q.ipid)
}

// wantsAck decides AckReq: at the end of a message, now and then inside of a long one, and where the window ends.
func (q *QP) wantsAck(w *sendWQE, last bool) bool {
	r := &q.req
	return last || r.sinceAck+1 >= q.tuning.AckEvery || r.next.Sub(r.una)-r.span+1 >= q.tuning.Window
}

// copyOut copies the data of a work request from offset on.
func (q *QP) copyOut(dst []byte, w *sendWQE, offset uint32) bool {
	if w.flags&Inline != 0 {
		copy(dst, q.sq.inlined(q.req.cur)[offset:])
		return true
	}
	return q.dev.gather(dst, q.sq.sgl(q.req.cur, w), q.pd, offset)
}

// advance moves on behind the packet that was sent.
func (q *QP) advance(w *sendWQE) {
	r := &q.req
	n := 1
	if w.op.answered() {
		w.asked = r.next
		n = int(w.packets) - r.next.Sub(w.first)
		r.depth++
		r.span += n
	}
	if r.next == r.max {
		r.max = r.max.Add(n)
	}
	r.next = r.next.Add(n)
	if r.next == w.first.Add(int(w.packets)) {
		r.cur++
	}
	if q.typ != dissect.RC {
		r.una = r.next
		if r.cur != r.head {
			q.complete(w)
		}
		return
	}
	if r.deadline == 0 {
		q.restartTimer()
	}
}

// restartTimer sets when the answer to the oldest request is overdue.
func (q *QP) restartTimer() {
	r := &q.req
	r.deadline = 0
	if t := dissect.AckTimeout(q.attr.Timeout); t > 0 && r.una != r.next {
		r.deadline = q.dev.now + int64(t)
	}
}

// complete completes the work request at head with success.
func (q *QP) complete(w *sendWQE) {
	r := &q.req
	if w.flags&Signaled != 0 {
		n := uint32(0)
		if w.op.answered() {
			n = w.length
		}
		q.sendCQ.put(q, &Completion{ID: w.id, Op: operations[w.op].comp, ByteLen: n})
	}
	if q.State() == ERROR { // the completion queue ran over
		return
	}
	r.una = w.first.Add(int(w.packets))
	if w.op.answered() && r.cur != r.head {
		r.depth--
	}
	if r.cur == r.head {
		r.cur++
	}
	r.head++
	q.sq.head.Store(r.head)
	if r.next.Before(r.una) {
		r.next = r.una
	}
	if r.failing && r.cur == r.head {
		q.failHead(q.sq.at(r.head).status)
		return
	}
	if r.draining {
		q.checkDrained()
	}
}

// localError deals with a work request at cur whose memory may not be used: it fails when those before it are completed.
func (q *QP) localError(w *sendWQE) {
	r := &q.req
	if r.cur == r.head {
		q.failHead(w.status)
		return
	}
	r.failing = true
}

// failHead completes the work request at head with an error. RC and what else it has goes to ERROR; of UC and UD only the send queue
// stops, in SQE (IBA 10.3.1.7).
func (q *QP) failHead(status Status) {
	r := &q.req
	w := q.sq.at(r.head)
	q.sendCQ.put(q, &Completion{ID: w.id, Status: status, Op: operations[w.op].comp})
	if q.State() == ERROR {
		return
	}
	if r.cur == r.head {
		r.cur++
	}
	if r.begun == r.head {
		r.begun++
	}
	r.head++
	q.sq.head.Store(r.head)
	r.failing = false
	if q.typ == dissect.RC {
		q.enterError()
		return
	}
	q.setState(SQE)
	q.flushSend()
}

// timeout is called when one of the times that the queue pair waits for has come.
func (q *QP) timeout() {
	r, now := &q.req, q.dev.now
	if r.wait != 0 && r.wait <= now {
		r.wait = 0
		q.activate()
	}
	if r.deadline != 0 && r.deadline <= now && requests[q.State()] {
		q.dev.counters.LocalAckTimeoutErr++
		q.dev.do.retry(q)
	}
	if q.rate.held && q.rate.next <= now {
		q.rate.held = false
		q.activate()
	}
}

// due returns the earliest time that the queue pair waits for, 0 if it waits for none.
func (q *QP) due() int64 {
	r := &q.req
	at := r.deadline
	if r.wait != 0 && (at == 0 || r.wait < at) {
		at = r.wait
	}
	if q.rate.held && (at == 0 || q.rate.next < at) {
		at = q.rate.next
	}
	return at
}

// retry goes back to the oldest unanswered packet, or gives up.
func (q *QP) retry() {
	r := &q.req
	if r.retries == 0 {
		q.dev.counters.RetryExceeded++
		q.failHead(RetryExcErr)
		return
	}
	r.retries--
	q.goBack()
}

// goBack makes una the next packet to be sent.
func (q *QP) goBack() {
	r := &q.req
	r.cur, r.next = r.head, r.una
	r.depth, r.span, r.sinceAck = 0, 0, 0
	r.deadline, r.failing = 0, false
	q.dev.counters.GoBack++
	q.activate()
}
