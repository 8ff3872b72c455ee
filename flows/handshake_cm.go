package flows

import (
	"bytes"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
)

// cmTable matches the communication manager's messages with each other
// (IBA 12.9). A conversation is found by the communication identifier that one
// of its sides gave it; the transaction identifier is no key, for a DREQ
// begins a new one.
type cmTable struct {
	convs recent[cmConv]
	index map[cmKey]int32
}

func (t *cmTable) init(limit int) {
	t.convs.init(limit)
	t.index = make(map[cmKey]int32)
}

// cmKey is how the side at own calls its conversation with peer.
type cmKey struct {
	own, peer dissect.Addr
	id        uint32
	vlan      int16
	sidr      bool // SIDR's request identifiers are a space of their own
}

// cmConv is what was seen of one conversation. Side 0 is the active one if
// roles is set.
type cmConv struct {
	sides        [2]cmSide
	transaction  uint64 // of REQ or REP
	service      uint64
	req, rep     uint64                 // frames
	learnt       [2]uint64              // frames in which side i named the other's queue pair,
	learntBy     [2]dissect.CMAttribute // in a DREQ or LAP
	vlan         int16
	roles        bool
	sidr         bool
	hasTransport bool
	transport    dissect.Transport
	seen         cmSeen
	upper        dissect.UpperProtocol
	queue        int
}

// cmSide is one side of a conversation. What the handshake did not tell is -1.
type cmSide struct {
	own    dissect.Addr // where its datagrams come from
	qpAddr dissect.Addr // where its queue pair is
	id     uint32
	qpn    uint32
	psn    dissect.PSN // first PSN of the requests that it sends
	hasID, hasQP,
	hasPSN, told, srq bool
	mtu, retry, rnr, ackTimeout int8
	resources, depth            int16
}

func newCMSide(own dissect.Addr) cmSide {
	return cmSide{own: own, qpAddr: own, retry: -1, rnr: -1, ackTimeout: -1, resources: -1, depth: -1}
}

func (s *cmSide) negotiated() Negotiated {
	if !s.told {
		return Negotiated{}
	}
	return Negotiated{
		Set: true, PathMTU: pathMTU(s.mtu), StartPSN: s.psn,
		RetryCount: int(s.retry), RNRRetryCount: int(s.rnr), AckTimeout: int(s.ackTimeout),
		ResponderResources: int(s.resources), InitiatorDepth: int(s.depth), SRQ: s.srq,
	}
}

// pathMTU is the number of bytes that a path MTU code stands for, 0 for a
// reserved code.
func pathMTU(code int8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

// cmSeen is a set of messages that a conversation has had, those that either
// side may send apart by side.
type cmSeen uint16

const (
	seenREQ cmSeen = 1 << iota
	seenREP
	seenRTU
	seenREJ // and the next bit, of side 1; so below
	_
	seenDREQ
	_
	seenDREP
	_
	seenSIDRRep
)

// mark notes a message and reports whether it was there before.
func (c *cmConv) mark(m cmSeen) bool {
	was := c.seen&m != 0
	c.seen |= m
	return was
}

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

// find returns the conversation that the key names and touches it, or -1.
func (t *cmTable) find(k cmKey) int32 {
	i, ok := t.index[k]
	if !ok {
		return -1
	}
	t.convs.touch(i)
	return i
}

// match finds the conversation by the identifiers of a message that may have
// both, and learns the one that it did not know. A conversation that one
// identifier names, and the other one contradicts, is not meant.
func (t *cmTable) match(m cmMessage) int32 {
	for _, k := range [2]cmKey{{m.p.Src, m.p.Dst, m.id, m.vlan, false}, {m.p.Dst, m.p.Src, m.peer, m.vlan, false}} {
		i := t.find(k)
		if i < 0 {
			continue
		}
		c := t.convs.at(i)
		from := c.from(m)
		if c.sides[from].agrees(m.id) && c.sides[1-from].agrees(m.peer) {
			t.learn(i, from, m.id)
			t.learn(i, 1-from, m.peer)
			return i
		}
	}
	return -1
}

// agrees reports whether the side may have given the identifier; 0 is none.
func (s *cmSide) agrees(id uint32) bool { return id == 0 || !s.hasID || s.id == id }

func (t *cmTable) learn(i int32, side int, id uint32) {
	if id != 0 && !t.convs.at(i).sides[side].hasID {
		t.name(i, side, id)
	}
}

// add begins a conversation whose side 0, known by id, sent the datagram. An
// id of 0 is none.
func (t *cmTable) add(m cmMessage, id uint32, sidr bool) int32 {
	i, used := t.convs.take()
	if used {
		t.unname(i)
	}
	*t.convs.at(i) = cmConv{vlan: m.vlan, queue: -1, sidr: sidr, sides: [2]cmSide{newCMSide(m.p.Src), newCMSide(m.p.Dst)}}
	t.name(i, 0, id)
	return i
}

func (t *cmTable) forget(i int32) {
	t.unname(i)
	t.convs.drop(i)
}

func (c *cmConv) key(side int) cmKey {
	return cmKey{c.sides[side].own, c.sides[1-side].own, c.sides[side].id, c.vlan, c.sidr}
}

// name notes how a side calls the conversation. Another conversation of that
// name is over.
func (t *cmTable) name(i int32, side int, id uint32) {
	c := t.convs.at(i)
	s := &c.sides[side]
	if s.hasID {
		delete(t.index, c.key(side))
	}
	s.id, s.hasID = id, id != 0
	if !s.hasID {
		return
	}
	k := c.key(side)
	if old, ok := t.index[k]; ok && old != i {
		t.forget(old)
	}
	t.index[k] = i
}

func (t *cmTable) unname(i int32) {
	c := t.convs.at(i)
	for s := range c.sides {
		if c.sides[s].hasID {
			if k := c.key(s); t.index[k] == i {
				delete(t.index, k)
			}
		}
	}
}

// from is the side that sent the message. The two sides of a host that talks
// to itself are told apart by their identifiers.
func (c *cmConv) from(m cmMessage) int {
	a, b := &c.sides[0], &c.sides[1]
	if a.own == m.p.Src && (a.own != b.own || a.hasID && a.id == m.id) {
		return 0
	}
	return 1
}

// named reports whether a queue pair is known; an event about none is no use.
func (c *cmConv) named() bool { return c.sides[0].hasQP || c.sides[1].hasQP }

// why says what proves the queue pairs that are known.
func (c *cmConv) why() string {
	why, sep := "CM ", ""
	add := func(what string, frame uint64) {
		if frame != 0 {
			why += sep + what + " in frame " + strconv.FormatUint(frame, 10)
			sep = ", "
		}
	}
	add("REQ", c.req)
	add("REP", c.rep)
	add(c.learntBy[0].String(), c.learnt[0])
	add(c.learntBy[1].String(), c.learnt[1])
	return why
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
