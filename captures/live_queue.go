package captures

import (
	"io"
	"slices"
	"sync"
	"sync/atomic"
)

// queueFrames is how many frames one piece of a Queue holds.
const queueFrames = 512

// Queue is a Source of copies: what Offer is given on one goroutine, ReadBatch
// hands out on another. Offer never waits: frames that find the queue full are
// counted and gone, so that whoever looks at traffic cannot hold up whoever writes
// it down.
type Queue struct {
	ifaces  []Interface
	most    int
	dropped atomic.Uint64

	mu    sync.Mutex
	wake  sync.Cond
	full  []*piece
	free  []*piece
	made  int
	ended error  // what ReadBatch returns at the end; nil while frames may come
	awake bool   // a ReadBatch that waits returns without frames
	cur   *piece // being read
	at    int
}

// piece is frames with room for their bytes.
type piece struct {
	buf    []byte
	frames []Frame
}

// NewQueue makes a queue of so many bytes; 0 is 16 MiB. The interfaces are
// copied: their source goes on writing its counters into its own.
func NewQueue(size int, ifaces []Interface) *Queue {
	if size == 0 {
		size = 16 << 20
	}
	q := &Queue{ifaces: slices.Clone(ifaces), most: max(2, size/chunkSize)}
	q.wake.L = &q.mu
	return q
}

// Offer copies frames into the queue, and says how many of them found no room.
func (q *Queue) Offer(frames []Frame) (dropped int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer q.wake.Signal()
	var p *piece
	if n := len(q.full); n > 0 {
		p = q.full[n-1]
	}
	for i := range frames {
		f := &frames[i]
		if p == nil || len(p.frames) == queueFrames || len(p.buf)+len(f.Data) > cap(p.buf) {
			if p = q.take(len(f.Data)); p == nil {
				dropped = len(frames) - i
				q.dropped.Add(uint64(dropped))
				return dropped
			}
			q.full = append(q.full, p)
		}
		at := len(p.buf)
		p.buf = append(p.buf, f.Data...)
		c := *f
		c.Data = p.buf[at:len(p.buf):len(p.buf)]
		p.frames = append(p.frames, c)
	}
	return 0
}

// take returns an empty piece with room for a frame, nil where the queue is full.
func (q *Queue) take(room int) *piece {
	if n := len(q.free); n > 0 && cap(q.free[n-1].buf) >= room {
		p := q.free[n-1]
		q.free = q.free[:n-1]
		return p
	}
	if q.made >= q.most {
		return nil
	}
	q.made++
	return &piece{buf: make([]byte, 0, max(chunkSize, room)), frames: make([]Frame, 0, queueFrames)}
}

// End says that no more frames come: ReadBatch hands out what there is, and then
// returns the error, io.EOF for nil.
func (q *Queue) End(err error) {
	if err == nil {
		err = io.EOF
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.ended == nil {
		q.ended = err
	}
	q.wake.Signal()
}

// Wake lets a ReadBatch that waits, or the next one that would, return without
// frames, so that whoever is behind it gets to do what is due.
func (q *Queue) Wake() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.awake = true
	q.wake.Signal()
}

// Dropped is how many frames found the queue full.
func (q *Queue) Dropped() uint64 { return q.dropped.Load() }

// ReadBatch implements Source.
func (q *Queue) ReadBatch(dst []Frame) (int, error) {
	if len(dst) == 0 {
		return 0, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cur != nil && q.at == len(q.cur.frames) {
		q.cur.buf, q.cur.frames = q.cur.buf[:0], q.cur.frames[:0]
		q.free = append(q.free, q.cur)
		q.cur = nil
	}
	for q.cur == nil {
		switch {
		case len(q.full) > 0:
			q.cur, q.at = q.full[0], 0
			copy(q.full, q.full[1:])
			q.full = q.full[:len(q.full)-1]
		case q.ended != nil:
			return 0, q.ended
		case q.awake:
			q.awake = false
			return 0, nil
		default:
			q.wake.Wait()
		}
	}
	n := copy(dst, q.cur.frames[q.at:])
	q.at += n
	return n, nil
}

// Interfaces implements Source.
func (q *Queue) Interfaces() []Interface { return q.ifaces }

// Close implements Source.
func (q *Queue) Close() error {
	q.End(errClosed)
	return nil
}
