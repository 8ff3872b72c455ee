package port

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// File writes frames to a pcapng file instead of sending them. It needs no privilege and receives nothing. A file that ends
// early, because the disk is full or the process was killed, is readable to its last whole block.
type File struct {
	info   Info
	clock  func() int64
	where  string
	rooms  []byte
	free   []uint32
	frame  captures.Frame
	w      *captures.Writer
	close  func() error
	counts counts
	closed atomic.Bool
}

// OpenFile makes the file that the options name, "-" being standard output. A regular file that is there already is left alone
// unless Overwrite is set.
//
// Options.Clock is asked once for each frame, so that the times in the file are those at which an asked rate would have sent
// the frames. Options.Interface is what the file says of where they were sent.
func OpenFile(o Options) (*File, error) {
	if o.File == "-" {
		return NewFile(os.Stdout, o), nil
	}
	if o.File == "" {
		return nil, errors.New("port: pcap: no file was named")
	}
	flags := os.O_WRONLY | os.O_CREATE
	if st, err := os.Stat(o.File); err == nil && st.Mode().IsRegular() {
		if !o.Overwrite {
			return nil, failed(o.File, "write frames", os.ErrExist, "name another file, or overwrite this one on purpose")
		}
		flags |= os.O_TRUNC
	}
	to, err := os.OpenFile(o.File, flags, 0o644)
	if err != nil {
		return nil, fmt.Errorf("port: pcap: %w", err)
	}
	f := NewFile(to, o)
	f.close = to.Close
	return f, nil
}

// NewFile writes to w.
func NewFile(w io.Writer, o Options) *File {
	o.complete()
	if o.MaxFrame <= 0 {
		o.MaxFrame = DefaultMaxFrame
	}
	f := &File{
		info:  Info{Via: ViaFile, MaxFrame: o.MaxFrame, Slots: o.Slots, Detail: "pcapng to " + o.File},
		clock: o.Clock, where: o.File, rooms: make([]byte, o.Slots*o.MaxFrame),
		close: func() error { return nil },
	}
	if o.File == "-" || o.File == "" {
		f.where = "standard output"
		f.info.Detail = "pcapng"
	}
	f.w = captures.NewWriter(w, captures.WriterOptions{
		Application: "rocescope",
		Interfaces:  []captures.Interface{{Name: o.Interface, Link: dissect.LinkEthernet}},
	})
	f.frame = captures.Frame{Link: dissect.LinkEthernet, HasTime: true}
	for slot := range o.Slots {
		f.free = append(f.free, uint32(o.Slots-1-slot))
	}
	return f
}

// Info implements Port.
func (f *File) Info() Info { return f.info }

// Take implements Port.
func (f *File) Take(slots []uint32) int {
	n := min(len(slots), len(f.free))
	copy(slots[:n], f.free[len(f.free)-n:])
	f.free = f.free[:len(f.free)-n]
	return n
}

// Room implements Port.
func (f *File) Room(slot uint32) []byte {
	at, n := int(slot)*f.info.MaxFrame, f.info.MaxFrame
	return f.rooms[at : at+n : at+n]
}

// Send implements Port.
func (f *File) Send(frames []Out) error {
	if f.closed.Load() {
		return failed(f.where, "write frames", ErrClosed, "")
	}
	if err := f.info.check(f, frames); err != nil {
		return err
	}
	f.counts.hand(len(frames), lengths(frames))
	for _, o := range frames {
		f.frame.Time, f.frame.Data, f.frame.WireLen = f.clock(), f.Room(o.Slot)[:o.Len], int(o.Len)
		if err := f.w.Write(&f.frame); err != nil {
			return f.failed(err)
		}
		f.free = append(f.free, o.Slot)
	}
	return nil
}

// failed is the end of it: what was not written will not be.
func (f *File) failed(err error) error {
	f.counts.sendLost.Store(f.counts.handed.Load() - f.w.Written())
	return failed(f.where, "write frames", err, "what was written before is readable")
}

// Flush implements Port.
func (f *File) Flush() error {
	if err := f.w.Flush(); err != nil {
		return f.failed(err)
	}
	return nil
}

// Receive implements Port. There is never anything.
func (f *File) Receive([]In) (int, error) { return 0, nil }

// Wait implements Port. Nothing will come, so that it does not wait either.
func (f *File) Wait(time.Duration) error { return nil }

// Stats implements Port.
func (f *File) Stats() Stats { return f.counts.stats() }

// Close implements Port.
func (f *File) Close() error {
	if f.closed.Swap(true) {
		return nil
	}
	return errors.Join(f.Flush(), f.close())
}
