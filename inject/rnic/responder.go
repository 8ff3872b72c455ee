package rnic

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

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

var stages = [...]func(q *QP, a *arrival) stage{
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
		s = stages[s](q, a)
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

// execute does what the request says.
func (q *QP) execute(a *arrival) stage { return executions[a.op.Family](q, a) }

var executions = [dissect.Vendor + 1]func(q *QP, a *arrival) stage{
	dissect.Send:        (*QP).executeSend,
	dissect.Write:       (*QP).executeWrite,
	dissect.Read:        (*QP).executeRead,
	dissect.CompareSwap: (*QP).executeAtomic,
	dissect.FetchAdd:    (*QP).executeAtomic,
}

func (q *QP) executeSend(a *arrival) stage {
	r := &q.rsp
	if !q.dev.scatter(r.recv.sgl, q.pd, uint32(r.written), a.payload) {
		return q.rejectReceive(dissect.NAKRemoteOperational, LocProtErr)
	}
	r.written += uint64(len(a.payload))
	return complete
}

func (q *QP) executeWrite(a *arrival) stage {
	r := &q.rsp
	if a.op.Starts() {
		r.va, r.rkey, r.left, r.written = a.p.VA, a.p.RKey, a.p.DMALen, 0
	}
	n := uint64(len(a.payload))
	if n > 0 {
		to, ok := q.dev.remote(r.rkey, q.pd, r.va, n, RemoteWrite)
		if !ok { // deregistered under way
			return q.reject(dissect.NAKRemoteAccess)
		}
		copy(to, a.payload)
	}
	r.va += n
	r.left -= uint32(n)
	r.written += n
	return complete
}

func (q *QP) executeRead(a *arrival) stage {
	p := &a.p
	s := q.remember(a)
	s.packets = max(1, (p.DMALen+q.mtu-1)/q.mtu)
	s.length, s.until = p.DMALen, p.DMALen
	s.ask(p.PSN, s.packets)
	return complete
}

func (q *QP) executeAtomic(a *arrival) stage {
	p := &a.p
	at, ok := q.dev.remote(p.RKey, q.pd, p.VA, atomicSize, RemoteAtomic)
	if !ok {
		return q.reject(dissect.NAKRemoteAccess)
	}
	s := q.remember(a)
	s.packets = 1
	s.orig = binary.NativeEndian.Uint64(at)
	s.ask(p.PSN, 1)
	value := s.orig + p.Swap
	if a.op.Family == dissect.CompareSwap {
		if s.orig != p.Compare {
			return complete
		}
		value = p.Swap
	}
	binary.NativeEndian.PutUint64(at, value)
	return complete
}

// remember takes the oldest place of the ring for a READ or atomic.
func (q *QP) remember(a *arrival) *resource {
	r := &q.rsp
	r.newest = (r.newest + 1) % len(r.resources)
	s := &r.resources[r.newest]
	*s = resource{family: a.op.Family, first: a.p.PSN, va: a.p.VA, rkey: a.p.RKey, pending: true, msn: r.msn.Add(1)}
	r.pending++
	q.activate()
	return s
}

// ask notes that n answers from a PSN on are to be sent.
func (s *resource) ask(from dissect.PSN, n uint32) {
	s.next, s.from, s.end = from, from, from.Add(int(n))
}

// completeRequest counts the packet, and at a message's end the message; it makes the completion and owes the acknowledgement.
func (q *QP) completeRequest(a *arrival) stage {
	r := &q.rsp
	p := &a.p
	r.prev = a.op
	packets := 1
	if a.op.Family == dissect.Read {
		packets = int(r.resources[r.newest].packets)
	}
	if q.typ == dissect.RC {
		r.ePSN = r.ePSN.Add(packets)
	}
	if a.op.Ends() {
		r.prev = nil
		r.msn = r.msn.Add(1)
		*q.dev.counters.messages(a.op.Family)++
		if a.op.Flags&dissect.WithInv != 0 && !q.invalidate(p.Imm) {
			// No NAK belongs to it (fault catalogue IETH-01): the completion fails, and the queue pair.
			q.completeReceive(&Completion{Status: RemInvReqErr, Op: CompRecv})
			q.fail(EventQPAccessErr)
			return done
		}
		if a.op.Flags&dissect.ConsumesReceive != 0 {
			e := Completion{Op: CompRecv, ByteLen: uint32(r.written)}
			if a.op.Family == dissect.Write {
				e.Op = CompRecvWriteImm
			}
			if a.op.Flags&(dissect.WithImm|dissect.WithInv) != 0 {
				e.Imm, e.Flags = p.Imm, immFlags[a.op.Flags&dissect.WithInv]
			}
			if p.SE() {
				e.Flags |= IsSolicted
			}
			q.completeReceive(&e)
		}
	}
	if q.typ == dissect.RC && p.AckReq && a.op.Payload != dissect.NoPayload {
		r.ackDue = true
		q.activate()
	}
	return done
}

var immFlags = [...]CompletionFlags{0: HasImm, dissect.WithInv: HasInv}

// completeReceive completes the receive work request that is held.
func (q *QP) completeReceive(e *Completion) {
	q.rsp.held = false
	e.ID = q.rsp.recv.id
	q.recvCQ.put(q, e)
}

// invalidate closes a region of this domain to remote access, if it may be closed by a peer.
func (q *QP) invalidate(rkey uint32) bool {
	mr := q.dev.region(rkey, q.pd)
	if mr == nil || mr.closed || mr.access&RemoteInvalidate == 0 {
		return false
	}
	mr.closed = true
	return true
}

// messages returns the counter of a family's messages.
func (c *Counters) messages(f dissect.Family) *uint64 {
	switch f {
	case dissect.Send:
		return &c.RxSendRequests
	case dissect.Write:
		return &c.RxWriteRequests
	case dissect.Read:
		return &c.RxReadRequests
	}
	return &c.RxAtomicRequests
}

// duplicate answers again what was executed (IBA 9.7.5.1.3): SEND and WRITE by an acknowledgement, a READ from memory, an atomic
// from the saved result. What is not remembered is dropped.
func (q *QP) duplicate(a *arrival) stage {
	r := &q.rsp
	p := &a.p
	q.dev.counters.DuplicateRequest++
	switch f := a.op.Family; {
	case f == dissect.Send || f == dissect.Write:
		if p.AckReq {
			r.ackDue = true
			q.activate()
		}
		return done
	case accessOf[f] != 0:
		if s := q.remembered(p); s != nil && s.family == f && q.replay(s, p) {
			q.activate()
			return done
		}
	}
	q.dev.counters.drop(DropDuplicate)
	return done
}

// remembered returns the READ or atomic that a PSN belongs to.
func (q *QP) remembered(p *dissect.Packet) *resource {
	r := &q.rsp
	for i := range r.resources {
		if s := &r.resources[i]; s.family != 0 && p.PSN.In(s.first, int(s.packets)) {
			return s
		}
	}
	return nil
}

// replay notes that a READ, or a part of it, or an atomic is to be answered again, if that is what the duplicate asks for.
func (q *QP) replay(s *resource, p *dissect.Packet) bool {
	n := uint32(1)
	if s.family == dissect.Read {
		offset := uint32(p.PSN.Sub(s.first)) * q.mtu
		if p.RKey != s.rkey || p.VA != s.va+uint64(offset) || p.DMALen > s.length-offset {
			return false
		}
		n = max(1, (p.DMALen+q.mtu-1)/q.mtu)
		s.until = offset + p.DMALen
	} else if p.RKey != s.rkey || p.VA != s.va {
		return false
	}
	s.ask(p.PSN, n)
	if !s.pending {
		s.pending = true
		q.rsp.pending++
	}
	return true
}

// refuse owes a NAK or RNR NAK for the expected PSN.
func (q *QP) refuse(s dissect.Syndrome) {
	r := &q.rsp
	r.nakDue, r.nak, r.nakPSN = true, s, r.ePSN
	q.activate()
}

func nakSyndrome(c dissect.NAKCode) dissect.Syndrome {
	return dissect.Syndrome(uint8(dissect.KindNAK)<<5 | uint8(c))
}

// reject refuses a request for good: a NAK, then ERROR. A receive work request that is in use fails with it, else there is an event
// (C9-222.1.1). UC drops the message.
func (q *QP) reject(code dissect.NAKCode) stage {
	if q.typ != dissect.RC {
		return dropMessage
	}
	event := EventQPReqErr
	if code == dissect.NAKRemoteAccess {
		event = EventQPAccessErr
	}
	r := &q.rsp
	if r.held {
		status := RemInvReqErr
		if code == dissect.NAKRemoteAccess {
			status = LocAccessErr
		}
		q.completeReceive(&Completion{Status: status, Op: CompRecv})
		event = noEvent
	}
	return q.close(code, event)
}

// rejectReceive refuses a request because of the receive work request that it found.
func (q *QP) rejectReceive(code dissect.NAKCode, status Status) stage {
	if q.typ != dissect.RC {
		return dropMessage
	}
	q.completeReceive(&Completion{Status: status, Op: CompRecv})
	return q.close(code, noEvent)
}

// close owes the NAK; the queue pair goes to ERROR when it has left.
func (q *QP) close(code dissect.NAKCode, event EventType) stage {
	q.dev.counters.Refused++
	q.rsp.closing, q.rsp.closeFor = true, event
	q.refuse(nakSyndrome(code))
	return done
}
