package rnic

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"

	"github.com/rocescope/rocescope/dissect"
)

// State is a queue pair's state (IBA 10.3.1).
type State uint8

// The states.
const (
	RESET State = iota
	INIT
	RTR
	RTS
	SQD
	SQE
	ERROR
	numStates
)

var stateNames = [...]string{"RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERROR"}

func (s State) String() string {
	if s < numStates {
		return stateNames[s]
	}
	return "unknown state"
}

// What a queue pair does in its state with what arrives, and with its send queue.
var (
	answers  = [numStates]bool{RTR: true, RTS: true, SQD: true, SQE: true}
	requests = [numStates]bool{RTS: true, SQD: true} // SQD: only what it has begun
)

// QPCap is how much a queue pair can hold.
type QPCap struct {
	MaxSendWR, MaxRecvWR int
	MaxSGE               int // 0 = 1
	MaxInline            int
}

// Policy is what a queue pair's requester may decide by itself. The zero values are good.
type Policy struct {
	Window   int  // packets that may be on their way, requests or answers to READs: 256
	AckEvery int  // AckReq on each n-th packet inside a message, besides its last: 32
	Credits  bool // send, and heed, end-to-end credits
	Paced    bool // heed congestion notifications by DCQCN
}

// The policy's defaults.
const (
	defaultWindow   = 256
	defaultAckEvery = 32
	maxWindow       = 1 << 22 // far from half of the PSNs
)

// QPInit describes a queue pair.
type QPInit struct {
	Type           dissect.Transport // RC, UC or UD
	SendCQ, RecvCQ *CQ
	SRQ            *SRQ // receives come from here instead
	Cap            QPCap
	SigAll         bool   // every send work request makes a completion
	QPN            uint32 // 0 = the device's choice
	Policy         Policy
	Context        any // the user's
}

// QP is a queue pair. What every packet needs stands first, and together: with thousands of queue pairs, each cache line of one
// has to be fetched from memory (see touch).
type QP struct {
	dev        *Device
	pd         *PD
	qpn        uint32
	mtu        uint32
	state      atomic.Uint32
	rung       atomic.Bool
	typ        dissect.Transport
	sigAll     bool
	listed     bool
	destroyed  bool
	cnpDue     bool
	pkey       uint16
	ipid       uint16
	nextActive *QP
	timerPos   int

	sq             sendQueue
	sendCQ, recvCQ *CQ
	srq            *SRQ
	diverted       func(frame []byte, at int64)
	req            requester
	tuning         Policy
	peer           path
	rsp            responder
	attr           Attr
	rate           rate

	// What few packets need.
	rq      recvQueue
	cnpAt   int64 // when the last congestion notification left
	cnpPeer path  // where to
	context any
}

// CreateQP makes a queue pair, in state RESET.
func (pd *PD) CreateQP(init QPInit) (*QP, error) {
	c := &init.Cap
	if c.MaxSGE == 0 {
		c.MaxSGE = 1
	}
	if init.SRQ != nil {
		c.MaxRecvWR = 0
	}
	p := &init.Policy
	if p.Window == 0 {
		p.Window = defaultWindow
	}
	if p.AckEvery == 0 {
		p.AckEvery = defaultAckEvery
	}
	refuse := func(format string, args ...any) (*QP, error) {
		return nil, fmt.Errorf("rnic: create a queue pair: "+format, args...)
	}
	switch {
	case init.Type != dissect.RC && init.Type != dissect.UC && init.Type != dissect.UD:
		return refuse("transport %v; it must be RC, UC or UD", init.Type)
	case init.SendCQ == nil || init.RecvCQ == nil:
		return refuse("it needs a completion queue for sending and one for receiving; they may be the same")
	case init.SendCQ.dev.shared != pd.dev.shared || init.RecvCQ.dev != init.SendCQ.dev || init.SRQ != nil && init.SRQ.pd.dev != init.SendCQ.dev:
		return refuse("a queue belongs to another device")
	case c.MaxSendWR < 0 || c.MaxSendWR > maxQueue || c.MaxRecvWR < 0 || c.MaxRecvWR > maxQueue:
		return refuse("queues of %d and %d work requests; there may be 0 … %d", c.MaxSendWR, c.MaxRecvWR, maxQueue)
	case c.MaxSGE < 1 || c.MaxSGE > maxSGEs || c.MaxInline < 0 || c.MaxInline > maxInline:
		return refuse("%d elements, %d bytes inline; there may be 1 … %d, and 0 … %d", c.MaxSGE, c.MaxInline, maxSGEs, maxInline)
	case p.Window < 1 || p.Window > maxWindow || p.AckEvery < 1:
		return refuse("window %d, AckReq every %d packets; they must be 1 … %d, and 1 at least", p.Window, p.AckEvery, maxWindow)
	}
	d := init.SendCQ.dev // a queue pair lives where it completes
	q := &QP{
		dev: d, pd: pd, typ: init.Type, sigAll: init.SigAll, context: init.Context, timerPos: notTimed,
		sendCQ: init.SendCQ, recvCQ: init.RecvCQ, srq: init.SRQ, tuning: init.Policy,
	}
	q.sq.init(c)
	q.rq.init(c.MaxRecvWR, c.MaxSGE)
	elements := c.MaxSGE
	if q.srq != nil {
		elements = int(q.srq.rq.maxSGE)
	}
	q.rsp.recv.sgl = make([]SGE, 0, elements)
	d.verbs.Lock()
	defer d.verbs.Unlock()
	if err := d.number(q, init.QPN); err != nil {
		return nil, err
	}
	d.liveQPs.Add(1)
	pd.uses++
	q.sendCQ.uses++
	q.recvCQ.uses++
	if q.srq != nil {
		q.srq.uses++
	}
	return q, nil
}

