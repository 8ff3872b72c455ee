package load

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// conversation is a peer.Party: the queue pairs of one client, and their memory.
type conversation struct {
	r       *Responder
	id      int
	call    peer.Call
	traffic *connect.Traffic
	op      rnic.Op
	rally   Rally
	pd      *rnic.PD
	mrs     []*rnic.MR
	memory  uint64
	qps     []*server
	shares  []*share
	ready   atomic.Int32
}

// server is a queue pair of a conversation.
type server struct {
	c        *peer.Conn
	share    *share
	index    int      // among the share's
	mr       *rnic.MR // what the client is told of
	recv     *rnic.MR // where receives point to
	out      *rnic.MR // WriteRally: what is written
	slot     int      // bytes of a receive
	receives int
	number   uint64 // of the next message
	imms     uint64 // of the next WRITE with immediate
	got      uint64
	posted   uint64 // of a WriteRally
	pending  int    // answers that were not completed
}

// PD implements peer.Maker.
func (v *conversation) PD() *rnic.PD { return v.pd }

// Traffic implements peer.Party.
func (v *conversation) Traffic(t connect.Traffic) error {
	op, ok := operationOf(t.Operation)
	switch {
	case !ok:
		return fmt.Errorf("the operation %q is not known", t.Operation)
	case t.Size < 0 || t.Size > maxSize || t.Slots < 1 || t.Slots > mostPosted || uint64(t.Slots)*uint64(t.Size) > v.r.o.Memory:
		return fmt.Errorf("%d messages of %d bytes: there is no room for them in %d bytes of memory", t.Slots, t.Size, v.r.o.Memory)
	case t.Answer && !isSend(op):
		return fmt.Errorf("%s is not answered", t.Operation)
	}
	v.traffic, v.op = &t, op
	if t.Answer {
		v.rally = SendRally
	}
	v.r.tell(v, Happening{Kind: Planned, Traffic: t})
	return nil
}

// region registers memory, as far as there is any left.
func (v *conversation) region(bytes int, access rnic.Access) (*rnic.MR, error) {
	r := v.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.o.Memory - r.memory; uint64(bytes) > left {
		return nil, fmt.Errorf("%d bytes of memory are wanted, and %d of %d are left", bytes, left, r.o.Memory)
	}
	mr, err := v.pd.RegMR(make([]byte, bytes), access)
	if err != nil {
		return nil, err
	}
	r.memory += uint64(bytes)
	v.memory += uint64(bytes)
	v.mrs = append(v.mrs, mr)
	return mr, nil
}

const remoteAccess = rnic.LocalWrite | rnic.RemoteWrite | rnic.RemoteRead | rnic.RemoteAtomic

// plan says what memory and receives a queue pair needs.
func (v *conversation) plan() (region, recvSize, receives int) {
	t := v.traffic
	switch {
	case v.rally == WriteRally:
		return v.r.o.RallySize, 0, 0
	case t == nil:
		return v.r.o.Region, v.r.o.Region, recvDepth
	}
	p := Plan{Size: t.Size}
	region = t.Slots * p.stride()
	if takesRecv(v.op) {
		recvSize = (t.Size + grh + 63) &^ 63
		receives = max(2, min(recvDepth, recvBytes/recvSize))
	}
	return region, recvSize, receives
}

// own reports whether each queue pair has memory of its own. Else those of a thread share some: nobody looks at it.
func (v *conversation) own() bool {
	return v.traffic != nil && (v.traffic.Verify || v.traffic.Answer) || v.rally != OneWay
}

// Make implements peer.Maker.
func (v *conversation) Make(i int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	r := v.r
	var none connect.Memory
	if err := r.full(); err != nil {
		return nil, none, err
	}
	region, recvSize, receives := v.plan()
	x := v.share()
	x.mu.Lock()
	defer x.mu.Unlock()
	s := &server{share: x, index: len(x.qps), slot: recvSize, receives: receives}
	var err error
	if v.own() || s.index == 0 {
		if s.mr, err = v.region(max(region, 64), remoteAccess); err != nil {
			return nil, none, err
		}
		v.prepareMemory(i, s.mr.Bytes())
		if s.recv = s.mr; receives > 0 && v.traffic != nil {
			n := recvSize
			if v.own() {
				n *= receives
			}
			if s.recv, err = v.region(n, rnic.LocalWrite); err != nil {
				return nil, none, err
			}
		}
		if v.rally == WriteRally {
			if s.out, err = v.region(r.o.RallySize, 0); err != nil {
				return nil, none, err
			}
		}
	} else {
		s.mr, s.recv = x.qps[0].mr, x.qps[0].recv
	}
	cq, err := x.queue(receives)
	if err != nil {
		return nil, none, err
	}
	qp, err := v.pd.CreateQP(rnic.QPInit{
		Type: t, SendCQ: cq, RecvCQ: cq, Cap: rnic.QPCap{MaxSendWR: max(1, receives), MaxRecvWR: max(1, receives), MaxSGE: 1},
	})
	if err != nil {
		return nil, none, err
	}
	v.qps, x.qps = append(v.qps, s), append(x.qps, s)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.qps++
	r.totals.QPs++
	return qp, connect.Memory{RKey: s.mr.RKey(), VA: s.mr.VA(), Length: uint64(s.mr.Len())}, nil
}

