package index

import (
	"sync/atomic"
	"unsafe"
)

// table is the entries of consecutive packets. One goroutine appends and
// publishes; any number read what was published by then, without locks: nothing that
// they see is written again.
type table struct {
	published atomic.Pointer[extent]

	// The writer's.
	pages  []*[pageLen]block
	chunk  []byte // code; the block at hand is its end, from at on
	at     int
	whole  int        // packets in whole blocks
	n      int        // packets
	start  entryState // of the block at hand
	state  entryState
	slots  [numSlots]slot
	misfit int   // gaps in it that were not as expected
	bytes  int64 // that the table takes
}

// extent is a table as its readers see it.
type extent struct {
	pages []*[pageLen]block
	n     int
	tail  block // behind the whole blocks
	bytes int64
}

const (
	pageLen    = 64
	firstChunk = 4 << 10 // each is twice as long as the one before, for a segment of a ring has few packets
	chunkLen   = 64 << 10
)

var noExtent extent

func (t *table) view() *extent {
	if x := t.published.Load(); x != nil {
		return x
	}
	return &noExtent
}

// append adds a packet.
func (t *table) append(e *Entry) {
	if t.n == 0 {
		t.state.time = e.Prev
		t.start = t.state
	}
	if cap(t.chunk)-len(t.chunk) < maxEntry {
		block := t.chunk[t.at:]
		size := min(max(firstChunk, 2*cap(t.chunk)), chunkLen)
		t.chunk = append(make([]byte, 0, size), block...)
		t.at = 0
		t.bytes += int64(size)
	}
	gap := t.state.gap
	t.chunk = appendEntry(t.chunk, &t.state, &t.slots, e)
	if t.state.gap != gap {
		t.misfit++
	}
	t.n++
	if t.n-t.whole == blockLen {
		t.endBlock()
	}
}

func (t *table) endBlock() {
	b := t.whole / blockLen
	if b/pageLen == len(t.pages) {
		t.pages = append(t.pages, new([pageLen]block))
		t.bytes += int64(unsafe.Sizeof([pageLen]block{}))
	}
	t.pages[b/pageLen][b%pageLen] = t.tail()
	t.whole, t.at = t.n, len(t.chunk)
	// Where every other gap is a surprise, the other way to count may fit better.
	if t.misfit > blockLen/8 {
		t.state.padded = !t.state.padded
	}
	t.misfit = 0
	t.start = t.state
	clear(t.slots[:])
}

// tail is the block at hand.
func (t *table) tail() block {
	return block{t.start, t.chunk[t.at:len(t.chunk):len(t.chunk)]}
}

// publish shows readers what was appended so far.
func (t *table) publish() {
	t.published.Store(&extent{pages: t.pages, n: t.n, tail: t.tail(), bytes: t.bytes})
}

// block returns the block that holds packet i, counted from 0.
func (x *extent) block(i int) *block {
	b := i / blockLen
	if (b+1)*blockLen > x.n {
		return &x.tail
	}
	return &x.pages[b/pageLen][b%pageLen]
}
