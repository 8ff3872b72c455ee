package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/crash"
)

// Talk is a conversation over a queue pair that CM connected, of SENDs (perftest -R, -z): a connect.Stream of which each Read returns
// one message, and each Write sends one.
type Talk struct {
	qp       *rnic.QP
	out      *rnic.MR
	sent     int
	heard    chan []byte
	over     chan struct{}
	end      sync.Once
	deadline time.Time
}

const (
	talkSize  = 64 // bytes of a message; the longest is perftest's key message
	talkDepth = 16 // messages each way; they take turns, so that one would do

	talkTimeout = 18 // the code of its acknowledgement time-out, 1.07 s: words are in no hurry
)

func newTalk(qp *rnic.QP, pd *rnic.PD) (*Talk, error) {
	out, err := pd.RegMR(make([]byte, talkDepth*talkSize), 0)
	if err != nil {
		return nil, err
	}
	return &Talk{qp: qp, out: out, heard: make(chan []byte, talkDepth), over: make(chan struct{})}, nil
}

// Hear takes a message that arrived.
func (t *Talk) Hear(message []byte) {
	select {
	case t.heard <- append([]byte(nil), message...):
	default: // who does not wait for answers is no perftest
		t.End()
	}
}

// End ends the conversation: the connection is over.
func (t *Talk) End() { t.end.Do(func() { close(t.over) }) }

// Read implements connect.Stream. What does not fit is cut off.
func (t *Talk) Read(b []byte) (int, error) {
	select {
	case m := <-t.heard:
		return copy(b, m), nil
	default:
	}
	var late <-chan time.Time
	if !t.deadline.IsZero() {
		timer := time.NewTimer(time.Until(t.deadline))
		defer timer.Stop()
		late = timer.C
	}
	select {
	case m := <-t.heard:
		return copy(b, m), nil
	case <-t.over:
		return 0, io.EOF
	case <-late:
		return 0, os.ErrDeadlineExceeded
	}
}

// Write implements connect.Stream.
func (t *Talk) Write(b []byte) (int, error) {
	select {
	case <-t.over:
		return 0, io.ErrClosedPipe
	default:
	}
	at := t.sent % talkDepth * talkSize
	t.sent++
	n := copy(t.out.Bytes()[at:][:talkSize], b)
	return n, t.qp.PostSend(rnic.SendWR{Op: rnic.OpSend, SGL: []rnic.SGE{t.out.SGE(at, n)}})
}

// SetDeadline implements connect.Stream.
func (t *Talk) SetDeadline(at time.Time) error {
	t.deadline = at
	return nil
}

// Talk answers perftest -R or -z over a connection that began as any by CM: its first message told (connect.GreetsPerftest). Who takes
// what arrives on the queue pair hands it on by Hear, the first message as well, and ends the conversation with the connection.
// It is for the host's threads.
func (h *Host) Talk(c *Conn, pd *rnic.PD, peer netip.AddrPort) (*Talk, error) {
	s := h.service.Load()
	if s == nil {
		return nil, errors.New("nobody listens")
	}
	t, err := newTalk(c.QP, pd)
	if err != nil {
		return nil, err
	}
	s.all.Go(func() {
		defer crash.Guard()
		addr := net.TCPAddrFromAddrPort(peer)
		server := s.server()
		if err := server.AnswerOverCM(t, addr); err != nil {
			server.Failed(addr, err)
		}
		t.End()
		_ = t.out.Deregister() // the conversation is over, and nobody else knows of it
	})
	return t, nil
}

// spoken is the asking side's queue pair for a conversation.
type spoken struct {
	h      *Host
	pd     *rnic.PD
	cq     *rnic.CQ
	in     *rnic.MR
	c      *Conn
	talk   *Talk
	worker Worker
	polled [talkDepth]rnic.Completion
}

