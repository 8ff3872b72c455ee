package connect

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

func (m *CM) handleREQ(in inbound, data []byte) {
	req := dissect.CMREQ(data)
	if c := m.table.byRemote[peerKey{in.from, req.LocalCommID()}]; c != nil && !c.active && c.transaction == in.TransactionID && c.remote.QPN == req.LocalQPN() {
		m.duplicateREQ(c, in)
		return
	}
	reason := m.judgeREQ(in, req)
	switch {
	case reason != 0:
	case m.taken(in.from, req.LocalCommID(), req.LocalQPN()):
		reason = dissect.RejStaleConnection
	case m.table.pending >= m.cfg.MaxPending || len(m.table.byID) >= m.cfg.MaxConnections:
		m.stats.NoRoom++
		reason = dissect.RejNoResources
	}
	if reason != 0 {
		m.refuse(in, reason)
		return
	}
	transport, _ := req.Transport()
	c := &cmConn{
		id: m.newID(), remoteID: req.LocalCommID(), state: StateREQReceived, pending: true, outer: m.keepMirror(), peer: in.from,
		transaction: in.TransactionID, remoteGUID: req.LocalCAGUID(), service: req.ServiceID(),
	}
	path := req.Primary()
	c.remote = Parameters{
		Transport: transport, Address: in.from.Netip(), QPN: req.LocalQPN(), MTU: dissect.MTUBytes(req.MTU()), PKey: req.PKey(),
		QKey: req.LocalQKey(), FlowLabel: path.FlowLabel(), ResponderResources: req.ResponderResources(), InitiatorDepth: req.InitiatorDepth(),
		AckTimeout: path.AckTimeout(), RetryCount: req.RetryCount(), RNRRetryCount: req.RNRRetryCount(),
		SRQ: req.SRQ(), FlowControl: req.EndToEndFlowControl(),
	}
	c.local = Parameters{Transport: transport, Address: in.to.Netip(), PSN: req.StartPSN()}
	c.ends = ipEndpoints(req.ServiceID(), req.IPCM())
	// How to send a REP again is the REQ's to say, in reason.
	c.interval, c.left = int64(dissect.CMTimeout(min(req.LocalResponseTimeout(), maxResponseTimeout))), req.MaxCMRetries()
	m.table.add(c)
	m.table.at(c, m.now+int64(m.cfg.AcceptTime))
	m.event(c, EventRequest, req.ConsumerPrivate())
}

// maxResponseTimeout is the code of the longest time-out, 8.6 s, that another side's word is taken for.
const maxResponseTimeout = 21

// judgeREQ returns why a request cannot be, 0 if it can.
func (m *CM) judgeREQ(in inbound, req dissect.CMREQ) dissect.RejReason {
	answer, listening := m.listeners[req.ServiceID()]
	transport, known := req.Transport()
	path, h := req.Primary(), req.IPCM()
	switch {
	case !listening || answer != nil:
		return dissect.RejInvalidServiceID
	case !known || transport != dissect.RC && transport != dissect.UC:
		return dissect.RejInvalidTransport
	case !validQPN(req.LocalQPN()), h != nil && (h.MajorVersion() != 0 || h.IPVersion() != 4 && h.IPVersion() != 6):
		return dissect.RejUnsupported
	case dissect.MTUBytes(req.MTU()) == 0:
		return dissect.RejInvalidMTU
	case !path.RemoteGID().IsZero() && path.RemoteGID() != in.to, !path.LocalGID().IsZero() && path.LocalGID() != in.from:
		return dissect.RejInvalidGID
	}
	return 0
}

func ipEndpoints(s dissect.ServiceID, h dissect.IPCM) endpoints {
	if h == nil {
		return endpoints{}
	}
	return endpoints{netip.AddrPortFrom(h.Src().Netip(), h.SrcPort()), netip.AddrPortFrom(h.Dst().Netip(), s.Port())}
}

// duplicateREQ answers a request that was answered before, or is being thought about.
func (m *CM) duplicateREQ(c *cmConn, in inbound) {
	m.stats.Duplicates++
	switch c.state {
	case StateREQReceived:
		m.wait(c, aboutREQ)
	case StateREPSent:
		m.send(c)
	case StateDREQSent, StateTimeWait:
		m.refuse(in, dissect.RejStaleConnection)
	}
}

// taken reports whether a peer uses an identifier or a QPN for another connection already, which it must have forgotten: that
// one ends now (IBA 12.9.8.3).
func (m *CM) taken(peer dissect.Addr, remoteID, qpn uint32) bool {
	byID, byQPN := m.table.byRemote[peerKey{peer, remoteID}], m.table.byQPN[peerKey{peer, qpn}]
	for _, c := range [...]*cmConn{byID, byQPN} {
		if c == nil {
			continue
		}
		switch c.state {
		case StateEstablished, StateREPReceived:
			m.askToEnd(c, nil)
			m.over(c, Event{Kind: EventDisconnected, Reason: dissect.RejStaleConnection})
		case StateREQReceived, StateREPSent:
			m.end(c, Event{Kind: EventRejected, Reason: dissect.RejStaleConnection})
		}
	}
	return byID != nil || byQPN != nil
}

