package flows

import (
	"bytes"

	"github.com/rocescope/rocescope/dissect"
)

// cmMessage is one message and its surroundings.
type cmMessage struct {
	dissect.CM
	p    *dissect.Packet
	vlan int16
	id   uint32 // how the sender calls the conversation
	peer uint32 // how the receiver calls it, as far as the sender knows
}

// cmNeed is how many bytes of a message must have been captured: up to the
// last field that is read of it.
var cmNeed = [...]int{
	dissect.CMAttrREQ: 96, dissect.CMAttrMRA: 10, dissect.CMAttrREJ: 12, dissect.CMAttrREP: 28,
	dissect.CMAttrRTU: 8, dissect.CMAttrDREQ: 12, dissect.CMAttrDREP: 8, dissect.CMAttrSIDRREQ: 16,
	dissect.CMAttrSIDRREP: 24, dissect.CMAttrLAP: 16, dissect.CMAttrAPR: 10,
}

func (t *cmTable) packet(p *dissect.Packet, frame []byte, dst []handshakeEvent) []handshakeEvent {
	cm, ok := p.CM(frame)
	if !ok || len(cm.Data) < cmNeed[cm.Attribute] {
		return dst
	}
	m := cmMessage{CM: cm, p: p, vlan: int16(p.VLAN()), id: cm.LocalCommID(), peer: cm.RemoteCommID()}
	switch cm.Attribute {
	case dissect.CMAttrREQ:
		return t.req(m, dissect.CMREQ(cm.Data), dst)
	case dissect.CMAttrREP:
		return t.rep(m, dissect.CMREP(cm.Data), dst)
	case dissect.CMAttrRTU:
		return t.rtu(m, dst)
	case dissect.CMAttrREJ:
		return t.rej(m, dissect.CMREJ(cm.Data), dst)
	case dissect.CMAttrMRA:
		return t.mra(m, dissect.CMMRA(cm.Data), dst)
	case dissect.CMAttrDREQ:
		return t.remote(m, dissect.CMDREQ(cm.Data).RemoteQPN(), dst)
	case dissect.CMAttrLAP:
		return t.remote(m, dissect.CMLAP(cm.Data).RemoteQPN(), dst)
	case dissect.CMAttrDREP:
		return t.drep(m, dst)
	case dissect.CMAttrAPR:
		return t.apr(m, dissect.CMAPR(cm.Data), dst)
	case dissect.CMAttrSIDRREQ:
		return t.sidrReq(m, dissect.CMSIDRREQ(cm.Data), dst)
	case dissect.CMAttrSIDRREP:
		return t.sidrRep(m, dissect.CMSIDRREP(cm.Data), dst)
	}
	return dst
}

func (t *cmTable) req(m cmMessage, req dissect.CMREQ, dst []handshakeEvent) []handshakeEvent {
	if i := t.find(cmKey{m.p.Src, m.p.Dst, m.id, m.vlan, false}); i >= 0 {
		c := t.convs.at(i)
		if c.seen&seenREQ != 0 && c.transaction == m.TransactionID &&
			c.sides[0].qpn == req.LocalQPN() && c.sides[1].psn == req.StartPSN() {
			return append(dst, c.event(evResent, m))
		}
		t.forget(i) // its identifier has a new use
	}
	c := t.convs.at(t.add(m, m.id, false))
	c.roles, c.seen, c.transaction, c.req = true, seenREQ, m.TransactionID, m.p.Number
	c.service = uint64(req.ServiceID())
	c.transport, c.hasTransport = req.Transport()
	c.upper, c.queue = upperAsked(req)
	a, b := &c.sides[0], &c.sides[1]
	a.qpn, a.hasQP = req.LocalQPN(), true
	a.qpAddr, b.qpAddr = reqPath(m.p, req.Primary())
	// The PSN is the one that the REQ's sender expects first, so it numbers
	// the other side's requests (IBA 12.7.31).
	b.psn, b.hasPSN = req.StartPSN(), true
	// Retry count and ACK timeout are taken to count for both sides; the RNR
	// retry count is for the message's receiver, and the REP has the other's.
	for s := range c.sides {
		s := &c.sides[s]
		s.told, s.mtu, s.retry = true, int8(req.MTU()), int8(req.RetryCount())
		s.ackTimeout = int8(req.Primary().AckTimeout())
	}
	b.rnr = int8(req.RNRRetryCount())
	a.resources, a.depth, a.srq = int16(req.ResponderResources()), int16(req.InitiatorDepth()), req.SRQ()
	e := c.event(evHalf, m)
	e.Why = c.why()
	return append(dst, e)
}

