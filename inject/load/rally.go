package load

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/inject/rnic"
)

// rallyReceives is how many receives a queue pair has where SENDs are answered; grh is what stands before a datagram's data.
const (
	rallyReceives = 2
	grh           = 40
)

func (r *Requester) incomingSize() int { return r.plan.stride() + 64 }

func (r *Requester) incomingAt(q *asker) int {
	if r.plan.Rally == OneWay {
		return q.base
	}
	return q.base + r.plan.slots()*r.plan.stride()
}

// receive posts a receive of a rally.
func (r *strand) receive(q *asker) error {
	return q.c.QP.PostRecv(rnic.RecvWR{ID: uint64(q.index), SGL: []rnic.SGE{r.mr.SGE(r.incomingAt(q), r.incomingSize())}})
}

// answered takes a SEND of a rally.
func (r *strand) answered(q *asker, c *rnic.Completion, now int64) {
	if c.Status != rnic.Success {
		if c.Status != rnic.WRFlushErr {
			r.fail(q, &CompletionError{QPN: q.c.Local.QPN, Peer: q.c.Remote.QPN, Message: q.got, Op: r.plan.Op, Status: c.Status, Receive: true})
		}
		r.settleIf(q, now)
		return
	}
	if q.got >= q.posted { // given up before
		if err := r.receive(q); err != nil {
			r.fail(q, err)
		}
		return
	}
	r.record(q, (now-q.times[0])/2)
	if r.plan.Verify {
		from := r.incomingAt(q)
		if c.Flags&rnic.HasGRH != 0 {
			from += grh
		}
		if at := differs(r.mr.Bytes()[from:][:r.plan.Size], r.plan.Seed, q.c.Index, q.got); at >= 0 {
			r.Result.wrong(fmt.Sprintf("QP %#06x: the answer to SEND %d is wrong from byte %d on", q.c.Local.QPN, q.got, at))
		}
	}
	q.got++
	if err := r.receive(q); err != nil {
		r.fail(q, err)
	}
	if r.wants(q, now) {
		r.post(q, now)
	}
	r.settleIf(q, now)
}

// answerTime is how long an answer may take that may also be lost.
const answerTime = int64(500 * time.Millisecond)

// giveUp goes on where a SEND or its answer was lost.
func (r *strand) giveUp(now int64) {
	for _, q := range r.qps {
		if q.settled || q.got >= q.posted || q.done < q.posted || now-q.times[0] < answerTime {
			continue
		}
		q.got++
		r.Result.Lost++
		r.last = now
		if r.wants(q, now) {
			r.post(q, now)
		}
		r.settleIf(q, now)
	}
}

// look looks for the WRITEs of a rally.
func (r *strand) look(now int64) (busy bool) {
	for _, q := range r.qps {
		if q.settled || q.over || q.got > q.posted || q.posted-q.done >= uint64(r.plan.Depth) {
			continue
		}
		if r.plan.Count > 0 && q.got >= r.plan.Count {
			r.settleIf(q, now)
			continue
		}
		if r.mr.Bytes()[r.incomingAt(q)+r.plan.Size-1] != byte(q.got+1) {
			continue
		}
		if q.got > 0 {
			r.record(q, (now-q.times[0])/2)
		} else {
			r.Result.Messages++ // which answers nothing
		}
		q.got++
		r.last, busy = now, true
		if r.wants(q, now) {
			r.post(q, now)
		}
		r.settleIf(q, now)
	}
	return busy
}
