package peer

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/internal/crash"
)

// Call is somebody who wants to connect.
type Call struct {
	Way  Way
	Peer netip.AddrPort
}

// Party is the own side of a conversation that another began. All but Ready is called on the host's thread, and Ready is where the
// way is CM.
type Party interface {
	Maker
	// Traffic is told what is going to happen, before the first queue pair is made, where the other side tells.
	Traffic(t connect.Traffic) error
	// Connected is told of each queue pair in RTS.
	Connected(c *Conn)
	// Ready is told whenever the other side says that it is ready, for the n-th time; theirs and the returned report may be nil. The
	// answer waits for it.
	Ready(n int, theirs *connect.Report) *connect.Report
	// Results is asked when the other side swaps results (perftest).
	Results(theirs connect.PerftestResults) (own connect.PerftestResults)
	// Closed is told the end: queue pairs are destroyed behind it; err is nil if it was an orderly one.
	Closed(err error)
}

// Adopter is a Party by CM that has to know when its queue pair turns out to be one of a conversation of perftest's (-R), and which memory
// the client tells there. It is called on the host's thread.
type Adopter interface {
	Adopted(by Party, memory connect.Memory) error
}

// Listening says how a host lets others in.
type Listening struct {
	Port      uint16            // of TCP and of rdma_cm; 0 = perftest's
	Transport dissect.Transport // of clients that do not tell theirs: perftest and the pingpong programs
	MTU       int               // the largest path MTU; 0 = the device's
	Pingpong  int               // the path MTU of the pingpong programs; 0 = 1024
	Limit     int               // conversations by socket at a time; 0 = 256
	MaxQPs    int               // of one conversation; 0 = 1024
	Idle      time.Duration     // after which a silent conversation is ended; 0 = as long as TCP finds the peer there

	// Sockets are listened on besides those at the host's own addresses: for who has an address that the kernel does not have.
	Sockets []net.Listener

	Accept func(Call) (Party, error)            // on the host's thread
	Failed func(peer netip.AddrPort, err error) // is told of each conversation that did not end well; by any goroutine
}

// service is what a host offers.
type service struct {
	h    *Host
	o    Listening
	tcp  []net.Listener
	all  sync.WaitGroup
	stop context.CancelFunc
	ctx  context.Context

	datagrams *Conn // of those who ask by SIDR
}

// Listen lets others in, by CM and, at addresses that the kernel has, by socket, until the context ends or the host does. It
// returns where sockets are listened on.
func (h *Host) Listen(ctx context.Context, o Listening) ([]net.Addr, error) {
	if o.Port == 0 {
		o.Port = connect.PerftestPort
	}
	if o.MTU == 0 {
		o.MTU = h.dev.MTU()
	}
	s := &service{h: h, o: o, tcp: o.Sockets}
	s.ctx, s.stop = context.WithCancel(ctx)
	if h.kernel {
		for _, a := range h.o.Addrs {
			if a.IsLinkLocalUnicast() {
				continue // who knows it knows another one as well
			}
			l, err := net.Listen("tcp", netip.AddrPortFrom(a, o.Port).String())
			if err != nil {
				s.close()
				return nil, fmt.Errorf("listen on %v: %w", netip.AddrPortFrom(a, o.Port), err)
			}
			s.tcp = append(s.tcp, l)
		}
	}
	err := h.Do(func() error {
		if before := h.service.Load(); before != nil && before.ctx.Err() == nil {
			return connect.ErrListening
		}
		h.service.Store(s)
		return errors.Join(h.cm.Listen(serviceOf(dissect.RC, o.Port)), h.cm.ListenSIDR(serviceOf(dissect.UD, o.Port), s.sidr))
	})
	if err != nil {
		s.close()
		return nil, err
	}
	for _, l := range s.tcp {
		s.all.Go(func() {
			defer crash.Guard()
			s.serve(l)
		})
	}
	context.AfterFunc(ctx, s.close)
	var where []net.Addr
	for _, l := range s.tcp {
		where = append(where, l.Addr())
	}
	return where, nil
}

func (s *service) close() {
	s.stop()
	for _, l := range s.tcp {
		l.Close()
	}
}

// accept asks for who takes a call.
func (s *service) accept(c Call) (Party, error) {
	if s == nil {
		return nil, errors.New("nobody listens")
	}
	return s.o.Accept(c)
}

// server is what answers conversations.
func (s *service) server() *connect.Server {
	return &connect.Server{
		Transport: s.o.Transport, MTU: s.o.MTU, Pingpong: s.o.Pingpong, Patience: s.h.o.Patience, Limit: s.o.Limit, MaxQPs: s.o.MaxQPs, Idle: s.o.Idle,
		New: s.conversation,
		Failed: func(peer net.Addr, err error) {
			if s.ctx.Err() == nil && s.o.Failed != nil {
				s.o.Failed(addrPort(peer), err)
			}
		},
	}
}

// serve answers sockets.
func (s *service) serve(l net.Listener) {
	if err := s.server().Serve(l); err != nil && s.o.Failed != nil {
		s.o.Failed(addrPort(l.Addr()), err)
	}
}

func addrPort(a net.Addr) netip.AddrPort {
	if t, ok := a.(*net.TCPAddr); ok {
		p := t.AddrPort()
		return netip.AddrPortFrom(p.Addr().Unmap(), p.Port())
	}
	return netip.AddrPort{}
}

var waysOfSockets = map[connect.Via]Way{connect.ViaExchange: ByExchange, connect.ViaPerftest: ByPerftest, connect.ViaPingpong: ByPingpong}

