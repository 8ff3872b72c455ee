package connect

import (
	"encoding/binary"
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// end forgets a connection and tells so. Here as everywhere the state changes first: an event may call any method.
func (m *CM) end(c *cmConn, e Event) {
	m.table.remove(c)
	m.over(c, e)
}

// timeWait keeps a connection that is over for as long as late packets may come.
func (m *CM) timeWait(c *cmConn) {
	m.table.settle(c)
	m.table.forgetQPN(c)
	c.state = StateTimeWait
	m.table.at(c, m.now+int64(m.cfg.TimeWait))
}

// expire does what a deadline asks for.
func (m *CM) expire(c *cmConn) {
	switch c.state {
	case StateREQSent, StateREPWait, StateREPSent, StateDREQSent, StateSIDRSent:
		if c.left > 0 && (c.state != StateREPSent || m.now < c.expires) {
			m.again(c)
			return
		}
	case StateTimeWait:
		m.table.remove(c)
		m.event(c, EventClosed, nil)
		return
	}
	m.giveUp(c)
}

// again sends a message again.
func (m *CM) again(c *cmConn) {
	c.left--
	if c.state == StateREPWait {
		c.state = StateREQSent
	}
	deadline := m.now + c.interval
	if c.state == StateREPSent {
		deadline = min(deadline, c.expires)
	}
	m.table.at(c, deadline)
	m.stats.Resent++
	m.send(c)
}

// giveUp ends what was not answered.
func (m *CM) giveUp(c *cmConn) {
	switch c.state {
	case StateDREQSent:
		m.timeWait(c)
		m.over(c, Event{Kind: EventDisconnected, Reason: dissect.RejTimeout})
		return
	case StateREQSent, StateREPWait, StateREQReceived:
		m.tellTimeout(c, aboutREQ)
	case StateREPReceived, StateREPSent:
		m.tellTimeout(c, aboutREP)
	}
	m.end(c, Event{Kind: EventUnreachable, Reason: dissect.RejTimeout})
}

// tellTimeout tells the other side that it need not answer any more. It may not know this side's identifier: the additional
// information of a time-out is the GUID.
func (m *CM) tellTimeout(c *cmConn, about uint8) {
	var guid [8]byte
	binary.BigEndian.PutUint64(guid[:], m.cfg.GUID)
	m.reject(&c.outer, c.transaction, c.id, c.remoteID, about, dissect.RejTimeout, guid[:], nil)
}

// Disconnect ends a connection by a DREQ; EventDisconnected follows. Before it is established, it calls it off: then nothing
// follows.
func (m *CM) Disconnect(now int64, id ConnID, private []byte) error {
	c, err := m.in(now, id, "DREQ", StateREQSent, StateREPWait, StateREPReceived, StateREQReceived, StateREPSent, StateEstablished, StateSIDRSent)
	if err != nil {
		return err
	}
	if len(private) > len(dissect.CMDREQ(zeroMAD[madHeaderSize:]).Private()) {
		return fmt.Errorf("connect: DREQ: %d bytes: %w", len(private), ErrTooLong)
	}
	switch c.state {
	case StateEstablished, StateREPSent:
		m.askToEnd(c, private)
		return nil
	case StateREQSent, StateREPWait:
		m.tellTimeout(c, aboutREQ)
	case StateREQReceived:
		m.reject(&c.outer, c.transaction, c.id, c.remoteID, aboutREQ, dissect.RejConsumer, nil, private)
	case StateREPReceived:
		m.reject(&c.outer, c.transaction, c.id, c.remoteID, aboutREP, dissect.RejConsumer, nil, private)
	}
	m.table.remove(c)
	return nil
}

func (m *CM) askToEnd(c *cmConn, private []byte) {
	m.table.settle(c)
	m.table.forgetQPN(c)
	if !c.active {
		c.transaction = m.nextTransaction()
	}
	dreq := dissect.CMDREQ(c.begin(dissect.CMAttrDREQ))
	dreq.SetLocalCommID(c.id)
	dreq.SetRemoteCommID(c.remoteID)
	dreq.SetRemoteQPN(c.remote.QPN)
	copy(dreq.Private(), private)
	m.begin(c, StateDREQSent, m.cfg.ResponseTimeout, m.cfg.MaxRetries)
}

func (m *CM) handleDREQ(in inbound, data []byte) {
	dreq := dissect.CMDREQ(data)
	c := m.find(in)
	switch {
	case c == nil: // over already: the other side is to stop asking
		m.agreeToEnd(in)
		return
	case dreq.LocalCommID() != c.remoteID || dreq.RemoteQPN() != c.local.QPN:
		m.stats.Ignored++
		return
	}
	switch c.state {
	case StateREPSent, StateREPReceived, StateEstablished, StateDREQSent:
		m.agreeToEnd(in)
		m.timeWait(c)
		m.over(c, Event{Kind: EventDisconnected, Private: dreq.Private()})
	case StateTimeWait:
		m.stats.Duplicates++
		m.agreeToEnd(in)
	default:
		m.stats.Ignored++
	}
}

// agreeToEnd answers a DREQ.
func (m *CM) agreeToEnd(in inbound) {
	drep := dissect.CMDREP(m.compose(&m.mirror, dissect.CMAttrDREP, in.TransactionID))
	drep.SetLocalCommID(in.RemoteCommID())
	drep.SetRemoteCommID(in.LocalCommID())
	m.emit(&m.mirror)
}

func (m *CM) handleDREP(in inbound) {
	c := m.find(in)
	if c == nil || c.state != StateDREQSent || in.LocalCommID() != c.remoteID {
		m.stats.Ignored++
		return
	}
	m.timeWait(c)
	m.over(c, Event{Kind: EventDisconnected, Private: dissect.CMDREP(in.Data).Private()})
}

func (m *CM) handleREJ(in inbound, data []byte) {
	rej := dissect.CMREJ(data)
	c := m.find(in)
	if rej.RemoteCommID() == 0 { // the other side gave up before it knew this side's identifier
		c = m.table.byRemote[peerKey{in.from, rej.LocalCommID()}]
	}
	if c == nil {
		m.stats.Ignored++
		return
	}
	e := Event{Kind: EventRejected, Reason: rej.Reason(), Private: rej.Private()}
	theirs := rej.LocalCommID() == c.remoteID
	switch {
	case c.state == StateREQSent || c.state == StateREPWait,
		theirs && (c.state == StateREPReceived || c.state == StateREQReceived || c.state == StateREPSent):
		m.end(c, e)
	case theirs && (c.state == StateEstablished || c.state == StateDREQSent):
		m.timeWait(c)
		e.Kind = EventDisconnected
		m.over(c, e)
	default:
		m.stats.Ignored++
	}
}
