package testkit

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// simEnd is one queue pair: a requester and a responder, written from the specification (IBA 9.7) and with nothing of
// what flows concludes from packets. PSNs are counted here as offsets from a requester's first, without wrap.
type simEnd struct {
	s      *sim
	side   Side
	end    *End
	failed bool

	// The requester.
	msgs      []SimMessage
	total     int      // PSNs of all messages
	una       int      // the first offset that is not settled
	cur       int      // the next one to send
	top       int      // one behind the highest ever sent
	cause     SimCause // of what is sent again
	retries   int
	rnr       int
	waiting   bool // behind an RNR NAK
	wentBack  int  // una when it last went back for an implied NAK, to do it once
	timer     int  // generation of the running timeout
	armed     bool
	scheduled bool        // a pump is on its way
	requested []int       // how often each PSN was sent
	answers   map[int]int // how often each PSN of the peer was answered

	// The responder, in the peer's offsets.
	expected int
	msn      dissect.MSN
	nakSent  bool
	rnrSent  bool
	pending  int // offset of an ACK that is held back, -1 without
	memory   uint64
	results  map[int]uint64 // of atomics
	early    map[int]SimPacket
}

func newSimEnd(s *sim, side Side) *simEnd {
	e := &simEnd{
		s: s, side: side, end: s.x.From(side), retries: s.o.Retries, rnr: s.o.RNRRetries, wentBack: -1, pending: -1,
		answers: map[int]int{}, results: map[int]uint64{}, early: map[int]SimPacket{},
	}
	for i, op := range s.o.Ops[side] {
		m := SimMessage{SimOp: op, first: e.total, n: 1, VA: s.x.VA + uint64(i)<<20}
		if op.Family != dissect.CompareSwap && op.Family != dissect.FetchAdd {
			m.n = len(Segments(op.Size, s.x.MTU))
		} else {
			m.Size, m.VA = 8, s.x.VA-8
		}
		m.First, m.Last = e.end.Next.Add(m.first), e.end.Next.Add(m.first+m.n-1)
		e.total += m.n
		e.msgs = append(e.msgs, m)
		s.after(op.Post, e.pump)
	}
	e.requested = make([]int, e.total)
	return e
}

// answerWanted reports whether the message is settled by an answer of its own, and not by any acknowledgement.
func (m *SimMessage) answerWanted() bool {
	return m.Family == dissect.Read || m.Family == dissect.CompareSwap || m.Family == dissect.FetchAdd
}

func (e *simEnd) peer() *simEnd { return e.s.ends[e.side^1] }

// messageAt returns the index of the message that an offset belongs to.
func (e *simEnd) messageAt(off int) int {
	for i := range e.msgs {
		if off < e.msgs[i].first+e.msgs[i].n {
			return i
		}
	}
	return len(e.msgs)
}

// mayAsk reports whether the packet at e.cur may be sent now, and how many PSNs it takes.
func (e *simEnd) mayAsk() (i, span int, ok bool) {
	e.cur = max(e.cur, e.una)
	if e.failed || e.waiting || e.cur >= e.total {
		return 0, 0, false
	}
	i = e.messageAt(e.cur)
	m := &e.msgs[i]
	if e.s.now < e.s.start+int64(m.Post) {
		return 0, 0, false
	}
	span = 1
	if m.answerWanted() {
		span = m.first + m.n - e.cur
		open := 0
		for j := range e.msgs[:i] {
			if e.msgs[j].answerWanted() && e.msgs[j].Status == SimOpen {
				open++
			}
		}
		if open >= e.s.o.Depth {
			return 0, 0, false
		}
	}
	return i, span, e.cur == e.una || e.cur+span-e.una <= e.s.o.Window
}

// pump sends the next request packet, and comes back when the transmitter is free again.
func (e *simEnd) pump() {
	if wait := e.s.free[e.side] - e.s.now; wait > 0 {
		if !e.scheduled {
			e.scheduled = true
			e.s.after(time.Duration(wait), func() { e.scheduled = false; e.pump() })
		}
		return
	}
	i, span, ok := e.mayAsk()
	if !ok {
		return
	}
	m, off := &e.msgs[i], e.cur
	seg := off - m.first
	p := SimPacket{From: e.side, Request: true, Offset: off, Message: i, Round: e.requested[off]}
	e.requested[off]++
	if off < e.top {
		p.Cause = e.cause
	}
	if m.FirstSent == 0 {
		m.FirstSent = e.s.now
	}
	e.cur += span
	e.top = max(e.top, e.cur)
	last := e.cur == m.first+m.n
	_, _, more := e.mayAsk()
	every := e.s.x.AckReqEvery
	p.AckReq = m.answerWanted() || !more || last && i%e.s.o.AckMessages == e.s.o.AckMessages-1 || every > 0 && seg%every == every-1

	pos, flags := position(seg, m.n), dissect.OpFlags(0)
	if m.answerWanted() {
		pos = dissect.Only
	}
	if m.Imm && last && !m.answerWanted() {
		flags = dissect.WithImm
	}
	done := seg * e.s.x.MTU
	p.Op, p.ReadSize = e.end.opcode(m.Family, dissect.Request, pos, flags), m.Size-done
	p.built = e.end.Packet(p.Op, func(b *Build) {
		b.BTH().SetPSN(e.end.Next.Add(off))
		b.BTH().SetAckReq(p.AckReq)
		if h := b.RETH(); h != nil {
			h.SetVA(m.VA + uint64(done))
			h.SetRKey(e.s.x.RKey)
			h.SetDMALen(uint32(m.Size - done))
		}
		if h := b.AtomicETH(); h != nil {
			h.SetVA(m.VA)
			h.SetRKey(e.s.x.RKey)
			h.SetSwapAdd(uint64(i) + 1)
		}
		if h := b.ImmDt(); h != nil {
			h.SetData(uint32(i))
		}
		if !m.answerWanted() {
			b.Payload = memory(m.VA+uint64(done), min(m.Size-done, e.s.x.MTU))
		}
	})
	e.s.transmit(p)
	if !e.armed {
		e.arm()
	}
	e.pump()
}

