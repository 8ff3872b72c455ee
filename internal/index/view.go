package index

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/filter"
)

// View is the packets that a filter selects, by number. It is worked out in the
// background, and grows as the capture does. It takes a bit for each packet of the
// capture, and an eighth of one for finding one's way.
type View struct {
	x    *Index
	end  context.CancelFunc
	done chan struct{}

	mu       sync.RWMutex
	set      *bitset
	complete bool
	err      error
}

// Filter begins to work out which packets a filter selects. A filter on what is
// known only at the end reads the capture once more, and is refused where that is
// not possible. The end of the context ends the work; Close does, too.
func (x *Index) Filter(ctx context.Context, f *filter.Filter) (*View, error) {
	byConn := slices.Contains(f.Fields(), "flow.id")
	switch {
	case f.Needs() == filter.NeedEnd && !x.o.Again:
		return nil, fmt.Errorf("%s asks for what is known only at the end of the capture, which has to be read twice for that: save it to a file first", f)
	case f.Needs() == filter.NeedEnd:
		return x.view(ctx, func(ctx context.Context, v *View) error { return v.twice(ctx, f) }), nil
	case entriesDo(f):
		var p dissect.Packet
		return x.view(ctx, func(ctx context.Context, v *View) error {
			return v.pass(ctx, x.NewReader(), byConn, func(e *Entry) (bool, error) {
				e.describe(&p, x)
				return f.Match(&p, nil, &e.Mark), nil
			})
		}), nil
	}
	return x.view(ctx, func(ctx context.Context, v *View) error {
		r := x.NewReader()
		r.ahead = straight
		r.decoder.CheckICRC = r.decoder.CheckICRC && f.NeedsICRC()
		return v.pass(ctx, r, byConn, func(e *Entry) (bool, error) {
			data, err := r.bytes(e)
			if err != nil {
				return false, err
			}
			r.decode(e, data, &r.packet)
			return f.Match(&r.packet, data, &e.Mark), nil
		})
	}), nil
}

// ofEntries are the fields that entries answer. Those of tracking do, too, unless
// they are known only at the end.
var ofEntries = []string{
	"frame.number", "frame.time_epoch", "frame.time_relative", "frame.time_delta", "frame.len", "frame.cap_len",
	"frame.interface_id", "frame.packet_flags_direction",
}

// entriesDo reports whether a filter asks for nothing that entries do not say.
func entriesDo(f *filter.Filter) bool {
	for _, name := range f.Fields() {
		known := slices.Contains(ofEntries, name)
		for _, field := range flows.Fields() {
			known = known || field.Name == name
		}
		if !known {
			return false
		}
	}
	return len(f.Fields()) > 0
}

// Select is the packets whose entries fn selects: of connections, of messages.
// Filters are better where people write them.
func (x *Index) Select(ctx context.Context, fn func(*Entry) bool) *View {
	return x.view(ctx, func(ctx context.Context, v *View) error {
		return v.pass(ctx, x.NewReader(), true, func(e *Entry) (bool, error) { return fn(e), nil })
	})
}

// OfConnection is a connection's packets.
func (x *Index) OfConnection(ctx context.Context, conn uint32) *View {
	return x.Select(ctx, func(e *Entry) bool { return e.Mark.Conn == x.Connection(conn) && conn != 0 })
}

// OfMessage is the packets of a message: its number among those that its
// connection's requester in direction d sent.
func (x *Index) OfMessage(ctx context.Context, conn uint32, d flows.Direction, message uint32) *View {
	return x.Select(ctx, func(e *Entry) bool {
		m := &e.Mark
		requester := m.Direction
		if m.Has(flows.MarkResponse) {
			requester = requester.Reverse()
		}
		return m.Conn == x.Connection(conn) && m.Has(flows.MarkMessage) && m.Message == message && requester == d
	})
}

// view starts a view's work.
func (x *Index) view(ctx context.Context, work func(context.Context, *View) error) *View {
	ctx, end := context.WithCancel(ctx)
	v := &View{x: x, end: end, done: make(chan struct{}), set: newBitset()}
	x.mu.Lock()
	x.open = append(x.open, v)
	x.mu.Unlock()
	go func() {
		defer close(v.done)
		err := crash.Sound(func() error { return work(ctx, v) })
		v.mu.Lock()
		defer v.mu.Unlock()
		v.complete, v.err = err == nil, err
	}()
	return v
}

