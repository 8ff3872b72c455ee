package stream

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// tally is what was sent of an operation.
type tally struct{ messages, packets, bytes, payload, resent uint64 }

// sender sends the share of the QPs that goes out of one port.
type sender struct {
	stream *Stream
	plan   *plan
	port   port.Port
	pacer  *pacer
	burst  int
	limit  uint64 // messages of each QP
	left   uint64 // packets

	qps    []*qp
	active []*qp
	cur    int

	rooms  [][]byte
	slots  *slots
	memos  []memo // by template
	taken  []uint32
	out    []port.Out
	marks  []mark
	touch  []*qp
	bytes  uint64 // of the burst
	now    int64
	last   int64 // when something was sent last
	asleep int
	ended  int64 // when nothing was left to send
	stuck  int64 // since when no slot is free

	byOp      []tally
	published published
	err       error
}

// mark is a PSN whose answer is waited for.
type mark struct {
	sh  *shared
	psn dissect.PSN
}

// published is what anybody may read while the sender runs.
type published struct {
	_                                         [64]byte
	messages, packets, bytes, payload, resent atomic.Uint64
	stalled                                   atomic.Uint64 // bursts that the window, or an RNR timer, held up
	_                                         [64]byte
}

// mostKeys is how many ICRC keys are kept: 16 MiB.
const mostKeys = 4 << 20

func newSender(s *Stream, p port.Port, qps []*qp, share float64) *sender {
	info, c := p.Info(), &s.plan.config
	w := &sender{stream: s, plan: s.plan, port: p, qps: qps, limit: c.Count, byOp: make([]tally, len(c.Mix))}
	if w.limit == 0 {
		w.limit = 1<<64 - 1
	}
	if w.left = c.Packets; w.left == 0 {
		w.left = 1<<64 - 1
	}
	w.pacer = newPacer(Rate{c.Rate.Packets * share, c.Rate.Bits * share}, s.start)
	w.burst = c.Burst
	if w.burst == 0 {
		w.burst = w.pacer.burst(float64(s.plan.longest), 64)
	}
	w.burst = min(w.burst, info.Slots)
	w.rooms = make([][]byte, info.Slots)
	for i := range w.rooms {
		w.rooms[i] = p.Room(uint32(i))
	}
	w.slots = newSlots(info.Slots, len(s.plan.templates))
	w.memos = make([]memo, len(s.plan.templates))
	w.taken = make([]uint32, info.Slots)
	w.out = make([]port.Out, 0, w.burst)
	w.marks = make([]mark, 0, w.burst)
	w.touch = make([]*qp, 0, w.burst)
	for _, q := range qps {
		if s.plan.keyed() {
			q.keys = make([]uint32, len(s.plan.templates))
			for i, t := range s.plan.templates {
				q.keys[i] = t.key(&q.values)
			}
		}
		w.activate(q)
	}
	return w
}

// keyed reports whether the ICRC keys of all templates and QPs are worth their memory.
func (p *plan) keyed() bool { return len(p.templates)*len(p.qps) <= mostKeys }

func (w *sender) activate(q *qp) {
	if !q.active {
		q.active = true
		w.active = append(w.active, q)
	}
}

// retire takes the QP whose turn it is from the list.
func (w *sender) retire() {
	w.active[w.cur].active = false
	last := len(w.active) - 1
	w.active[w.cur] = w.active[last]
	w.active = w.active[:last]
	if w.cur >= last {
		w.cur = 0
	}
}

// turn passes the turn on.
func (w *sender) turn() {
	if w.cur++; w.cur >= len(w.active) {
		w.cur = 0
	}
}

// worthFlushing is how long a wait is before which a port is told to get on.
const worthFlushing = 20 * time.Microsecond

// run sends until there is nothing left to do.
func (w *sender) run() {
	if g, ok := w.port.(port.Generator); ok {
		w.err = w.generate(g)
		return
	}
	flushed := true
	for !w.stream.halt.Load() {
		w.now = w.plan.config.Clock.Now()
		if w.now >= w.stream.until {
			break
		}
		if d, ok := w.pacer.ready(w.now); !ok {
			if !flushed && d >= worthFlushing {
				flushed = true
				if w.err = w.port.Flush(); w.err != nil {
					return
				}
			}
			w.stream.wait(d)
			continue
		}
		n := w.fill()
		if n == 0 {
			if w.done() {
				break
			}
			if w.err = w.idle(); w.err != nil {
				return
			}
			continue
		}
		w.asleep, w.ended, w.stuck, flushed = 0, 0, 0, false
		if w.err = w.send(); w.err != nil {
			return
		}
	}
	w.err = w.finish()
}

// fill makes the frames of a burst.
func (w *sender) fill() int {
	if len(w.slots.queue) < w.burst {
		w.slots.file()
		w.slots.queue = w.taken[:w.port.Take(w.taken)]
	}
	w.out, w.marks, w.touch, w.bytes = w.out[:0], w.marks[:0], w.touch[:0], 0
	for len(w.out) < w.burst && w.slots.left() > 0 && w.left > 0 {
		q := w.pick()
		if q == nil {
			break
		}
		w.frame(q)
		w.left--
	}
	return len(w.out)
}

// pick finds the next QP that may send. Its message and packet are then those to be sent.
func (w *sender) pick() *qp {
	for tries := len(w.active); tries > 0; tries-- {
		q := w.active[w.cur]
		if o := q.sh.order.Load(); o != 0 {
			w.obey(q)
		}
		if q.stopped {
			w.retire()
			continue
		}
		if q.packet == q.msg.packets && !w.begin(q) {
			w.retire()
			continue
		}
		if q.notBefore > w.now || !w.open(q) {
			w.turn()
			continue
		}
		return q
	}
	return nil
}

