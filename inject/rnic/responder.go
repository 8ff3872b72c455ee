package rnic

import "github.com/rocescope/rocescope/dissect"

// responder is the receiving half of a queue pair.
type responder struct {
	ePSN dissect.PSN
	msn  dissect.MSN
	prev *dissect.OpInfo // the newest packet of a message that has not ended; nil between messages

	// The message under way.
	recv    recvWQE
	held    bool   // recv is taken off its queue and not completed
	written uint64 // bytes of the message that are in place
	left    uint32 // WRITE: bytes to come
	va      uint64
	rkey    uint32
	nakSent bool // a gap or an RNR is open: silence until the expected PSN comes

	resources []resource // a ring of the newest READs and atomics, for duplicates; its length is the depth
	newest    int        // place of the newest
	pending   int        // how many of them are to be answered

	ackDue      bool
	nakDue      bool
	nak         dissect.Syndrome
	nakPSN      dissect.PSN
	established bool      // RTR: the event of the first packet was raised
	closing     bool      // a refusal is on its way, and then ERROR
	closeFor    EventType // the event that it makes
}

// resource remembers a READ or an atomic: what is to be answered, and what a duplicate is answered with.
type resource struct {
	family  dissect.Family // 0 = none
	pending bool
	first   dissect.PSN
	packets uint32
	next    dissect.PSN // of the answer to be sent
	from    dissect.PSN // where the newest request for it begins
	end     dissect.PSN // behind its last answer
	va      uint64
	rkey    uint32
	length  uint32
	until   uint32 // where the newest request for it ends, in bytes of the first
	msn     dissect.MSN
	orig    uint64 // atomics: the value before
}

// begin starts the responder with the attributes of RTR.
func (r *responder) begin(q *QP) {
	sgl := r.recv.sgl
	*r = responder{ePSN: q.attr.RQPSN, resources: r.resources, recv: recvWQE{sgl: sgl[:0]}}
	r.resize(q)
}

// resize makes room for as many READs and atomics as the attributes say. What was remembered is forgotten.
func (r *responder) resize(q *QP) {
	n := q.attr.MaxDestRdAtomic
	if cap(r.resources) < n {
		r.resources = make([]resource, n)
	}
	r.resources = r.resources[:n]
	clear(r.resources)
	r.newest, r.pending = 0, 0
}

// stage is a step in dealing with a request; each says which is the next.
type stage uint8

// The stages, in the order of the fault catalogue's checks.
const (
	checkPSN stage = iota
	checkSequence
	checkOperation
	checkResource
	checkLength
	checkKey
	execute
	complete
	duplicate
	outOfSequence
	dropMessage
	done
)

// action is what is done in a stage.
type action func(q *QP, a *arrival) stage

var stages = [done]action{
	checkPSN:       (*QP).checkPSN,
	checkSequence:  (*QP).checkSequence,
	checkOperation: (*QP).checkOperation,
	checkResource:  (*QP).checkResource,
	checkLength:    (*QP).checkLength,
	checkKey:       (*QP).checkKey,
	execute:        (*QP).execute,
	complete:       (*QP).completeRequest,
	duplicate:      (*QP).duplicate,
	outOfSequence:  (*QP).outOfSequence,
	dropMessage:    (*QP).dropMessage,
}

// respond deals with a request packet that is addressed rightly.
func (q *QP) respond(a *arrival) {
	if q.rsp.closing {
		q.dev.counters.drop(DropClosing)
		return
	}
	if !q.rsp.established && q.State() == RTR {
		q.rsp.established = true
		q.dev.event(Event{Type: EventCommEst, QP: q})
	}
	s := checkPSN
	if q.typ == dissect.UD {
		s = q.datagram(a)
	}
	for s != done {
		s = q.dev.do.stages[s](q, a)
	}
}

// checkPSN: the expected PSN, one from the half before it, or a gap (IBA 9.7.4.1.1). UC goes on behind a gap with the next message.
func (q *QP) checkPSN(a *arrival) stage {
	r := &q.rsp
	diff := a.p.PSN.Sub(r.ePSN)
	switch {
	case q.typ == dissect.UC:
		if diff != 0 {
			r.prev = nil
		}
		r.ePSN = a.p.PSN.Add(1)
	case diff > 0:
		return outOfSequence
	case diff < 0:
		return duplicate
	default:
		r.nakSent = false
	}
	return checkSequence
}

// outOfSequence asks once for what is missing (IBA 9.7.5.1.1).
func (q *QP) outOfSequence(*arrival) stage {
	r := &q.rsp
	q.dev.counters.drop(DropGap)
	if !r.nakSent {
		r.nakSent = true
		q.dev.counters.OutOfSequence++
		q.refuse(nakSyndrome(dissect.NAKSequence))
	}
	return done
}

