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
	stream     *Stream
	plan       *plan
	port       port.Port
	pacer      *pacer
	burst      int
	limit      uint64 // messages of each QP
	left       uint64 // packets
	looking    bool   // answers are looked at
	interleave bool
	window     uint64

	qps    []*qp
	active []*qp
	cur    int
	memos  []memo  // of each QP's templates, one QP's behind the other's; nil if they would be too many
	memo   memo    // of the frame, if so
	orders *orders // nil where nobody looks at answers
	marker *marker // nil where the port does not ask what frames are

	rooms  [][]byte
	slots  *slots
	taken  []uint32
	out    []port.Out
	marks  []mark
	touch  []*qp
	now    int64
	last   int64 // when something was sent last
	asleep int
	ended  int64 // when nothing was left to send
	stuck  int64 // since when no slot is free

	sent      []uint64 // packets by template
	resent    []uint64
	byOp      []tally
	untold    int // packets that are not in published
	told      int64
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

const (
	// mostMemos is how many are kept: 16 MiB.
	mostMemos = 1 << 20
	// What is sent as fast as can be is handed over so many at a time; fewer where the time of a burst is that of its packets, of
	// which answers tell the latency.
	burstUnseen, burstTimed = 512, 64
	// What was sent is told after so many packets, or so long.
	tellPackets, tellAfter = 1 << 16, 10 * time.Millisecond
)

func newSender(s *Stream, p port.Port, qps []*qp, share float64) *sender {
	info, c := p.Info(), &s.plan.config
	templates := len(s.plan.templates)
	w := &sender{
		stream: s, plan: s.plan, port: p, qps: qps, limit: c.Count, looking: s.looking, interleave: c.Interleave, window: uint64(c.Window),
		byOp: make([]tally, len(c.Mix)), sent: make([]uint64, templates), resent: make([]uint64, templates),
	}
	w.marker = newMarker(p, len(qps))
	if w.limit == 0 {
		w.limit = 1<<64 - 1
	}
	if w.left = c.Packets; w.left == 0 {
		w.left = 1<<64 - 1
	}
	w.pacer = newPacer(c.Rate, share, s.start.Load(), &s.wishes)
	if s.looking {
		w.orders = newOrders(len(qps))
	}
	w.burst = w.burstAt(info.Slots)
	w.rooms = make([][]byte, info.Slots)
	for i := range w.rooms {
		w.rooms[i] = p.Room(uint32(i))
	}
	w.slots = newSlots(info.Slots, templates)
	w.taken = make([]uint32, info.Slots)
	w.out = make([]port.Out, 0, w.burst)
	w.marks = make([]mark, 0, w.burst)
	w.touch = make([]*qp, 0, w.burst)
	if n := len(qps) * templates; n <= mostMemos {
		w.memos = make([]memo, 0, n)
	}
	for i, q := range qps {
		q.number = uint32(i)
		if w.memos != nil {
			for _, t := range s.plan.templates {
				w.memos = append(w.memos, memo{key: t.key(&q.values)})
			}
		}
		w.activate(q)
	}
	return w
}

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

// burstAt is how many packets are sent at a time, at the rate as it is.
func (w *sender) burstAt(slots int) int {
	n, most := w.plan.config.Burst, burstUnseen
	if w.looking {
		most = burstTimed
	}
	if n == 0 {
		n = w.pacer.burst(float64(w.plan.longest), most)
	}
	return min(n, slots)
}

// worthFlushing is how long a wait is before which a port is told to get on.
const worthFlushing = 20 * time.Microsecond

