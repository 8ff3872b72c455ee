package fault

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/inject/port"
)

// Port is a port whose frames meet the rules, those that it sends and those that it receives. It keeps the contract of a port: a
// slot that a rule struck has what its sender wrote, for all that goes on changed goes on in a slot of the Port's own.
//
// Frames that are held leave when Take, Send, Flush or Wait is called late enough; they count as outstanding until then.
type Port struct {
	port.Port
	info  port.Info
	lanes [2]*Lane
	clock func() int64
	timed [2]bool // the way's rules look at the clock
	busy  [2]bool // the way has rules

	// The sender's, behind a lock where its lane holds frames, which Wait too lets go.
	lock   bool
	mu     sync.Mutex
	rooms  [][]byte
	own    []bool   // by slot: it is the Port's
	spare  []uint32 // of those, the free ones
	back   []uint32 // the sender's slots whose frames went no further
	lent   int      // the sender's slots that it has
	sends  int      // frames of the Port's own, at most, for one of the sender's
	list   []port.Out
	ready  []*waitingFrame // frames that found no free slot
	unsent atomic.Int64    // frames that are held, or wait for a slot
	next   atomic.Int64    // when the next of them is due

	// The receiver's.
	raw   []port.In
	queue []port.In
	given []*Held
}

// waitingFrame is a frame that waits for a slot.
type waitingFrame struct{ data []byte }

// Wrap puts rules around a port. It refuses rules that the port cannot apply.
func Wrap(p port.Port, s *Set) (*Port, error) {
	info := p.Info()
	if err := s.Suits(p); err != nil {
		return nil, err
	}
	w := &Port{Port: p, info: info, clock: port.Clock(p)}
	w.lanes = s.Start(info.MaxFrame, w.clock())
	for way, l := range w.lanes {
		w.busy[way] = !l.Idle()
		for _, r := range l.rules {
			w.timed[way] = w.timed[way] || r.from > 0 || r.to > 0 || r.fate.holds() || r.Tracks()
			if way == int(Out) {
				w.sends = max(w.sends, r.sends)
			}
			w.lock = w.lock || way == int(Out) && r.fate.holds() || way == int(In) && r.back()
		}
	}
	if w.busy[Out] {
		w.reserve()
	}
	if w.busy[In] {
		w.raw = make([]port.In, 64)
	}
	return w, nil
}

// Suits tells whether a port can apply the rules.
func (s *Set) Suits(p port.Port) error {
	info := p.Info()
	where := info.Via
	if info.Interface != "" {
		where += " on " + info.Interface
	}
	if _, generates := p.(port.Generator); generates {
		return fmt.Errorf("%s makes its frames in the kernel, where no rule can act: another way to send takes faults (--via xdp, --via packet)", where)
	}
	for _, r := range s.Rules {
		switch {
		case !info.Receives && !r.On(Out):
			return fmt.Errorf("%s receives nothing, and the rule %q is about what comes in", where, r.Text)
		case !info.Receives && r.back():
			return fmt.Errorf("%s receives nothing, and the rule %q sends back to where a packet came from", where, r.Text)
		case info.Via == port.ViaFile && (r.fate.holds() && r.fate.time > 0 && r.fate.kind != fateReorder && r.fate.kind != fateSwap):
			return fmt.Errorf("%s has no time that passes while nothing is written, and the rule %q waits for it", where, r.Text)
		case r.grows > info.MaxFrame:
			return fmt.Errorf("%s takes frames of %d bytes at most, and the rule %q adds up to %d", where, info.MaxFrame, r.Text, r.grows)
		}
	}
	return nil
}

// reserve takes slots for the Port's own frames: as many as the sender's can make it send.
func (w *Port) reserve() {
	w.rooms = make([][]byte, w.info.Slots)
	for i := range w.rooms {
		w.rooms[i] = w.Port.Room(uint32(i))
	}
	w.own = make([]bool, w.info.Slots)
	w.list = make([]port.Out, 0, w.info.Slots)
	share := 0
	switch {
	case w.sends > 0:
		share = w.info.Slots * min(w.sends, 7) / (min(w.sends, 7) + 1)
	case w.lock: // for what the other lane sends back
		share = w.info.Slots / 8
	}
	slots := make([]uint32, share)
	w.spare = slots[:w.Port.Take(slots)]
	for _, s := range w.spare {
		w.own[s] = true
	}
}

// Info implements port.Port.
func (w *Port) Info() port.Info { return w.info }

