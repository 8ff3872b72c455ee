package load

import (
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// The kinds.
const (
	Called    HappeningKind = iota // somebody wants to connect
	Refused                        // and may not, by Err
	Planned                        // the traffic that it announces
	Connected                      // a queue pair is in RTS
	Ready                          // both sides are ready
	Checked                        // data was checked
	Broken                         // a queue pair failed, by Err
	Closed                         // the end; Err is nil if it was an orderly one
	numHappenings
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
	cqs     []*rnic.CQ
	qps     []server
	ready   int
	report  connect.Report
	failed  error
	talk    *peer.Talk // the connection turned out to be one for perftest's words
}

// server is a queue pair of a conversation.
type server struct {
	c        *peer.Conn
	mr       *rnic.MR // what the client is told of
	recv     *rnic.MR // where receives point to
	out      *rnic.MR // WriteRally: what is written
	cq       *rnic.CQ
	slot     int // bytes of a receive
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

// own reports whether each queue pair has memory of its own. Else they share what is there: nobody looks at it.
func (v *conversation) own() bool {
	return v.traffic != nil && (v.traffic.Verify || v.traffic.Answer) || v.rally != OneWay
}

// Make implements peer.Maker.
func (v *conversation) Make(i int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	r := v.r
	var none connect.Memory
	if r.qps >= r.o.Connections {
		return nil, none, fmt.Errorf("there are %d queue pairs already, as many as are allowed", r.qps)
	}
	region, recvSize, receives := v.plan()
	s := server{slot: recvSize, receives: receives}
	var err error
	if v.own() || i == 0 {
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
		s.mr, s.recv = v.qps[0].mr, v.qps[0].recv
	}
	if i%groupQPs == 0 {
		cq, err := r.h.Device().CreateCQ(max(1, groupQPs*2*receives))
		if err != nil {
			return nil, none, err
		}
		v.cqs = append(v.cqs, cq)
	}
	s.cq = v.cqs[len(v.cqs)-1]
	qp, err := v.pd.CreateQP(rnic.QPInit{
		Type: t, SendCQ: s.cq, RecvCQ: s.cq, Cap: rnic.QPCap{MaxSendWR: max(1, receives), MaxRecvWR: max(1, receives), MaxSGE: 1},
	})
	if err != nil {
		return nil, none, err
	}
	v.qps = append(v.qps, s)
	r.qps++
	r.Totals.QPs++
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
	s := &v.qps[c.Index]
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
	return s.c.QP.PostRecv(rnic.RecvWR{ID: uint64(s.c.Index)<<32 | uint64(n), SGL: sge[:]})
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
	f := func() error {
		v.ready = n
		if n == 1 {
			v.r.tell(v, Happening{Kind: Ready})
		}
		own = v.check(theirs)
		return nil
	}
	if v.call.Way == peer.ByCM { // this is the host's thread
		_ = f()
	} else {
		_ = v.r.h.Do(f)
	}
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
		if err := v.r.h.Do(func() error { got, failed = v.qps[0].got, v.failed; return nil }); err != nil || failed != nil {
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
	if v.talk != nil {
		v.talk.End()
	}
	if err == nil {
		err = v.failed
	}
	if err != nil {
		r.Totals.Failed++
	}
	r.Totals.Checked += v.report.Messages
	r.Totals.Lost += v.report.Lost
	for _, mr := range v.mrs {
		_ = mr.Deregister() // it is registered
	}
	r.memory -= v.memory
	r.qps -= len(v.qps)
	if v.report != (connect.Report{}) {
		r.tell(v, Happening{Kind: Checked, Report: v.report})
	}
	r.tell(v, Happening{Kind: Closed, QPs: len(v.qps), Err: err})
	all := make([]*conversation, 0, len(r.all)) // the old slice may be under way
	for _, x := range r.all {
		if x != v {
			all = append(all, x)
		}
	}
	r.all = all
}

func (v *conversation) completed(c *rnic.Completion) {
	s := &v.qps[c.ID>>32]
	switch {
	case c.Status == rnic.WRFlushErr:
		return
	case c.Status != rnic.Success:
		v.broken(s, &CompletionError{QPN: s.c.Local.QPN, Peer: s.c.Remote.QPN, Message: s.got, Status: c.Status, Receive: c.Op >= rnic.CompRecv})
		return
	case c.Op < rnic.CompRecv:
		s.pending--
		return
	}
	v.r.Totals.Received++
	v.r.Totals.ReceivedBytes += uint64(c.ByteLen)
	n := int(c.ID & 0xFFFFFFFF)
	at, length := v.recvAt(s, n), int(c.ByteLen)
	if c.Flags&rnic.HasGRH != 0 {
		at, length = at+grh, length-grh
	}
	if v.call.Way == peer.ByCM && c.Op == rnic.CompRecv {
		v.hear(s, s.recv.Bytes()[at:at+length])
	}
	if v.traffic != nil && v.traffic.Verify && c.Op == rnic.CompRecv {
		v.checkMessage(s, s.recv.Bytes()[at:at+length])
	}
	if v.traffic != nil && v.traffic.Verify && c.Op == rnic.CompRecvWriteImm {
		v.checkImmediate(s, uint64(c.Imm))
	}
	s.got++
	var err error
	if v.rally == SendRally && c.Op == rnic.CompRecv {
		err = v.answer(s, n, at, length, c)
	}
	if err = errors.Join(err, v.receive(s, n)); err != nil {
		v.broken(s, err)
	}
}

// hear hands on what perftest says over a connection by CM, if its first message shows that it is that.
func (v *conversation) hear(s *server, message []byte) {
	if v.talk == nil && s.got == 0 && connect.GreetsPerftest(message) {
		var err error
		if v.talk, err = v.r.h.Talk(s.c, v.pd, v.call.Peer); err != nil {
			v.broken(s, err)
		}
	}
	if v.talk != nil {
		v.talk.Hear(message)
	}
}

// broken notes that a queue pair failed.
func (v *conversation) broken(s *server, err error) {
	if v.failed == nil {
		v.failed = err
	}
	v.r.tell(v, Happening{Kind: Broken, Conn: s.c, Err: err})
}

// work takes completions, and answers.
func (v *conversation) work() (busy bool) {
	polled := v.r.polled[:]
	for _, cq := range v.cqs {
		n := cq.Poll(polled)
		for i := range polled[:n] {
			v.completed(&polled[i])
		}
		busy = busy || n > 0
	}
	if v.rally == WriteRally && v.ready >= perftestReady {
		busy = v.rallyWrites() || busy
	}
	return busy
}
