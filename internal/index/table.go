package index

import (
	"sync/atomic"
	"unsafe"
)

// table is the entries of consecutive packets. One goroutine appends and
// publishes; any number read what was published by then, without locks.
type table struct {
	published atomic.Pointer[extent]

	// The writer's.
	pages  []*[pageLen]block
	chunk  []byte     // room for the code of blocks to come
	whole  int        // packets in whole blocks
	n      int        // packets
	start  entryState // of the block at hand
	state  entryState
	slots  [numSlots]slot
	code   []byte // of the block at hand
	misfit int    // gaps in it that were not as expected
	bytes  int64  // that the table takes
}

// extent is a table as its readers see it.
type extent struct {
	pages []*[pageLen]block
	n     int
	tail  block // behind the whole blocks
	bytes int64
}

const (
	pageLen  = 1024
	chunkLen = 64 << 10
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
	if t.code == nil {
		t.code = make([]byte, 0, 16*blockLen)
		t.state.time = e.Prev
		t.begin()
	}
	gap := t.state.gap
	t.code = appendEntry(t.code, &t.state, &t.slots, e)
	if t.state.gap != gap {
		t.misfit++
	}
	t.n++
	if t.n-t.whole == blockLen {
		t.endBlock()
	}
}

func (t *table) begin() {
	// Where every other gap is a surprise, the other way to count may fit better.
	if t.misfit > blockLen/8 {
		t.state.padded = !t.state.padded
	}
	t.misfit = 0
	t.start = t.state
	clear(t.slots[:])
	t.code = t.code[:0]
}

func (t *table) endBlock() {
	if cap(t.chunk)-len(t.chunk) < len(t.code) {
		t.chunk = make([]byte, 0, max(chunkLen, len(t.code)))
		t.bytes += int64(cap(t.chunk))
	}
	at := len(t.chunk)
	t.chunk = append(t.chunk, t.code...)
	b := t.whole / blockLen
	if b/pageLen == len(t.pages) {
		t.pages = append(t.pages, new([pageLen]block))
		t.bytes += int64(unsafe.Sizeof([pageLen]block{}))
	}
	t.pages[b/pageLen][b%pageLen] = block{t.start, t.chunk[at:len(t.chunk):len(t.chunk)]}
	t.whole = t.n
	t.begin()
}

// publish shows readers what was appended so far.
func (t *table) publish() {
	x := &extent{pages: t.pages, n: t.n, bytes: t.bytes}
	if len(t.code) > 0 {
		x.tail = block{t.start, append([]byte(nil), t.code...)}
	}
	t.published.Store(x)
}

// block returns the block that holds packet i, counted from 0.
func (x *extent) block(i int) *block {
	b := i / blockLen
	if (b+1)*blockLen > x.n {
		return &x.tail
	}
	return &x.pages[b/pageLen][b%pageLen]
}