// speak connects a queue pair by CM, and begins to listen to it.
func (h *Host) speak(ctx context.Context, r Request) (*spoken, error) {
	mac, err := h.MAC(ctx, r.Peer.Addr())
	if err != nil {
		return nil, err
	}
	base, err := h.base(connect.Parameters{Transport: dissect.RC, MTU: r.Local.MTU, AckTimeout: max(r.Local.AckTimeout, talkTimeout)}, r.Peer.Addr())
	if err != nil {
		return nil, err
	}
	s := &spoken{h: h, pd: h.dev.AllocPD()}
	err = h.Do(func() (err error) {
		if s.c, err = h.make(s, 0, base); err == nil {
			s.worker.Work = s.work
			h.Attach(&s.worker)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	x, err := h.dialOne(ctx, Request{Peer: r.Peer}, s, s.c, mac)
	if err != nil {
		return nil, errors.Join(err, h.Do(s.close))
	}
	go func() {
		defer crash.Guard()
		select {
		case <-x.gone:
		case <-h.done:
		}
		s.talk.End()
	}()
	return s, nil
}

// PD implements Maker.
func (s *spoken) PD() *rnic.PD { return s.pd }

// Make implements Maker.
func (s *spoken) Make(_ int, t dissect.Transport) (*rnic.QP, connect.Memory, error) {
	var none connect.Memory
	var err error
	if s.cq, err = s.h.dev.CreateCQ(2 * talkDepth); err != nil {
		return nil, none, err
	}
	if s.in, err = s.pd.RegMR(make([]byte, talkDepth*talkSize), rnic.LocalWrite); err != nil {
		return nil, none, err
	}
	qp, err := s.pd.CreateQP(rnic.QPInit{Type: t, SendCQ: s.cq, RecvCQ: s.cq, Cap: rnic.QPCap{MaxSendWR: talkDepth, MaxRecvWR: talkDepth}})
	if err == nil {
		s.talk, err = newTalk(qp, s.pd)
	}
	return qp, none, err
}

// Prepare implements Maker.
func (s *spoken) Prepare(c *Conn) error {
	for i := range talkDepth {
		if err := s.receive(c, i); err != nil {
			return err
		}
	}
	return nil
}

func (s *spoken) receive(c *Conn, i int) error {
	return c.QP.PostRecv(rnic.RecvWR{ID: uint64(i), SGL: []rnic.SGE{s.in.SGE(i*talkSize, talkSize)}})
}

// work takes what arrived.
func (s *spoken) work(int64) bool {
	n := s.cq.Poll(s.polled[:])
	for _, e := range s.polled[:n] {
		switch {
		case e.Status != rnic.Success:
			s.talk.End()
		case e.Op == rnic.CompRecv:
			s.talk.Hear(s.in.Bytes()[int(e.ID)*talkSize:][:e.ByteLen])
			if err := s.receive(s.c, int(e.ID)); err != nil {
				s.talk.End()
			}
		}
	}
	return n > 0
}

// close ends the queue pair, on the host's thread.
func (s *spoken) close() error {
	s.h.Detach(&s.worker)
	s.talk.End()
	return errors.Join(s.c.close(), s.cq.Destroy(), s.in.Deregister(), s.talk.out.Deregister())
}

// perftest's server listens anew for the queue pairs behind its rendezvous, a moment after it has said that it is there.
const (
	listensLate  = 100 * time.Millisecond
	listensTries = 20
)

// dialRendezvous connects the queue pairs by CM in the middle of perftest's conversation (-R). Their memory is told as without it.
func (s *Session) dialRendezvous(ctx context.Context, r Request, base connect.Parameters) error {
	mac, err := s.makeForCM(ctx, r, base)
	if err != nil {
		return err
	}
	if err := s.perf.Rendezvous(); err != nil {
		return err
	}
	if err := sleep(ctx, listensLate); err != nil {
		return err
	}
	for _, c := range s.Conns {
		if err := s.h.dialPatiently(ctx, r, s.maker, c, mac); err != nil {
			return err
		}
	}
	if err := s.perf.Rendezvous(); err != nil {
		return err
	}
	remote, err := s.perf.Keys(s.locals())
	if err != nil {
		return err
	}
	for i, c := range s.Conns {
		if remote[i].QPN != c.Remote.QPN {
			return fmt.Errorf("%v tells QP %#06x, and CM connected QP %#06x with it: %w", r.Peer, remote[i].QPN, c.Remote.QPN, connect.ErrGarbage)
		}
		c.Remote.Memory = remote[i].Memory
	}
	return nil
}

// dialPatiently connects to who may not listen yet.
func (h *Host) dialPatiently(ctx context.Context, r Request, m Maker, c *Conn, mac [6]byte) error {
	for try := 1; ; try++ {
		_, err := h.dialOne(ctx, r, m, c, mac)
		var refused *RejectedError
		if !errors.As(err, &refused) || try == listensTries || refused.Reason != dissect.RejInvalidServiceID && refused.Status == dissect.SIDRValid {
			return err
		}
		if err := sleep(ctx, listensLate); err != nil {
			return err
		}
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