// Now is the time of the port's clock.
func (w *Port) Now() int64 { return w.clock() }

// Counts is what the rules did, by way.
func (w *Port) Counts() []Count {
	if !w.info.Receives {
		return w.lanes[Out].Counts()
	}
	return append(w.lanes[Out].Counts(), w.lanes[In].Counts()...)
}

// Full is how many frames met no fate, because too many were held already.
func (w *Port) Full() uint64 { return w.lanes[Out].Full() + w.lanes[In].Full() }

// Take implements port.Port. It gives out no more slots than there is room for what rules make of their frames.
func (w *Port) Take(slots []uint32) int {
	if !w.busy[Out] {
		return w.Port.Take(slots)
	}
	if w.lock {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	w.pump()
	most := len(slots)
	if w.sends > 0 {
		if len(w.spare) < w.sends*(w.lent+most) {
			w.reclaim()
		}
		most = min(most, max(0, len(w.spare)/w.sends-w.lent))
	}
	n := min(most, len(w.back))
	copy(slots, w.back[len(w.back)-n:])
	w.back = w.back[:len(w.back)-n]
	for n < most {
		got := w.Port.Take(slots[n:most])
		if got == 0 {
			break
		}
		for _, s := range slots[n : n+got] {
			if w.own[s] {
				w.spare = append(w.spare, s)
			} else {
				slots[n] = s
				n++
			}
		}
	}
	w.lent += n
	return n
}

// reclaim looks for slots of the Port's own that have come back; the sender's are kept for it.
func (w *Port) reclaim() {
	var some [64]uint32
	for {
		n := w.Port.Take(some[:])
		for _, s := range some[:n] {
			if w.own[s] {
				w.spare = append(w.spare, s)
			} else {
				w.back = append(w.back, s)
			}
		}
		if n < len(some) {
			return
		}
	}
}

// Send implements port.Port.
func (w *Port) Send(frames []port.Out) error { return w.SendMarked(frames, nil) }

// WantsMarks reports whether a rule about what is sent asks what the frames are to their connections.
func (w *Port) WantsMarks() bool { return w.lanes[Out].tracks }

// SendMarked is Send for who knows what the frames are to their connections.
func (w *Port) SendMarked(frames []port.Out, marks []flows.Mark) error {
	if !w.busy[Out] {
		return w.Port.Send(frames)
	}
	if w.lock {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	w.pump()
	now := int64(0)
	if w.timed[Out] {
		now = w.clock()
	}
	w.lent -= min(w.lent, len(frames))
	l := w.lanes[Out]
	quiet := 0
	if l.rests(marks != nil) {
		for quiet < len(frames) && w.quiet(l, frames[quiet]) {
			quiet++
		}
		if quiet == len(frames) {
			return w.Port.Send(frames)
		}
	}
	w.list = w.list[:0]
	plain := true
	for i := quiet; i < len(frames); i++ {
		f := frames[i]
		if int(f.Slot) >= len(w.rooms) || f.Len < minFrame || int(f.Len) > w.info.MaxFrame {
			return w.Port.Send(frames[i : i+1]) // which says what is wrong with it
		}
		var m *flows.Mark
		if marks != nil {
			m = &marks[i]
		}
		passes := l.Look(now, w.rooms[f.Slot][:f.Len], m)
		if passes && len(l.Behind)+len(l.Before) == 0 {
			if !plain {
				w.list = append(w.list, f)
			}
			continue
		}
		if plain {
			plain = false
			w.list = append(w.list, frames[:i]...)
		}
		w.emit(l.Before)
		if passes {
			w.list = append(w.list, f)
		} else {
			w.back = append(w.back, f.Slot)
		}
		w.emit(l.Behind)
	}
	l.Publish()
	w.unsent.Store(int64(l.Held() + len(w.ready)))
	if plain {
		return w.Port.Send(frames)
	}
	if l.holding > 0 {
		w.next.Store(l.next())
	}
	if len(w.list) == 0 {
		return nil
	}
	return w.Port.Send(w.list)
}

// quiet tells, in as few instructions as can be, that no rule is about a frame.
func (w *Port) quiet(l *Lane, f port.Out) bool {
	return int(f.Slot) < len(w.rooms) && int(f.Len) <= w.info.MaxFrame && l.quiet(w.rooms[f.Slot], int(f.Len))
}

// emit appends frames of the lane's to what is sent next, in slots of the Port's own.
func (w *Port) emit(frames []*Held) {
	for _, h := range frames {
		if len(w.spare) == 0 {
			w.reclaim()
		}
		if len(w.ready) >= mostHeld { // the other end answers faster than anything leaves
			w.lanes[Out].counts.full.Add(1)
			continue
		}
		if len(w.spare) == 0 || len(w.ready) > 0 {
			w.ready = append(w.ready, &waitingFrame{slices.Clone(h.Bytes())})
			continue
		}
		w.put(h.Bytes())
	}
}

func (w *Port) put(frame []byte) {
	s := w.spare[len(w.spare)-1]
	w.spare = w.spare[:len(w.spare)-1]
	w.list = append(w.list, port.Out{Slot: s, Len: int32(copy(w.rooms[s], frame))})
}

// pump sends what has waited long enough.
func (w *Port) pump() error {
	l := w.lanes[Out]
	if l.holding == 0 && l.posts.Load() == 0 && len(w.ready) == 0 {
		return nil
	}
	w.list = w.list[:0]
	if len(w.ready) > 0 {
		w.reclaim()
		for len(w.ready) > 0 && len(w.spare) > 0 {
			w.put(w.ready[0].data)
			w.ready = w.ready[1:]
		}
	}
	w.next.Store(l.Due(w.clock()))
	w.emit(l.Behind)
	w.unsent.Store(int64(l.Held() + len(w.ready)))
	if len(w.list) == 0 {
		return nil
	}
	return w.Port.Send(w.list)
}

// Flush implements port.Port.
func (w *Port) Flush() error {
	if !w.busy[Out] {
		return w.Port.Flush()
	}
	if w.lock {
		w.mu.Lock()
		defer w.mu.Unlock()
	}
	return errors.Join(w.pump(), w.Port.Flush())
}

// Receive implements port.Port.
func (w *Port) Receive(in []port.In) (int, error) {
	if !w.busy[In] {
		return w.Port.Receive(in)
	}
	if len(w.queue) == 0 {
		if err := w.fill(len(in)); err != nil {
			return 0, err
		}
	}
	n := copy(in, w.queue)
	w.queue = w.queue[n:]
	return n, nil
}

// fill receives up to n frames and puts what the rules make of them into the queue.
func (w *Port) fill(n int) error {
	l := w.lanes[In]
	for _, h := range w.given {
		l.free(h)
	}
	w.given, w.queue = w.given[:0], w.queue[:0]
	got, err := w.Port.Receive(w.raw[:min(n, len(w.raw))])
	now := int64(0)
	if w.timed[In] || l.holding > 0 || l.posts.Load() > 0 {
		now = w.clock()
	}
	if got == 0 && (l.holding > 0 || l.posts.Load() > 0) {
		l.Due(now)
		w.keep(l, l.Behind, now)
		l.out = l.out[:0]
	}
	for _, f := range w.raw[:got] {
		passes := l.Look(now, f.Data, nil)
		w.keep(l, l.Before, f.Time)
		if passes {
			w.queue = append(w.queue, f)
		}
		w.keep(l, l.Behind, f.Time)
		l.out = l.out[:0] // the queue has them
	}
	l.Publish()
	if len(w.queue) > 0 {
		return nil
	}
	return err
}

// keep puts frames of the lane's into the queue, and keeps them until the next time that it is filled.
func (w *Port) keep(l *Lane, frames []*Held, at int64) {
	for _, h := range frames {
		w.queue = append(w.queue, port.In{Data: h.Bytes(), Time: at})
		w.given = append(w.given, h)
	}
}

// Wait implements port.Port. It ends when something that was held is due, too.
func (w *Port) Wait(timeout time.Duration) error {
	if len(w.queue) > 0 {
		return nil
	}
	in := w.lanes[In]
	due := int64(0)
	if in.holding > 0 {
		due = in.next()
	}
	if in.posts.Load() > 0 {
		return nil
	}
	if at := w.next.Load(); at > 0 && w.unsent.Load() > 0 && (due == 0 || at < due) {
		due = at
	}
	if due > 0 {
		timeout = max(0, min(timeout, time.Duration(due-w.clock())))
	}
	err := w.Port.Wait(timeout)
	if w.lock && w.busy[Out] {
		w.mu.Lock()
		defer w.mu.Unlock()
		if perr := w.pump(); err == nil {
			err = perr
		}
	}
	return err
}

// Stats implements port.Port. Frames that are held are outstanding.
func (w *Port) Stats() port.Stats {
	s := w.Port.Stats()
	s.Outstanding += int(w.unsent.Load())
	return s
}
