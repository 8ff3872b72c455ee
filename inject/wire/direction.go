package wire

import (
	"encoding/binary"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
)

const (
	batch    = 64
	awake    = 50 * time.Microsecond // for how long a direction looks for frames before it sleeps
	nap      = 10 * time.Millisecond
	patience = 100 * time.Millisecond // for which a frame waits until the other interface takes it
)

// direction is what goes from one interface to the other.
type direction struct {
	way      fault.Way
	from, to []port.Port
	lane     *fault.Lane // nil where no rule is
	in       []port.In
	outs     []out
	now      int64
	note     *notes
	counts
}

// out is a queue that frames leave by.
type out struct {
	port.Port
	rooms  [][]byte
	free   []uint32
	taken  [batch]uint32
	list   []port.Out
	plain  int // the longest untagged frame
	most   int
	unsent bool
}

// counts are written by the direction alone, once a batch.
type counts struct {
	local                                             [6]uint64
	forwarded, made, struck, tooLong, stuck, received atomic.Uint64
	held                                              atomic.Int64
}

const (
	forwarded = iota
	made
	struck
	tooLong
	stuck
	received
)

func newDirection(w *Wire, way fault.Way) *direction {
	d := &direction{way: way, from: w.ports[way], to: w.ports[way.Other()], in: make([]port.In, batch)}
	if l := w.lanes[way]; l != nil && !l.Idle() {
		d.lane = l
	}
	if w.o.Record != nil {
		d.note = newNotes(w, way)
	}
	for _, p := range d.to {
		info := p.Info()
		o := out{Port: p, plain: info.MTU + 14, most: info.MaxFrame, list: make([]port.Out, 0, info.Slots)}
		for slot := range info.Slots {
			o.rooms = append(o.rooms, p.Room(uint32(slot)))
		}
		d.outs = append(d.outs, o)
	}
	return d
}

// run forwards until it is told to stop, or an interface is gone.
func (d *direction) run(stop *atomic.Bool) error {
	idle, turn := time.Time{}, 0
	for !stop.Load() {
		busy := false
		for i, p := range d.from {
			n, err := p.Receive(d.in)
			if err != nil {
				return err
			}
			if n == 0 {
				continue
			}
			busy = true
			o := &d.outs[i%len(d.outs)]
			d.now = d.in[n-1].Time
			if err := d.forward(o, d.in[:n]); err != nil {
				return err
			}
		}
		next, err := d.due()
		if err != nil {
			return err
		}
		d.publish()
		if busy {
			idle = time.Time{}
			continue
		}
		if err := d.flush(); err != nil {
			return err
		}
		now := time.Now()
		if idle.IsZero() {
			idle = now
		}
		if now.Sub(idle) < awake {
			runtime.Gosched()
			continue
		}
		sleep := nap
		if len(d.from) > 1 || d.lane != nil { // another queue may have something, or the other direction
			sleep = 200 * time.Microsecond
		}
		if next > 0 {
			sleep = min(sleep, max(0, time.Duration(next-now.UnixNano())))
		}
		turn = (turn + 1) % len(d.from)
		if err := d.from[turn].Wait(sleep); err != nil && !errors.Is(err, port.ErrDown) {
			return err
		}
	}
	return d.end()
}

// forward sends what was received on.
func (d *direction) forward(o *out, in []port.In) error {
	d.local[received] += uint64(len(in))
	if d.lane == nil {
		for i := range in {
			d.send(o, in[i].Data, forwarded)
		}
		if d.note != nil {
			d.note.plain(in)
		}
		return o.hand()
	}
	for i := range in {
		f := &in[i]
		passes := d.lane.Look(f.Time, f.Data, nil)
		if r := d.lane.Struck; r != nil {
			d.local[struck]++
			d.note.came(f, r)
		} else {
			d.note.came(f, nil)
		}
		if len(d.lane.Before) > 0 {
			d.give(o, d.lane.Before)
		}
		if passes {
			d.send(o, f.Data, forwarded)
		}
		if len(d.lane.Behind) > 0 {
			d.give(o, d.lane.Behind)
		}
	}
	d.lane.Publish()
	d.note.flush()
	return o.hand()
}

