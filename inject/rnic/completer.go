package rnic

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// What arrives for the requester: acknowledgements, READ responses, atomic answers (IBA 9.7.6). The PSN decides what a response
// means; the MSN is heeded for credits only.

// response deals with a response packet that is addressed rightly.
func (q *QP) response(a *arrival) {
	r := &q.req
	if !requests[q.State()] {
		q.dev.counters.drop(DropState)
		return
	}
	p := &a.p
	if p.Has(dissect.LayerAETH) && q.tuning.Credits && p.Syndrome.Kind() == dissect.KindACK {
		q.takeCredits(p)
	}
	if !p.PSN.In(r.una, r.outstanding()) {
		if p.PSN.Before(r.una) { // IGNORE, but for its credits
			q.dev.counters.drop(DropStaleAnswer)
		} else {
			q.dev.counters.drop(DropGhostAnswer)
		}
		return
	}
	if a.op.Family == dissect.Acknowledge {
		q.dev.do.verdicts[p.Syndrome.Kind()](q, p)
	} else {
		q.answerArrived(a)
	}
	q.setTimer()
}

// takeCredits moves the limit of end-to-end flow control on.
func (q *QP) takeCredits(p *dissect.Packet) {
	r := &q.req
	n, ok := dissect.Credits(p.Syndrome.Value())
	if r.unlimited = !ok; r.unlimited {
		q.activate()
		return
	}
	limit := p.MSN.Add(n)
	if limit.Sub(dissect.MSN(r.limit)) > 0 || r.limit == 0 {
		r.limit = uint32(limit)
	}
	q.activate()
}

// verdicts are what the kinds of acknowledgements do.
var verdicts = [4]func(q *QP, p *dissect.Packet){
	dissect.KindACK:      (*QP).ack,
	dissect.KindRNR:      (*QP).rnr,
	dissect.KindReserved: func(q *QP, _ *dissect.Packet) { q.dev.counters.drop(DropSyndrome) },
	dissect.KindNAK:      (*QP).nak,
}

func (q *QP) ack(p *dissect.Packet) {
	if !q.acknowledge(p.PSN.Add(1)) {
		q.implied(p.PSN)
	}
}

// acknowledge completes what the PSNs before end acknowledge. It stops, and is false, at a READ or atomic that is not answered.
func (q *QP) acknowledge(end dissect.PSN) bool {
	r := &q.req
	for r.head != r.begun && end.After(r.una) {
		w := q.sq.at(r.head)
		if w.op.answered() {
			return false
		}
		if end.Sub(w.first) < int(w.packets) {
			q.progress(end)
			if r.cur == r.head && r.next.Before(r.una) {
				r.next = r.una
			}
			return true
		}
		q.progress(w.first.Add(int(w.packets)))
		q.complete(w)
	}
	return true
}

// progress moves una on: the peer lives.
func (q *QP) progress(to dissect.PSN) {
	r := &q.req
	r.una = to
	r.retries, r.rnrRetries = q.attr.RetryCnt, q.attr.RNRRetry
	r.wentBack = false
	if r.next.Before(to) {
		r.next = to
	}
	q.restartTimer()
	q.activate()
}

// implied goes back to a READ or atomic whose answer is missing: a later request, psn, was answered (IBA 9.7.5.1.2). Of the many
// answers behind one hole, one counts; that PSNs begin anew tells that what was sent again is answered, and that the hole is there
// again.
func (q *QP) implied(psn dissect.PSN) {
	r := &q.req
	again := r.wentBack && psn.Before(r.behind)
	r.behind = psn
	if r.wentBack && !again {
		return
	}
	r.wentBack = true
	q.dev.counters.ImpliedNakSeqErr++
	q.dev.do.retry(q)
}

