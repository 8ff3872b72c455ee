package connect

import (
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// EventKind is what happened to a connection.
type EventKind uint8

// The events. Those in brackets are rdma_cm's names for them.
const (
	EventRequest      EventKind = iota // a REQ came: answer by Accept or Reject (CONNECT_REQUEST)
	EventResponse                      // a REP came: answer by Confirm or Reject (CONNECT_RESPONSE)
	EventEstablished                   // both sides know that they may send (ESTABLISHED)
	EventRejected                      // the other side refused, for Reason (REJECTED)
	EventUnreachable                   // the other side did not answer in time (UNREACHABLE)
	EventDisconnected                  // the connection is over (DISCONNECTED)
	EventClosed                        // … and its numbers may be used again (TIMEWAIT_EXIT)
	EventResolved                      // a SIDR_REP told Remote.QPN and Remote.QKey (ESTABLISHED of the UDP port space)
	numEventKinds
)

var eventNames = [numEventKinds]string{"request", "response", "established", "rejected", "unreachable", "disconnected", "closed", "resolved"}

func (k EventKind) String() string {
	if k < numEventKinds {
		return eventNames[k]
	}
	return "unknown"
}

// Event is what happened to a connection, and what is known of it by then.
type Event struct {
	Kind          EventKind
	ID            ConnID
	At            int64 // nanoseconds
	Active        bool  // this side asked for the connection
	Service       dissect.ServiceID
	Local, Remote Parameters
	Src, Dst      netip.AddrPort     // of the RDMA IP CM service: who asked, and whom
	Path          dissect.Outer      // what to send to the other side in
	Reason        dissect.RejReason  // of EventRejected
	Status        dissect.SIDRStatus // of EventRejected, where a SIDR_REP said it
	Private       []byte             // what the other application put into the message; borrowed until the event's end
}

func (e Event) String() string {
	s := fmt.Sprintf("%v %#08x: %s QP %#06x - %s QP %#06x", e.Kind, uint32(e.ID), e.Local.Address, e.Local.QPN, e.Remote.Address, e.Remote.QPN)
	switch {
	case e.Kind == EventRejected && e.Status != dissect.SIDRValid:
		return s + ": " + e.Status.String()
	case e.Kind == EventRejected:
		return fmt.Sprintf("%s: %v (%d)", s, e.Reason, e.Reason)
	}
	return s
}

// endpoints are the addresses of the RDMA IP CM service.
type endpoints struct{ src, dst netip.AddrPort }

func (m *CM) event(c *cmConn, kind EventKind, private []byte) {
	m.tell(c, Event{Kind: kind, Private: private})
}

func (m *CM) tell(c *cmConn, e Event) {
	e.ID, e.At, e.Active, e.Service = ConnID(c.id), m.now, c.active, c.service
	e.Local, e.Remote, e.Src, e.Dst, e.Path = c.local, c.remote, c.ends.src, c.ends.dst, c.outer
	m.cfg.Event(e)
}

// over tells the end of a connection, once.
func (m *CM) over(c *cmConn, e Event) {
	if !c.announced {
		c.announced = true
		m.tell(c, e)
	}
}
