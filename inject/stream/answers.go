package stream

import (
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// answers looks at everything that comes back, on a goroutine of its own.
type answers struct {
	stream *Stream
	ports  []port.Port // those that receive
	byQPN  map[uint32]int32
	qps    []answeredQP
	dec    dissect.Decoder
	icrc   dissect.ICRC
	packet dissect.Packet
	in     []port.In

	latency *hdrhistogram.Histogram // nanoseconds from a PSN to its acknowledgement
	n       Answers
	byOp    []uint64 // answered messages, by part of the mix
	seen    seen
	checked int64 // when timeouts were looked for
	failed  atomic.Bool
	err     error
}

// seen is what anybody may read while it runs.
type seen struct {
	packets, acks, naks, rnrs, cnps, readBytes, answered atomic.Uint64
}

// answeredQP is a QP as its answers tell it.
type answeredQP struct {
	*qpPlan
	sh      *shared
	orders  *orders // of its sender
	number  uint32  // by which that knows it
	seq     sequence
	oldest  message // that is not answered
	acked   uint64
	moved   int64 // when acked grew
	retries int
	naks    uint64
	stopped bool
	stop    StopReason
}

const (
	receiveBatch = 256
	longestWait  = time.Millisecond
	// quietWait is that for a port that can be woken, where nothing is due: a thread that sleeps and wakes often takes a part of a
	// core from whoever receives, for Go's scheduler looks after it each 20 µs.
	quietWait = 100 * time.Millisecond
	// shortWait is the longest wait for one port of several.
	shortWait = 50 * time.Microsecond
	// mostRetries is how often a QP with a window goes back on its own before it gives up (perftest's retry count).
	mostRetries = 7
)

func newAnswers(s *Stream, ports []port.Port) *answers {
	a := &answers{
		stream: s, ports: ports, byQPN: make(map[uint32]int32, len(s.qps)), in: make([]port.In, receiveBatch),
		latency: hdrhistogram.New(1, int64(time.Minute), 3), byOp: make([]uint64, len(s.plan.config.Mix)),
		qps: make([]answeredQP, len(s.qps)),
	}
	for i, q := range s.qps {
		a.qps[i] = answeredQP{qpPlan: &s.plan.qps[i], sh: q.sh}
		a.byQPN[q.local] = int32(i)
		if q.mix.answered {
			s.plan.next(&q.qpPlan, &a.qps[i].seq, &a.qps[i].oldest)
		}
	}
	return a
}

// run looks until it is told that no more is waited for.
func (a *answers) run() {
	wait := longestWait
	_, wakes := a.ports[0].(port.Waker)
	switch {
	case len(a.ports) > 1:
		wait = shortWait
	case wakes && a.stream.plan.config.Window == 0:
		wait = quietWait
	}
	for turn := 0; ; turn++ {
		last := a.stream.over.Load()
		got := a.receive()
		switch {
		case a.err != nil, last && got == 0:
			return
		case got > 0:
			continue
		}
		a.idle(a.ports[turn%len(a.ports)], wait)
	}
}

// wake ends a wait.
func (a *answers) wake() {
	if w, ok := a.ports[0].(port.Waker); ok {
		w.Wake()
	}
}

// step looks once, and waits if there is nothing: for who sends and looks in turns.
func (a *answers) step(wait time.Duration) {
	if a.err == nil && a.receive() == 0 && wait > 0 {
		if a.idle(a.ports[0], wait); a.err == nil {
			a.receive()
		}
	}
}

// receive takes note of what is there.
func (a *answers) receive() (got int) {
	for _, p := range a.ports {
		n, err := p.Receive(a.in)
		for i := range a.in[:n] {
			a.handle(a.in[i].Data, a.in[i].Time)
		}
		if got += n; err != nil {
			a.fail(err)
			break
		}
	}
	a.publish()
	return got
}

// idle waits for something to come.
func (a *answers) idle(p port.Port, wait time.Duration) {
	if err := p.Wait(wait); err != nil {
		a.fail(err)
		return
	}
	if now := a.stream.plan.config.Clock.Now(); now-a.checked > int64(10*time.Millisecond) {
		a.checked = now
		a.timeouts(now)
	}
}

// fail ends the run: who cannot see what it does, stops doing it.
func (a *answers) fail(err error) {
	a.err = err
	a.failed.Store(true)
	a.stream.halt.Store(true)
}

// handle takes note of a frame.
func (a *answers) handle(frame []byte, at int64) {
	p := &a.packet
	a.dec.Decode(dissect.LinkEthernet, frame, len(frame), p)
	i, ours := a.byQPN[p.DestQP]
	if !p.IsTransport() || !ours {
		a.n.Other++
		return
	}
	a.n.Packets++
	if a.icrc.Verify(p, frame) == dissect.ICRCInvalid {
		a.n.BadICRC++
		return
	}
	q, op := &a.qps[i], p.Op()
	switch op.Family {
	case dissect.Congestion:
		a.n.CNPs++
	case dissect.Read:
		if op.Role != dissect.Response {
			a.n.Requests++
			return
		}
		a.n.ReadBytes += uint64(p.PayloadLen())
		a.n.ReadPackets++
		if p.Has(dissect.LayerAETH) {
			a.acknowledge(q, p.PSN, 1, at)
		}
	case dissect.AtomicAcknowledge:
		a.n.Atomics++
		a.acknowledge(q, p.PSN, 1, at)
	case dissect.Acknowledge:
		a.verdict(q, p, at)
	default:
		a.n.Requests++
	}
}

// verdict is an acknowledgement, good or bad. A NAK acknowledges what came before its PSN.
func (a *answers) verdict(q *answeredQP, p *dissect.Packet, at int64) {
	switch p.Syndrome.Kind() {
	case dissect.KindACK:
		a.n.ACKs++
		a.acknowledge(q, p.PSN, 1, at)
	case dissect.KindRNR:
		a.n.RNRs++
		a.n.RNRTimers[p.Syndrome.Value()]++
		a.refused(q, p, at)
	case dissect.KindNAK:
		a.n.NAKs[p.Syndrome.Value()]++
		a.refused(q, p, at)
	default:
		a.n.Reserved++
	}
}

// refused does what the policy says.
func (a *answers) refused(q *answeredQP, p *dissect.Packet, at int64) {
	q.naks++
	if !a.acknowledge(q, p.PSN, 0, at) {
		return
	}
	s, policy := p.Syndrome, a.stream.plan.config.OnNAK
	again := s.Kind() == dissect.KindRNR || s.NAK() == dissect.NAKSequence
	switch {
	case policy == Ignore || q.stopped:
	case policy == GoBack && again:
		q.order(goBack(q.acked, s.Value(), s.Kind() == dissect.KindRNR))
	default:
		a.stop(q, StopReason{What: s.String(), PSN: p.PSN})
	}
}

// order asks something of the sender. It takes no notice of what it was asked before and has not done yet.
func (q *answeredQP) order(o uint64) {
	if q.sh.order.Swap(o) == 0 {
		q.orders.put(q.number)
	}
}

func (a *answers) stop(q *answeredQP, why StopReason) {
	q.stopped, q.stop = true, why
	q.order(orderStop)
}

// acknowledge takes note that everything up to a PSN, inclusive if n is 1, is acknowledged. It is false for a PSN that is none
// of those that were sent last.
func (a *answers) acknowledge(q *answeredQP, psn dissect.PSN, n int, at int64) bool {
	ahead := psn.Sub(q.at(q.acked)) + n
	switch next := q.sh.next.Load(); {
	case !q.mix.answered:
		a.n.Ghosts++
		return false
	case ahead < 0:
		a.n.Old++
		return false
	case q.acked+uint64(ahead) > next:
		a.n.Ghosts++
		return false
	}
	a.stream.heard.Store(at)
	if n == 1 {
		if ns, ok := q.sh.since(psn, at); ok && ahead > 0 {
			_ = a.latency.RecordValue(min(ns, int64(time.Minute)))
		}
	}
	if ahead == 0 {
		return true
	}
	q.acked += uint64(ahead)
	q.moved, q.retries = at, 0
	q.sh.acked.Store(q.acked)
	for q.oldest.end() <= q.acked {
		if q.oldest.answered {
			a.byOp[q.oldest.op]++
			a.n.Answered++
		}
		a.stream.plan.next(q.qpPlan, &q.seq, &q.oldest)
	}
	return true
}

// timeouts sends QPs back whose window is closed, and for which nothing comes any more.
func (a *answers) timeouts(now int64) {
	c := &a.stream.plan.config
	if c.Window == 0 {
		return
	}
	for i := range a.qps {
		q := &a.qps[i]
		switch waits := q.sh.next.Load() > q.acked; {
		case !waits || q.stopped:
			q.moved = now
		case q.moved == 0:
			q.moved = now
		case now-q.moved < int64(c.Linger):
		case q.retries == mostRetries || c.OnNAK != GoBack:
			a.n.Timeouts++
			a.stop(q, StopReason{What: "no answer", PSN: q.at(q.acked)})
		default:
			q.retries++
			q.moved = now
			a.n.Timeouts++
			q.order(goBack(q.acked, 0, false))
			a.stream.heard.Store(now) // it is waited for anew
		}
	}
}

func (a *answers) publish() {
	naks := uint64(0)
	for _, n := range a.n.NAKs {
		naks += n
	}
	a.seen.packets.Store(a.n.Packets)
	a.seen.acks.Store(a.n.ACKs)
	a.seen.naks.Store(naks)
	a.seen.rnrs.Store(a.n.RNRs)
	a.seen.cnps.Store(a.n.CNPs)
	a.seen.readBytes.Store(a.n.ReadBytes)
	a.seen.answered.Store(a.n.Answered)
}
