package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
)

// Request asks for connections.
type Request struct {
	Way   Way
	Peer  netip.AddrPort     // whose TCP port, or rdma_cm port, it is; for ByHand, the address is enough
	QPs   int                // 0 = 1
	Local connect.Parameters // what the own queue pairs tell: Transport, MTU, depths, counts, ByHand the PSN; the rest is set here, also Address if it is none
	Maker Maker

	Perftest connect.PerftestOptions // ByPerftest: Program, Duplex, OverCM and QPsByCM
	Traffic  *connect.Traffic        // ByExchange: what is going to happen
	Hand     []connect.Parameters    // ByHand: the other side's, one of each queue pair
	Private  []byte                  // ByCM: for the other application
}

// Session is the connections of one conversation.
type Session struct {
	Way   Way
	Peer  netip.AddrPort
	Conns []*Conn

	h       *Host
	maker   Maker
	timeout uint8 // of acknowledgements, that was asked for; 0 = what the other side says
	tcp     net.Conn
	spoken  *spoken // perftest over CM
	perf    *connect.Perftest
	talk    *connect.Exchange
}

// Dial makes queue pairs and connects them with those of a peer. Behind it all are in RTS; before traffic, say Ready.
func (h *Host) Dial(ctx context.Context, r Request) (*Session, error) {
	r.QPs = cmp.Or(r.QPs, 1)
	base, err := h.base(r.Local, r.Peer.Addr())
	if err != nil {
		return nil, err
	}
	if r.Local.MTU > h.dev.MTU() {
		return nil, fmt.Errorf("path MTU %d: the interface's frames take %d at most", r.Local.MTU, h.dev.MTU())
	}
	s := &Session{Way: r.Way, Peer: r.Peer, h: h, maker: r.Maker, timeout: r.Local.AckTimeout}
	switch r.Way {
	case ByCM:
		err = s.dialCM(ctx, r, base)
	case ByHand:
		err = s.dialByHand(ctx, r, base)
	default:
		err = s.dialSocket(ctx, r, base)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// makeAll makes the queue pairs, in INIT. By hand their PSN is the one that was asked for, or 0: the other side has to know it before.
func (s *Session) makeAll(n int, base connect.Parameters) error {
	return s.h.Do(func() error {
		for i := range n {
			if s.Way != ByHand {
				base.PSN = dissect.PSN(rand.Uint32() & 0xFFFFFF)
			}
			c, err := s.h.make(s.maker, i, base)
			if err != nil {
				return err
			}
			s.Conns = append(s.Conns, c)
		}
		return nil
	})
}

// locals are what all queue pairs tell.
func (s *Session) locals() []connect.Parameters {
	all := make([]connect.Parameters, len(s.Conns))
	for i, c := range s.Conns {
		all[i] = c.Local
	}
	return all
}

// connectAll takes all queue pairs to RTS.
func (s *Session) connectAll(ctx context.Context, remote []connect.Parameters) error {
	macs := map[netip.Addr][6]byte{}
	for i := range remote {
		a := remote[i].Address
		if _, known := macs[a]; known {
			continue
		}
		mac, err := s.h.MAC(ctx, a)
		if err != nil {
			return err
		}
		macs[a] = mac
	}
	return s.h.Do(func() error {
		for i, c := range s.Conns {
			c.untold(&remote[i])
			remote[i].AckTimeout = cmp.Or(s.timeout, remote[i].AckTimeout)
			if err := s.h.connect(s.maker, c, remote[i], macs[remote[i].Address]); err != nil {
				return err
			}
		}
		return nil
	})
}

func (s *Session) dialByHand(ctx context.Context, r Request, base connect.Parameters) error {
	if len(r.Hand) != r.QPs {
		return fmt.Errorf("%d queue pairs need the numbers of as many at the other side; there are %d", r.QPs, len(r.Hand))
	}
	if err := s.makeAll(r.QPs, base); err != nil {
		return err
	}
	return s.connectAll(ctx, r.Hand)
}

// open opens what the conversation goes over: a TCP connection, or a queue pair. It ends with the context.
func (s *Session) open(ctx context.Context, r Request) (connect.Stream, func() bool, error) {
	if r.Way == ByPerftest && r.Perftest.OverCM {
		var err error
		if s.spoken, err = s.h.speak(ctx, r); err != nil {
			return nil, nil, err
		}
		return s.spoken.talk, context.AfterFunc(ctx, s.spoken.talk.End), nil
	}
	dialer := net.Dialer{Timeout: s.h.o.Patience}
	tcp, err := dialer.DialContext(ctx, "tcp", r.Peer.String())
	if err != nil {
		return nil, nil, err
	}
	s.tcp = tcp
	return tcp, context.AfterFunc(ctx, func() { tcp.Close() }), nil
}

func (s *Session) dialSocket(ctx context.Context, r Request, base connect.Parameters) error {
	stream, stop, err := s.open(ctx, r)
	if err != nil {
		return err
	}
	defer stop()
	switch r.Way {
	case ByPerftest:
		o := r.Perftest
		o.Transport, o.MTU, o.Patience = base.Transport, base.MTU, s.h.o.Patience
		if s.perf, err = connect.NewPerftest(stream, o); err == nil {
			base.MTU = s.perf.MTU
			if o.QPsByCM {
				return s.dialRendezvous(ctx, r, base)
			}
		}
	case ByPingpong:
		if r.QPs != 1 {
			err = errors.New("a pingpong program has one queue pair")
		}
	case ByExchange:
		s.talk = connect.NewExchange(stream, s.h.o.Patience)
		s.talk.Traffic = r.Traffic
	}
	if err == nil {
		err = s.makeAll(r.QPs, base)
	}
	if err != nil {
		return err
	}
	var remote []connect.Parameters
	switch r.Way {
	case ByPerftest:
		remote, err = s.perf.Keys(s.locals())
	case ByExchange:
		remote, err = s.talk.Offer(s.locals())
	case ByPingpong:
		// The program posts its receives before it answers, so that what follows may come at once.
		var one connect.Parameters
		one, err = connect.Pingpong(stream, s.h.o.Patience, s.Conns[0].Local)
		remote = []connect.Parameters{one}
	}
	if err != nil {
		return err
	}
	return s.connectAll(ctx, remote)
}

// Ready says that traffic may begin, or that a phase of it is over, and returns when the other side says so too. messages is how
// many were sent, for a server that checks them; what it found is returned, where it tells that.
func (s *Session) Ready(messages uint64) (theirs *connect.Report, err error) {
	switch s.Way {
	case ByPerftest:
		return nil, s.perf.Ready()
	case ByExchange:
		s.talk.Own = &connect.Report{Messages: messages}
		err := s.talk.Ready()
		return s.talk.Theirs, err
	}
	return nil, nil
}

// Finish says that the traffic is over, and swaps results where the other side does.
func (s *Session) Finish(own connect.PerftestResults) (theirs connect.PerftestResults, err error) {
	switch s.Way {
	case ByPerftest:
		return s.perf.Finish(own)
	case ByExchange:
		err = s.talk.Done()
	}
	return theirs, err
}

// Close ends connections and queue pairs.
func (s *Session) Close() error {
	s.disconnect()
	var errs []error
	if s.tcp != nil {
		s.tcp.Close()
	}
	err := s.h.Do(func() error {
		for _, c := range s.Conns {
			errs = append(errs, c.close())
		}
		if s.spoken != nil {
			errs = append(errs, s.spoken.close())
		}
		return nil
	})
	if errors.Is(err, ErrClosed) {
		err = nil
	}
	return errors.Join(append(errs, err)...)
}