// upperAsked is what a REQ's private data says of what is to be carried: the
// protocol where the data tells it for certain, the queue where it is NVMe's.
func upperAsked(req dissect.CMREQ) (protocol dissect.UpperProtocol, queue int) {
	private := req.ConsumerPrivate()
	if dissect.IsRPCPrivate(private) {
		protocol = dissect.RPCRDMA
	}
	id, ok := dissect.NVMeQueueOf(private)
	if !ok {
		return protocol, -1
	}
	return protocol, int(id)
}

// reqPath returns the addresses of the two queue pairs that a REQ names, on
// its primary path. On InfiniBand within a subnet these are LIDs, as they are
// in the packets.
func reqPath(p *dissect.Packet, path dissect.CMPath) (a, b dissect.Addr) {
	if p.Proto == dissect.ProtoInfiniBand && path.SubnetLocal() {
		return dissect.Addr{Lo: uint64(path.LocalLID())}, dissect.Addr{Lo: uint64(path.RemoteLID())}
	}
	a, b = path.LocalGID(), path.RemoteGID()
	if a.IsZero() || b.IsZero() {
		return p.Src, p.Dst
	}
	return a, b
}

func (t *cmTable) rep(m cmMessage, rep dissect.CMREP, dst []handshakeEvent) []handshakeEvent {
	i := t.find(cmKey{m.p.Dst, m.p.Src, m.peer, m.vlan, false})
	if i >= 0 {
		c := t.convs.at(i)
		a, b := &c.sides[0], &c.sides[1]
		switch {
		case c.from(m) == 0 || a.id != m.peer:
			t.forget(i) // the identifier's new use: its owner was passive, and is active now
			i = -1
		case c.seen&seenREP != 0 && b.id == m.id && b.qpn == rep.LocalQPN() && a.psn == rep.StartPSN():
			return append(dst, c.event(evResent, m))
		}
	}
	if i < 0 {
		i = t.add(m, 0, false) // side 0 is the one that the REP is for
		c := t.convs.at(i)
		c.sides[0], c.sides[1] = c.sides[1], c.sides[0]
		t.name(i, 0, m.peer)
	}
	t.name(i, 1, m.id)
	c := t.convs.at(i)
	a, b := &c.sides[0], &c.sides[1]
	c.roles, c.transaction, c.rep = true, m.TransactionID, m.p.Number
	c.seen = c.seen&seenREQ | seenREP
	b.qpn, b.hasQP, b.told = rep.LocalQPN(), true, true
	b.resources, b.depth, b.srq = int16(rep.ResponderResources()), int16(rep.InitiatorDepth()), rep.SRQ()
	a.psn, a.hasPSN, a.told = rep.StartPSN(), true, true
	a.rnr = int8(rep.RNRRetryCount())
	if a.depth < 0 || a.depth > b.resources { // what the REQ asked for, as far as it was granted
		a.depth = b.resources
	}
	kind := evHalf
	if a.hasQP {
		kind = evPair
	}
	e := c.event(kind, m)
	e.Why = c.why()
	return append(dst, e)
}

