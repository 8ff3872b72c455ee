package rnic

import (
	"github.com/rocescope/rocescope/dissect"
)

// What the responder sends. Receiving only notes what is owed; answers leave in the order of PSNs: READs and atomics that are pending,
// then one acknowledgement for all that came in the batch, or the NAK.

// answer sends the next packet that the responder owes, and reports whether it did.
func (q *QP) answer() bool {
	if q.cnpDue {
		q.sendCNP()
		return true
	}
	r := &q.rsp
	if !answers[q.State()] {
		return false
	}
	if r.pending > 0 {
		if q.tuning.Paced && !q.rate.allows(q) {
			return false
		}
		q.sendPending()
		return true
	}
	switch {
	case r.nakDue:
		r.nakDue, r.ackDue = false, false
		q.sendAck(r.nak, r.nakPSN)
		if r.closing {
			q.fail(r.closeFor)
		}
	case r.ackDue:
		r.ackDue = false
		q.sendAck(dissect.Syndrome(q.credits()), r.ePSN.Add(-1))
	default:
		return false
	}
	return true
}

// sendAck sends an acknowledgement of its kind.
func (q *QP) sendAck(s dissect.Syndrome, psn dissect.PSN) {
	d := q.dev
	op := dissect.OpRCAcknowledge.Info()
	room := d.out.room()
	q.peer.begin(room, op, q, psn)
	q.writeAETH(room, op, s, q.rsp.msn)
	q.sendAnswer(room, op, 0)
}

func (q *QP) writeAETH(room []byte, op *dissect.OpInfo, s dissect.Syndrome, msn dissect.MSN) {
	h := dissect.AETH(op.View(room[q.peer.bth:], dissect.LayerAETH))
	h.SetSyndrome(s)
	h.SetMSN(msn)
}

func (q *QP) sendAnswer(room []byte, op *dissect.OpInfo, payload int) int {
	n := q.dev.finish(&q.peer, room, op, payload, &q.ipid)
	q.dev.out.commit(n)
	q.dev.counters.TxAnswers++
	return n
}

// sendPending sends the next packet of the oldest READ or atomic that is to be answered.
func (q *QP) sendPending() {
	r := &q.rsp
	s := q.oldestPending()
	if s.family != dissect.Read {
		op := dissect.OpRCAtomicAcknowledge.Info()
		room := q.dev.out.room()
		q.peer.begin(room, op, q, s.first)
		q.writeAETH(room, op, dissect.Syndrome(q.credits()), s.msn)
		dissect.AtomicAckETH(op.View(room[q.peer.bth:], dissect.LayerAtomicAckETH)).SetOrig(s.orig)
		q.sendAnswer(room, op, 0)
		q.answered(s)
		return
	}
	op := readResponses[position(uint32(s.next.Sub(s.from)), uint32(s.end.Sub(s.from)))]
	room := q.dev.out.room()
	_, payload := q.peer.begin(room, op, q, s.next)
	offset := uint32(s.next.Sub(s.first)) * q.mtu
	n := min(s.until-offset, q.mtu)
	if n > 0 {
		from, ok := q.dev.remote(s.rkey, q.pd, s.va+uint64(offset), uint64(n), RemoteRead)
		if !ok { // the NAK takes the response's place
			s.pending = false
			r.pending = 0
			r.closing, r.closeFor = true, EventQPAccessErr
			r.nakDue, r.nak, r.nakPSN = true, nakSyndrome(dissect.NAKRemoteAccess), s.next
			q.dev.counters.Refused++
			q.answer()
			return
		}
		copy(payload, from)
	}
	if op.Has(dissect.LayerAETH) {
		q.writeAETH(room, op, dissect.Syndrome(q.credits()), s.msn)
	}
	size := q.sendAnswer(room, op, int(n))
	if q.tuning.Paced {
		q.rate.sent(q, size)
	}
	if s.next = s.next.Add(1); s.next == s.end {
		q.answered(s)
	}
}

// answered takes a READ or atomic off the pending ones. Its answer acknowledges what came before it.
func (q *QP) answered(s *resource) {
	r := &q.rsp
	s.pending = false
	r.pending--
	if s.end == r.ePSN {
		r.ackDue = false
	}
}

// oldestPending returns the pending READ or atomic of the oldest PSN: the ring from the place behind the newest on.
func (q *QP) oldestPending() *resource {
	r := &q.rsp
	n := len(r.resources)
	for i := 1; i <= n; i++ {
		if s := &r.resources[(r.newest+i)%n]; s.pending {
			return s
		}
	}
	panic("rnic: pending answers, and none in the ring")
}

// creditCodes are the codes of end-to-end credits, by how many of them dissect's table has below a count.
var creditCodes = func() (counts []int) {
	for code := range uint8(dissect.NoCreditInfo) {
		n, _ := dissect.Credits(code)
		counts = append(counts, n)
	}
	return counts
}()

// credits returns the credit code of acknowledgements: how many receive work requests wait, rounded down.
func (q *QP) credits() uint8 {
	if !q.tuning.Credits || q.srq != nil {
		return dissect.NoCreditInfo
	}
	posted := q.rq.posted()
	lo, hi := 0, len(creditCodes)
	for hi-lo > 1 {
		if mid := (lo + hi) / 2; creditCodes[mid] <= posted {
			lo = mid
		} else {
			hi = mid
		}
	}
	return uint8(lo)
}