// rnr waits as long as the peer wants, and then sends again what it was not ready for.
func (q *QP) rnr(p *dissect.Packet) {
	r := &q.req
	q.acknowledge(p.PSN)
	q.dev.counters.RnrNakRetryErr++
	switch {
	case r.wait != 0 || r.rnrRetries == 7: // a copy of one that counted already, or for ever (IBA 9.7.5.2.8)
	case r.rnrRetries == 0:
		q.dev.counters.RnrRetryExceeded++
		q.failHead(RNRRetryExcErr)
		return
	default:
		r.rnrRetries--
	}
	q.goBack()
	r.wait = q.dev.now + int64(dissect.RNRTimer(p.Syndrome.Value()))
}

// nakStatus says how each NAK ends a work request; those not in it are ignored, as reserved codes may be.
var nakStatus = [...]Status{
	dissect.NAKInvalidRequest:    RemInvReqErr,
	dissect.NAKRemoteAccess:      RemAccessErr,
	dissect.NAKRemoteOperational: RemOpErr,
}

func (q *QP) nak(p *dissect.Packet) {
	code := p.Syndrome.NAK()
	if int(code) >= len(nakStatus) {
		q.dev.counters.drop(DropSyndrome)
		return
	}
	q.acknowledge(p.PSN)
	r := &q.req
	switch {
	case r.una != p.PSN && !q.inRead(p.PSN):
		q.implied(p.PSN)
	case code == dissect.NAKSequence:
		q.dev.counters.PacketSeqErr++
		if r.next != r.una { // else it goes back already
			q.dev.do.retry(q)
		}
	default:
		q.failHead(nakStatus[code])
	}
}

// inRead reports whether a PSN belongs to the READ at head: a NAK takes the place of the response that failed, and those before it
// may have been lost.
func (q *QP) inRead(psn dissect.PSN) bool {
	r := &q.req
	if r.head == r.begun {
		return false
	}
	w := q.sq.at(r.head)
	return w.op == OpRead && psn.In(w.first, int(w.packets))
}

// answerArrived deals with a READ response or an atomic answer that belongs to what is outstanding.
func (q *QP) answerArrived(a *arrival) {
	r := &q.req
	p := &a.p
	if !q.acknowledge(p.PSN) { // an answer acknowledges what was requested before
		q.implied(p.PSN)
		return
	}
	if r.head == r.begun || p.PSN != r.una {
		return
	}
	w := q.sq.at(r.head)
	status := BadRespErr
	switch {
	case a.op.Has(dissect.LayerAETH) && p.Syndrome.Kind() != dissect.KindACK:
	case w.op == OpRead && a.op.Family == dissect.Read:
		status = q.readArrived(w, a)
	case w.op >= OpCompareSwap && a.op.Family == dissect.AtomicAcknowledge:
		status = q.atomicArrived(w, p)
	}
	if status != Success {
		q.failHead(status)
	}
}

// readArrived takes the response at una of the READ at head.
func (q *QP) readArrived(w *sendWQE, a *arrival) Status {
	r := &q.req
	at := uint32(a.p.PSN.Sub(w.first))
	offset := at * q.mtu
	left := w.length - offset
	final := at+1 == w.packets
	starts := a.p.PSN == w.asked
	switch {
	case a.op.Ends() != final, a.op.Starts() && !starts && at != 0, !a.op.Starts() && at == 0:
		return BadRespErr
	case uint32(len(a.payload)) != min(left, q.mtu):
		return LocLenErr
	case !q.dev.scatter(q.sq.sgl(r.head, w), q.pd, offset, a.payload):
		return LocProtErr
	}
	if r.cur != r.head {
		r.span--
	}
	q.progress(r.una.Add(1))
	if final {
		q.complete(w)
	}
	return Success
}

// atomicArrived takes the answer to the atomic at head.
func (q *QP) atomicArrived(w *sendWQE, p *dissect.Packet) Status {
	r := &q.req
	var value [atomicSize]byte
	binary.NativeEndian.PutUint64(value[:], p.Orig)
	if !q.dev.scatter(q.sq.sgl(r.head, w), q.pd, 0, value[:]) {
		return LocProtErr
	}
	if r.cur != r.head {
		r.span--
	}
	q.progress(r.una.Add(1))
	q.complete(w)
	return Success
}
