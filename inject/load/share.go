package load

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
)

// share is the queue pairs of a conversation that live on one of the host's threads, which serves them.
type share struct {
	v   *conversation
	at  *station
	cqs atomic.Pointer[[]*rnic.CQ]

	rally atomic.Uint32 // a Rally

	mu     sync.Mutex // of what follows: the thread has it while it deals with completions
	ready  *atomic.Int32
	qps    []*server
	report connect.Report
	failed error
	talk   *peer.Talk // the connection turned out to be one for perftest's words
	over   bool
}

// share finds the conversation's share on the thread that has the fewest queue pairs, or makes it.
func (v *conversation) share() *share {
	thread := v.r.h.Least()
	for _, x := range v.shares {
		if x.at.thread == thread {
			return x
		}
	}
	x := &share{v: v, ready: &v.ready}
	x.rally.Store(uint32(v.rally))
	for _, s := range v.r.stations {
		if s.thread == thread {
			x.at = s
		}
	}
	x.cqs.Store(new([]*rnic.CQ))
	v.shares = append(v.shares, x)
	v.r.mu.Lock()
	defer v.r.mu.Unlock()
	x.at.set(append(x.at.others(x), x))
	return x
}

// others are the shares that a station has, but for one.
func (s *station) others(x *share) []*share {
	all := make([]*share, 0, len(*s.shares.Load())+1)
	for _, o := range *s.shares.Load() {
		if o != x {
			all = append(all, o)
		}
	}
	return all
}

func (s *station) set(all []*share) { s.shares.Store(&all) }

// close ends the share: behind it its thread does nothing for it.
func (x *share) close() {
	x.v.r.mu.Lock()
	x.at.set(x.at.others(x))
	x.v.r.mu.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.over = true
	if x.talk != nil {
		x.talk.End()
	}
}

// queue is the completion queue of the next queue pair: groups of them have one.
func (x *share) queue(receives int) (*rnic.CQ, error) {
	all := *x.cqs.Load()
	if len(x.qps)%groupQPs != 0 {
		return all[len(all)-1], nil
	}
	cq, err := x.at.thread.Device().CreateCQ(max(1, groupQPs*2*receives))
	if err != nil {
		return nil, err
	}
	all = append(all[:len(all):len(all)], cq)
	x.cqs.Store(&all)
	return cq, nil
}

// work takes completions, and answers.
func (x *share) work(polled []rnic.Completion) (busy bool) {
	for _, cq := range *x.cqs.Load() {
		if n := cq.Poll(polled); n > 0 {
			x.mu.Lock()
			for i := range polled[:n] {
				if !x.over {
					x.completed(&polled[i])
				}
			}
			x.mu.Unlock()
			busy = true
		}
	}
	if x.plays(WriteRally) {
		x.mu.Lock()
		busy = !x.over && x.ready.Load() >= perftestReady && x.rallyWrites() || busy
		x.mu.Unlock()
	}
	return busy
}

func (x *share) completed(c *rnic.Completion) {
	v, s := x.v, x.qps[c.ID>>32]
	switch {
	case c.Status == rnic.WRFlushErr:
		return
	case c.Status != rnic.Success:
		x.broken(s, &CompletionError{QPN: s.c.Local.QPN, Peer: s.c.Remote.QPN, Message: s.got, Status: c.Status, Receive: c.Op >= rnic.CompRecv})
		return
	case c.Op < rnic.CompRecv:
		s.pending--
		return
	}
	x.at.received.Add(1)
	x.at.bytes.Add(uint64(c.ByteLen))
	n := int(c.ID & 0xFFFFFFFF)
	at, length := v.recvAt(s, n), int(c.ByteLen)
	if c.Flags&rnic.HasGRH != 0 {
		at, length = at+grh, length-grh
	}
	if v.call.Way == peer.ByCM && c.Op == rnic.CompRecv {
		x.hear(s, s.recv.Bytes()[at:at+length])
	}
	if v.traffic != nil && v.traffic.Verify && c.Op == rnic.CompRecv {
		x.checkMessage(s, s.recv.Bytes()[at:at+length])
	}
	if v.traffic != nil && v.traffic.Verify && c.Op == rnic.CompRecvWriteImm {
		x.checkImmediate(s, uint64(c.Imm))
	}
	s.got++
	var err error
	if x.plays(SendRally) && c.Op == rnic.CompRecv {
		err = s.answer(n, at, length, c)
	}
	if err = errors.Join(err, v.receive(s, n)); err != nil {
		x.broken(s, err)
	}
}

func (x *share) plays(r Rally) bool { return Rally(x.rally.Load()) == r }

// Adopted implements peer.Adopter: the conversation that is had elsewhere says how messages are answered, and when they may begin.
func (v *conversation) Adopted(by peer.Party, memory connect.Memory) error {
	words, ok := by.(*conversation)
	if !ok || words.rally == OneWay {
		return nil
	}
	s := v.qps[0] // of CM's, each has one
	if words.rally == WriteRally {
		var err error
		if s.out, err = v.region(v.r.o.RallySize, 0); err != nil {
			return err
		}
	}
	x := s.share
	x.mu.Lock()
	defer x.mu.Unlock()
	s.c.Remote.Memory, x.ready = memory, &words.ready
	x.rally.Store(uint32(words.rally))
	return nil
}

// hear hands on what perftest says over a connection by CM, if its first message shows that it is that.
func (x *share) hear(s *server, message []byte) {
	if x.talk == nil && s.got == 0 && connect.GreetsPerftest(message) {
		var err error
		if x.talk, err = x.v.r.h.Talk(s.c, x.v.pd, x.v.call.Peer); err != nil {
			x.broken(s, err)
		}
	}
	if x.talk != nil {
		x.talk.Hear(message)
	}
}

// broken notes that a queue pair failed.
func (x *share) broken(s *server, err error) {
	if x.failed == nil {
		x.failed = err
	}
	x.v.r.tell(x.v, Happening{Kind: Broken, Conn: s.c, Err: err})
}
