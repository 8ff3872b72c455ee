package connect

import (
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Request asks for a connection.
type Request struct {
	Path    dissect.Outer // MACs, VLANs, addresses, traffic class
	Service dissect.ServiceID
	SrcPort uint16       // of a service of the RDMA IP CM service: the own port, as text for the other side
	Local   Parameters   // of the own queue pair; PSN is not used
	Expect  *dissect.PSN // the first PSN that the other side is to send; nil = any
	Private []byte       // for the other application: 56 bytes of the RDMA IP CM service, else 92
}

// Answer accepts a request.
type Answer struct {
	Local   Parameters   // of the own queue pair; PSN is not used
	Expect  *dissect.PSN // the first PSN that the other side is to send; nil = any
	Private []byte       // for the other application: 196 bytes
}

// defaultAckTimeout is the code of 67 ms, which perftest and the pingpong programs take as well.
const defaultAckTimeout = 14

// Connect asks for a connection by a REQ. What comes of it is told by EventResponse, EventRejected or EventUnreachable.
func (m *CM) Connect(now int64, r Request) (ConnID, error) {
	m.now = max(m.now, now)
	l := &r.Local
	setDefault(&l.MTU, 1024)
	setDefault(&l.PKey, dissect.DefaultPKey)
	setDefault(&l.AckTimeout, defaultAckTimeout)
	if !l.Address.IsValid() {
		l.Address = r.Path.Src
	}
	if l.FlowLabel == 0 && r.Service.IsIPCM() { // as rdma_cm
		l.FlowLabel = (uint32(r.SrcPort)*31 + uint32(r.Service.Port())) & 0xFFFFF
	}
	if err := l.Check(); err != nil {
		return 0, fmt.Errorf("connect: REQ: %w", err)
	}
	if l.Transport == dissect.UD {
		return 0, fmt.Errorf("connect: REQ: UD has no connections; ask for the service by Resolve")
	}
	c, err := m.newActive(r.Path, r.Service, r.SrcPort)
	if err != nil {
		return 0, fmt.Errorf("connect: REQ: %w", err)
	}
	c.local = *l
	c.remote = Parameters{
		Transport: l.Transport, Address: r.Path.Dst, PSN: m.expect(r.Expect), MTU: l.MTU, PKey: l.PKey, FlowLabel: l.FlowLabel,
		RetryCount: l.RetryCount, AckTimeout: l.AckTimeout,
	}
	req := dissect.CMREQ(c.begin(dissect.CMAttrREQ))
	if room := req.ConsumerPrivate(); len(r.Private) > m.roomIn(r.Service, len(room)) {
		return 0, fmt.Errorf("connect: REQ: %d bytes: %w", len(r.Private), ErrTooLong)
	}
	m.fillREQ(req, c, r.Private)
	m.begin(c, StateREQSent, m.cfg.ResponseTimeout, m.cfg.MaxRetries)
	return ConnID(c.id), nil
}

const ipcmSize = 36

// roomIn is how much of room bytes of private data the RDMA IP CM service leaves.
func (m *CM) roomIn(s dissect.ServiceID, room int) int {
	if s.IsIPCM() {
		return room - ipcmSize
	}
	return room
}

func (m *CM) expect(p *dissect.PSN) dissect.PSN {
	if p != nil {
		return *p & max24
	}
	return dissect.PSN(m.rand.Uint32() & max24)
}

// newActive is a connection that this side asks for; begin enters it into the table.
func (m *CM) newActive(path dissect.Outer, service dissect.ServiceID, srcPort uint16) (*cmConn, error) {
	if len(m.table.byID) >= m.cfg.MaxConnections {
		return nil, ErrNoRoom
	}
	if !path.Src.IsValid() || !path.Dst.IsValid() || path.Src.Is4() != path.Dst.Is4() {
		return nil, fmt.Errorf("from %v to %v: two addresses of one kind are needed", path.Src, path.Dst)
	}
	c := &cmConn{id: m.newID(), active: true, outer: path, peer: dissect.AddrFrom(path.Dst), service: service, transaction: m.nextTransaction()}
	if service.IsIPCM() {
		c.ends = endpoints{netip.AddrPortFrom(path.Src, srcPort), netip.AddrPortFrom(path.Dst, service.Port())}
	}
	return c, nil
}

func (m *CM) newID() uint32 {
	for {
		if id := m.rand.Uint32(); id != 0 && m.table.byID[ConnID(id)] == nil {
			return id
		}
	}
}

func (m *CM) nextTransaction() uint64 {
	m.transID++
	return m.transID
}

// begin sends a message that is to be answered, and again if it is not.
func (m *CM) begin(c *cmConn, s CMState, timeout, retries uint8) {
	if m.table.byID[ConnID(c.id)] == nil {
		m.table.add(c)
	}
	c.state, c.interval, c.left = s, int64(dissect.CMTimeout(timeout)), retries
	m.table.at(c, m.now+c.interval)
	m.send(c)
}

func (m *CM) fillREQ(req dissect.CMREQ, c *cmConn, private []byte) {
	l := &c.local
	req.SetLocalCommID(c.id)
	req.SetServiceID(c.service)
	req.SetLocalCAGUID(m.cfg.GUID)
	req.SetLocalQPN(l.QPN)
	req.SetResponderResources(l.ResponderResources)
	req.SetInitiatorDepth(l.InitiatorDepth)
	req.SetRemoteResponseTimeout(m.cfg.ResponseTimeout)
	req.SetServiceType(uint8(l.Transport))
	req.SetEndToEndFlowControl(l.FlowControl)
	req.SetStartPSN(c.remote.PSN)
	req.SetLocalResponseTimeout(m.cfg.ResponseTimeout)
	req.SetRetryCount(l.RetryCount)
	req.SetPKey(l.PKey)
	req.SetMTU(mtuCode(l.MTU))
	req.SetRNRRetryCount(l.RNRRetryCount)
	req.SetMaxCMRetries(m.cfg.MaxRetries)
	req.SetSRQ(l.SRQ)
	path := req.Primary()
	path.SetLocalLID(0xFFFF)
	path.SetRemoteLID(0xFFFF)
	path.SetLocalGID(dissect.AddrFrom(l.Address))
	path.SetRemoteGID(c.peer)
	path.SetFlowLabel(l.FlowLabel)
	path.SetTrafficClass(c.outer.TrafficClass)
	path.SetHopLimit(64)
	path.SetAckTimeout(l.AckTimeout)
	m.fillIPCM(req.IPCM(), c)
	copy(req.ConsumerPrivate(), private)
}

func (m *CM) fillIPCM(h dissect.IPCM, c *cmConn) {
	if h == nil {
		return
	}
	h.SetIPVersion(4)
	if c.outer.Src.Is6() {
		h.SetIPVersion(6)
	}
	h.SetSrcPort(c.ends.src.Port())
	h.SetSrc(dissect.AddrFrom(c.outer.Src))
	h.SetDst(dissect.AddrFrom(c.outer.Dst))
}

// find returns the connection that a message is to, nil if it is to none, or not from the connection's other side.
func (m *CM) find(in inbound) *cmConn {
	if c := m.table.byID[ConnID(in.RemoteCommID())]; c != nil && c.peer == in.from {
		return c
	}
	return nil
}

func (m *CM) handleREP(in inbound, data []byte) {
	rep := dissect.CMREP(data)
	c := m.find(in)
	switch {
	case c == nil:
		m.reject(&m.mirror, in.TransactionID, rep.RemoteCommID(), rep.LocalCommID(), aboutREP, dissect.RejInvalidCommID, nil, nil)
		return
	case c.active && c.state == StateEstablished && rep.LocalCommID() == c.remoteID: // the RTU was lost
		m.stats.Duplicates++
		m.send(c)
		return
	case c.state == StateREPReceived && rep.LocalCommID() == c.remoteID:
		m.stats.Duplicates++
		m.wait(c, aboutREP)
		return
	case c.state != StateREQSent && c.state != StateREPWait || !validQPN(rep.LocalQPN()):
		m.stats.Ignored++
		return
	}
	c.remoteID, c.remoteGUID = rep.LocalCommID(), rep.LocalCAGUID()
	r := &c.remote
	r.QPN, r.QKey, r.RNRRetryCount = rep.LocalQPN(), rep.LocalQKey(), rep.RNRRetryCount()
	r.ResponderResources, r.InitiatorDepth = rep.ResponderResources(), rep.InitiatorDepth()
	r.SRQ, r.FlowControl = rep.SRQ(), rep.EndToEndFlowControl()
	c.local.PSN = rep.StartPSN()
	if m.taken(c.peer, c.remoteID, r.QPN) { // the other side has forgotten a connection that lives here
		m.reject(&c.outer, c.transaction, c.id, c.remoteID, aboutREP, dissect.RejStaleConnection, nil, nil)
		m.end(c, Event{Kind: EventRejected, Reason: dissect.RejStaleConnection})
		return
	}
	m.table.knowRemote(c)
	c.state = StateREPReceived
	m.table.at(c, m.now+int64(m.cfg.AcceptTime))
	m.event(c, EventResponse, rep.Private())
}

func validQPN(qpn uint32) bool { return qpn > 1 && qpn < max24 }

// Confirm answers an EventResponse by an RTU, once the queue pair is ready to send: the connection is established.
func (m *CM) Confirm(now int64, id ConnID, private []byte) error {
	c, err := m.in(now, id, "RTU", StateREPReceived)
	if err != nil {
		return err
	}
	rtu := dissect.CMRTU(c.begin(dissect.CMAttrRTU))
	if len(private) > len(rtu.Private()) {
		return fmt.Errorf("connect: RTU: %d bytes: %w", len(private), ErrTooLong)
	}
	rtu.SetLocalCommID(c.id)
	rtu.SetRemoteCommID(c.remoteID)
	copy(rtu.Private(), private)
	m.send(c)
	m.establish(c, nil)
	return nil
}

func (m *CM) establish(c *cmConn, private []byte) {
	c.state = StateEstablished
	m.table.settle(c)
	m.table.at(c, never)
	m.event(c, EventEstablished, private)
}

// in finds a connection that has to be in one of some states.
func (m *CM) in(now int64, id ConnID, what string, states ...CMState) (*cmConn, error) {
	m.now = max(m.now, now)
	c := m.table.byID[id]
	if c == nil {
		return nil, fmt.Errorf("connect: %s %#08x: %w", what, uint32(id), ErrUnknownID)
	}
	for _, s := range states {
		if c.state == s {
			return c, nil
		}
	}
	return nil, fmt.Errorf("connect: %s %#08x in state %q: %w", what, uint32(id), c.state, ErrState)
}
