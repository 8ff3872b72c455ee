package peer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// serviceOf is the service ID of a port.
func serviceOf(t dissect.Transport, port uint16) dissect.ServiceID {
	if t == dissect.UD {
		return dissect.IPCMServiceID(dissect.PortSpaceUDP, port)
	}
	return dissect.IPCMServiceID(dissect.PortSpaceTCP, port)
}

// cmConn is what the host's thread knows of a connection by CM.
type cmConn struct {
	id    connect.ConnID
	c     *Conn
	maker Maker
	mac   [6]byte
	told  chan error // of the active side: the outcome, once
	gone  chan struct{}
	party Party // of the passive side
	ended bool
}

func (x *cmConn) tell(err error) {
	if x.told != nil {
		x.told <- err
		x.told = nil
	}
}

// RejectedError says that the other side refused a connection.
type RejectedError struct {
	Peer   netip.AddrPort
	Reason dissect.RejReason
	Status dissect.SIDRStatus // of a datagram service
}

func (e *RejectedError) Error() string {
	if e.Status != dissect.SIDRValid {
		return fmt.Sprintf("%v refused the connection: %v", e.Peer, e.Status)
	}
	return fmt.Sprintf("%v refused the connection: %v", e.Peer, e.Reason)
}

// Errors of connections.
var (
	ErrUnreachable  = errors.New("does not answer")
	ErrDisconnected = errors.New("the other side ended the connection")
)

// dialCM connects each queue pair by CM, one after the other.
func (s *Session) dialCM(ctx context.Context, r Request, base connect.Parameters) error {
	mac, err := s.makeForCM(ctx, r, base)
	if err != nil {
		return err
	}
	for _, c := range s.Conns {
		if _, err := s.h.dialOne(ctx, r, s.maker, c, mac); err != nil {
			return err
		}
	}
	return nil
}

// makeForCM makes the queue pairs, and finds out where the peer is.
func (s *Session) makeForCM(ctx context.Context, r Request, base connect.Parameters) (mac [6]byte, err error) {
	if mac, err = s.h.MAC(ctx, r.Peer.Addr()); err != nil {
		return mac, err
	}
	if base.Transport == dissect.UD {
		base.QKey = connect.UDPQKey
	}
	return mac, s.makeAll(r.QPs, base)
}