// chunk is how many packets are looked at before others see what came of it.
const chunk = 4096

// pass looks at all packets, and at those to come, until the capture has ended.
// What belongs to connections changes when two streams turn out to be one: then
// another pass is made, beside what is shown, though seldom enough to cost no more
// than the passes before.
func (v *View) pass(ctx context.Context, r *Reader, byConn bool, match func(*Entry) (bool, error)) error {
	x := v.x
	wake := x.watch.add()
	defer x.watch.remove(wake)
	set, next := v.set, uint64(1)
	version, again := x.aliases.version.Load(), uint64(chunk)
	var list []uint64
	for ctx.Err() == nil {
		finished := x.finished()
		first, last := x.First(), x.Last()
		if now := x.aliases.version.Load(); byConn && now != version && (next >= again || finished && next > last) {
			version, again = now, 2*next
			set, next = &bitset{origin: v.set.origin}, v.set.origin
		}
		next = max(next, first)
		if next > last {
			if finished {
				return nil
			}
			select {
			case <-wake:
			case <-ctx.Done():
			}
			continue
		}
		list = list[:0]
		end := min(last, next+chunk-1)
		for ; next <= end; next++ {
			e, err := r.Entry(next)
			if err == nil {
				var ok bool
				if ok, err = match(e); ok {
					list = append(list, next)
				}
			}
			if gone := (*GoneError)(nil); err != nil && !errors.As(err, &gone) {
				return err
			}
		}
		v.mu.Lock()
		set.extend(list, end)
		set.trim(first)
		if set != v.set && set.last >= v.set.last {
			v.set = set
		}
		v.mu.Unlock()
	}
	return context.Cause(ctx)
}

// twice reads the capture once more, behind a pass that learns its end.
func (v *View) twice(ctx context.Context, f *filter.Filter) error {
	select {
	case <-v.x.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	var list []uint64
	return v.x.again(ctx, engine.Options{Filter: f, Outcomes: true, Sinks: []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error {
		list = list[:0]
		for i, ok := range b.Matched {
			if ok {
				list = append(list, b.Packets[i].Number)
			}
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.set.extend(list, b.Packets[len(b.Packets)-1].Number)
		return nil
	})}}, nil)
}

// Len is how many packets were selected so far, of those that can be had.
func (v *View) Len() int {
	first := v.x.First()
	v.mu.RLock()
	defer v.mu.RUnlock()
	return int(v.set.count - v.set.rank(first))
}

// Frame is the number of the i-th packet, from 0. In a live capture what is i-th
// changes as the oldest go: Find tells where a packet is now.
func (v *View) Frame(i int) (n uint64, ok bool) {
	first := v.x.First()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if i < 0 {
		return 0, false
	}
	return v.set.at(uint64(i) + v.set.rank(first))
}

// Find is where packet n is; where it is not selected, where the next one is.
func (v *View) Find(n uint64) (i int, exact bool) {
	first := v.x.First()
	v.mu.RLock()
	defer v.mu.RUnlock()
	if n < first {
		return 0, false
	}
	return int(v.set.rank(n) - v.set.rank(first)), v.set.has(n)
}

// Frames are the numbers of the packets selected so far.
func (v *View) Frames() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		v.mu.RLock()
		n, end := max(v.x.First(), v.set.origin), v.set.last
		v.mu.RUnlock()
		for ; n <= end; n++ {
			v.mu.RLock()
			next, ok := v.set.at(v.set.rank(n))
			v.mu.RUnlock()
			if !ok || next > end || !yield(next) {
				return
			}
			n = next
		}
	}
}

// Frames are the numbers of all packets that there are now.
func (x *Index) Frames() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n, last := x.First(), x.Last(); n <= last; n++ {
			if !yield(n) {
				return
			}
		}
	}
}

// Scanned is the number of the last packet that was looked at.
func (v *View) Scanned() uint64 {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.set.last
}

// State says whether the view is complete, or why it never will be.
func (v *View) State() (complete bool, err error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.complete, v.err
}

// Done is closed when no more work goes on: see State.
func (v *View) Done() <-chan struct{} { return v.done }

// Close ends the work. What was selected can still be asked for.
func (v *View) Close() {
	v.end()
	<-v.done
	v.x.mu.Lock()
	defer v.x.mu.Unlock()
	v.x.open = slices.DeleteFunc(v.x.open, func(o *View) bool { return o == v })
}
