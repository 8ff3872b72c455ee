package rnic

import (
	"encoding/binary"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// handover is the way of frames from the device in whose queue they came in to the one whose queue pair they are for: a ring of bytes,
// written by one goroutine and read by one other. Where it is full, frames stay in the port that they came by (Device.room).
type handover struct {
	buf   []byte // made by the writer, with the first frame
	given uint64 // where the reader goes on; behind what it has lent
	_     [64]byte
	head  atomic.Uint64 // behind what was written
	_     [64]byte
	tail  atomic.Uint64 // behind what was read
	_     [64]byte
}

const (
	handoverBytes = 1 << 20 // a batch of the longest packets
	recordHead    = 16      // length and time
	noRecord      = ^uint64(0)
)

// recordSize is the room of a frame. Records begin at multiples of their head's size, so that there is always room for a head.
func recordSize(frame int) uint64 { return uint64(recordHead+frame+recordHead-1) &^ (recordHead - 1) }

// put writes a frame, and reports whether there was room.
func (h *handover) put(in *port.In) bool {
	head := h.head.Load()
	at, need := head%handoverBytes, recordSize(len(in.Data))
	skip := uint64(0)
	if at+need > handoverBytes { // it would not be in one piece
		skip = handoverBytes - at
	}
	if head+skip+need-h.tail.Load() > handoverBytes {
		return false
	}
	if h.buf == nil {
		h.buf = make([]byte, handoverBytes)
	}
	if skip > 0 {
		binary.NativeEndian.PutUint64(h.buf[at:], noRecord)
		at = 0
	}
	record := h.buf[at : at+need]
	binary.NativeEndian.PutUint64(record, uint64(len(in.Data)))
	binary.NativeEndian.PutUint64(record[8:], uint64(in.Time))
	copy(record[recordHead:], in.Data)
	h.head.Store(head + skip + need)
	return true
}

// take lends frames until giveBack, and returns how many.
func (h *handover) take(in []port.In) (n int) {
	for head := h.head.Load(); n < len(in) && h.given != head; {
		at := h.given % handoverBytes
		size := binary.NativeEndian.Uint64(h.buf[at:])
		if size == noRecord {
			h.given += handoverBytes - at
			continue
		}
		from := at + recordHead
		in[n] = port.In{Data: h.buf[from : from+size : from+size], Time: int64(binary.NativeEndian.Uint64(h.buf[at+8:]))}
		h.given += recordSize(int(size))
		n++
	}
	return n
}

// free is how many frames of a size have room in any case.
func (h *handover) free(frame int) int {
	left := int(handoverBytes - (h.head.Load() - h.tail.Load()))
	return left/int(recordSize(frame)) - 1 // one may not fit in one piece at the end
}

// giveBack ends the lending.
func (h *handover) giveBack() { h.tail.Store(h.given) }

func (h *handover) waiting() bool { return h.head.Load() != h.given }

// ownerOf is the device that has to see a frame: the queue pair's, the first for what no queue pair gets, and for what nobody takes
// the one that has it, which counts it.
func (d *Device) ownerOf(a *arrival) *Device {
	first := d.queues[0]
	switch {
	case a.p.Proto != dissect.ProtoRoCEv2:
		if a.p.Proto != dissect.ProtoRoCEv1 && (a.linkIsOurs() || a.toGroup()) {
			return first
		}
	case !a.p.Has(dissect.LayerBTH):
	case a.p.DestQP == 1:
		return first
	default:
		if q := d.find(a.p.DestQP); q != nil {
			return q.dev
		}
	}
	return d
}

// room is how many frames may be received: all could be another device's. So that nobody waits for anybody for ever, what was handed
// over is taken in any case.
func (d *Device) room() int {
	n := receiveBatch
	for i, to := range d.queues {
		if i != d.queue {
			n = min(n, to.handed[d.queue].free(d.longest))
		}
	}
	return max(n, 0)
}

// handOver gives a frame to another device. There is no room only for one that is longer than the port's own.
func (d *Device) handOver(to *Device, in *port.In) {
	if !to.handed[d.queue].put(in) {
		d.counters.drop(DropHandover)
		return
	}
	d.counters.HandedOver++
	d.roused[to.queue] = true
}

// rouse wakes the devices that were handed something and sleep.
func (d *Device) rouse() {
	for i, handed := range d.roused {
		if handed {
			d.roused[i] = false
			if to := d.queues[i]; to.asleep.Load() {
				to.Wake()
			}
		}
	}
}

// takeHanded takes what others handed over, as far as there is room; it gives back what it took the last time.
func (d *Device) takeHanded(in []port.In) (n int) {
	for i := range d.handed {
		h := &d.handed[(d.queue+i)%len(d.handed)] // its own, which is empty, first
		h.giveBack()
		n += h.take(in[n:])
	}
	return n
}

// isHanded reports whether something was handed over that was not taken.
func (d *Device) isHanded() bool {
	for i := range d.handed {
		if d.handed[i].waiting() {
			return true
		}
	}
	return false
}
