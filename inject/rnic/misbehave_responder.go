package rnic

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// What a responder does wrong, first which request it takes for what, then what it executes, then how it answers.

func stalePSN(_ *Device, do *behaviour) {
	var of *QP // the newest
	var expected, next dissect.PSN
	do.started = func(q *QP) {
		switch {
		case of == nil || of == q:
		case q.State() == RTR:
			q.rsp.ePSN = expected
			return
		default:
			q.req.una, q.req.next, q.req.max = next, next, next
		}
		if q.State() == RTS {
			of, expected, next = q, q.rsp.ePSN, q.req.max
		}
	}
	do.around(complete, func(q *QP, a *arrival, before action) stage {
		s := before(q, a)
		if q == of {
			expected = q.rsp.ePSN
		}
		return s
	})
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		if of != nil && bth.Opcode().Info().Role == dissect.Request && bth.DestQP() == of.attr.DestQPN && bth.PSN().Sub(next) >= 0 {
			next = bth.PSN().Add(1)
		}
		return len(frame), false
	})
}

func errorFinal(d *Device, do *behaviour) {
	from := uint32(0) // the first QPN that is not served
	do.first(dissect.Request, func(a *arrival) bool { return from == 0 || a.q.qpn < from })
	for _, s := range [...]stage{checkSequence, checkOperation, checkResource, checkLength, checkKey, execute} {
		do.around(s, func(q *QP, a *arrival, before action) stage {
			next := before(q, a)
			if q.rsp.closing && from == 0 {
				from = d.nextQPN.Load()
			}
			return next
		})
	}
}

func gapAccepted(_ *Device, do *behaviour) {
	do.around(outOfSequence, func(q *QP, a *arrival, _ action) stage {
		q.rsp.ePSN = a.p.PSN
		return checkSequence
	})
}

func gapSilent(_ *Device, do *behaviour) {
	do.around(outOfSequence, func(q *QP, _ *arrival, _ action) stage {
		q.dev.counters.drop(DropGap)
		return done
	})
}

func nakStorm(_ *Device, do *behaviour) {
	do.around(outOfSequence, func(q *QP, a *arrival, before action) stage {
		if q.rsp.nakDue { // those of one batch do not become one
			q.answer()
		}
		q.rsp.nakSent = false
		return before(q, a)
	})
}

func nakWrongPSN(_ *Device, do *behaviour) {
	do.around(outOfSequence, func(q *QP, a *arrival, before action) stage {
		fresh := !q.rsp.nakSent
		s := before(q, a)
		if fresh {
			q.rsp.nakPSN = a.p.PSN
		}
		return s
	})
}

func sequenceUnchecked(_ *Device, do *behaviour) {
	do.around(checkSequence, func(q *QP, a *arrival, before action) stage {
		if a.op.Family == dissect.Write && !a.op.Starts() && !a.op.MayFollow(q.rsp.prev) {
			r := &q.rsp
			n := uint64(len(a.payload))
			if to, ok := q.dev.remote(r.rkey, q.pd, r.va-r.written, n, RemoteWrite); ok {
				copy(to, a.payload)
			}
			return complete
		}
		return before(q, a)
	})
}

// hangingOpcodes are those which an engine had no branch for.
var hangingOpcodes = [...]dissect.Opcode{dissect.OpRCSendOnlyImm, dissect.OpRCWriteOnlyImm, dissect.OpRCFetchAdd}

func opcodeHang(_ *Device, do *behaviour) {
	do.around(checkSequence, func(q *QP, a *arrival, before action) stage {
		for _, op := range hangingOpcodes {
			if a.op.Code == op {
				q.dev.hang()
				return done
			}
		}
		if !a.op.Defined() {
			q.dev.hang()
			return done
		}
		return before(q, a)
	})
}

func opcodeSilent(_ *Device, do *behaviour) {
	do.first(dissect.NoRole, func(a *arrival) bool { return a.op.Defined() })
}

func accessUnchecked(_ *Device, do *behaviour) {
	do.around(checkOperation, func(q *QP, a *arrival, before action) stage {
		if int(a.op.Family) < len(accessOf) {
			q.attr.Access |= accessOf[a.op.Family]
		}
		return before(q, a)
	})
	do.around(checkKey, func(q *QP, a *arrival, before action) stage {
		if mr := q.dev.region(a.p.RKey, q.pd); mr != nil {
			mr.access |= accessOf[a.op.Family]
		}
		return before(q, a)
	})
}