// Accept answers an EventRequest by a REP, once the queue pair is ready to receive. READ and atomic depths are cut to what
// the other side can do. EventEstablished follows.
func (m *CM) Accept(now int64, id ConnID, a Answer) error {
	c, err := m.in(now, id, "REP", StateREQReceived)
	if err != nil {
		return err
	}
	req, l := &c.remote, &a.Local
	l.Transport, l.MTU, l.PKey, l.FlowLabel, l.PSN = req.Transport, req.MTU, req.PKey, req.FlowLabel, c.local.PSN
	l.RetryCount, l.AckTimeout = req.RetryCount, req.AckTimeout // the REQ says them for both
	if !l.Address.IsValid() {
		l.Address = c.local.Address
	}
	l.InitiatorDepth, l.ResponderResources = min(l.InitiatorDepth, req.ResponderResources), min(l.ResponderResources, req.InitiatorDepth)
	if err := l.Check(); err != nil {
		return fmt.Errorf("connect: REP: %w", err)
	}
	rep := dissect.CMREP(c.begin(dissect.CMAttrREP))
	if len(a.Private) > len(rep.Private()) {
		return fmt.Errorf("connect: REP: %d bytes: %w", len(a.Private), ErrTooLong)
	}
	c.local, req.PSN = *l, m.expect(a.Expect)
	rep.SetLocalCommID(c.id)
	rep.SetRemoteCommID(c.remoteID)
	rep.SetLocalQPN(l.QPN)
	rep.SetLocalQKey(l.QKey)
	rep.SetStartPSN(req.PSN)
	rep.SetResponderResources(l.ResponderResources)
	rep.SetInitiatorDepth(l.InitiatorDepth)
	rep.SetTargetAckDelay(15)
	rep.SetEndToEndFlowControl(l.FlowControl)
	rep.SetRNRRetryCount(l.RNRRetryCount)
	rep.SetSRQ(l.SRQ)
	rep.SetLocalCAGUID(m.cfg.GUID)
	copy(rep.Private(), a.Private)
	c.state, c.expires = StateREPSent, m.now+int64(m.cfg.HalfOpenTime)
	m.table.at(c, min(m.now+c.interval, c.expires))
	m.send(c)
	return nil
}

// Reject answers an EventRequest or EventResponse by a REJ; RejConsumer is the application's own reason, whose private data
// may have 148 bytes.
func (m *CM) Reject(now int64, id ConnID, reason dissect.RejReason, private []byte) error {
	c, err := m.in(now, id, "REJ", StateREQReceived, StateREPReceived)
	if err != nil {
		return err
	}
	if len(private) > len(dissect.CMREJ(zeroMAD[madHeaderSize:]).Private()) {
		return fmt.Errorf("connect: REJ: %d bytes: %w", len(private), ErrTooLong)
	}
	about := uint8(aboutREQ)
	if c.active {
		about = aboutREP
	}
	m.stats.Refused++
	m.reject(&c.outer, c.transaction, c.id, c.remoteID, about, reason, nil, private)
	m.table.remove(c)
	return nil
}

// Arrived tells that a packet came in on a connection's queue pair: one that waits for its RTU, which may be lost, is
// established by that (IBA 12.9.6).
func (m *CM) Arrived(now int64, id ConnID) {
	if c, err := m.in(now, id, "", StateREPSent); err == nil {
		m.establish(c, nil)
	}
}

func (m *CM) handleRTU(in inbound) {
	c := m.find(in)
	switch {
	case c == nil || c.active || in.LocalCommID() != c.remoteID:
		m.stats.Ignored++
	case c.state == StateREPSent:
		m.establish(c, dissect.CMRTU(in.Data).Private())
	default:
		m.stats.Duplicates++
	}
}

func (m *CM) handleMRA(in inbound, data []byte) {
	mra := dissect.CMMRA(data)
	c := m.find(in)
	patience := int64(dissect.CMTimeout(min(mra.ServiceTimeout(), maxServiceTimeout)))
	switch {
	case c != nil && c.state == StateREQSent && mra.Message() == aboutREQ:
		c.state = StateREPWait // until the REQ is sent again, so that one MRA buys one delay
		m.table.at(c, m.now+patience+c.interval)
	case c != nil && c.state == StateREPSent && mra.Message() == aboutREP:
		m.table.at(c, min(m.now+patience+c.interval, c.expires))
	default:
		m.stats.Ignored++
	}
}

// maxServiceTimeout is the code of the longest time, 69 s, that an MRA is obeyed for.
const maxServiceTimeout = 24

// timeoutCode is the code of the shortest time that is not less than d.
func timeoutCode(d time.Duration) uint8 {
	for code := range uint8(31) {
		if dissect.CMTimeout(code) >= d {
			return code
		}
	}
	return 31
}
