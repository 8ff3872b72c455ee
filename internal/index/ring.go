package index

import (
	"cmp"
	"os"
	"slices"
	"sync/atomic"

	"github.com/rocescope/rocescope/internal/engine"
)

const (
	defaultRing  = 64 << 20
	leastRing    = 1 << 20
	leastSegment = 64 << 10
	segmentLen   = 64 << 10 // packets, of the smallest kind
)

// ring is the store of a live capture: its newest packets, in segments. A segment
// goes as a whole, the oldest first, and its memory is used again when nobody
// reads it any more.
type ring struct {
	most     int64 // bytes of memory for packets
	room     int   // bytes of a segment
	segments atomic.Pointer[[]*segment]
	entries  atomic.Int64
	packets  atomic.Int64
	gone     atomic.Uint64 // packets

	// The engine's goroutine's.
	cur   *segment
	last  uint64
	inMem []*segment // oldest first
	idle  []*held    // whose memory can be used again when they are not read
	spool *spool
	fresh chan []byte // memory that is there already: see prepare
}

func newRing(o *Options) (*ring, error) {
	r := &ring{most: max(o.Ring, leastRing)}
	if o.Ring == 0 {
		r.most = defaultRing
	}
	r.room = int(min(max(r.most/64, leastSegment), 1<<20))
	if o.SpoolBytes > 0 {
		file, err := temporary(o.SpoolDir)
		if err != nil {
			return nil, err
		}
		r.spool = newSpool(file, o.SpoolBytes, r.room, int(r.most/int64(r.room)))
	}
	r.segments.Store(new([]*segment))
	r.fresh = make(chan []byte, r.most/int64(r.room))
	go r.prepare(cap(r.fresh))
	return r, nil
}

// prepare makes the memory of all segments, and touches each page of it: the first
// touch can cost more than all else that is done to a packet, and the goroutine that
// captures is not the one to pay for it.
func (r *ring) prepare(n int) {
	page := os.Getpagesize()
	for range n {
		b := make([]byte, r.room)
		for i := 0; i < len(b); i += page {
			b[i] = 1
		}
		r.fresh <- b
	}
}

// held is the bytes of a segment's packets.
type held struct {
	memory []byte // all of it room; what was published does not change
	used   int
	refs   atomic.Int32 // 1 for the ring, 1 for each reader; at 0 the memory is another's
	file   *os.File     // on disk, from when at is set
	at     atomic.Int64 // 1 + where; 0 is not there
}

// grip keeps the memory as it is until release, if it still is there.
func (h *held) grip() bool {
	for {
		n := h.refs.Load()
		if n == 0 {
			return false
		}
		if h.refs.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *held) release() { h.refs.Add(-1) }

// read copies bytes out. What it copies is right only if the segment is still in
// the ring behind it.
func (h *held) read(dst []byte, offset int64) error {
	if h.grip() {
		copy(dst, h.memory[offset:])
		h.release()
		return nil
	}
	if at := h.at.Load(); at > 0 {
		_, err := h.file.ReadAt(dst, at-1+offset)
		return err
	}
	return nil // gone
}

// add implements store.
func (r *ring) add(b *engine.Batch) error {
	var e Entry
	for i := range b.Packets {
		data := b.Data[i]
		if r.cur == nil || r.cur.live.used+len(data) > len(r.cur.live.memory) || r.cur.table.n == segmentLen {
			r.turn(len(data))
		}
		h := r.cur.live
		e.of(b, i)
		e.Offset = int64(h.used)
		h.used += copy(h.memory[h.used:], data)
		r.cur.table.append(&e)
		r.last++
	}
	r.cur.table.publish()
	return nil
}

// turn begins a new segment with room for a packet, and lets old ones go.
func (r *ring) turn(least int) {
	if r.cur != nil {
		r.cur.table.publish()
		if r.spool != nil {
			r.spool.offer(r.cur)
		}
	}
	all := slices.Clone(*r.segments.Load())
	size := max(r.room, least)
	leaving := r.leave(int64(size))
	var off []*segment // the disk
	for _, s := range leaving {
		if s.live.at.Load() == 0 { // nor on it
			all = r.without(all, s)
		}
	}
	if r.spool != nil && r.spool.full() {
		if i := slices.IndexFunc(all, func(s *segment) bool { return s.live.at.Load() > 0 }); i >= 0 {
			off = append(off, all[i])
			all = r.without(all, all[i])
		}
	}
	h := &held{memory: r.memory(size)}
	h.refs.Store(1)
	r.cur = &segment{first: r.last + 1, live: h}
	r.inMem = append(r.inMem, r.cur)
	all = append(all, r.cur)
	r.segments.Store(&all)
	// Nobody finds them any more.
	for _, s := range leaving {
		s.live.release()
		r.idle = append(r.idle, s.live)
	}
	for _, s := range off {
		r.spool.free(s.live)
	}
	r.account()
}

// leave takes the oldest segments out of memory, so that size bytes more find room.
func (r *ring) leave(size int64) (leaving []*segment) {
	for _, s := range r.inMem {
		size += int64(len(s.live.memory))
	}
	for len(r.inMem) > 0 && size > r.most {
		old := r.inMem[0]
		r.inMem = r.inMem[1:]
		size -= int64(len(old.live.memory))
		leaving = append(leaving, old)
	}
	return leaving
}

func (r *ring) without(all []*segment, s *segment) []*segment {
	r.gone.Add(uint64(s.table.n))
	return slices.DeleteFunc(all, func(o *segment) bool { return o == s })
}

// memory is that of a segment that is gone and that nobody reads, or new.
func (r *ring) memory(size int) []byte {
	for i, h := range r.idle {
		if h.refs.Load() == 0 {
			r.idle = slices.Delete(r.idle, i, i+1)
			if len(h.memory) == size {
				return h.memory
			}
			break // of an uncommon size
		}
	}
	if size == r.room {
		select {
		case b := <-r.fresh:
			return b
		default:
		}
	}
	return make([]byte, size)
}

func (r *ring) account() {
	var entries, packets int64
	all := *r.segments.Load()
	for _, s := range all {
		entries += s.table.bytes
	}
	for _, s := range r.inMem {
		packets += int64(len(s.live.memory))
	}
	for _, h := range r.idle {
		packets += int64(len(h.memory))
	}
	r.entries.Store(entries)
	r.packets.Store(packets)
}

// bounds implements store.
func (r *ring) bounds() (first, last uint64) {
	all := *r.segments.Load()
	if len(all) == 0 {
		return 1, 0
	}
	newest := all[len(all)-1]
	return all[0].first, newest.first + uint64(newest.table.view().n) - 1
}

// find implements store.
func (r *ring) find(n uint64) *segment {
	all := *r.segments.Load()
	i, ok := slices.BinarySearchFunc(all, n, func(s *segment, n uint64) int { return cmp.Compare(s.first, n) })
	if !ok {
		i--
	}
	if i < 0 || n-all[i].first >= uint64(all[i].table.view().n) {
		return nil
	}
	return all[i]
}

// bytes implements store.
func (r *ring) bytes() (entries, packets int64) { return r.entries.Load(), r.packets.Load() }

func (r *ring) close() error {
	if r.spool == nil {
		return nil
	}
	return r.spool.close()
}