// arm starts the timeout anew, or stops it where nothing is outstanding.
func (e *simEnd) arm() {
	e.timer++
	e.armed = e.una < e.top && !e.waiting && !e.failed
	if !e.armed {
		return
	}
	running := e.timer
	e.s.after(e.s.o.Timeout, func() {
		if running == e.timer && e.armed {
			e.goBack(e.una, SentAfterTimeout)
		}
	})
}

// goBack sends again from an offset on.
func (e *simEnd) goBack(off int, cause SimCause) {
	if e.retries == 0 {
		e.fail(SimRetryExceeded)
		return
	}
	e.retries--
	e.cur, e.cause = off, cause
	e.arm()
	e.pump()
}

// fail moves the queue pair to ERROR: its oldest work request with a status, the others flushed.
func (e *simEnd) fail(status SimStatus) {
	e.failed = true
	e.arm()
	for i := range e.msgs {
		if m := &e.msgs[i]; m.Status == SimOpen {
			m.Status = status
			status = SimFlushed
		}
	}
}

// settle takes all offsets before to as acknowledged. It stops at a READ or atomic that still lacks its answer: of that
// one, this is an implied NAK, and implied is true.
func (e *simEnd) settle(to int) (implied bool) {
	for e.una < to {
		m := &e.msgs[e.messageAt(e.una)]
		if m.answerWanted() {
			return true
		}
		e.progress(min(to, m.first+m.n))
	}
	return false
}

// progress moves una; a message that it leaves behind is done.
func (e *simEnd) progress(una int) {
	m := &e.msgs[e.messageAt(e.una)]
	e.una = una
	e.retries, e.rnr = e.s.o.Retries, e.s.o.RNRRetries
	if una == m.first+m.n {
		m.Status, m.Completed = SimDone, e.s.now
	}
	e.arm()
}

// missing goes back, once, to the answer that is due next.
func (e *simEnd) missing() {
	if e.wentBack != e.una {
		e.wentBack = e.una
		e.goBack(e.una, SentAfterImplied)
	}
}

// answered is the requester's part: an answer has come.
func (e *simEnd) answered(p SimPacket) {
	off := p.Offset
	if off < e.una || off >= e.top { // old, or of nothing that was sent
		return
	}
	defer e.pump()
	if p.Op != dissect.OpRCAcknowledge {
		if e.settle(off) || off != e.una { // a response behind one that is missing
			e.missing()
			return
		}
		m := &e.msgs[p.Message]
		m.Orig = p.Orig
		e.progress(off + 1)
		return
	}
	to := off
	if p.Syndrome.Kind() == dissect.KindACK {
		to++
	}
	implied := e.settle(to)
	switch {
	case implied:
		e.missing()
	case p.Syndrome.Kind() == dissect.KindRNR:
		if e.waiting {
			return
		}
		if e.rnr == 0 {
			e.fail(SimRNRExceeded)
			return
		}
		e.rnr--
		e.waiting = true
		e.arm()
		e.s.after(dissect.RNRTimer(p.Syndrome.Value()), func() {
			e.waiting = false
			e.cur, e.cause = e.una, SentAfterRNR
			e.arm()
			e.pump()
		})
	case p.Syndrome.Kind() == dissect.KindNAK && p.Syndrome.NAK() == dissect.NAKSequence:
		if !e.waiting {
			e.goBack(off, SentAfterNAK)
		}
	case p.Syndrome.Kind() == dissect.KindNAK:
		e.fail(SimRefused)
	}
}

