package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Requester asks for operations, over the connections of one peer.
type Requester struct {
	h    *peer.Host
	plan Plan
	pd   *rnic.PD
	cq   *rnic.CQ
	mr   *rnic.MR
	qps  []asker

	sessions []*peer.Session
	worker   peer.Worker
	done     chan struct{}
	running  bool
	polled   [64]rnic.Completion
	target   uint64  // messages on each queue pair in this round
	until    int64   // when to stop posting; 0 = never
	settled  int     // queue pairs that have done all of the round
	posted   int     // messages that are under way, on all queue pairs
	budget   int     // how many may be
	burst    int     // how many a queue pair posts in its turn
	turns    []int32 // queue pairs that may post, in turn: a ring of as many as there are
	first    int
	waiting  int

	last   int64 // when something completed
	window window
	begun  int64
	Result Result
}

// asker is a queue pair of a Requester. What is there of each slot is a slice of one array.
type asker struct {
	index   int // among all; c.Index is among the session's
	c       *peer.Conn
	posted  uint64 // messages
	done    uint64
	got     uint64 // answers, of a rally
	times   []int64
	over    bool
	settled bool
	queued  bool // stands in Requester.turns
	wr      rnic.SendWR
	sge     [1]rnic.SGE
	base    int // of its memory in the region
}