func (h *Host) dialOne(ctx context.Context, r Request, m Maker, c *Conn, mac [6]byte) (*cmConn, error) {
	told := make(chan error, 1)
	x := &cmConn{c: c, maker: m, mac: mac, told: told, gone: make(chan struct{})}
	err := h.Do(func() (err error) {
		q := connect.Request{
			Path:    dissect.Outer{DstMAC: mac, SrcMAC: h.o.MAC, Src: c.Local.Address, Dst: r.Peer.Addr()},
			Service: serviceOf(c.Local.Transport, r.Peer.Port()), SrcPort: uint16(32768 + rand.IntN(28000)), Local: c.Local, Private: r.Private,
		}
		if vlan := h.o.Device.VLAN; vlan != 0 {
			q.Path.VLANs = []uint16{vlan}
		}
		if c.Local.Transport == dissect.UD {
			x.id, err = h.cm.Resolve(h.clock(), q)
		} else {
			x.id, err = h.cm.Connect(h.clock(), q)
		}
		if err == nil {
			h.conns[x.id] = x
			h.due = 0
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	select {
	case err = <-told:
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-h.done:
		return nil, h.ended()
	}
	var refused *RejectedError
	if errors.As(err, &refused) {
		refused.Peer = r.Peer
	} else if errors.Is(err, ErrUnreachable) {
		err = fmt.Errorf("%v %w", r.Peer, ErrUnreachable)
	}
	return x, err
}

// cmEvent is told by CM, on the host's thread.
func (h *Host) cmEvent(e connect.Event) {
	x := h.conns[e.ID]
	if e.Kind == connect.EventRequest {
		h.cmRequest(e)
		return
	}
	if x == nil {
		return
	}
	switch e.Kind {
	case connect.EventResponse:
		x.c.Local.PSN = e.Local.PSN
		x.c.Remote.Memory = memoryOf(e.Private)
		if err := h.cmReady(x, e); err != nil {
			_ = h.cm.Reject(e.At, e.ID, dissect.RejConsumer, nil) // the other side will find out otherwise
			x.tell(err)
			return
		}
		x.tell(h.cm.Confirm(e.At, e.ID, nil))
	case connect.EventResolved:
		x.c.Remote.Memory = memoryOf(e.Private)
		x.tell(h.cmReady(x, e))
		delete(h.conns, e.ID)
	case connect.EventRejected:
		x.tell(&RejectedError{Reason: e.Reason, Status: e.Status})
		h.cmEnd(x, &RejectedError{Reason: e.Reason})
		delete(h.conns, e.ID)
	case connect.EventUnreachable:
		x.tell(ErrUnreachable)
		h.cmEnd(x, ErrUnreachable)
		delete(h.conns, e.ID)
	case connect.EventEstablished:
		if x.party != nil {
			_ = x.party.Ready(1, nil)
		}
	case connect.EventDisconnected:
		x.tell(ErrDisconnected)
		_ = x.c.QP.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
		h.cmEnd(x, nil)
	case connect.EventClosed:
		delete(h.conns, e.ID)
	}
}

// cmReady takes a queue pair to RTS by what an event tells.
func (h *Host) cmReady(x *cmConn, e connect.Event) error {
	remote := e.Remote
	remote.Memory = x.c.Remote.Memory
	if !remote.Address.IsValid() {
		remote.Address = e.Path.Dst
	}
	if x.c.Local.Transport == dissect.UD {
		x.c.untold(&remote)
		remote.MTU = cmp.Or(remote.MTU, x.c.Local.MTU)
	}
	return h.connect(x.maker, x.c, remote, x.mac)
}

// cmEnd tells who has to know that a connection is over.
func (h *Host) cmEnd(x *cmConn, err error) {
	if x.ended {
		return
	}
	x.ended = true
	close(x.gone)
	if x.party != nil {
		x.party.Closed(err)
		_ = x.c.close() // its packets are over
	}
}

// cmRequest answers a connection that is asked for.
func (h *Host) cmRequest(e connect.Event) {
	refuse := func(err error) {
		private := []byte(err.Error())
		_ = h.cm.Reject(e.At, e.ID, dissect.RejConsumer, private[:min(len(private), rejectText)])
	}
	peer := e.Src
	if !peer.IsValid() {
		peer = netip.AddrPortFrom(e.Path.Dst, 0)
	}
	party, err := h.service.Load().accept(Call{Way: ByCM, Peer: peer})
	if err != nil {
		refuse(err)
		return
	}
	base, err := h.base(connect.Parameters{Transport: e.Remote.Transport, MTU: e.Remote.MTU, ResponderResources: defaultDepth}, e.Path.Dst)
	if err != nil {
		party.Closed(err)
		refuse(err)
		return
	}
	x := &cmConn{id: e.ID, maker: party, mac: e.Path.DstMAC, gone: make(chan struct{}), party: party}
	if x.c, err = h.make(party, 0, base); err != nil {
		party.Closed(err)
		refuse(err)
		return
	}
	x.c.Local.PSN = e.Local.PSN
	x.c.Remote.Memory = memoryOf(e.Private)
	expect := dissect.PSN(rand.Uint32() & 0xFFFFFF)
	e.Remote.PSN = expect
	err = h.cmReady(x, e)
	if err == nil {
		party.Connected(x.c)
		err = h.cm.Accept(e.At, e.ID, connect.Answer{Local: x.c.Local, Expect: &expect, Private: AppendMemory(nil, x.c.Local.Memory)})
	}
	if err != nil {
		h.cmEnd(x, err)
		refuse(err)
		return
	}
	h.conns[e.ID] = x
}

// rejectText is how many bytes of a reason fit into a REJ.
const rejectText = 148

// disconnect says goodbye to connections by CM, and waits for the answers for a moment.
func (s *Session) disconnect() {
	if s.Way != ByCM && s.spoken == nil {
		return
	}
	mine := map[*Conn]bool{}
	for _, c := range s.Conns {
		mine[c] = true
	}
	if s.spoken != nil {
		mine[s.spoken.c] = true
	}
	var wait []*cmConn
	_ = s.h.Do(func() error {
		for id, x := range s.h.conns {
			if !mine[x.c] || x.ended {
				continue
			}
			if s.h.cm.State(id) == connect.StateEstablished {
				wait = append(wait, x)
			}
			_ = s.h.cm.Disconnect(s.h.clock(), id, nil)
		}
		s.h.due = 0
		return nil
	})
	late := time.NewTimer(goodbye)
	defer late.Stop()
	for _, x := range wait {
		select {
		case <-x.gone:
		case <-late.C:
			return
		case <-s.h.done:
			return
		}
	}
}

// goodbye is how long the answer to a DREQ is waited for.
const goodbye = 3 * time.Second