func (t *cmTable) rtu(m cmMessage, dst []handshakeEvent) []handshakeEvent {
	i := t.match(m)
	if i < 0 {
		i = t.add(m, m.id, false)
		t.name(i, 1, m.peer)
		t.convs.at(i).roles = true // only the active side sends RTU
	}
	c := t.convs.at(i)
	kind := evEstablished
	if c.mark(seenRTU) {
		kind = evResent
	}
	if !c.named() {
		return dst
	}
	return append(dst, c.event(kind, m))
}

func (t *cmTable) rej(m cmMessage, rej dissect.CMREJ, dst []handshakeEvent) []handshakeEvent {
	c := t.answered(m)
	kind := evRejected
	if c.mark(seenREJ << c.from(m)) {
		kind = evResent
	}
	e := c.event(kind, m)
	e.Reason, e.Rejected = uint16(rej.Reason()), rej.Message()
	return append(dst, e)
}

func (t *cmTable) mra(m cmMessage, mra dissect.CMMRA, dst []handshakeEvent) []handshakeEvent {
	e := t.answered(m).event(evMRA, m)
	e.Rejected = mra.Message()
	return append(dst, e)
}

// answered is the conversation of a message that answers another one and says
// nothing of queue pairs: one of which only the identifiers are known, and
// which is not kept, where nothing of it was captured.
func (t *cmTable) answered(m cmMessage) *cmConv {
	if i := t.match(m); i >= 0 {
		return t.convs.at(i)
	}
	c := &cmConv{vlan: m.vlan, queue: -1, sides: [2]cmSide{newCMSide(m.p.Src), newCMSide(m.p.Dst)}}
	c.sides[0].id, c.sides[1].id = m.id, m.peer
	return c
}

// remote is for DREQ and LAP, which name their receiver's queue pair.
func (t *cmTable) remote(m cmMessage, qpn uint32, dst []handshakeEvent) []handshakeEvent {
	i := t.match(m)
	if i >= 0 {
		c := t.convs.at(i)
		if to := &c.sides[1-c.from(m)]; to.hasQP && to.qpn != qpn {
			t.forget(i) // an older conversation, whose end was not captured
			i = -1
		}
	}
	if i < 0 {
		i = t.add(m, m.id, false)
		t.name(i, 1, m.peer)
	}
	c := t.convs.at(i)
	from := c.from(m)
	if to := &c.sides[1-from]; !to.hasQP {
		to.qpn, to.hasQP = qpn, true
		c.learnt[from], c.learntBy[from] = m.p.Number, m.Attribute
		if c.sides[from].hasQP {
			e := c.event(evPair, m)
			e.Why, e.Late = c.why(), true
			dst = append(dst, e)
		}
	}
	kind := evMigration
	if m.Attribute == dissect.CMAttrDREQ {
		kind = evDisconnectRequest
		if c.mark(seenDREQ << from) {
			kind = evResent
		}
	}
	return append(dst, c.event(kind, m))
}

func (t *cmTable) drep(m cmMessage, dst []handshakeEvent) []handshakeEvent {
	i := t.match(m)
	if i < 0 || !t.convs.at(i).named() {
		return dst
	}
	c := t.convs.at(i)
	kind := evDisconnected
	if c.mark(seenDREP << c.from(m)) {
		kind = evResent
	}
	return append(dst, c.event(kind, m))
}

func (t *cmTable) apr(m cmMessage, apr dissect.CMAPR, dst []handshakeEvent) []handshakeEvent {
	i := t.match(m)
	if i < 0 || !t.convs.at(i).named() {
		return dst
	}
	e := t.convs.at(i).event(evMigration, m)
	e.Reason = uint16(apr.Status())
	return append(dst, e)
}

