package index

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// ExportOptions say how packets are written.
type ExportOptions struct {
	Overwrite bool                    // a file that is there
	Comment   func(n uint64) []string // on a packet; nil is none
	// Mask is what to write in place of a packet's bytes, as many of them; nil writes them as they are.
	Mask    func(p *dissect.Packet, frame []byte) []byte
	Section captures.WriterOptions // what the file says of itself; its interfaces are the capture's
}

// Export writes packets to a pcapng file: the bytes, times, lengths and interfaces
// that they have in the capture. It returns how many are in the file, also where
// it ends early.
func (x *Index) Export(ctx context.Context, path string, frames iter.Seq[uint64], o ExportOptions) (n uint64, err error) {
	if err := x.notOurs(path); err != nil {
		return 0, err
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.Overwrite {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return 0, fmt.Errorf("%s is there already: %w", path, fs.ErrExist)
	}
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	return x.Write(ctx, f, frames, o)
}

// notOurs refuses to write to a file that the packets are read from.
func (x *Index) notOurs(path string) error {
	to, err := os.Stat(path)
	if err != nil {
		return nil // it is not there
	}
	for _, face := range x.places.faces() {
		if from, err := os.Stat(face.File); err == nil && os.SameFile(from, to) {
			return fmt.Errorf("%s is the capture that is being looked at: choose another name", path)
		}
	}
	return nil
}

// Write is Export to whatever can be written.
func (x *Index) Write(ctx context.Context, to io.Writer, frames iter.Seq[uint64], o ExportOptions) (n uint64, err error) {
	o.Section.Interfaces = x.places.faces()
	w := captures.NewWriter(to, o.Section)
	r := x.NewReader()
	r.ahead = straight
	for number := range frames {
		if number%64 == 0 && ctx.Err() != nil {
			err = context.Cause(ctx)
			break
		}
		var e *Entry
		if e, err = r.Entry(number); err != nil {
			break
		}
		var data []byte
		if data, err = r.bytes(e); err != nil {
			break
		}
		if o.Mask != nil {
			r.decode(e, data, &r.packet)
			data = o.Mask(&r.packet, data)
		}
		f := captures.Frame{Time: e.Time, HasTime: !e.NoTime, Data: data, WireLen: int(e.WireLen), Iface: int(e.Iface), Direction: e.Direction}
		for i := len(o.Section.Interfaces); i <= f.Iface; i++ { // described meanwhile
			face := x.places.faces()[i]
			o.Section.Interfaces = append(o.Section.Interfaces, face)
			w.AddInterface(face)
		}
		var comments []string
		if o.Comment != nil {
			comments = o.Comment(number)
		}
		if err = w.Write(&f, comments...); err != nil {
			break
		}
	}
	if gone := (*GoneError)(nil); errors.As(err, &gone) {
		err = fmt.Errorf("the rest was not written: %w", err)
	}
	err = errors.Join(err, w.Flush())
	return w.Written(), err
}
