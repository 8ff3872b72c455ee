package testkit

import (
	"cmp"
	"container/heap"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// SimOptions describe a conversation for Simulate: two RC queue pairs, each of them requester and responder, on a wire
// with one tap in it, and what the wire does to which packets. The zero value of a field is a sensible one.
type SimOptions struct {
	ExchangeOptions

	Before      func(*Exchange)  // writes what comes first, a handshake for instance
	Ops         [2][]SimOp       // what each side requests, by Side, in order
	Latency     [2]time.Duration // from A to the tap, from the tap to B: 2 µs
	Rate        float64          // bits per second: 100e9
	Window      int              // PSNs outstanding at most: 64
	Depth       int              // READs and atomics outstanding at most: 8
	AckMessages int              // AckReq on the last packet of each n-th message; 0 = of all. ExchangeOptions.AckReqEvery adds to it
	Coalesce    time.Duration    // a responder holds an ACK so long for a later one to take its place
	DupAckAll   bool             // duplicates are acknowledged even without AckReq
	Patient     bool             // responders take packets out of order and send no NAK, as some devices can
	NAKBehind   bool             // what comes behind a packet refused by RNR draws sequence NAKs, as in soft-RoCE
	Timeout     time.Duration    // local ACK timeout: 1 ms
	Retries     int              // 7
	RNRRetries  int              // 6; 7 would be for ever
	RNRTimer    uint8            // code: 12, 640 µs
	Faults      []SimFault
}

// SimOp is a work request.
type SimOp struct {
	Family   dissect.Family
	Size     int
	Imm      bool
	Post     time.Duration   // not before this time after the start
	NotReady int             // the responder answers so often with RNR NAK before it has a receive WQE
	Refuse   dissect.NAKCode // the responder refuses it for this reason; NAKSequence = it does not
}

// SimFaultKind is what a wire can do to a packet.
type SimFaultKind uint8

// The kinds. A missed packet arrives, but the tap does not record it.
const (
	Lose SimFaultKind = iota + 1
	Duplicate
	Reorder
	Corrupt
	Miss
)

// SimFault strikes one packet: the N-th that a side sends, from 0.
type SimFault struct {
	From   Side
	Nth    int
	Kind   SimFaultKind
	Behind bool // behind the tap as the packet travels, else before
	By     int  // Reorder: so many later packets overtake it, or it is held for 50 µs
}

// SimCause is why a packet was sent.
type SimCause uint8

// The causes: the first of its kind, a retry, an answer to a duplicate. Implied is a retry because a later answer showed
// that an earlier one is missing.
const (
	SentFirst SimCause = iota
	SentAfterNAK
	SentAfterRNR
	SentAfterTimeout
	SentAfterImplied
	SentForDuplicate
)

// SimPacket is the truth about one packet.
type SimPacket struct {
	From    Side
	Op      dissect.Opcode
	Request bool
	Offset  int // of the PSN from its requester's first
	Message int // index among its requester's; -1 for an ACK or NAK of no message in particular
	Round   int // how often this PSN was sent before in this role
	Cause   SimCause
	AckReq  bool

	Syndrome dissect.Syndrome // of answers
	MSN      dissect.MSN
	Orig     uint64
	ReadSize int // of a READ request

	Fault   *SimFault
	Passed  int     // Reorder: packets that overtook it
	Sent    int64   // by its sender
	Frames  []int   // its numbers in the capture: none, one or two
	Arrived []int64 // at the other end

	built *Packet
}

// SimMessage is the truth about one work request.
type SimMessage struct {
	SimOp
	First, Last dissect.PSN
	VA          uint64
	Status      SimStatus
	FirstSent   int64 // 0: never
	Completed   int64 // when its requester took the answer; 0: never
	Orig        uint64

	first, n int // PSN offset, number of PSNs
	executed int
}

// Executed is how often the responder carried the request out: once, or not at all.
func (m *SimMessage) Executed() int { return m.executed }

// SimStatus is how a work request ended.
type SimStatus uint8

// The statuses.
const (
	SimOpen SimStatus = iota
	SimDone
	SimRetryExceeded
	SimRNRExceeded
	SimRefused
	SimFlushed
)

// SimResult is what a tap recorded, and the truth.
type SimResult struct {
	Frames   []Frame
	Packets  []SimPacket // all that were sent, in the order of sending
	Truth    []int       // for each frame the index of its packet, -1 for those of Before
	Messages [2][]SimMessage
}

// sim is the world: a clock, a queue of what happens next, two ends and the wire between them.
type sim struct {
	o     SimOptions
	x     *Exchange
	start int64
	now   int64
	queue eventQueue
	ends  [2]*simEnd
	res   *SimResult
	tap   []tapped
	sent  [2]int
	free  [2]int64       // when each side's transmitter is free
	held  [2][2][]*heldP // by sender, by place
}

type tapped struct {
	time int64
	pkt  int
	data []byte
}

type heldP struct{ pkt, left int }

type event struct {
	time int64
	seq  int
	do   func()
}

type eventQueue struct {
	events []event
	seq    int
}

func (q *eventQueue) Len() int { return len(q.events) }
func (q *eventQueue) Less(i, j int) bool {
	a, b := &q.events[i], &q.events[j]
	return a.time < b.time || a.time == b.time && a.seq < b.seq
}
func (q *eventQueue) Swap(i, j int) { q.events[i], q.events[j] = q.events[j], q.events[i] }
func (q *eventQueue) Push(e any)    { q.events = append(q.events, e.(event)) }
func (q *eventQueue) Pop() any {
	e := q.events[len(q.events)-1]
	q.events = q.events[:len(q.events)-1]
	return e
}

// after has something happen in a while.
func (s *sim) after(d time.Duration, do func()) {
	s.queue.seq++
	heap.Push(&s.queue, event{s.now + int64(d), s.queue.seq, do})
}

const (
	turnaround = 500 * time.Nanosecond // from a packet's arrival to what it causes
	copyDelay  = 700 * time.Nanosecond // of a copy behind its original
	holdLimit  = 50 * time.Microsecond
	maxEvents  = 1 << 20 // a simulation that takes more has gone wrong
)

// Simulate runs a conversation to its end. The same options give the same result.
func Simulate(o SimOptions) *SimResult {
	if o.Latency == [2]time.Duration{} {
		o.Latency = [2]time.Duration{2 * time.Microsecond, 2 * time.Microsecond}
	}
	setDefault(&o.Rate, 100e9)
	setDefault(&o.Window, 64)
	setDefault(&o.Depth, 8)
	setDefault(&o.AckMessages, 1)
	setDefault(&o.Timeout, time.Millisecond)
	setDefault(&o.Retries, 7)
	setDefault(&o.RNRRetries, 6)
	setDefault(&o.RNRTimer, 12)
	o.Transport = dissect.RC
	s := &sim{o: o, x: NewExchange(o.ExchangeOptions), res: new(SimResult)}
	if o.Before != nil {
		o.Before(s.x)
		s.res.Frames = s.x.Frames()
		for range s.res.Frames {
			s.res.Truth = append(s.res.Truth, -1)
		}
	}
	s.start, s.now = s.x.Now(), s.x.Now()
	for side := range s.ends {
		s.ends[side] = newSimEnd(s, Side(side))
	}
	for n := 0; s.queue.Len() > 0; n++ {
		if n > maxEvents {
			panic("testkit: a simulation without end")
		}
		e := heap.Pop(&s.queue).(event)
		s.now = e.time
		e.do()
	}
	for side, e := range s.ends {
		s.res.Messages[side] = e.msgs
	}
	slices.SortStableFunc(s.tap, func(a, b tapped) int { return cmp.Compare(a.time, b.time) })
	for _, t := range s.tap {
		p := &s.res.Packets[t.pkt]
		p.Frames = append(p.Frames, len(s.res.Frames)+1)
		s.res.Truth = append(s.res.Truth, t.pkt)
		s.res.Frames = append(s.res.Frames, Frame{Time: t.time, Data: t.data, WireLen: len(t.data), Link: p.built.Link})
	}
	return s.res
}

// transmit sends a packet as soon as its side's transmitter is free.
func (s *sim) transmit(p SimPacket) {
	side := p.From
	start := max(s.now, s.free[side])
	s.free[side] = start + max(int64(float64(8*(p.built.WireLen+24))/s.o.Rate*1e9), 1)
	for i := range s.o.Faults {
		if f := &s.o.Faults[i]; f.From == side && f.Nth == s.sent[side] {
			p.Fault = f
			if f.Kind == Corrupt && !f.Behind {
				p.built.BreakICRC()
			}
		}
	}
	s.sent[side]++
	p.Sent = start
	s.res.Packets = append(s.res.Packets, p)
	i := len(s.res.Packets) - 1
	s.after(time.Duration(start-s.now), func() { s.travel(i, 0) })
}

// travel takes a packet over one of its two pieces of wire: 0 before the tap, 1 behind it.
func (s *sim) travel(i, place int) {
	p := &s.res.Packets[i]
	latency := s.o.Latency[int(p.From)^place]
	deliver := func(i int, d time.Duration) { s.after(d, func() { s.arrive(i, place) }) }
	struck := p.Fault
	if struck != nil && struck.Behind != (place == 1) {
		struck = nil
	}
	held := &s.held[p.From][place]
	switch {
	case struck == nil || struck.Kind == Corrupt || struck.Kind == Miss:
		deliver(i, latency)
	case struck.Kind == Lose:
		return
	case struck.Kind == Duplicate:
		deliver(i, latency)
		deliver(i, latency+copyDelay)
	case struck.Kind == Reorder:
		h := &heldP{i, max(struck.By, 1)}
		*held = append(*held, h)
		s.after(holdLimit, func() {
			if h.left > 0 { // nothing came to overtake it
				h.left = 0
				deliver(h.pkt, latency)
			}
		})
		return
	}
	kept := (*held)[:0]
	for _, h := range *held {
		if h.left == 0 {
			continue
		}
		s.res.Packets[h.pkt].Passed++
		if h.left--; h.left == 0 {
			deliver(h.pkt, latency+1)
			continue
		}
		kept = append(kept, h)
	}
	*held = kept
}

// arrive is the end of a piece of wire: the tap, or the other end.
func (s *sim) arrive(i, place int) {
	p := &s.res.Packets[i]
	if place == 0 {
		if p.Fault == nil || p.Fault.Kind != Miss {
			s.tap = append(s.tap, tapped{s.now, i, p.built.Data})
		}
		s.travel(i, 1)
		return
	}
	if p.Fault != nil && p.Fault.Kind == Corrupt {
		return
	}
	p.Arrived = append(p.Arrived, s.now)
	e := s.ends[p.From^1]
	s.after(turnaround, func() {
		if e.failed {
			return
		}
		if q := s.res.Packets[i]; q.Request {
			e.respond(q)
		} else {
			e.answered(q)
		}
	})
}