// NewRequester makes one for a plan.
func NewRequester(h *peer.Host, plan Plan) (*Requester, error) {
	if err := plan.complete(); err != nil {
		return nil, err
	}
	r := &Requester{h: h, plan: plan, qps: make([]asker, plan.QPs), pd: h.Device().AllocPD()}
	r.worker.Work = r.work
	per := r.perQP()
	regions := 1
	if plan.Verify || plan.Rally != OneWay {
		regions = plan.QPs
	}
	if total := uint64(per) * uint64(regions); total > maxSize {
		return nil, fmt.Errorf("%d queue pairs with %d bytes each need more memory than %d bytes", regions, per, maxSize)
	}
	receives := 0
	if plan.Rally == SendRally {
		receives = rallyReceives
	}
	err := h.Do(func() (err error) {
		if r.cq, err = h.Device().CreateCQ(plan.QPs * (plan.Depth + receives)); err != nil {
			return err
		}
		r.mr, err = r.pd.RegMR(make([]byte, per*regions), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i := range r.qps {
		r.qps[i].index, r.qps[i].times = i, make([]int64, plan.Depth)
		if regions > 1 {
			r.qps[i].base = i * per
		}
	}
	r.turns, r.budget, r.burst = make([]int32, plan.QPs), plan.budget(), max(1, turnPackets/plan.packets())
	if plan.Verify {
		r.Result.Verified = true
	} else {
		fill(r.mr.Bytes(), plan.Seed, 0, 0)
	}
	r.Result.Histogram = hdrhistogram.New(1, int64(time.Hour), 3)
	return r, nil
}

// perQP is the memory of a queue pair: the slots, and behind them, of a rally, where the other side's messages come.
func (r *Requester) perQP() int {
	n := r.plan.slots() * r.plan.stride()
	if r.plan.Rally != OneWay {
		n += r.incomingSize()
	}
	return n
}

// part is the peer.Maker of one session's queue pairs.
type part struct {
	*Requester
	from int // the first
}

// PD implements peer.Maker.
func (p part) PD() *rnic.PD { return p.pd }

// Make implements peer.Maker. What the other side is told of memory is where a rally's answers go.
func (p part) Make(i int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	r, q := p.Requester, &p.qps[p.from+i]
	var m connect.Memory
	if t != dissect.UD {
		m = connect.Memory{RKey: r.mr.RKey(), VA: r.mr.VA() + uint64(r.incomingAt(q)), Length: uint64(r.plan.stride())}
	}
	qp, err := r.pd.CreateQP(rnic.QPInit{
		Type: t, SendCQ: r.cq, RecvCQ: r.cq, Policy: r.plan.Policy, Cap: rnic.QPCap{MaxSendWR: r.plan.Depth, MaxRecvWR: rallyReceives, MaxSGE: 1},
	})
	return qp, m, err
}

// Prepare implements peer.Maker.
func (p part) Prepare(c *peer.Conn) error {
	q := &p.qps[p.from+c.Index]
	q.c = c
	if p.plan.Rally != SendRally {
		return nil
	}
	for range rallyReceives {
		if err := p.receive(q); err != nil {
			return err
		}
	}
	return nil
}

// sessionQPs is how many queue pairs one conversation of rocescope's exchange has at most.
const sessionQPs = 512

// Dial connects the plan's queue pairs; of the request, their number and who makes them are set here.
func (r *Requester) Dial(ctx context.Context, q peer.Request) error {
	traffic, err := r.plan.Traffic()
	if err != nil {
		return err
	}
	q.Traffic, q.Local.Transport = traffic, r.plan.Transport
	most := len(r.qps)
	if q.Way == peer.ByExchange {
		most = sessionQPs
	}
	for from := 0; from < len(r.qps); from += most {
		q.QPs, q.Maker = min(most, len(r.qps)-from), part{r, from}
		s, err := r.h.Dial(ctx, q)
		if err != nil {
			return err
		}
		r.sessions = append(r.sessions, s)
		if _, err := s.Ready(0); err != nil { // at once: the other side does not wait for it for long
			return err
		}
	}
	return r.check()
}

// check says why the other side's queue pairs cannot carry the plan.
func (r *Requester) check() error {
	for i := range r.qps {
		c := r.qps[i].c
		m, need := c.Remote.Memory, uint64(r.plan.slots()*r.plan.stride())
		switch mtu := min(c.Local.MTU, c.Remote.MTU); {
		case r.plan.Transport == dissect.UD && r.plan.Size > mtu:
			return fmt.Errorf("a datagram of %d bytes does not fit into the path MTU of %d", r.plan.Size, mtu)
		case isSend(r.plan.Op):
		case m.IsZero():
			return fmt.Errorf("%v told no memory region for its QP %#06x, which %v needs", c.Remote.Address, c.Remote.QPN, r.plan.Op)
		case m.Length > 0 && (m.Length < uint64(r.plan.Size) || r.plan.Verify && m.Length < need):
			return fmt.Errorf("%v offers %d bytes of memory, and messages of %d bytes were asked for", c.Remote.Address, m.Length, r.plan.Size)
		}
	}
	return nil
}

// Run carries the plan out, behind Dial. The result is there even with an error, as far as it came.
func (r *Requester) Run(ctx context.Context) error {
	res := &r.Result
	res.Size, res.QPs, res.MTU = r.plan.Size, len(r.qps), r.qps[0].c.Remote.MTU
	before := r.h.Device().Counters()
	r.begun = r.h.Now()
	if r.plan.Duration > 0 {
		r.until = r.begun + int64(r.plan.Duration)
	}
	var err error
	for err == nil && !r.finished() {
		if err = r.round(ctx); err != nil || !r.plan.Verify {
			break
		}
		err = r.ready(r.qps[0].done)
	}
	res.Counters = Difference(before, r.h.Device().Counters())
	res.finish(&r.plan)
	if err = errors.Join(err, res.Failure); err != nil {
		return err
	}
	for _, s := range r.sessions {
		theirs, err := s.Finish(res.Perftest())
		if err != nil {
			return err
		}
		res.Theirs = theirs
	}
	return nil
}

// finished reports whether all that was asked for is done.
func (r *Requester) finished() bool {
	if r.Result.Failure != nil {
		return true
	}
	if r.plan.Count > 0 && r.target >= r.plan.Count {
		return true
	}
	return r.until > 0 && r.h.Now() >= r.until
}

// round has messages sent until the round's target, or the time.
func (r *Requester) round(ctx context.Context) error {
	target := r.plan.Count
	if target == 0 {
		target = 1 << 62
	}
	if r.plan.Verify && isWrite(r.plan.Op) { // what was written is checked before it is written over
		target = min(target, r.target+uint64(r.plan.slots()))
	}
	done := make(chan struct{})
	err := r.h.Do(func() error {
		r.target, r.done, r.settled = target, done, 0
		r.last = r.h.Now()
		for i := range r.qps {
			q := &r.qps[i]
			if q.settled = false; r.plan.Rally != WriteRally { // there the other side begins
				r.queue(q, r.last)
			}
			r.settleIf(q, r.last)
		}
		r.window.begin(r.last, r.Result.Messages)
		r.running = true
		r.h.Attach(&r.worker)
		return nil
	})
	if err != nil {
		return err
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-r.h.Done():
		return r.h.Err()
	}
	return errors.Join(err, r.h.Do(func() error { r.stop(); return nil }))
}

// ready says that so many messages were sent on each queue pair, and lets the other side check what it has.
func (r *Requester) ready(messages uint64) error {
	var all connect.Report
	told := false
	for _, s := range r.sessions {
		theirs, err := s.Ready(messages)
		if err != nil {
			return err
		}
		if theirs != nil {
			told = true
			all.Messages += theirs.Messages
			all.Wrong += theirs.Wrong
			all.Lost += theirs.Lost
			all.First = cmp.Or(all.First, theirs.First)
		}
	}
	if told {
		r.Result.takeReport(&all)
	}
	return nil
}

// stop ends a round, on the host's thread.
func (r *Requester) stop() {
	if !r.running {
		return
	}
	r.running = false
	r.Result.Took += time.Duration(r.h.Now() - r.window.start)
	r.h.Detach(&r.worker)
	close(r.done)
}

// work is done once per batch.
func (r *Requester) work(now int64) (busy bool) {
	if !r.running {
		return false
	}
	for {
		n := r.cq.Poll(r.polled[:])
		for i := range r.polled[:n] {
			r.completed(&r.polled[i], now)
		}
		if n > 0 {
			r.last, busy = now, true
		}
		if n < len(r.polled) {
			break
		}
	}
	switch {
	case r.plan.Rally == WriteRally:
		busy = r.look(now) || busy
	case r.plan.Rally == SendRally && r.plan.Transport != dissect.RC:
		r.giveUp(now)
	}
	if r.waiting > 0 {
		r.postTurns(now)
		busy = busy || r.waiting > 0 && r.posted < r.budget
	}
	r.window.look(now, &r.Result)
	switch {
	case r.settled == len(r.qps):
		r.stop()
	case now-r.last > int64(r.plan.Stall):
		r.Result.fail(fmt.Errorf("nothing completed for %v: %w", r.plan.Stall, ErrStalled))
		r.stop()
	}
	return busy
}

// ErrStalled: nothing completes, and nothing fails.
var ErrStalled = errors.New("the other side does not go on")

// Close ends the connections and gives back memory.
func (r *Requester) Close() error {
	var errs []error
	for _, s := range r.sessions {
		errs = append(errs, s.Close())
	}
	err := r.h.Do(func() error {
		r.stop()
		return errors.Join(r.mr.Deregister(), r.cq.Destroy())
	})
	if errors.Is(err, peer.ErrClosed) {
		err = nil
	}
	return errors.Join(append(errs, err)...)
}

// Measure connects, carries a plan out, and ends the connections. The result is nil where there were none.
func Measure(ctx context.Context, h *peer.Host, p Plan, q peer.Request) (*Result, error) {
	r, err := NewRequester(h, p)
	if err != nil {
		return nil, err
	}
	if err := r.Dial(ctx, q); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	err = r.Run(ctx)
	return &r.Result, errors.Join(err, r.Close())
}
