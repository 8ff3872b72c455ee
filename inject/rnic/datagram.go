package rnic

import (
	"github.com/rocescope/rocescope/dissect"
)

// grhSize is what a datagram's buffer begins with: the packet's addresses. Of an IPv4 packet it is the header, in the last 20 of the
// 40 bytes (annex A17.9.2).
const grhSize = 40

// writeDatagram writes the packet of a datagram.
func (q *QP) writeDatagram(w *sendWQE) int {
	r, d := &q.req, q.dev
	o := &operations[w.op]
	op := opcodes[dissect.UD][o.family][dissect.Only][o.flags]
	room := d.out.room()
	to := &w.ah.path
	bth, payload := to.begin(room, op, q, r.next)
	bth.SetDestQP(w.dstQP)
	if !q.copyOut(payload[:w.length], w, 0) {
		w.status = LocProtErr
		return 0
	}
	head := room[to.bth:]
	deth := dissect.DETH(op.View(head, dissect.LayerDETH))
	deth.SetSrcQP(q.qpn)
	deth.SetQKey(w.qkey)
	if w.qkey>>31 != 0 {
		deth.SetQKey(q.attr.QKey)
	}
	if op.Has(dissect.LayerImmDt) {
		dissect.ImmDt(op.View(head, dissect.LayerImmDt)).SetData(w.imm)
	}
	bth.SetSE(w.flags&Solicited != 0)
	return d.finish(to, room, op, int(w.length), &q.ipid)
}

// datagram deals with an arriving datagram: it is delivered, or dropped without a trace (IBA 9.8.3.2.2).
func (q *QP) datagram(a *arrival) stage {
	r, d := &q.rsp, q.dev
	p := &a.p
	n := uint64(len(a.payload))
	switch {
	case !a.op.Defined() || n > uint64(q.mtu):
		d.counters.drop(DropMessage)
		return done
	case !r.held && !q.takeReceive():
		d.counters.drop(DropNoReceive)
		return done
	case n+grhSize > r.recv.len: // the receive work request stays for the next
		d.counters.drop(DropMessage)
		return done
	case !d.allowed(r.recv.sgl, q.pd, LocalWrite):
		q.completeReceive(&Completion{Status: LocProtErr, Op: CompRecv})
		q.fatal()
		return done
	}
	var grh [grhSize]byte
	if p.Has(dissect.LayerIPv4) {
		at := p.Offset(dissect.LayerIPv4)
		copy(grh[20:], a.frame[at:at+20])
	} else {
		at := p.Offset(dissect.LayerIPv6)
		copy(grh[:], a.frame[at:at+40])
	}
	d.scatter(r.recv.sgl, q.pd, 0, grh[:])
	d.scatter(r.recv.sgl, q.pd, grhSize, a.payload)
	d.counters.RxSendRequests++
	e := Completion{Op: CompRecv, Flags: HasGRH, ByteLen: uint32(n) + grhSize, SrcQP: p.SrcQP, Src: p.Src}
	if a.op.Flags&dissect.WithImm != 0 {
		e.Imm = p.Imm
		e.Flags |= HasImm
	}
	if p.SE() {
		e.Flags |= IsSolicited
	}
	q.completeReceive(&e)
	return done
}