// respond is the responder's part: a request has come.
func (e *simEnd) respond(p SimPacket) {
	m := &e.peer().msgs[p.Message]
	switch {
	case p.Offset > e.expected && e.s.o.Patient:
		e.early[p.Offset] = p
		return
	case p.Offset > e.expected:
		if !e.nakSent && (!e.rnrSent || e.s.o.NAKBehind) {
			e.nakSent = true
			e.acknowledge(e.expected, 0x60|dissect.Syndrome(dissect.NAKSequence), -1, SentFirst)
		}
		return
	case p.Offset < e.expected:
		e.duplicate(p, m)
		return
	}
	info := p.Op.Info()
	takesReceive := info.Flags&dissect.ConsumesReceive != 0 && (m.Family == dissect.Write || info.Starts())
	e.nakSent, e.rnrSent = false, takesReceive && m.NotReady > 0
	switch {
	case m.Refuse != dissect.NAKSequence:
		e.acknowledge(p.Offset, 0x60|dissect.Syndrome(m.Refuse), p.Message, SentFirst)
		e.fail(SimFlushed)
	case e.rnrSent:
		m.NotReady--
		e.acknowledge(p.Offset, 0x20|dissect.Syndrome(e.s.o.RNRTimer), p.Message, SentFirst)
	case m.answerWanted():
		m.executed++
		e.msn = e.msn.Add(1)
		e.expected += m.n
		if m.Family != dissect.Read {
			e.results[p.Offset] = e.memory
			if operand := uint64(p.Message) + 1; m.Family == dissect.FetchAdd {
				e.memory += operand
			} else if e.memory == 0 { // what it compares with
				e.memory = operand
			}
		}
		e.answer(p, m, SentFirst)
	default:
		e.expected++
		if info.Ends() {
			m.executed++
			e.msn = e.msn.Add(1)
		}
		if p.AckReq {
			e.ackDue(p)
		}
	}
	if next, ok := e.early[e.expected]; ok && !e.rnrSent && !e.failed {
		delete(e.early, e.expected)
		e.respond(next)
	}
}

// ackDue acknowledges, at once or a little later together with what comes till then.
func (e *simEnd) ackDue(p SimPacket) {
	if e.s.o.Coalesce == 0 {
		e.acknowledge(p.Offset, dissect.NoCreditInfo, p.Message, SentFirst)
		return
	}
	fresh := e.pending < 0
	e.pending = p.Offset
	if fresh {
		e.s.after(e.s.o.Coalesce, func() {
			if off := e.pending; off >= 0 && !e.failed {
				e.acknowledge(off, dissect.NoCreditInfo, e.peer().messageAt(off), SentFirst)
			}
		})
	}
}

// duplicate answers a request that was executed before: it says again what it said.
func (e *simEnd) duplicate(p SimPacket, m *SimMessage) {
	switch {
	case m.answerWanted():
		e.answer(p, m, SentForDuplicate)
	case p.AckReq || e.s.o.DupAckAll:
		e.acknowledge(e.expected-1, dissect.NoCreditInfo, -1, SentForDuplicate)
	}
}

// acknowledge sends an ACK or NAK; it takes the place of one that was held back.
func (e *simEnd) acknowledge(off int, syn dissect.Syndrome, message int, cause SimCause) {
	e.pending = -1
	e.send(SimPacket{Op: dissect.OpRCAcknowledge, Offset: off, Message: message, Syndrome: syn, Cause: cause}, nil)
}

// answer sends a READ's responses, from where the request asks, or an atomic's result.
func (e *simEnd) answer(p SimPacket, m *SimMessage, cause SimCause) {
	e.pending = -1 // a response acknowledges what comes before it
	a := SimPacket{Offset: p.Offset, Message: p.Message, Syndrome: dissect.NoCreditInfo, Cause: cause}
	if m.Family != dissect.Read {
		a.Op, a.Orig = dissect.OpRCAtomicAcknowledge, e.results[p.Offset]
		e.send(a, nil)
		return
	}
	va := m.VA + uint64((p.Offset-m.first)*e.s.x.MTU)
	sizes := Segments(p.ReadSize, e.s.x.MTU)
	for i, n := range sizes {
		a.Op = e.end.opcode(dissect.Read, dissect.Response, position(i, len(sizes)), 0)
		a.Offset = p.Offset + i
		e.send(a, memory(va+uint64(i*e.s.x.MTU), n))
	}
}

func (e *simEnd) send(p SimPacket, payload []byte) {
	p.From, p.MSN = e.side, e.msn
	if p.Op != dissect.OpRCAcknowledge {
		p.Round = e.answers[p.Offset]
		e.answers[p.Offset]++
	}
	p.built = e.end.Packet(p.Op, func(b *Build) {
		b.BTH().SetPSN(e.peer().end.Next.Add(p.Offset))
		b.Payload = payload
		if h := b.AETH(); h != nil {
			h.SetSyndrome(p.Syndrome)
			h.SetMSN(p.MSN)
		}
		if h := b.AtomicAckETH(); h != nil {
			h.SetOrig(p.Orig)
		}
	})
	e.s.transmit(p)
}