// conversation begins a conversation.
func (s *service) conversation(via connect.Via, peer net.Addr) (connect.Application, error) {
	c := &conversation{s: s, macs: map[netip.Addr][6]byte{}}
	err := s.h.Do(func() (err error) {
		c.party, err = s.accept(Call{Way: waysOfSockets[via], Peer: addrPort(peer)})
		return err
	})
	return c, err
}

// conversation is a connect.Application: it brings what a server's goroutine is told to the host's thread.
type conversation struct {
	s      *service
	party  Party
	conns  []*Conn
	macs   map[netip.Addr][6]byte
	theirs *connect.Report
	report *connect.Report
	told   connect.PerftestResults

	met     bool      // perftest -R
	adopted []*cmConn // -R: the queue pairs, which CM connected
}

// Rendezvous is told by who connects his queue pairs by CM.
func (v *conversation) Rendezvous() { v.met = true }

// adopt finds the connection by CM of a queue pair of the other side. A queue pair for datagrams was looked up, and its own is nobody's to
// know.
func (v *conversation) adopt(remote *connect.Parameters) (local connect.Parameters, err error) {
	h := v.s.h
	err = h.Do(func() error {
		if remote.Transport == dissect.UD {
			if v.s.datagrams == nil {
				return errors.New("nobody looked up a queue pair for datagrams")
			}
			local = v.s.datagrams.Local
			return nil
		}
		for _, x := range h.conns {
			if x.party != nil && !x.ended && x.c.Remote.QPN == remote.QPN && x.c.Remote.Address == remote.Address {
				v.adopted = append(v.adopted, x)
				local = x.c.Local
				if a, ok := x.party.(Adopter); ok {
					return a.Adopted(v.party, remote.Memory)
				}
				return nil
			}
		}
		return fmt.Errorf("CM connected no QP %#06x of %v", remote.QPN, remote.Address)
	})
	return local, err
}

// Traffic is told what a client of rocescope's exchange intends.
func (v *conversation) Traffic(t connect.Traffic) error {
	return v.s.h.Do(func() error { return v.party.Traffic(t) })
}

// Open implements connect.Application.
func (v *conversation) Open(remote connect.Parameters) (local connect.Parameters, err error) {
	if v.met {
		return v.adopt(&remote)
	}
	h := v.s.h
	mac, known := v.macs[remote.Address]
	if !known {
		if mac, err = h.MAC(v.s.ctx, remote.Address); err != nil {
			return local, err
		}
		v.macs[remote.Address] = mac
	}
	base, err := h.base(connect.Parameters{Transport: remote.Transport, MTU: remote.MTU, QKey: remote.QKey}, remote.Address)
	if err != nil {
		return local, err
	}
	base.PSN = dissect.PSN(rand.Uint32() & 0xFFFFFF)
	err = h.Do(func() error {
		c, err := h.make(v.party, len(v.conns), base)
		if err != nil {
			return err
		}
		v.conns = append(v.conns, c)
		c.untold(&remote)
		if err := h.connect(v.party, c, remote, mac); err != nil {
			return err
		}
		local = c.Local
		v.party.Connected(c)
		return nil
	})
	return local, err
}

// Ready implements connect.Application.
func (v *conversation) Ready(n int) error {
	v.report = v.party.Ready(n, v.theirs)
	return nil
}

// Tell is what a client reports with "ready".
func (v *conversation) Tell(theirs *connect.Report) { v.theirs = theirs }

// Report is the own one, behind Ready.
func (v *conversation) Report() *connect.Report { return v.report }

// Results implements connect.Application.
func (v *conversation) Results() (own connect.PerftestResults) {
	_ = v.s.h.Do(func() error { own = v.party.Results(v.told); return nil })
	return own
}

// Told implements connect.Application.
func (v *conversation) Told(r connect.PerftestResults) { v.told = r }

// Closed implements connect.Application.
func (v *conversation) Closed(err error) {
	_ = v.s.h.Do(func() error {
		h := v.s.h
		v.party.Closed(err)
		for _, c := range v.conns {
			_ = c.close()
		}
		for _, x := range v.adopted {
			if !x.ended {
				_ = h.cm.Disconnect(h.clock(), x.id, nil) // its state allows it
				h.due = 0
			}
		}
		return nil
	})
}

// sidr answers a request for a datagram service. One queue pair serves all who ask: who asks again, or never uses it, costs nothing.
func (s *service) sidr(r connect.SIDRRequest) connect.SIDRAnswer {
	if s.datagrams == nil {
		c, err := s.openDatagrams(r)
		if err != nil {
			return connect.SIDRAnswer{Status: dissect.SIDRNoQP}
		}
		s.datagrams = c
	}
	local := &s.datagrams.Local
	return connect.SIDRAnswer{Status: dissect.SIDRValid, QPN: local.QPN, QKey: local.QKey, Private: AppendMemory(nil, local.Memory)}
}

func (s *service) openDatagrams(r connect.SIDRRequest) (*Conn, error) {
	peer := r.Src
	if !peer.IsValid() {
		peer = netip.AddrPortFrom(r.From, 0)
	}
	party, err := s.accept(Call{Way: ByCM, Peer: peer})
	if err != nil {
		return nil, err
	}
	base, err := s.h.base(connect.Parameters{Transport: dissect.UD, MTU: s.h.dev.MTU(), QKey: connect.UDPQKey}, r.Path.Dst)
	var c *Conn
	if err == nil {
		c, err = s.h.make(party, 0, base)
	}
	if err == nil {
		remote := connect.Parameters{Transport: dissect.UD, Address: r.Path.Dst, MTU: base.MTU, QKey: connect.UDPQKey}
		err = s.h.connect(party, c, remote, r.Path.DstMAC)
	}
	if err != nil {
		party.Closed(err)
		return nil, err
	}
	party.Connected(c)
	return c, nil
}
