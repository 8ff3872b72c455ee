package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Requester asks for operations, over the connections of one peer.
type Requester struct {
	h       *peer.Host
	plan    Plan
	pd      *rnic.PD
	mr      *rnic.MR
	qps     []asker
	strands []*strand

	sessions []*peer.Session
	target   uint64 // messages on each queue pair in this round
	until    int64  // when to stop posting; 0 = never
	Result   Result
}

// asker is a queue pair of a Requester. What is there of each slot is a slice of one array.
type asker struct {
	strand  *strand
	index   int // among the strand's; c.Index is among the session's
	c       *peer.Conn
	posted  uint64 // messages
	done    uint64
	got     uint64 // answers, of a rally
	times   []int64
	over    bool
	settled bool
	queued  bool // stands in the strand's turns
	wr      rnic.SendWR
	sge     [1]rnic.SGE
	base    int // of its memory in the region
}

// NewRequester makes one for a plan.
func NewRequester(h *peer.Host, plan Plan) (*Requester, error) {
	if err := plan.complete(); err != nil {
		return nil, err
	}
	r := &Requester{h: h, plan: plan, qps: make([]asker, plan.QPs), pd: h.Device().AllocPD(), Result: newResult()}
	threads := h.Threads()[:min(len(h.Threads()), plan.QPs)]
	per := r.perQP()
	regions := len(threads)
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
	var err error
	if r.mr, err = r.pd.RegMR(make([]byte, per*regions), rnic.LocalWrite|rnic.RemoteWrite|rnic.RemoteRead); err != nil {
		return nil, err
	}
	for _, t := range threads {
		r.strands = append(r.strands, newStrand(r, t))
	}
	for i := range r.qps {
		q := &r.qps[i]
		q.times, q.base = make([]int64, plan.Depth), i%regions*per
		r.strands[i%len(r.strands)].add(q)
	}
	for _, s := range r.strands {
		if err := s.begin(receives); err != nil {
			return nil, errors.Join(err, r.Close())
		}
	}
	if plan.Verify {
		r.Result.Verified = true
	} else {
		fill(r.mr.Bytes(), plan.Seed, 0, 0)
	}
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
		Type: t, SendCQ: q.strand.cq, RecvCQ: q.strand.cq, Policy: r.plan.Policy, Cap: rnic.QPCap{MaxSendWR: r.plan.Depth, MaxRecvWR: rallyReceives, MaxSGE: 1},
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
		if err := q.strand.receive(q); err != nil {
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
	before := r.h.Counters()
	if r.plan.Duration > 0 {
		r.until = r.h.Now() + int64(r.plan.Duration)
	}
	var err error
	for err == nil && !r.finished() {
		if err = r.round(ctx); err != nil || !r.plan.Verify {
			break
		}
		err = r.ready(r.qps[0].done)
	}
	res.Counters = r.h.Counters().Minus(before)
	for _, s := range r.strands {
		res.Histogram.Merge(s.Result.Histogram)
	}
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
	r.target = target
	var err error
	for _, s := range r.strands {
		err = errors.Join(err, s.thread.Do(s.start))
	}
	if err == nil {
		err = r.wait(ctx)
	}
	first, last := int64(math.MaxInt64), int64(0)
	for _, s := range r.strands {
		if stopped := s.thread.Do(s.stop); err == nil { // it has stopped already, if there is no error
			err = stopped
		}
		first, last = min(first, s.begun), max(last, s.ended)
		r.Result.take(&s.Result)
	}
	r.Result.Took += time.Duration(last - first)
	return err
}

// wait waits until all strands have done the round.
func (r *Requester) wait(ctx context.Context) error {
	for _, s := range r.strands {
		select {
		case <-s.done:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-r.h.Done():
			return r.h.Err()
		}
	}
	return nil
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

// ErrStalled: nothing completes, and nothing fails.
var ErrStalled = errors.New("the other side does not go on")

// Close ends the connections and gives back memory.
func (r *Requester) Close() error {
	var errs []error
	for _, s := range r.sessions {
		errs = append(errs, s.Close())
	}
	for _, s := range r.strands {
		if err := s.end(); !errors.Is(err, peer.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(append(errs, r.mr.Deregister())...)
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
