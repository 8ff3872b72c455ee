package port

import (
	"errors"
	"sync/atomic"
	"time"
)

// MemoryOptions say how a pair in memory is made. The zero value will do.
type MemoryOptions struct {
	Slots    int // frames that may be on their way in each direction; default 1024
	MaxFrame int // default DefaultMaxFrame
	// Clock says what time it is, in nanoseconds since 1970, when a frame is sent, which is when it arrives. Default is the
	// machine's. With a clock of its own a pair is driven: Wait does not sleep, since time passes where the clock is.
	Clock func() int64
}

// DefaultMaxFrame is the longest frame of ports that no interface limits: a jumbo frame with two VLAN tags.
const DefaultMaxFrame = 9000 + 14 + 8

// Memory is one end of a pair: what one end sends, the other receives, once and in order. Nothing is lost: who sends more
// than the other end receives runs out of slots. Frames are not copied, so that a received frame is the sender's slot, which
// goes back to it at the next Receive.
//
// Both ends may be used by one goroutine, in turns, or by one (or two, as every port) each.
type Memory struct {
	info   Info
	clock  func() int64
	driven bool
	out    *lane
	in     *lane
	counts counts

	borrowed []uint32  // slots of the frames that the last Receive gave out, to be given back
	arrived  []arrival // scratch of Receive
	leaving  []arrival // scratch of Send
	timer    *time.Timer
	roused   atomic.Bool
}

// arrival is a frame on its way.
type arrival struct {
	slot uint32
	len  int32
	time int64
}

// lane is one direction of a pair.
type lane struct {
	rooms    []byte
	frames   *ring[arrival] // to the receiver
	free     *ring[uint32]  // back to the sender
	waiting  atomic.Bool    // the receiver sleeps, or is about to
	wake     chan struct{}
	sender   atomic.Bool // closed
	receiver atomic.Bool // closed
}

// memoryBatch is how many frames are moved at a time.
const memoryBatch = 64

// Pair makes two ports that are joined.
func Pair(o MemoryOptions) (a, b *Memory) {
	if o.Slots <= 0 {
		o.Slots = 1024
	}
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	driven := o.Clock != nil
	if !driven {
		o.Clock = now
	}
	ab, ba := newLane(o.Slots, o.MaxFrame), newLane(o.Slots, o.MaxFrame)
	end := func(out, in *lane) *Memory {
		return &Memory{
			info:  Info{Via: ViaMemory, MaxFrame: o.MaxFrame, Slots: o.Slots, Receives: true},
			clock: o.Clock, driven: driven, out: out, in: in,
			borrowed: make([]uint32, 0, o.Slots), arrived: make([]arrival, memoryBatch), leaving: make([]arrival, memoryBatch),
		}
	}
	return end(ab, ba), end(ba, ab)
}

func now() int64 { return time.Now().UnixNano() }

func newLane(slots, room int) *lane {
	l := &lane{
		rooms: make([]byte, slots*room), frames: newRing[arrival](slots), free: newRing[uint32](slots),
		wake: make(chan struct{}, 1),
	}
	for i := range slots {
		l.free.put([]uint32{uint32(i)})
	}
	return l
}

// rouse wakes the receiver, if it sleeps.
func (l *lane) rouse() {
	if l.waiting.Load() {
		select {
		case l.wake <- struct{}{}:
		default:
		}
	}
}

// Info implements Port.
func (m *Memory) Info() Info { return m.info }

// Now is the time of its clock.
func (m *Memory) Now() int64 { return m.clock() }

// Take implements Port.
func (m *Memory) Take(slots []uint32) int { return m.out.free.take(slots) }

// Room implements Port.
func (m *Memory) Room(slot uint32) []byte {
	at, n := int(slot)*m.info.MaxFrame, m.info.MaxFrame
	return m.out.rooms[at : at+n : at+n]
}

// Send implements Port.
func (m *Memory) Send(frames []Out) error {
	if err := m.sendable(); err != nil {
		return err
	}
	if err := m.info.check(m, frames); err != nil {
		return err
	}
	time := m.clock()
	m.counts.hand(len(frames), lengths(frames))
	for len(frames) > 0 {
		n := min(len(frames), memoryBatch)
		for i, f := range frames[:n] {
			m.leaving[i] = arrival{f.Slot, f.Len, time}
		}
		if put := m.out.frames.put(m.leaving[:n]); put < n {
			return errors.New("port: memory: more frames were sent than there are slots: a slot that Take gave may be sent once")
		}
		frames = frames[n:]
	}
	m.out.rouse()
	return nil
}

func (m *Memory) sendable() error {
	switch {
	case m.out.sender.Load():
		return failed("memory", "send", ErrClosed, "")
	case m.out.receiver.Load():
		return failed("memory", "send", ErrGone, "the other end was closed")
	}
	return nil
}

// Flush implements Port.
func (m *Memory) Flush() error { return m.sendable() }

// Receive implements Port.
func (m *Memory) Receive(in []In) (n int, err error) {
	m.giveBack()
	for n < len(in) {
		got := m.in.frames.take(m.arrived[:min(len(in)-n, memoryBatch)])
		for _, f := range m.arrived[:got] {
			at, end := int(f.slot)*m.info.MaxFrame, int(f.slot)*m.info.MaxFrame+int(f.len)
			in[n] = In{Data: m.in.rooms[at:end:end], Time: f.time}
			m.borrowed = append(m.borrowed, f.slot)
			n++
		}
		if got == 0 {
			break
		}
	}
	if n == 0 {
		return 0, m.receivable()
	}
	m.counts.receive(in[:n])
	return n, nil
}

func (m *Memory) giveBack() {
	m.in.free.put(m.borrowed) // there is room: a slot is in one place at a time
	m.borrowed = m.borrowed[:0]
}

// receivable is called when nothing was there.
func (m *Memory) receivable() error {
	switch {
	case m.in.receiver.Load():
		return failed("memory", "receive", ErrClosed, "")
	case m.in.sender.Load() && m.in.frames.len() == 0: // in this order: it may have sent something before it closed
		return failed("memory", "receive", ErrGone, "the other end was closed")
	}
	return nil
}

// Wait implements Port. It does not sleep on a driven pair.
func (m *Memory) Wait(timeout time.Duration) error {
	if m.in.frames.len() > 0 {
		return nil
	}
	if err := m.receivable(); err != nil || m.driven || timeout <= 0 {
		return err
	}
	m.in.waiting.Store(true)
	defer m.in.waiting.Store(false)
	if m.timer == nil {
		m.timer = time.NewTimer(timeout)
	} else {
		m.timer.Reset(timeout)
	}
	defer m.timer.Stop()
	for m.in.frames.len() == 0 && !m.roused.Swap(false) {
		if err := m.receivable(); err != nil {
			return err
		}
		select {
		case <-m.in.wake: // it may be an old one
		case <-m.timer.C:
			return nil
		}
	}
	return nil
}

// Wake implements Waker.
func (m *Memory) Wake() {
	m.roused.Store(true)
	m.in.rouse()
}

// Stats implements Port.
func (m *Memory) Stats() Stats {
	s := m.counts.stats()
	s.Outstanding = m.out.frames.len()
	return s
}

// Close implements Port. What was sent before can still be received.
func (m *Memory) Close() error {
	m.out.sender.Store(true)
	m.in.receiver.Store(true)
	m.out.rouse()
	m.in.rouse()
	return nil
}