func rkeyUnchecked(_ *Device, do *behaviour) {
	find := func(q *QP, a *arrival, before action) stage {
		if a.op.Has(dissect.LayerRETH) || a.op.Has(dissect.LayerAtomicETH) {
			for i := range q.dev.regions.all() {
				if mr := q.dev.regions.all()[i].Load(); mr != nil && mr.pd == q.pd && a.p.VA-mr.va < uint64(len(mr.mem)) {
					a.p.RKey = mr.key
				}
			}
		}
		return before(q, a)
	}
	do.around(checkKey, find)
	do.around(duplicate, find)
}

func boundsUnchecked(_ *Device, do *behaviour) {
	do.around(checkKey, func(q *QP, a *arrival, before action) stage {
		mr := q.dev.region(a.p.RKey, q.pd)
		if !a.op.Has(dissect.LayerRETH) || mr == nil || a.p.VA < mr.va {
			return before(q, a)
		}
		end := a.p.VA - mr.va + uint64(a.p.DMALen)
		if end <= uint64(len(mr.mem)) {
			return before(q, a)
		}
		// What lies behind is written if it is memory of this program's that the region is a part of; what is not, is lost.
		mr.mem = mr.mem[:min(end, uint64(cap(mr.mem)))]
		if end > uint64(len(mr.mem)) && a.op.Family == dissect.Write && a.op.Position == dissect.Only {
			return complete
		}
		return before(q, a)
	})
}

func va48Bits(_ *Device, do *behaviour) {
	cut := func(q *QP, a *arrival, before action) stage {
		a.p.VA &= 1<<48 - 1
		return before(q, a)
	}
	do.around(checkKey, cut)
	do.around(duplicate, cut)
}

func lengthUnchecked(_ *Device, do *behaviour) {
	do.around(checkLength, func(q *QP, a *arrival, _ action) stage {
		if a.op.Family == dissect.Send && a.op.Starts() {
			q.rsp.written = 0
		}
		return checkKey
	})
}

func nakWrongCode(_ *Device, do *behaviour) {
	for _, s := range [...]stage{checkSequence, checkOperation, checkResource, checkLength, checkKey, execute} {
		do.around(s, func(q *QP, a *arrival, before action) stage {
			next := before(q, a)
			if r := &q.rsp; next == done && r.closing {
				switch r.nak.NAK() {
				case dissect.NAKInvalidRequest:
					r.nak = nakSyndrome(dissect.NAKRemoteAccess)
				case dissect.NAKRemoteAccess:
					r.nak = nakSyndrome(dissect.NAKInvalidRequest)
				}
			}
			return next
		})
	}
}

// nothing is done with the request, but it is acknowledged.
func (q *QP) acknowledgeOnly(a *arrival) stage {
	r := &q.rsp
	if r.ePSN = r.ePSN.Add(1); a.op.Ends() {
		r.msn = r.msn.Add(1)
	}
	if r.prev = a.op; a.op.Ends() {
		r.prev = nil
	}
	if a.p.AckReq {
		r.ackDue = true
		q.activate()
	}
	return done
}

func rnrMissing(_ *Device, do *behaviour) {
	lost := map[*QP]bool{} // the message under way has no receive
	do.around(checkResource, func(q *QP, a *arrival, before action) stage {
		if a.op.Family != dissect.Send || q.typ != dissect.RC {
			return before(q, a)
		}
		if a.op.Starts() {
			lost[q] = !q.rsp.held && !q.takeReceive()
		}
		if lost[q] {
			return q.acknowledgeOnly(a)
		}
		return before(q, a)
	})
}

func immNotDelivered(_ *Device, do *behaviour) {
	do.around(checkResource, func(q *QP, a *arrival, before action) stage {
		if a.op.Family == dissect.Write {
			return checkLength
		}
		return before(q, a)
	})
	do.around(complete, func(q *QP, a *arrival, before action) stage {
		if a.op.Family == dissect.Write && a.op.Flags&dissect.ConsumesReceive != 0 {
			return q.acknowledgeOnly(a)
		}
		return before(q, a)
	})
}

func zeroWriteHang(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		if a.op.Family == dissect.Write && a.op.Starts() && a.p.DMALen == 0 {
			q.dev.hang()
			return done
		}
		return before(q, a)
	})
}

func zeroReadSilent(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		if a.op.Family == dissect.Read && a.p.DMALen == 0 {
			return done
		}
		return before(q, a)
	})
}

func zeroLengthPSN(_ *Device, do *behaviour) {
	do.around(complete, func(q *QP, a *arrival, before action) stage {
		s := before(q, a)
		if a.op.Position == dissect.Only && a.op.Payload != dissect.NoPayload && len(a.payload) == 0 {
			q.rsp.ePSN = q.rsp.ePSN.Add(-1)
		}
		return s
	})
}