// run sends until there is nothing left to do.
func (w *sender) run() {
	if g, ok := w.port.(port.Generator); ok {
		w.err = w.generate(g)
		return
	}
	defer w.tell()
	flushed := true
	for !w.stream.halt.Load() {
		w.now = w.plan.config.Clock.Now()
		if w.now >= w.stream.until {
			break
		}
		if w.pacer.renew(w.now) {
			w.burst = w.burstAt(len(w.rooms))
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
	if w.orders != nil {
		w.obeyAll()
	}
	if w.slots.waiting() < w.burst {
		w.refill()
	}
	w.marks, w.touch = w.marks[:0], w.touch[:0]
	out := w.out[:0]
	n := int(min(uint64(w.burst), uint64(w.slots.left()), w.left))
	for len(out) < n {
		q := w.pick()
		if q == nil {
			break
		}
		out = append(out, w.frame(q))
	}
	w.out = out
	w.left -= uint64(len(out))
	return len(out)
}

// refill asks the port for slots: for those of a burst, so that few go round and stay in the cache, or for all of them where
// many kinds of frames have to find their own.
func (w *sender) refill() {
	s := w.slots
	s.file()
	n := w.burst
	if s.misses > 0 {
		n, s.misses = len(w.taken), 0
	}
	s.queue = w.taken[:w.port.Take(w.taken[:n])]
}

// pick finds the next QP that may send. Its message and packet are then those to be sent.
func (w *sender) pick() *qp {
	for tries := len(w.active); tries > 0; tries-- {
		q := w.active[w.cur]
		switch {
		case q.stopped, q.packet == q.msg.packets && !w.begin(q):
			w.retire()
		case q.waits && q.notBefore > w.now, w.window > 0 && !w.open(q):
			w.turn()
		default:
			return q
		}
	}
	return nil
}

// begin begins a QP's next message, if it has one.
func (w *sender) begin(q *qp) bool {
	for q.seq.index < w.limit {
		if w.looking && q.past != nil {
			q.past[q.pasts%uint64(len(q.past))] = past{q.seq}
			q.pasts++
		}
		w.plan.next(&q.qpPlan, &q.seq, &q.msg)
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
	if !q.msg.answered {
		return true
	}
	acked, end := q.sh.acked.Load(), q.end()
	return end <= acked+w.window || q.msg.pos+uint64(q.packet) <= acked
}

// frame makes the QP's next frame.
func (w *sender) frame(q *qp) port.Out {
	m := &q.msg
	t, end, last := m.last, m.end(), q.packet == m.packets-1
	if !last {
		t, end = m.packet(q.packet), m.pos+uint64(q.packet)+1
	}
	slot, ok := w.slots.same(t.id)
	if !ok {
		var fresh bool
		if slot, fresh = w.slots.get(t.id); fresh {
			t.write(w.rooms[slot])
		}
	}
	m.values[valPSN] = uint32(m.psn.Add(q.packet))
	memory := &w.memo
	if w.memos != nil {
		memory = &w.memos[int(q.number)*len(w.sent)+t.id]
	} else {
		*memory = memo{key: t.key(&q.values)}
	}
	t.patch(w.rooms[slot], &q.values, &m.values, memory)

	if w.marker != nil {
		w.marker.note(q, int(q.number))
	}
	w.sent[t.id]++
	if end > q.sent {
		q.sent = end
	} else if m.psns > 0 {
		w.resent[t.id]++
	}
	if w.looking {
		w.await(q, t)
	}
	q.packet++
	if last {
		q.fresh = max(q.fresh, m.index+1)
	}
	if last || w.interleave {
		w.turn()
	}
	return port.Out{Slot: slot, Len: int32(t.length())}
}

// await takes note that answers may come to the QP's packet.
func (w *sender) await(q *qp, t *template) {
	if !q.touched {
		q.touched = true
		w.touch = append(w.touch, q)
	}
	if t.ackReq && q.sh.stamps != nil {
		w.marks = append(w.marks, mark{q.sh, q.at(q.msg.end() - 1)})
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
	if w.pacer.paced() {
		bytes := uint64(0)
		for i := range w.out {
			bytes += uint64(w.out[i].Len)
		}
		w.pacer.spend(len(w.out), bytes)
	}
	send := w.port.Send
	if w.marker != nil {
		send = w.marker.send
	}
	if err := send(w.out); err != nil {
		return err
	}
	w.last = w.plan.config.Clock.Now()
	if w.untold += len(w.out); w.untold >= tellPackets || w.last-w.told >= int64(tellAfter) {
		w.tell()
	}
	return nil
}

// tell adds up what was sent, and publishes it.
func (w *sender) tell() {
	w.untold, w.told = 0, w.last
	clear(w.byOp)
	for i, t := range w.plan.templates {
		n, op := w.sent[i], &w.byOp[t.part]
		op.packets += n
		op.bytes += n * uint64(t.length())
		op.payload += n * uint64(len(t.payload))
		op.resent += w.resent[i]
		if t.ends {
			op.messages += n - w.resent[i]
		}
	}
	w.publish()
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

// obeyAll does what answers asked for since the last burst.
func (w *sender) obeyAll() {
	for {
		number, ok := w.orders.take()
		if !ok {
			return
		}
		q := w.qps[number]
		w.obey(q)
		w.activate(q)
	}
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
		q.waits, q.notBefore = true, w.now+int64(delay(o))
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
	if !w.orders.empty() {
		return false
	}
	if w.ended == 0 {
		w.ended = w.now
	}
	settled := true
	for _, q := range w.qps {
		if q.stopped {
			continue
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