// prepareMemory writes what is going to be read.
func (v *conversation) prepareMemory(i int, b []byte) {
	t := v.traffic
	if t == nil || !t.Verify {
		return
	}
	switch {
	case isAtomic(v.op):
		putWord(b, atomicValue(v.op == rnic.OpCompareSwap, t.Seed, i, 0))
	case v.op == rnic.OpRead:
		p := Plan{Size: t.Size}
		for slot := range t.Slots {
			fill(b[slot*p.stride():][:t.Size], t.Seed, i, uint64(slot))
		}
	}
}

// Prepare implements peer.Maker.
func (v *conversation) Prepare(c *peer.Conn) error {
	s := v.qps[c.Index]
	s.share.mu.Lock()
	defer s.share.mu.Unlock()
	s.c = c
	for n := range s.receives {
		if err := v.receive(s, n); err != nil {
			return err
		}
	}
	return nil
}

// receive posts the receive of a number.
func (v *conversation) receive(s *server, n int) error {
	sge := [1]rnic.SGE{s.recv.SGE(v.recvAt(s, n), s.recvLen())}
	return s.c.QP.PostRecv(rnic.RecvWR{ID: uint64(s.index)<<32 | uint64(n), SGL: sge[:]})
}

func (v *conversation) recvAt(s *server, n int) int {
	if v.traffic == nil || !v.own() {
		return 0
	}
	return n * s.slot
}

func (s *server) recvLen() int { return min(s.slot, s.recv.Len()) }

// Connected implements peer.Party.
func (v *conversation) Connected(c *peer.Conn) { v.r.tell(v, Happening{Kind: Connected, Conn: c}) }

// perftestReady is how often a latency program of perftest says that it is ready, before there is traffic.
const perftestReady = 3

// Ready implements peer.Party.
func (v *conversation) Ready(n int, theirs *connect.Report) (own *connect.Report) {
	if theirs != nil && theirs.Messages > 0 && v.traffic != nil && v.traffic.Verify {
		v.quiet(theirs.Messages)
	}
	if v.ready.Store(int32(n)); n == 1 {
		v.r.tell(v, Happening{Kind: Ready})
	}
	own = v.check(theirs)
	if v.call.Way == peer.ByPingpong {
		v.linger()
	}
	return own
}

// The pingpong programs hang up before their traffic, and never say that it is over: it is when nothing has come for a while.
const (
	lingerLook = 100 * time.Millisecond
	lingerTime = 5 * time.Second
)

func (v *conversation) linger() {
	seen, since := uint64(0), time.Now()
	for time.Since(since) < lingerTime {
		var got uint64
		var failed error
		x := v.shares[0]
		err := x.at.thread.Do(func() error { got, failed = x.qps[0].got, x.failed; return nil })
		if err != nil || failed != nil {
			return
		}
		if got != seen {
			seen, since = got, time.Now()
		}
		time.Sleep(lingerLook)
	}
}

// Results implements peer.Party: perftest's client reports the results of both sides only with -b.
func (v *conversation) Results(theirs connect.PerftestResults) connect.PerftestResults { return theirs }

// Closed implements peer.Party.
func (v *conversation) Closed(err error) {
	r := v.r
	for _, x := range v.shares {
		x.close()
		if err == nil {
			err = x.failed
		}
	}
	for _, mr := range v.mrs {
		_ = mr.Deregister() // it is registered
	}
	report := v.report()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.totals.Failed++
	}
	r.totals.Checked += report.Messages
	r.totals.Wrong += report.Wrong
	r.totals.Lost += report.Lost
	r.memory -= v.memory
	r.qps -= len(v.qps)
	if report != (connect.Report{}) {
		r.tell(v, Happening{Kind: Checked, Report: report})
	}
	r.tell(v, Happening{Kind: Closed, QPs: len(v.qps), Err: err})
	r.all = slices.DeleteFunc(r.all, func(x *conversation) bool { return x == v })
}
