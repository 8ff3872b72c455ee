package rnic

import (
	"encoding/binary"
	"sync/atomic"
	"unsafe"

	"github.com/rocescope/rocescope/dissect"
)

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
	s.orig = q.dev.atomically(at, a)
	s.ask(p.PSN, 1)
	return complete
}

// atomically carries out an atomic on a word, and returns what it was. Other devices may have the same word under their hands.
func (d *Device) atomically(word []byte, a *arrival) (orig uint64) {
	at := unsafe.Pointer(unsafe.SliceData(word))
	if uintptr(at)%atomicSize != 0 { // only the address in the peer's eyes must be aligned: the processor may not be able to
		d.verbs.Lock()
		defer d.verbs.Unlock()
		orig = binary.NativeEndian.Uint64(word)
		binary.NativeEndian.PutUint64(word, atomicResult(a, orig))
		return orig
	}
	for {
		orig = atomic.LoadUint64((*uint64)(at))
		if atomic.CompareAndSwapUint64((*uint64)(at), orig, atomicResult(a, orig)) {
			return orig
		}
	}
}

// atomicResult is what an atomic makes of a value.
func atomicResult(a *arrival, value uint64) uint64 {
	switch {
	case a.op.Family == dissect.FetchAdd:
		return value + a.p.Swap
	case value == a.p.Compare:
		return a.p.Swap
	}
	return value
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
				e.Flags |= IsSolicited
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
	if mr == nil || mr.closed.Load() || mr.access&RemoteInvalidate == 0 {
		return false
	}
	mr.closed.Store(true)
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
