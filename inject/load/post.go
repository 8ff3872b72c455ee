package load

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// queue lets a queue pair post when it is its turn.
func (r *strand) queue(q *asker, now int64) {
	if q.queued || q.posted-q.done >= uint64(r.plan.Depth) || !r.wants(q, now) {
		return
	}
	q.queued = true
	r.turns[(r.first+r.waiting)%len(r.turns)] = int32(q.index)
	r.waiting++
}

// postTurns posts what there is room for, the queue pairs taking turns.
func (r *strand) postTurns(now int64) {
	for n := 0; r.waiting > 0 && r.posted < r.budget && n < postBatch; {
		q := r.qps[r.turns[r.first]]
		r.first = (r.first + 1) % len(r.turns)
		r.waiting--
		q.queued = false
		for k := 0; k < r.burst && r.posted < r.budget && q.posted-q.done < uint64(r.plan.Depth) && r.wants(q, now) && r.post(q, now); k++ {
			n++
		}
		r.queue(q, now)
		r.settleIf(q, now)
	}
}

// postBatch is how many messages are posted at a time, so that the device gets its turn as well.
const postBatch = 256

func (r *strand) wants(q *asker, now int64) bool {
	return !q.over && q.posted < r.target && (r.until == 0 || now < r.until)
}

// settleIf notes that a queue pair has done all of the round.
func (r *strand) settleIf(q *asker, now int64) {
	if q.settled || q.done < q.posted && !q.over || r.wants(q, now) {
		return
	}
	if r.plan.Rally != OneWay && q.got < q.posted && !q.over {
		return
	}
	q.settled = true
	r.settled++
}

// post posts the next message of a queue pair.
func (r *strand) post(q *asker, now int64) bool {
	p, k := &r.plan, q.posted
	slot := int(k % uint64(p.slots()))
	at := q.base + slot*p.stride()
	w := &q.wr
	w.ID, w.Op, w.Flags = uint64(q.index)<<32|k%uint64(p.Depth), p.Op, rnic.Signaled
	q.sge[0] = r.mr.SGE(at, p.Size)
	w.SGL = q.sge[:]
	remote := &q.c.Remote
	if !isSend(p.Op) {
		w.RemoteVA, w.RKey = remote.Memory.VA+uint64(slot*p.stride()), remote.Memory.RKey
	}
	if p.Transport == dissect.UD {
		w.AH, w.DstQP, w.QKey = q.c.AH, remote.QPN, remote.QKey
	}
	w.Imm = uint32(k)
	switch {
	case isAtomic(p.Op):
		r.prepareAtomic(q, k)
	case p.Verify && p.Op == rnic.OpRead:
		clear(r.mr.Bytes()[at : at+p.Size]) // what was there is the same
	case p.Verify:
		fill(r.mr.Bytes()[at:at+p.Size], p.Seed, q.c.Index, k)
	case p.Rally == WriteRally:
		r.mr.Bytes()[at+p.Size-1] = byte(k + 1)
	}
	if err := q.c.QP.PostSend(*w); err != nil {
		r.fail(q, fmt.Errorf("QP %#06x: post message %d: %w", q.c.Local.QPN, k, err))
		return false
	}
	q.times[k%uint64(p.Depth)] = now
	q.posted++
	r.posted++
	return true
}

// prepareAtomic says what an atomic compares and stores. All are of one word, so that each tells what those before it did.
func (r *strand) prepareAtomic(q *asker, k uint64) {
	w := &q.wr
	w.RemoteVA = q.c.Remote.Memory.VA
	w.CompareAdd, w.Swap = 1, 0
	if r.plan.Op == rnic.OpCompareSwap {
		w.CompareAdd, w.Swap = 0, 0
		if r.plan.Verify {
			w.CompareAdd = atomicValue(true, r.plan.Seed, q.c.Index, k)
			w.Swap = atomicValue(true, r.plan.Seed, q.c.Index, k+1)
		}
	}
}

func (r *strand) fail(q *asker, err error) {
	q.over = true
	r.Result.fail(err)
}

// completed takes a completion.
func (r *strand) completed(c *rnic.Completion, now int64) {
	if c.Op >= rnic.CompRecv {
		r.answered(r.qps[c.ID&0xFFFFFFFF], c, now)
		return
	}
	q := r.qps[c.ID>>32]
	r.posted--
	switch {
	case c.Status == rnic.WRFlushErr:
		q.done++
		q.over = true
		r.Result.Flushed++
	case c.Status != rnic.Success:
		r.fail(q, &CompletionError{QPN: q.c.Local.QPN, Peer: q.c.Remote.QPN, Message: q.done, Op: r.plan.Op, Status: c.Status})
		q.done++
	default:
		if r.plan.Rally == OneWay {
			r.record(q, now-q.times[c.ID&0xFFFFFFFF])
			if r.plan.Verify && (r.plan.Op == rnic.OpRead || isAtomic(r.plan.Op)) {
				r.verify(q)
			}
		}
		q.done++
		if r.plan.Rally == OneWay {
			r.queue(q, now)
		}
	}
	r.settleIf(q, now)
}

// record takes the time of a message.
func (r *strand) record(q *asker, ns int64) {
	_ = r.Result.Histogram.RecordValue(max(ns, 1)) // what is beyond an hour is not counted here
	r.Result.Messages++
}

// verify checks what a READ or an atomic brought. Completions of a queue pair come in order.
func (r *strand) verify(q *asker) {
	p, k := &r.plan, q.done
	slot := int(k % uint64(p.slots()))
	b := r.mr.Bytes()[q.base+slot*p.stride():][:p.Size]
	if isAtomic(p.Op) {
		if got, want := word(b), atomicValue(p.Op == rnic.OpCompareSwap, p.Seed, q.c.Index, k); got != want {
			r.Result.wrong(fmt.Sprintf("QP %#06x: %v %d found %#x, and %#x was due", q.c.Local.QPN, p.Op, k, got, want))
		}
		return
	}
	if at := differs(b, p.Seed, q.c.Index, uint64(slot)); at >= 0 {
		r.Result.wrong(fmt.Sprintf("QP %#06x: READ %d is wrong from byte %d on", q.c.Local.QPN, k, at))
	}
}
