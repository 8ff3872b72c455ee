package flows

import (
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
	transaction  uint64 // of REQ and REP
	service      uint64
	req, rep     uint64 // frames
	vlan         int16
	roles        bool
	sidr         bool
	hasTransport bool
	transport    dissect.Transport
	seen         cmSeen
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
	seenSIDRReq
	seenSIDRRep
)

// mark notes a message and reports whether it was there before.
func (c *cmConv) mark(m cmSeen) bool {
	was := c.seen&m != 0
	c.seen |= m
	return was
}

// cmFrom is the datagram's surroundings.
type cmFrom struct {
	p    *dissect.Packet
	vlan int16
	tid  uint64
	attr uint16
	id   uint32 // how the sender calls the conversation
}

func (t *cmTable) packet(p *dissect.Packet, frame []byte, dst []handshakeEvent) []handshakeEvent {
	mad := p.MAD(frame)
	if len(mad) < madHeader || mad.Class() != dissect.ClassCM || mad.Method() != methodSend {
		return dst
	}
	f := cmFrom{p: p, vlan: int16(p.VLAN()), tid: mad.TransactionID(), attr: mad.Attribute()}
	m := cmData(mad[madHeader:])
	if len(m) < m.need(f.attr) {
		return dst // cut
	}
	f.id = m.local()
	switch f.attr {
	case attrREQ:
		return t.req(f, m, dst)
	case attrREP:
		return t.rep(f, m, dst)
	case attrRTU:
		return t.rtu(f, m, dst)
	case attrREJ, attrMRA:
		return t.rej(f, m, dst)
	case attrDREQ, attrLAP:
		return t.dreq(f, m, dst)
	case attrDREP, attrAPR:
		return t.drep(f, m, dst)
	case attrSIDRReq:
		return t.sidrReq(f, m, dst)
	case attrSIDRRep:
		return t.sidrRep(f, m, dst)
	}
	return dst
}

func (t *cmTable) req(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	p := f.p
	qpn, psn := m.u24(32), dissect.PSN(m.u24(44))
	i := t.find(cmKey{p.Src, p.Dst, m.local(), f.vlan, false})
	if i >= 0 {
		if c := t.convs.at(i); c.seen&seenREQ != 0 && c.transaction == f.tid && c.sides[0].qpn == qpn && c.sides[1].psn == psn {
			return append(dst, c.event(evResent, f, m))
		}
		t.forget(i) // its identifier has a new use
	}
	i = t.add(f, m.local(), false)
	c := t.convs.at(i)
	a, b := &c.sides[0], &c.sides[1]
	c.roles, c.seen, c.transaction, c.req, c.service = true, seenREQ, f.tid, p.Number, m.u64(8)
	switch m[43] >> 1 & 3 {
	case 0, 1, 2:
		c.transport, c.hasTransport = dissect.Transport(m[43]>>1&3), true
	case 3:
		if m[51]&7 == 1 {
			c.transport, c.hasTransport = dissect.XRC, true
		}
	}
	a.qpn, a.hasQP = qpn, true
	a.qpAddr, b.qpAddr = reqPath(p, m)
	// The PSN is the one that the REQ's sender expects first, so it numbers
	// the other side's requests (IBA 12.7.31).
	b.psn, b.hasPSN = psn, true
	mtu, retry, ack := int8(m[50]>>4), int8(m[47]&7), int8(m[95]>>3)
	// Retry count and ACK timeout count for both sides; the RNR retry count
	// is for the receiver of the message, and REP has the other's.
	a.told, a.mtu, a.retry, a.ackTimeout = true, mtu, retry, ack
	b.told, b.mtu, b.retry, b.ackTimeout = true, mtu, retry, ack
	b.rnr = int8(m[50] & 7)
	a.resources, a.depth, a.srq = int16(m[35]), int16(m[39]), m[51]&8 != 0
	e := c.event(evHalf, f, m)
	e.Why = c.why()
	return append(dst, e)
}

// reqPath returns the addresses of the two queue pairs that a REQ names: its
// primary path. On InfiniBand within a subnet these are LIDs, as they are in
// the packets.
func reqPath(p *dissect.Packet, m cmData) (a, b dissect.Addr) {
	if p.Proto == dissect.ProtoInfiniBand && m[94]&8 != 0 { // subnet local
		return dissect.Addr{Lo: uint64(m.u16(52))}, dissect.Addr{Lo: uint64(m.u16(54))}
	}
	a, b = dissect.Addr{Hi: m.u64(56), Lo: m.u64(64)}, dissect.Addr{Hi: m.u64(72), Lo: m.u64(80)}
	if a.IsZero() || b.IsZero() {
		return p.Src, p.Dst
	}
	return a, b
}