func (t *cmTable) sidrReq(m cmMessage, req dissect.CMSIDRREQ, dst []handshakeEvent) []handshakeEvent {
	service := uint64(req.ServiceID())
	if i := t.find(cmKey{m.p.Src, m.p.Dst, m.id, m.vlan, true}); i >= 0 {
		if c := t.convs.at(i); c.transaction == m.TransactionID && c.service == service {
			return append(dst, c.event(evResent, m))
		}
		t.forget(i)
	}
	c := t.convs.at(t.add(m, m.id, true))
	c.roles, c.transaction, c.req, c.service = true, m.TransactionID, m.p.Number, service
	c.transport, c.hasTransport = dissect.UD, true
	return append(dst, c.event(evSIDR, m))
}

func (t *cmTable) sidrRep(m cmMessage, rep dissect.CMSIDRREP, dst []handshakeEvent) []handshakeEvent {
	i := t.find(cmKey{m.p.Dst, m.p.Src, m.id, m.vlan, true})
	if i < 0 { // the request was not captured
		i = t.add(m, 0, true)
		c := t.convs.at(i)
		c.sides[0], c.sides[1] = c.sides[1], c.sides[0]
		t.name(i, 0, m.id)
		c.roles, c.transaction = true, m.TransactionID
		c.transport, c.hasTransport = dissect.UD, true
	}
	c := t.convs.at(i)
	kind := evSIDR
	if rep.Status() != 0 {
		kind = evRejected
	} else {
		c.sides[1].qpn, c.sides[1].hasQP = rep.QPN(), true
	}
	if c.mark(seenSIDRRep) {
		kind = evResent
	}
	c.service, c.rep = uint64(rep.ServiceID()), m.p.Number
	e := c.event(kind, m)
	e.Reason, e.QKey = uint16(rep.Status()), rep.QKey()
	return append(dst, e)
}

func (c *cmConv) event(kind eventKind, m cmMessage) handshakeEvent {
	a, b := &c.sides[0], &c.sides[1]
	return handshakeEvent{
		Kind: kind, By: ByCM, Message: m.Attribute, FromA: c.from(m) == 0,
		RolesKnown: c.roles, HasA: a.hasQP, HasB: b.hasQP, VLANKnown: true,
		A: QPName{a.qpAddr, int(c.vlan), a.qpn}, B: QPName{b.qpAddr, int(c.vlan), b.qpn},
		NegA: a.negotiated(), NegB: b.negotiated(), HasPSNA: a.hasPSN, HasPSNB: b.hasPSN,
		Transport: c.transport, HasTransport: c.hasTransport, ServiceID: c.service,
		PrivateLen: privateLen(m.CM), Upper: c.upper, Queue: c.queue,
		CommA: a.id, CommB: b.id, Transaction: m.TransactionID,
		Frame: m.p.Number, Time: m.p.Time,
	}
}

// privateLen is the length of what the application said, as far as it can be
// told: private data has a fixed size and is filled up with zeros.
func privateLen(m dissect.CM) int {
	var b []byte
	switch m.Attribute {
	case dissect.CMAttrREQ:
		b = dissect.CMREQ(m.Data).ConsumerPrivate()
	case dissect.CMAttrMRA:
		b = dissect.CMMRA(m.Data).Private()
	case dissect.CMAttrREJ:
		b = dissect.CMREJ(m.Data).Private()
	case dissect.CMAttrREP:
		b = dissect.CMREP(m.Data).Private()
	case dissect.CMAttrRTU:
		b = dissect.CMRTU(m.Data).Private()
	case dissect.CMAttrDREQ:
		b = dissect.CMDREQ(m.Data).Private()
	case dissect.CMAttrDREP:
		b = dissect.CMDREP(m.Data).Private()
	case dissect.CMAttrSIDRREQ:
		b = dissect.CMSIDRREQ(m.Data).ConsumerPrivate()
	case dissect.CMAttrSIDRREP:
		b = dissect.CMSIDRREP(m.Data).Private()
	case dissect.CMAttrLAP:
		b = dissect.CMLAP(m.Data).Private()
	case dissect.CMAttrAPR:
		b = dissect.CMAPR(m.Data).Private()
	}
	return len(bytes.TrimRight(b, "\x00"))
}