// Destroy ends a queue pair. Work requests that are not completed are gone without a completion.
func (q *QP) Destroy() error {
	d := q.dev
	d.lock()
	defer d.unlock()
	if q.destroyed {
		return errors.New("rnic: destroy a queue pair: it was destroyed before")
	}
	q.reset()
	q.destroyed = true
	d.liveQPs.Add(-1)
	d.verbs.Lock()
	defer d.verbs.Unlock()
	d.place(q.qpn).Store(nil)
	d.live--
	q.pd.uses--
	q.sendCQ.uses--
	q.recvCQ.uses--
	if q.srq != nil {
		q.srq.uses--
	}
	return nil
}

// QPN returns the queue pair's number.
func (q *QP) QPN() uint32 { return q.qpn }

// Type returns the transport service.
func (q *QP) Type() dissect.Transport { return q.typ }

// State returns the state.
func (q *QP) State() State { return State(q.state.Load()) }

// Context returns what QPInit.Context was.
func (q *QP) Context() any { return q.context }

// Query returns the attributes as they were set, and the state.
func (q *QP) Query() Attr {
	q.dev.lock()
	defer q.dev.unlock()
	a := q.attr
	a.State, a.CurState = q.State(), q.State()
	return a
}

// Memory returns how many bytes the queue pair takes, with its queues.
func (q *QP) Memory() int {
	q.dev.lock()
	defer q.dev.unlock()
	n := unsafe.Sizeof(*q) + uintptr(cap(q.rsp.recv.sgl))*unsafe.Sizeof(SGE{})
	n += uintptr(len(q.sq.ring))*unsafe.Sizeof(sendWQE{}) + uintptr(len(q.sq.sges))*unsafe.Sizeof(SGE{}) + uintptr(len(q.sq.data))
	n += uintptr(len(q.rq.ids))*(unsafe.Sizeof(q.rq.ids[0])+1) + uintptr(len(q.rq.sges))*unsafe.Sizeof(SGE{})
	n += uintptr(cap(q.rsp.resources)) * unsafe.Sizeof(resource{})
	return int(n)
}

// setState changes the state.
func (q *QP) setState(s State) {
	from := State(q.state.Swap(uint32(s)))
	if d := q.dev; d.onState != nil && from != s {
		d.changes = append(d.changes, StateChange{QP: q, From: from, To: s, At: d.clock()})
	}
}

// look is called when somebody posted work.
func (q *QP) look() {
	switch q.State() {
	case RTS:
		q.activate()
	case SQE:
		q.flushSend()
	case ERROR:
		q.flushSend()
		q.flushRecv()
	}
}

// reset takes everything off the queue pair.
func (q *QP) reset() {
	q.setState(RESET)
	q.sq.mu.Lock()
	q.sq.head.Store(0)
	q.sq.tail.Store(0)
	q.sq.mu.Unlock()
	q.rq.mu.Lock()
	q.rq.head.Store(0)
	q.rq.tail.Store(0)
	q.rq.mu.Unlock()
	q.req = requester{}
	q.rsp = responder{resources: q.rsp.resources[:0], recv: recvWQE{sgl: q.rsp.recv.sgl[:0]}}
	q.rate = rate{}
	q.attr = Attr{}
	q.cnpDue, q.cnpAt = false, 0
	if q.timerPos != notTimed {
		q.dev.timers.remove(q.timerPos)
	}
}

// fail moves the queue pair to ERROR: what is posted is flushed, and nothing is sent any more.
func (q *QP) fail(why EventType) {
	if q.State() == ERROR || q.State() == RESET {
		return
	}
	if why != noEvent {
		q.dev.event(Event{Type: why, QP: q})
	}
	q.enterError()
}

func (q *QP) fatal() { q.fail(EventQPFatal) }

func (q *QP) enterError() {
	q.setState(ERROR)
	q.req.deadline, q.req.wait = 0, 0
	q.flushSend()
	q.flushRecv()
	if q.srq != nil {
		q.dev.event(Event{Type: EventQPLastWQEReached, QP: q})
	}
}

// flushSend completes all of the send queue with an error.
func (q *QP) flushSend() {
	s := &q.sq
	for head := s.head.Load(); head != s.tail.Load(); head++ {
		w := s.at(head)
		q.sendCQ.put(q, &Completion{ID: w.id, Status: WRFlushErr, Op: operations[w.op].comp})
		s.head.Store(head + 1)
	}
	q.req.emptied(s.head.Load())
}

// flushRecv completes all of the receive queue with an error. A shared receive queue is not touched (IBA 10.2.9.3), but for the
// work request that the queue pair has taken.
func (q *QP) flushRecv() {
	r := &q.rsp
	if r.held {
		r.held = false
		q.recvCQ.put(q, &Completion{ID: r.recv.id, Status: WRFlushErr, Op: CompRecv})
	}
	for q.srq == nil && q.rq.take(&r.recv) {
		q.recvCQ.put(q, &Completion{ID: r.recv.id, Status: WRFlushErr, Op: CompRecv})
	}
}