func (t *cmTable) rep(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	p := f.p
	qpn, psn := m.u24(12), dissect.PSN(m.u24(20))
	i := t.find(cmKey{p.Dst, p.Src, m.remote(), f.vlan, false})
	if i >= 0 {
		c := t.convs.at(i)
		a, b := &c.sides[0], &c.sides[1]
		switch {
		case c.side(f) == 0 || a.id != m.remote():
			t.forget(i) // the identifier's new use: its owner was passive, and is active now
			i = -1
		case c.seen&seenREP != 0 && b.id == m.local() && b.qpn == qpn && a.psn == psn:
			return append(dst, c.event(evResent, f, m))
		}
	}
	if i < 0 {
		i = t.add(f, 0, false) // side 0 is the one that the REP is for
		c := t.convs.at(i)
		c.sides[0], c.sides[1] = c.sides[1], c.sides[0]
		t.name(i, 0, m.remote())
	}
	t.name(i, 1, m.local())
	c := t.convs.at(i)
	a, b := &c.sides[0], &c.sides[1]
	c.roles, c.transaction, c.rep = true, f.tid, p.Number
	c.seen = c.seen&seenREQ | seenREP
	b.qpn, b.hasQP, b.told = qpn, true, true
	a.psn, a.hasPSN, a.told = psn, true, true
	a.rnr = int8(m[27] >> 5)
	b.resources, b.depth, b.srq = int16(m[24]), int16(m[25]), m[27]&16 != 0
	if a.depth < 0 || a.depth > b.resources { // what the REQ asked for, as far as it was granted
		a.depth = b.resources
	}
	kind := evHalf
	if a.hasQP {
		kind = evPair
	}
	e := c.event(kind, f, m)
	e.Why = c.why()
	return append(dst, e)
}

func (t *cmTable) rtu(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	i := t.match(f, m)
	if i < 0 {
		i = t.add(f, m.local(), false)
		t.name(i, 1, m.remote())
		t.convs.at(i).roles = true // only the active side sends RTU
	}
	c := t.convs.at(i)
	kind := evEstablished
	if c.mark(seenRTU) {
		kind = evResent
	}
	if !c.sides[0].hasQP && !c.sides[1].hasQP {
		return dst
	}
	return append(dst, c.event(kind, f, m))
}

// rej is for REJ and MRA, which answer a message and prove nothing of queue
// pairs. A REJ that answers a REQ may come without an identifier of its own.
func (t *cmTable) rej(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	kind := evMRA
	i := t.match(f, m)
	var c *cmConv
	if i >= 0 {
		c = t.convs.at(i)
	} else {
		c = &cmConv{vlan: f.vlan, sides: [2]cmSide{newCMSide(f.p.Src), newCMSide(f.p.Dst)}}
		c.sides[0].id, c.sides[1].id = m.local(), m.remote()
	}
	var reason uint16
	if f.attr == attrREJ {
		kind, reason = evRejected, m.u16(10)
		if c.mark(seenREJ << c.side(f)) {
			kind = evResent
		}
	}
	e := c.event(kind, f, m)
	e.Reason, e.Rejected = reason, m[8]>>6
	return append(dst, e)
}

// dreq is for DREQ and LAP, which name their receiver's queue pair.
func (t *cmTable) dreq(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	off, kind := 8, evDisconnectRequest
	if f.attr == attrLAP {
		off, kind = 12, evMigration
	}
	qpn := m.u24(off)
	i := t.match(f, m)
	if i >= 0 {
		c := t.convs.at(i)
		if to := &c.sides[1-c.side(f)]; to.hasQP && to.qpn != qpn {
			t.forget(i) // an older conversation, whose end was not captured
			i = -1
		}
	}
	if i < 0 {
		i = t.add(f, m.local(), false)
		t.name(i, 1, m.remote())
	}
	c := t.convs.at(i)
	from := c.side(f)
	if to := &c.sides[1-from]; !to.hasQP {
		to.qpn, to.hasQP = qpn, true
		if c.sides[from].hasQP {
			e := c.event(evPair, f, m)
			e.Why = c.why() + ", " + cmName(f.attr) + " in frame " + strconv.FormatUint(f.p.Number, 10)
			dst = append(dst, e)
		}
	}
	if f.attr == attrDREQ && c.mark(seenDREQ<<from) {
		kind = evResent
	}
	return append(dst, c.event(kind, f, m))
}

// drep is for DREP and APR.
func (t *cmTable) drep(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	i := t.match(f, m)
	if i < 0 {
		return dst
	}
	c := t.convs.at(i)
	if f.attr == attrAPR {
		e := c.event(evMigration, f, m)
		e.Reason = uint16(m[9])
		return append(dst, e)
	}
	kind := evDisconnected
	if c.mark(seenDREP << c.side(f)) {
		kind = evResent
	}
	return append(dst, c.event(kind, f, m))
}

