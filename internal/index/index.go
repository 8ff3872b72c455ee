package index

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/engine"
)

// Options say which capture is indexed, and how.
type Options struct {
	// Open opens the capture. With Again it may be called again: what is asked
	// later (a connection's messages, filters on what is known only at the end)
	// may then read the capture once more.
	Open  func(context.Context) (captures.Source, error)
	Again bool
	// Engine is how the capture is read; Track is always on. Its sinks, and those of
	// its tracker, are called on the engine's goroutine, and get the frames behind
	// the index.
	Engine engine.Options
	// Live keeps the newest packets in a ring, and lets the oldest go.
	Live bool
	Ring int64 // bytes of packets in memory of a live capture; 0 is 64 MiB
	// SpoolBytes is how much of a live capture is kept in a temporary file when it
	// leaves the ring; 0 is nothing. Other input that cannot be read again is always
	// spooled as a whole.
	SpoolBytes int64
	SpoolDir   string // where temporary files are made; the system's folder unless set
}

// Index is a capture that is, or was, read. Its methods may be called from any
// goroutine.
type Index struct {
	o       Options
	p       *engine.Pipeline
	end     context.CancelFunc
	done    chan struct{}
	result  engine.Result // once done is closed
	err     error
	frames  atomic.Uint64
	first   atomic.Uint64
	base    atomic.Int64
	places  *places
	store   store
	aliases aliases
	turns   turns
	found   findings
	said    messages
	watch   watchers

	mu   sync.Mutex
	open []*View
}

// store holds entries, and for live captures bytes.
type store interface {
	// add takes a batch over and makes it visible. It is for the engine's goroutine.
	add(b *engine.Batch) error
	// first and last are the numbers of the packets that are there; last < first
	// where there are none.
	bounds() (first, last uint64)
	// find returns what has the packet; nil where it is not there (any more).
	find(n uint64) *segment
	// bytes is the memory taken by entries, and by packets.
	bytes() (entries, packets int64)
}

// Open begins to read a capture in the background. An error is that of opening.
// The end of the context ends the reading, and so does Close.
func Open(ctx context.Context, o Options) (*Index, error) {
	ctx, end := context.WithCancel(ctx)
	src, err := o.Open(ctx)
	if err != nil {
		end()
		return nil, err
	}
	x := &Index{o: o, end: end, done: make(chan struct{}), places: newPlaces()}
	x.first.Store(1)
	if o.Live {
		x.store, err = newRing(&x.o)
	} else {
		x.store = newWhole()
	}
	if err != nil {
		end()
		src.Close()
		return nil, err
	}
	src = newTap(src, x)
	eo := o.Engine
	eo.Track = true
	eo.Sinks = append([]engine.Sink{engine.SinkFunc(x.batch)}, eo.Sinks...)
	x.chain(&eo.Tracker.Sink)
	x.p = engine.New(eo)
	go x.run(ctx, src)
	return x, nil
}

// chain puts the index in front of what the caller wants to hear of the tracker.
func (x *Index) chain(s *flows.Sink) {
	finding, message, joined, turned := s.Finding, s.Message, s.Joined, s.Turned
	s.Finding = func(f *flows.Finding) {
		x.found.add(f)
		if finding != nil {
			finding(f)
		}
	}
	s.Message = func(m *flows.Message) {
		x.said.add(m)
		if message != nil {
			message(m)
		}
	}
	s.Turned = func(conn uint32, upTo uint64) {
		x.turns.set(conn, upTo)
		if turned != nil {
			turned(conn, upTo)
		}
	}
	s.Joined = func(gone, into uint32) {
		x.aliases.set(gone, into)
		if joined != nil {
			joined(gone, into)
		}
	}
}

func (x *Index) run(ctx context.Context, src captures.Source) {
	defer x.end()
	// There may be a screen in front of all this, which goes on.
	x.err = crash.Sound(func() (err error) {
		x.result, err = x.p.Run(ctx, src)
		return err
	})
	x.publish()
	close(x.done)
	x.watch.wake()
}

// batch is the index's sink.
func (x *Index) batch(b *engine.Batch) error {
	if len(b.Packets) == 0 {
		return nil
	}
	if err := x.store.add(b); err != nil {
		return err
	}
	x.base.Store(b.Packets[len(b.Packets)-1].Base)
	x.publish()
	return nil
}

func (x *Index) publish() {
	first, last := x.store.bounds()
	x.first.Store(first)
	x.frames.Store(last)
	x.found.publish()
	x.said.publish()
	x.watch.wake()
}

// First and Last are the numbers of the packets that can be had now: with a live
// capture First grows. Last is First-1 where there are none.
func (x *Index) First() uint64 { return x.first.Load() }

// Last is the number of the newest packet.
func (x *Index) Last() uint64 { return max(x.frames.Load(), x.first.Load()-1) }

// Progress is how far reading is.
type Progress struct {
	First, Last uint64 // packets that can be had
	Gone        uint64 // packets of a live capture that can not, for want of room
	Done, Total int64  // bytes of the input; Total is 0 where that is not known
	Entries     int64  // bytes of memory that the index takes
	Packets     int64  // bytes of memory that packets of a live capture take
	Spooled     int64  // bytes in temporary files
	SpoolErr    error  // why no more of a live capture is kept on disk
	Finished    bool   // the input was read to its end, or as far as it goes
	Err         error  // with Finished: why that was not the end
}

// Progress tells how far reading is. It never waits.
func (x *Index) Progress() Progress {
	p := Progress{First: x.First(), Last: x.Last()}
	p.Done, p.Total = x.p.Progress()
	p.Entries, p.Packets = x.store.bytes()
	p.Spooled = x.places.spooled.Load()
	if r, ok := x.store.(*ring); ok {
		p.Gone = r.gone.Load()
		if r.spool != nil {
			p.Spooled, p.SpoolErr = r.spool.state()
		}
	}
	select {
	case <-x.done:
		p.Finished, p.Err = true, x.err
	default:
	}
	return p
}

// Done is closed when the whole input was read, or as much as can be.
func (x *Index) Done() <-chan struct{} { return x.done }

// Result is what the run did, and why it ended early if it did. It waits for Done.
func (x *Index) Result() (engine.Result, error) {
	<-x.done
	return x.result, x.err
}

// RequestSnapshot asks for a snapshot of all connections at the next batch.
func (x *Index) RequestSnapshot() { x.p.RequestSnapshot() }

// Snapshot is the last one that was made; nil before.
func (x *Index) Snapshot() *flows.Snapshot { return x.p.Snapshot() }

// Connection follows a connection's number from a Mark to the number that it has
// now: two streams that turn out to be one connection have one number.
func (x *Index) Connection(conn uint32) uint32 { return x.aliases.get(conn) }

// Interfaces are those that packets seen so far came from.
func (x *Index) Interfaces() []captures.Interface { return slices.Clone(x.places.faces()) }

// Close ends the reading and all views, and frees what they hold.
func (x *Index) Close() error {
	x.end()
	<-x.done
	x.mu.Lock()
	open := slices.Clone(x.open)
	x.mu.Unlock()
	for _, v := range open {
		v.Close()
	}
	var err error
	if r, ok := x.store.(*ring); ok {
		err = r.close()
	}
	return errors.Join(err, x.places.close())
}

// GoneError says that a packet cannot be had any more.
type GoneError struct{ Number, First uint64 }

func (e *GoneError) Error() string {
	return fmt.Sprintf("packet %d is gone: the oldest one still held is %d; a larger ring or a spool file keeps more", e.Number, e.First)
}