func padWritten(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		pad := uint64(a.p.PadCount)
		if a.op.Family != dissect.Write || pad == 0 {
			return before(q, a)
		}
		s := before(q, a)
		if to, ok := q.dev.remote(q.rsp.rkey, q.pd, q.rsp.va, pad, RemoteWrite); ok {
			end := len(a.frame) - dissect.ICRCSize
			copy(to, a.frame[end-int(pad):end])
		}
		return s
	})
}

func payloadDamaged(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		s := before(q, a)
		if a.op.Family == dissect.Write && len(a.payload)%64 != 0 {
			if to, ok := q.dev.remote(q.rsp.rkey, q.pd, q.rsp.va-1, 1, RemoteWrite); ok {
				to[0] ^= 0xFF
			}
		}
		return s
	})
}

// stallAt is how many bytes of a message are taken.
const stallAt = 8192

func longMessageStall(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		if !a.op.Starts() && q.rsp.written >= stallAt {
			return done
		}
		return before(q, a)
	})
}

func msnPerPacket(_ *Device, do *behaviour) {
	do.around(complete, func(q *QP, a *arrival, before action) stage {
		s := before(q, a)
		if !a.op.Ends() {
			q.rsp.msn = q.rsp.msn.Add(1)
		}
		return s
	})
}

func ackWrongPSN(_ *Device, do *behaviour) {
	do.spoiling(func(frame []byte, bth dissect.BTH) (int, bool) {
		op := bth.Opcode().Info()
		if op.Code != dissect.OpRCAcknowledge || dissect.AETH(op.View(bth, dissect.LayerAETH)).Syndrome().Kind() != dissect.KindACK {
			return len(frame), false
		}
		bth.SetPSN(bth.PSN().Add(1))
		return len(frame), true
	})
}

// isData reports whether a request is a SEND or WRITE.
func (a *arrival) isData() bool { return a.op.Family == dissect.Send || a.op.Family == dissect.Write }

func duplicateEchoed(_ *Device, do *behaviour) {
	do.around(duplicate, func(q *QP, a *arrival, before action) stage {
		if !a.isData() || !a.p.AckReq {
			return before(q, a)
		}
		q.dev.counters.DuplicateRequest++
		q.sendAck(dissect.Syndrome(q.credits()), a.p.PSN)
		return done
	})
}

func duplicateUnanswered(_ *Device, do *behaviour) {
	do.around(duplicate, func(q *QP, _ *arrival, _ action) stage {
		q.dev.counters.drop(DropDuplicate)
		return done
	})
}

func duplicateExecuted(_ *Device, do *behaviour) {
	do.around(duplicate, func(q *QP, a *arrival, before action) stage {
		if a.isData() && a.op.Position == dissect.Only && q.rsp.prev == nil {
			expected, msn := q.rsp.ePSN, q.rsp.msn
			for s := checkOperation; s != done; {
				s = q.dev.do.stages[s](q, a)
			}
			q.rsp.ePSN, q.rsp.msn = expected, msn
			return done
		}
		return before(q, a)
	})
}

func atomicRepeated(_ *Device, do *behaviour) {
	do.around(duplicate, func(q *QP, a *arrival, before action) stage {
		s := q.remembered(&a.p)
		if s == nil || !a.op.Has(dissect.LayerAtomicETH) {
			return before(q, a)
		}
		next := before(q, a)
		if at, ok := q.dev.remote(s.rkey, q.pd, s.va, atomicSize, RemoteAtomic); ok {
			s.orig = binary.NativeEndian.Uint64(at)
			binary.NativeEndian.PutUint64(at, atomicResult(a, s.orig))
		}
		return next
	})
}

func atomicEmpty(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		if !a.op.Has(dissect.LayerAtomicETH) {
			return before(q, a)
		}
		s := q.remember(a)
		s.packets = 1
		s.ask(a.p.PSN, 1)
		return complete
	})
}

func swapAlways(_ *Device, do *behaviour) {
	do.around(execute, func(q *QP, a *arrival, before action) stage {
		if at, ok := q.dev.remote(a.p.RKey, q.pd, a.p.VA, atomicSize, RemoteAtomic); ok && a.op.Family == dissect.CompareSwap {
			a.p.Compare = binary.NativeEndian.Uint64(at)
		}
		return before(q, a)
	})
}

func readResumedWrong(_ *Device, do *behaviour) {
	do.around(duplicate, func(q *QP, a *arrival, before action) stage {
		s := before(q, a)
		if r := q.remembered(&a.p); r != nil && r.family == dissect.Read && a.p.PSN != r.first {
			// The rest is answered as if it were the whole: from its first byte on.
			r.until -= uint32(a.p.PSN.Sub(r.first)) * q.mtu
			r.packets -= uint32(a.p.PSN.Sub(r.first))
			r.first = a.p.PSN
		}
		return s
	})
}
