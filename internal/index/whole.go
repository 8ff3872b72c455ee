package index

import (
	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
)

// segment is consecutive packets.
type segment struct {
	first uint64
	table table
	live  *held // the bytes of a live capture's
}

// whole is the store of a capture whose bytes lie in files: one segment.
type whole struct{ seg segment }

func newWhole() *whole { return &whole{seg: segment{first: 1}} }

func (w *whole) add(b *engine.Batch) error {
	var e Entry
	for i := range b.Packets {
		e.of(b, i)
		e.Offset = b.Frames[i].Offset
		w.seg.table.append(&e)
	}
	w.seg.table.publish()
	return nil
}

// of takes over all that a batch says of a packet, but where its bytes lie.
func (e *Entry) of(b *engine.Batch, i int) {
	p := &b.Packets[i]
	e.Time, e.Prev, e.WireLen, e.CapLen = p.Time, p.Prev, p.WireLen, p.CapLen
	e.Iface, e.NoTime, e.Direction, e.Mark = p.Iface, p.NoTime, captures.Direction(p.Direction), b.Marks[i]
}

func (w *whole) bounds() (first, last uint64) { return 1, uint64(w.seg.table.view().n) }

func (w *whole) find(n uint64) *segment {
	if n == 0 || n > uint64(w.seg.table.view().n) {
		return nil
	}
	return &w.seg
}

func (w *whole) bytes() (int64, int64) { return w.seg.table.view().bytes, 0 }