// give sends frames of the rules.
func (d *direction) give(o *out, frames []*fault.Held) {
	for _, h := range frames {
		d.send(o, h.Bytes(), made)
		d.note.went(h, d.now)
	}
	d.note.flush() // the lane takes the frames' memory back
}

// send copies a frame into the next free slot; as says what it counts as.
func (d *direction) send(o *out, frame []byte, as int) {
	if len(frame) > o.plain && (len(frame) > o.most || !tagged(frame)) {
		d.local[tooLong]++
		return
	}
	if len(o.free) == 0 && !o.take() {
		d.local[stuck]++
		return
	}
	slot := o.free[len(o.free)-1]
	o.free = o.free[:len(o.free)-1]
	o.list = append(o.list, port.Out{Slot: slot, Len: int32(copy(o.rooms[slot], frame))})
	d.local[as]++
}

func tagged(frame []byte) bool {
	t := binary.BigEndian.Uint16(frame[12:])
	return t == 0x8100 || t == 0x88A8
}

// take gets free slots, and waits for them where the interface is behind.
func (o *out) take() bool {
	n := o.Port.Take(o.taken[:])
	if n == 0 {
		_ = o.hand() // what went wrong is told the next time
		for end := time.Now().Add(patience); n == 0 && time.Now().Before(end); runtime.Gosched() {
			_ = o.Port.Flush()
			n = o.Port.Take(o.taken[:])
		}
	}
	o.free = append(o.free[:0], o.taken[:n]...)
	return n > 0
}

// hand gives to the port what is to be sent. An interface that is down is no end: it may be up again.
func (o *out) hand() error {
	if len(o.list) == 0 {
		return nil
	}
	err := o.Port.Send(o.list)
	o.list, o.unsent = o.list[:0], true
	if errors.Is(err, port.ErrDown) {
		return nil
	}
	return err
}

// due sends what rules have held long enough, and tells when there will be more.
func (d *direction) due() (next int64, err error) {
	if d.lane == nil || d.lane.Held() == 0 {
		return 0, nil
	}
	d.now = time.Now().UnixNano()
	next = d.lane.Due(d.now)
	if len(d.lane.Behind) > 0 {
		d.give(&d.outs[0], d.lane.Behind)
		err = d.outs[0].hand()
	}
	return next, err
}

// flush sees to it that everything leaves.
func (d *direction) flush() error {
	for i := range d.outs {
		o := &d.outs[i]
		if !o.unsent {
			continue
		}
		if err := o.Port.Flush(); err != nil && !errors.Is(err, port.ErrDown) {
			return err
		}
		o.unsent = o.Port.Stats().Outstanding > 0
	}
	return nil
}

// end lets what is held go.
func (d *direction) end() error {
	if d.lane != nil {
		d.lane.End()
		d.now = time.Now().UnixNano()
		d.give(&d.outs[0], d.lane.Behind)
		d.lane.Publish()
		if err := d.outs[0].hand(); err != nil {
			return err
		}
	}
	d.publish()
	return d.flush()
}

func (d *direction) publish() {
	for i, to := range [...]*atomic.Uint64{&d.forwarded, &d.made, &d.struck, &d.tooLong, &d.stuck, &d.received} {
		to.Store(d.local[i])
	}
	if d.lane != nil {
		d.held.Store(int64(d.lane.Held()))
	}
}

func (d *direction) stats() Stats {
	s := Stats{
		From: d.from[0].Info().Interface, To: d.to[0].Info().Interface,
		Forwarded: d.forwarded.Load(), Made: d.made.Load(), Struck: d.struck.Load(), TooLong: d.tooLong.Load(), Stuck: d.stuck.Load(),
		Held: int(d.held.Load()), Received: d.received.Load(),
	}
	for _, p := range d.from {
		k := p.Stats()
		s.Bytes += k.RecvBytes
		s.Missed += k.RecvLost
	}
	for _, p := range d.to {
		s.SendLost += p.Stats().SendLost
	}
	return s
}
