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

// cmSeen is a set of messages that a conversation has had, those that either
// side may send apart by side.
type cmSeen uint16

// mark notes a message and reports whether it was there before.
func (c *cmConv) mark(m cmSeen) bool {
	was := c.seen&m != 0
	c.seen |= m
	return was
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

// pathMTU is the number of bytes that a path MTU code stands for, 0 for a
// reserved code.
func pathMTU(code int8) int {
	if code < 1 || code > 5 {
		return 0
	}
	return 128 << code
}

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