// checkSequence: what may follow in a message (IBA 9.7.4.1.2; UC 9.8.2.2.2).
func (q *QP) checkSequence(a *arrival) stage {
	r := &q.rsp
	if q.typ == dissect.UC {
		if !a.op.Starts() && !a.op.MayFollow(r.prev) {
			return dropMessage
		}
		return checkOperation // a message that did not end is gone; its receive work request serves this one
	}
	if !a.op.MayFollow(r.prev) {
		return q.reject(dissect.NAKInvalidRequest)
	}
	return checkOperation
}

// dropMessage forgets the message under way, of UC.
func (q *QP) dropMessage(*arrival) stage {
	q.rsp.prev = nil
	q.dev.counters.drop(DropMessage)
	return done
}

// checkOperation: what the queue pair lets its peer do (IBA 9.7.4.1.3).
func (q *QP) checkOperation(a *arrival) stage {
	f := a.op.Family
	known := f == dissect.Send || accessOf[f] != 0
	if !known || q.attr.Access&accessOf[f] != accessOf[f] {
		return q.reject(dissect.NAKInvalidRequest)
	}
	return checkResource
}

// checkResource: a receive work request for what consumes one, a place to remember READs and atomics (IBA 9.7.4.1.4).
func (q *QP) checkResource(a *arrival) stage {
	r := &q.rsp
	switch f := a.op.Family; {
	case f == dissect.Send && a.op.Starts(), f == dissect.Write && a.op.Flags&dissect.ConsumesReceive != 0:
		if !r.held && !q.takeReceive() {
			return q.notReady()
		}
	case f == dissect.Send, f == dissect.Write:
	case len(r.resources) == 0 || r.resources[(r.newest+1)%len(r.resources)].pending:
		return q.reject(dissect.NAKInvalidRequest)
	}
	return checkLength
}

// takeReceive takes a receive work request off the queue.
func (q *QP) takeReceive() bool {
	r := &q.rsp
	if q.srq != nil {
		r.held = q.srq.take(&r.recv)
	} else {
		r.held = q.rq.take(&r.recv)
	}
	return r.held
}

// notReady answers a request that found no receive work request.
func (q *QP) notReady() stage {
	if q.typ != dissect.RC {
		q.dev.counters.drop(DropNoReceive)
		q.rsp.prev = nil
		return done
	}
	q.dev.counters.OutOfBuffer++
	q.rsp.nakSent = true
	q.refuse(dissect.Syndrome(uint8(dissect.KindRNR)<<5 | q.attr.MinRNRTimer))
	return done
}

// checkLength: each packet's payload by its place, the sum by the message's length (IBA 9.7.4.1.6), the alignment of atomics.
func (q *QP) checkLength(a *arrival) stage {
	r := &q.rsp
	p, n := &a.p, uint32(len(a.payload))
	ok := true
	switch a.op.Payload {
	case dissect.NoPayload:
		ok = n == 0
	case dissect.FullMTU:
		ok = n == q.mtu && p.PadCount == 0
	case dissect.OneToMTU:
		ok = n >= 1 && n <= q.mtu
	default:
		ok = n <= q.mtu
	}
	if ok && a.op.Has(dissect.LayerRETH) {
		ok = p.DMALen <= maxMessage
	}
	if !ok {
		return q.reject(dissect.NAKInvalidRequest)
	}
	switch f := a.op.Family; {
	case f == dissect.Send:
		if a.op.Starts() {
			r.written = 0
		}
		if r.written+uint64(n) > r.recv.len {
			return q.rejectReceive(dissect.NAKInvalidRequest, LocLenErr)
		}
	case f == dissect.Write:
		left := r.left
		if a.op.Starts() {
			left = p.DMALen
		}
		if a.op.Ends() && n != left || !a.op.Ends() && n >= left {
			return q.reject(dissect.NAKInvalidRequest)
		}
	case a.op.Has(dissect.LayerAtomicETH) && p.VA%atomicSize != 0:
		return q.reject(dissect.NAKInvalidRequest)
	}
	return checkKey
}

// checkKey: key, access and bounds of the memory that the request names, or of the receive work request (IBA 9.7.4.1.5, 9.7.4.1.7).
func (q *QP) checkKey(a *arrival) stage {
	r, d := &q.rsp, q.dev
	p := &a.p
	need := accessOf[a.op.Family]
	switch {
	case a.op.Family == dissect.Send:
		if a.op.Starts() && !d.allowed(r.recv.sgl, q.pd, LocalWrite) {
			return q.rejectReceive(dissect.NAKRemoteOperational, LocProtErr)
		}
		return execute
	case a.op.Has(dissect.LayerRETH):
		if p.DMALen == 0 { // the key of nothing is not looked at (C9-88)
			break
		}
		if _, ok := d.remote(p.RKey, q.pd, p.VA, uint64(p.DMALen), need); !ok {
			return q.reject(dissect.NAKRemoteAccess)
		}
	case a.op.Has(dissect.LayerAtomicETH):
		if _, ok := d.remote(p.RKey, q.pd, p.VA, atomicSize, need); !ok {
			return q.reject(dissect.NAKRemoteAccess)
		}
	}
	return execute
}