func (t *cmTable) sidrReq(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	p := f.p
	i := t.find(cmKey{p.Src, p.Dst, m.local(), f.vlan, true})
	if i >= 0 {
		if c := t.convs.at(i); c.transaction == f.tid && c.service == m.u64(8) {
			return append(dst, c.event(evResent, f, m))
		}
		t.forget(i)
	}
	c := t.convs.at(t.add(f, m.local(), true))
	c.roles, c.seen, c.transaction, c.req, c.service = true, seenSIDRReq, f.tid, p.Number, m.u64(8)
	c.transport, c.hasTransport = dissect.UD, true
	return append(dst, c.event(evSIDR, f, m))
}

func (t *cmTable) sidrRep(f cmFrom, m cmData, dst []handshakeEvent) []handshakeEvent {
	p := f.p
	i := t.find(cmKey{p.Dst, p.Src, m.local(), f.vlan, true})
	if i < 0 { // the request was not captured
		i = t.add(f, 0, true)
		c := t.convs.at(i)
		c.sides[0], c.sides[1] = c.sides[1], c.sides[0]
		t.name(i, 0, m.local())
		c.roles, c.transaction = true, f.tid
		c.transport, c.hasTransport = dissect.UD, true
	}
	c := t.convs.at(i)
	kind := evSIDR
	if c.mark(seenSIDRRep) {
		kind = evResent
	}
	c.service, c.rep = m.u64(12), p.Number
	status := m[4]
	if b := &c.sides[1]; status == 0 {
		b.qpn, b.hasQP = m.u24(8), true
	} else if kind == evSIDR {
		kind = evRejected
	}
	e := c.event(kind, f, m)
	e.Reason, e.QKey = uint16(status), m.u32(20)
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
func (t *cmTable) match(f cmFrom, m cmData) int32 {
	local, remote := m.local(), m.remote()
	for n, k := range [2]cmKey{{f.p.Src, f.p.Dst, local, f.vlan, false}, {f.p.Dst, f.p.Src, remote, f.vlan, false}} {
		if k.id == 0 {
			continue
		}
		i := t.find(k)
		if i < 0 {
			continue
		}
		c := t.convs.at(i)
		from := c.side(f)
		other, id := 1-from, remote
		if n == 1 {
			other, id = from, local
		}
		switch s := &c.sides[other]; {
		case id == 0, s.hasID && s.id == id:
			return i
		case !s.hasID:
			t.name(i, other, id)
			return i
		}
	}
	return -1
}

// add begins a conversation whose side 0, known by id, sent the datagram. An
// id of 0 is none.
func (t *cmTable) add(f cmFrom, id uint32, sidr bool) int32 {
	i, used := t.convs.take()
	if used {
		t.unname(i)
	}
	*t.convs.at(i) = cmConv{vlan: f.vlan, sidr: sidr, sides: [2]cmSide{newCMSide(f.p.Src), newCMSide(f.p.Dst)}}
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

// side is the one that sent the datagram. A host that talks to itself is told
// apart by the identifiers.
func (c *cmConv) side(f cmFrom) int {
	if c.sides[0].own != c.sides[1].own {
		if c.sides[0].own == f.p.Src {
			return 0
		}
		return 1
	}
	if c.sides[0].id == f.id {
		return 0
	}
	return 1
}

func (c *cmConv) why() string {
	switch {
	case c.req != 0 && c.rep != 0:
		return "CM REQ in frame " + strconv.FormatUint(c.req, 10) + ", REP in frame " + strconv.FormatUint(c.rep, 10)
	case c.req != 0:
		return "CM REQ in frame " + strconv.FormatUint(c.req, 10)
	case c.rep != 0:
		return "CM REP in frame " + strconv.FormatUint(c.rep, 10)
	}
	return "CM"
}

func (c *cmConv) event(kind eventKind, f cmFrom, m cmData) handshakeEvent {
	a, b := &c.sides[0], &c.sides[1]
	return handshakeEvent{
		Kind: kind, By: ByCM, Message: f.attr, FromA: c.side(f) == 0,
		RolesKnown: c.roles, HasA: a.hasQP, HasB: b.hasQP, VLANKnown: true,
		A: QPName{a.qpAddr, int(c.vlan), a.qpn}, B: QPName{b.qpAddr, int(c.vlan), b.qpn},
		NegA: a.negotiated(), NegB: b.negotiated(), HasPSNA: a.hasPSN, HasPSNB: b.hasPSN,
		Transport: c.transport, HasTransport: c.hasTransport, ServiceID: c.service,
		PrivateLen: m.privateLen(f.attr),
		CommA:      a.id, CommB: b.id, Transaction: f.tid,
		Frame: f.p.Number, Time: f.p.Time,
	}
}
