package rnic

import "github.com/rocescope/rocescope/dissect"

// How the responder answers what is no new request that it takes: duplicates, and what it refuses.

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
