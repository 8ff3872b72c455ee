package play

import (
	"errors"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// service is that of a port of rdma_cm's TCP port space.
func service(port uint16) dissect.ServiceID { return dissect.IPCMServiceID(6, port) }

// event is called on the goroutine that runs the device.
func (n *Node) event(e connect.Event) {
	e.Private = nil // borrowed, and nobody's here
	c := n.conns[e.ID]
	switch e.Kind {
	case connect.EventRequest:
		n.accept(e)
		return
	case connect.EventEstablished:
		if !e.Active {
			select {
			case n.accepted <- c:
			default:
			}
		}
	case connect.EventDisconnected:
		_ = c.qp.Modify(rnic.Attr{State: rnic.ERROR}, rnic.AttrState)
	case connect.EventClosed:
		delete(n.conns, e.ID)
	}
	if c != nil {
		select {
		case c.events <- e:
		default:
		}
	}
}

// sizeOf is the memory of a connection that the other side asks for.
const sizeOf = 1 << 20

// accept answers a request: a queue pair that has receives posted, as every program that serves here wants it.
func (n *Node) accept(e connect.Event) {
	refuse := func(err error) { _ = n.cm.Reject(now(), e.ID, dissect.RejConsumer, []byte(err.Error())) }
	c, err := n.newConn(dissect.RC, sizeOf)
	if err != nil {
		refuse(err)
		return
	}
	c.id = e.ID
	err = errors.Join(c.init(), c.postRecv(0, slot), c.postRecv(slot, slot))
	local := n.local(dissect.RC, c.qp.QPN(), e.Local.PSN)
	local.MTU = e.Remote.MTU // the active side's word
	e.Remote.PSN = expectPSN
	if err = errors.Join(err, c.connect(local, e.Remote)); err != nil {
		refuse(err)
		return
	}
	n.conns[e.ID] = c
	if err := n.cm.Accept(now(), e.ID, connect.Answer{Local: local, Expect: &e.Remote.PSN}); err != nil {
		refuse(err)
	}
}

// expectPSN is where clients are asked to begin: it wraps.
const expectPSN = 0xFFFFF8

// slot is a receive's part of the memory.
const slot = 64 << 10

// Listen lets connections to a port of rdma_cm in.
func (n *Node) Listen(port uint16) error {
	return n.do(func() error { return n.cm.Listen(service(port)) })
}

// Accept waits for a connection.
func (n *Node) Accept() (*Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-time.After(Patience):
		return nil, fmt.Errorf("nobody connected in %s", Patience)
	}
}

// RejectedError says that the other side refused a connection.
type RejectedError struct{ Reason dissect.RejReason }

func (e *RejectedError) Error() string { return fmt.Sprintf("refused: %v", e.Reason) }

// DialNobody asks for a connection that will be refused.
func (n *Node) DialNobody(to connect.Parameters, port uint16) error {
	_, err := n.Dial(to, port, slot, func(*Conn) error { return nil })
	return err
}

// Refuses waits until a connection was refused, for want of a listener.
func (n *Node) Refuses() error {
	for end := time.Now().Add(Patience); time.Now().Before(end); time.Sleep(linger) {
		var refused uint64
		if err := n.do(func() error { refused = n.cm.Stats().Refused; return nil }); err != nil {
			return err
		}
		if refused > 0 {
			return nil
		}
	}
	return errors.New("nobody asked for a connection")
}

// Dial connects to a port of rdma_cm. prepare may post receives before the other side can send.
func (n *Node) Dial(to connect.Parameters, port uint16, size int, prepare func(*Conn) error) (*Conn, error) {
	c, err := n.newConn(dissect.RC, size)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(c.init(), prepare(c)); err != nil {
		return nil, err
	}
	local := n.local(dissect.RC, c.qp.QPN(), 0)
	err = n.do(func() (err error) {
		c.id, err = n.cm.Connect(now(), connect.Request{
			Path:    dissect.Outer{DstMAC: n.o.PeerMAC, SrcMAC: n.o.MAC, Src: n.o.Addr, Dst: to.Address},
			Service: service(port), SrcPort: 40000 + uint16(c.qp.QPN()), Local: local,
		})
		if err == nil {
			n.conns[c.id] = c
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	e, err := c.await(connect.EventResponse)
	if err != nil {
		return nil, err
	}
	local.PSN = e.Local.PSN
	if err := c.connect(local, e.Remote); err != nil {
		return nil, err
	}
	return c, n.do(func() error { return n.cm.Confirm(now(), c.id, nil) })
}

// await waits for an event.
func (c *Conn) await(kind connect.EventKind) (connect.Event, error) {
	late := time.After(Patience)
	for {
		select {
		case e := <-c.events:
			switch {
			case e.Kind == kind:
				return e, nil
			case e.Kind == connect.EventRejected:
				return e, &RejectedError{e.Reason}
			case e.Kind == connect.EventUnreachable, e.Kind == connect.EventDisconnected:
				return e, fmt.Errorf("waited for %v, and got %v", kind, e.Kind)
			}
		case <-late:
			return connect.Event{}, fmt.Errorf("%v did not come in %s", kind, Patience)
		}
	}
}

// Disconnect says goodbye and waits for the answer.
func (c *Conn) Disconnect() error {
	if err := c.n.do(func() error { return c.n.cm.Disconnect(now(), c.id, nil) }); err != nil {
		return err
	}
	_, err := c.await(connect.EventDisconnected)
	return err
}

// Disconnected waits for the other side's goodbye.
func (c *Conn) Disconnected() error {
	_, err := c.await(connect.EventDisconnected)
	time.Sleep(linger)
	return err
}
