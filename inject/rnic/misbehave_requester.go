package rnic

import "github.com/rocescope/rocescope/dissect"

// What a requester does wrong with its answers.

func rnrAsAck(_ *Device, do *behaviour) { do.verdicts[dissect.KindRNR] = do.verdicts[dissect.KindACK] }

func rnrNotAwaited(_ *Device, do *behaviour) {
	before := do.verdicts[dissect.KindRNR]
	do.verdicts[dissect.KindRNR] = func(q *QP, p *dissect.Packet) {
		before(q, p)
		q.req.wait = 0
		q.activate()
	}
}

func rnrSevenCounted(_ *Device, do *behaviour) {
	count, of := 0, dissect.PSN(0)
	before := do.verdicts[dissect.KindRNR]
	do.verdicts[dissect.KindRNR] = func(q *QP, p *dissect.Packet) {
		if p.PSN != of {
			count, of = 0, p.PSN
		}
		if count++; q.req.rnrRetries == 7 && count > 7 {
			q.req.rnrRetries, q.req.wait = 0, 0
		}
		before(q, p)
	}
}

func fatalNAKRetried(_ *Device, do *behaviour) {
	before := do.verdicts[dissect.KindNAK]
	do.verdicts[dissect.KindNAK] = func(q *QP, p *dissect.Packet) {
		p.Syndrome = nakSyndrome(dissect.NAKSequence)
		before(q, p)
	}
}

func neverRetries(_ *Device, do *behaviour) {
	do.retry = func(q *QP) { q.req.deadline = 0 }
}

func retriesForever(_ *Device, do *behaviour) {
	before := do.retry
	do.retry = func(q *QP) {
		q.req.retries = 7
		before(q)
	}
}

func ghostACKTaken(_ *Device, do *behaviour) {
	do.first(dissect.Response, func(a *arrival) bool {
		r := &a.q.req
		if n := r.outstanding(); n > 0 && a.op.Family == dissect.Acknowledge && !a.p.PSN.In(r.una, n) && a.p.PSN.After(r.una) {
			a.p.PSN = r.max.Add(-1)
		}
		return true
	})
}

func impliedNAKIgnored(_ *Device, do *behaviour) {
	do.verdicts[dissect.KindACK] = func(q *QP, p *dissect.Packet) {
		r := &q.req
		for !q.acknowledge(p.PSN.Add(1)) {
			w := q.sq.at(r.head)
			if r.cur != r.head {
				r.span -= int(w.packets) - r.una.Sub(w.first)
			}
			q.progress(w.first.Add(int(w.packets)))
			q.complete(w)
		}
	}
}

func completionsMerged(_ *Device, do *behaviour) {
	before := do.verdicts[dissect.KindACK]
	do.verdicts[dissect.KindACK] = func(q *QP, p *dissect.Packet) {
		r := &q.req
		var newest *sendWQE
		for i := r.head; i != r.begun; i++ {
			w := q.sq.at(i)
			if w.op.answered() || p.PSN.Add(1).Before(w.first.Add(int(w.packets))) {
				break
			}
			if newest != nil {
				newest.flags &^= Signaled
			}
			newest = w
		}
		before(q, p)
	}
}
