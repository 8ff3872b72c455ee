package captures

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// stdinName is what "-" is called in messages.
const stdinName = "standard input"

// Option changes how Open reads.
type Option func(*openOptions)

type openOptions struct {
	follow context.Context
	way    way
	span   int // bytes to map at a time; 0 = mapWindow
}

// way is how regular files are read.
type way uint8

const (
	cheapest  way = iota // the one that takes less processor time on this machine
	byMapping            // a sliding mapping
	byReading            // read(2)
)

// Follow reads a file that is still growing: at its end ReadBatch waits for
// more until ctx is done, and reports the end only then. Open waits for the
// file's header in the same way. A file that gets shorter is an error, as
// always. It makes no difference to pipes.
func Follow(ctx context.Context) Option { return func(o *openOptions) { o.follow = ctx } }

// Unmapped reads by read(2) whatever the file: no memory fault can come of it,
// so that Guard is not needed.
func Unmapped() Option { return func(o *openOptions) { o.way = byReading } }

// Mapped maps regular uncompressed files, whether that pays or not.
func Mapped() Option { return func(o *openOptions) { o.way = byMapping } }

// probeFrom is the size of a file from which it is tried out whether mapping
// pays; smaller ones are read.
const probeFrom = 64 << 20

// Open opens a capture file; path "-" is standard input. What the file is, its
// content decides: pcap or pcapng, plain or compressed by gzip or zstd.
//
// Open reads the file's header, and waits for it where path is a pipe. It fails
// with a *FileError where that is not a capture (ErrFormat), of a version that
// is not known (ErrUnsupported), damaged or cut off.
func Open(path string, opts ...Option) (Source, error) {
	var o openOptions
	for _, opt := range opts {
		opt(&o)
	}
	r, err := open(path, &o)
	if err != nil {
		return nil, err
	}
	return r, nil
}

func open(path string, o *openOptions) (*reader, error) {
	f, r := os.Stdin, &reader{name: stdinName}
	if path != "-" {
		var err error
		if f, err = os.Open(path); err != nil {
			return nil, fmt.Errorf("captures: %w", err)
		}
		r.name = path
	}
	if err := r.attach(f, o); err != nil {
		closeInput(f)
		return nil, err
	}
	if err := r.start(); err != nil {
		r.Close()
		return nil, err
	}
	return r, nil
}

// closeInput closes f where it is ours.
func closeInput(f *os.File) error {
	if f == os.Stdin {
		return nil
	}
	return f.Close()
}

// attach puts a window over f.
func (r *reader) attach(f *os.File, o *openOptions) error {
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("captures: %w", err)
	}
	if st.IsDir() {
		return &FileError{File: r.name, Err: fmt.Errorf("%w: it is a directory; name the files in it", ErrFormat)}
	}
	regular := st.Mode().IsRegular()
	r.nowhere = !regular || f == os.Stdin
	r.total = func() int64 {
		if st, err := f.Stat(); err == nil && regular {
			return st.Size()
		}
		return 0
	}

	if regular && f != os.Stdin && o.maps(f, st.Size()) {
		span := o.span
		if span == 0 {
			span = mapWindow
		}
		if w, err := newMmapWindow(f, r.name, span); err == nil {
			r.w, r.mapped, r.c.farsighted = w, true, true
			return nil
		}
	}

	var raw io.Reader = f
	switch {
	case !regular:
	case o.follow != nil:
		raw = &tail{f: f, ctx: o.follow}
	case f != os.Stdin: // whose beginning somebody may have read
		raw = &sized{f: f, left: st.Size()}
	}
	count := &counter{r: raw}
	w := newReadWindow(count, func() error { return closeInput(f) })
	head, err := w.fill(0, sniffLen)
	if err != nil && !errors.Is(err, io.EOF) {
		return r.readError(err)
	}
	if sniff(head) == formatCompressed {
		r.decompressed, r.nowhere, r.taken = true, true, &count.n
		z, done, err := decompressor(head, io.MultiReader(bytes.NewReader(bytes.Clone(head)), count), r.total())
		if err != nil {
			return r.readError(err)
		}
		w = newReadWindow(z, func() error { done(); return closeInput(f) })
	}
	r.w = w
	return nil
}

// maps decides whether a regular file is mapped.
func (o *openOptions) maps(f *os.File, size int64) bool {
	if o.follow != nil || o.way == byReading || o.way == cheapest && size < probeFrom {
		return false
	}
	var head [sniffLen]byte
	n, _ := f.ReadAt(head[:], 0)
	return sniff(head[:n]) != formatCompressed && (o.way == byMapping || mappingPays(f))
}

// sized reads a regular file that had left bytes when it was opened: a file that
// has fewer now lost its end.
type sized struct {
	f    *os.File
	left int64
}

func (s *sized) Read(p []byte) (n int, err error) {
	if n = readCached(s.f, p); n == 0 {
		n, err = s.f.Read(p)
	}
	s.left -= int64(n)
	if s.left > 0 && errors.Is(err, io.EOF) {
		err = errShrunk
	}
	return n, err
}

// start finds the format and reads the file header.
func (r *reader) start() error {
	return Guard(func() error {
		head, err := r.w.fill(0, sniffLen)
		if err != nil && !errors.Is(err, io.EOF) {
			return r.readError(err)
		}
		switch sniff(head) {
		case formatPcap:
			r.p = newPcapParser(r.name)
		case formatPcapng:
			r.p = newPcapngParser(r.name)
		case formatShort:
			return r.fileError(headerDamage(0, "%w: the file has %d bytes", ErrTruncated, len(head)))
		default:
			return r.fileError(unknownFormat(head))
		}
		r.buf = head
		return r.begin()
	})
}

// counter counts what is read of a compressed input, for Progress.
type counter struct {
	r io.Reader
	n atomic.Int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}

// magic is the first four bytes as a number, 0 where there are fewer.
func magic(head []byte) uint32 {
	if len(head) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(head)
}