// begin begins a QP's next message, if it has one.
func (w *sender) begin(q *qp) bool {
	for q.seq.index < w.limit {
		if q.past != nil {
			q.past[q.pasts%uint64(len(q.past))] = past{q.seq}
			q.pasts++
		}
		w.plan.next(q.qpPlan, &q.seq, &q.msg)
		q.packet = 0
		if q.msg.psns > 0 || q.msg.index >= q.fresh { // what takes no PSN is not sent again
			return true
		}
	}
	q.packet = q.msg.packets
	return false
}

// open reports whether the window is open for the QP's next packet.
func (w *sender) open(q *qp) bool {
	window := uint64(w.plan.config.Window)
	if window == 0 || !q.msg.answered {
		return true
	}
	acked, end := q.sh.acked.Load(), q.end()
	return end <= acked+window || q.msg.pos+uint64(q.packet) <= acked
}

// frame makes the QP's next frame.
func (w *sender) frame(q *qp) {
	m := &q.msg
	t := m.packet(q.packet)
	slot, fresh := w.slots.get(t.id)
	room := w.rooms[slot]
	if fresh {
		t.write(room)
	}
	m.values[valPSN] = uint32(m.psn.Add(q.packet))
	if t.ackReq && q.sh.stamps != nil {
		w.marks = append(w.marks, mark{q.sh, q.at(m.end() - 1)})
	}
	key := uint32(0)
	if q.keys != nil {
		key = q.keys[t.id]
	} else {
		key = t.key(&q.values)
	}
	t.patch(room, &q.values, key, &m.values, &w.memos[t.id])
	n := t.length()
	w.out = append(w.out, port.Out{Slot: slot, Len: int32(n)})
	w.bytes += uint64(n)

	op := &w.byOp[m.op]
	op.packets++
	op.bytes += uint64(n)
	op.payload += uint64(len(t.payload))
	if end := q.end(); end > q.sent {
		q.sent = end
		if !q.touched {
			q.touched = true
			w.touch = append(w.touch, q)
		}
	} else if m.psns > 0 {
		op.resent++
	}
	if q.packet++; q.packet == m.packets && m.index >= q.fresh {
		q.fresh = m.index + 1
		op.messages++
	}
	if q.packet == m.packets || w.plan.config.Interleave {
		w.turn()
	}
}

// send hands the burst over.
func (w *sender) send() error {
	for _, q := range w.touch {
		q.touched = false
		q.sh.next.Store(q.sent)
	}
	if len(w.marks) > 0 {
		now := w.plan.config.Clock.Now()
		for _, m := range w.marks {
			m.sh.stamp(m.psn, now)
		}
	}
	w.pacer.spend(len(w.out), w.bytes)
	if err := w.port.Send(w.out); err != nil {
		return err
	}
	w.last = w.plan.config.Clock.Now()
	w.publish()
	return nil
}

func (w *sender) publish() {
	var sum tally
	for i := range w.byOp {
		op := &w.byOp[i]
		sum.messages += op.messages
		sum.packets += op.packets
		sum.bytes += op.bytes
		sum.payload += op.payload
		sum.resent += op.resent
	}
	w.published.messages.Store(sum.messages)
	w.published.packets.Store(sum.packets)
	w.published.bytes.Store(sum.bytes)
	w.published.payload.Store(sum.payload)
	w.published.resent.Store(sum.resent)
}

// obey does what answers ask for.
func (w *sender) obey(q *qp) {
	o := q.sh.order.Swap(0)
	switch {
	case o&orderStop == orderStop:
		q.stopped = true
	case o&orderGoBack != 0 && !q.goBack(w.plan, o&orderPos):
		q.stopped, q.lost = true, true
	default:
		q.notBefore = w.now + int64(delay(o))
	}
}

// done reports whether nothing is left to send, and no answer left to wait for.
func (w *sender) done() bool {
	if len(w.active) > 0 && w.left > 0 {
		return false
	}
	if !w.stream.looking {
		return true
	}
	if w.ended == 0 {
		w.ended = w.now
	}
	settled := true
	for _, q := range w.qps {
		if q.stopped {
			continue
		}
		if q.sh.order.Load() != 0 {
			w.activate(q)
			return false
		}
		settled = settled && (!q.mix.answered || q.sh.acked.Load() >= q.sent)
	}
	patience := w.plan.config.Linger
	if w.plan.config.Window > 0 {
		patience *= 2 // after one, QPs go back by themselves
	}
	return settled || w.now-max(w.ended, w.stream.heard.Load()) > int64(patience)
}

// mostStuck is how long a port may have no room for a frame.
const mostStuck = 5 * time.Second

// idle waits for slots, for the window, or for answers.
func (w *sender) idle() error {
	switch {
	case w.slots.left() > 0:
		if w.stuck = 0; len(w.active) > 0 {
			w.published.stalled.Add(1)
		}
	case w.stuck == 0:
		w.stuck = w.now
	case w.now-w.stuck > int64(mostStuck):
		return fmt.Errorf("no frame has left %s for %v", where(w.port.Info()), mostStuck)
	}
	if err := w.port.Flush(); err != nil {
		return err
	}
	if w.asleep++; w.asleep < 64 && len(w.active) > 0 && !w.plan.config.Turns {
		runtime.Gosched()
		return nil
	}
	w.stream.wait(nap)
	return nil
}

// finish sees to it that everything has left.
func (w *sender) finish() error {
	c := w.plan.config.Clock
	for end := c.Now() + int64(time.Second); ; w.stream.wait(nap) {
		if err := w.port.Flush(); err != nil {
			return err
		}
		if w.port.Stats().Outstanding == 0 || c.Now() > end {
			return nil
		}
	}
}
