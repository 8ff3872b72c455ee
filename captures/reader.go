package captures

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync/atomic"
	"unsafe"
)

// parser turns the bytes of one file format into frames. It remembers what the
// format makes it remember (interfaces, byte order), and no bytes.
type parser interface {
	// begin reads the file header at the start of buf; need is how many bytes
	// it has to see first, or 0 where it is done.
	begin(c *cursor, buf []byte) (need int, err error)
	// parse reads records from buf into dst until one of them is used up. What
	// it has done is in c at every moment, so that a memory fault loses nothing.
	parse(c *cursor, buf []byte, dst []Frame) error
	// cut says what is missing where the input ends with buf, which holds less
	// than the next record; nil where that is a clean end.
	cut(c *cursor, buf []byte) error
	interfaces() []Interface
}

// cursor is where a parser is.
type cursor struct {
	unit  string // what block counts
	block int    // whole blocks read so far

	// Of one call of parse:
	base int64 // offset in the input of the first byte of the parser's buffer
	used int64 // bytes consumed; may lie behind the buffer when a block is skipped
	n    int   // frames written to dst
	need int   // bytes that the next record needs, from used on; 0: dst is full

	farsighted bool // records ahead are looked at: they lie in a mapping
	sight      byte // what was seen of them
}

// recordsAhead is how far ahead.
const recordsAhead = 8

// lookAhead brings what is probably a later record's header, and its frame's, into the cache while others are parsed, if all are as long
// as the one at the beginning of b. A record's length is known only from its header, so that else each would be waited for in turn.
func (c *cursor) lookAhead(b []byte, length int) {
	if c.farsighted && length < (len(b)-64)/recordsAhead { // which holds back lengths that have no eightfold
		at := recordsAhead * length
		c.sight += b[at] + b[at+64]
	}
}

// damage is an error at a place; the reader adds the file's name.
type damage struct {
	unit      string
	block     int
	offset    int64
	resumable bool
	err       error
}

func (d *damage) Error() string { return d.err.Error() }
func (d *damage) Unwrap() error { return d.err }

// damage places an error at the block that begins here.
func (c *cursor) damage(format string, args ...any) *damage {
	return &damage{unit: c.unit, block: c.block + 1, offset: c.base + c.used, err: fmt.Errorf(format, args...)}
}

// reader is a Source over one input.
type reader struct {
	name         string
	decompressed bool
	mapped       bool
	nowhere      bool // offsets in the input are none in a file that can be read again
	w            window
	p            parser

	c    cursor
	buf  []byte // what the window showed last
	pos  int64  // how much of buf is consumed; may lie behind its end
	base int64  // offset of buf[0] in the input

	pend   error // comes out at the next ReadBatch
	err    error // comes out at each
	closed bool

	done  atomic.Int64 // bytes consumed, for Progress
	total func() int64
	taken *atomic.Int64 // bytes taken from a compressed input; nil for others
}

// begin reads the file header.
func (r *reader) begin() error {
	return Guard(func() error {
		for {
			need, err := r.p.begin(&r.c, r.buf)
			if err != nil {
				return r.fileError(err)
			}
			if need == 0 {
				r.consume()
				return nil
			}
			if err := r.fill(need); err != nil {
				return err
			}
		}
	})
}

// ReadBatch implements Source.
func (r *reader) ReadBatch(dst []Frame) (int, error) {
	switch {
	case r.pend != nil:
		err := r.pend
		r.pend = nil
		return 0, err
	case r.err != nil:
		return 0, r.err
	case len(dst) == 0:
		return 0, nil
	}
	r.w.turn()
	if r.mapped {
		return r.readGuarded(dst)
	}
	return r.read(dst)
}

// readGuarded is read with a fault in the mapping turned into the end of the
// input, behind the frames that were whole.
func (r *reader) readGuarded(dst []Frame) (n int, err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		v := recover()
		if v == nil {
			return
		}
		if faultError(v) == nil {
			panic(v)
		}
		r.consume()
		if r.c.farsighted { // then the fault may have been ahead of frames that are whole
			r.c.farsighted = false
			if n, err = r.intact(dst[:r.c.n]); n == 0 && err == nil {
				n, err = r.readGuarded(dst)
			}
			return
		}
		r.err = r.fileError(r.c.damage("%w", errShrunk))
		n, err = r.intact(dst[:r.c.n])
	}()
	return r.read(dst)
}

func (r *reader) read(dst []Frame) (int, error) {
	for {
		r.c.base, r.c.used, r.c.n, r.c.need = r.base+r.pos, 0, 0, 0
		err := r.p.parse(&r.c, r.rest(), dst)
		need := r.c.need
		if r.nowhere {
			for i := range dst[:r.c.n] {
				dst[i].Offset = 0
			}
		}
		r.consume()
		if err != nil {
			err = r.fileError(err)
		}
		if err != nil || r.c.n > 0 {
			r.pend = err
			return r.intact(dst[:r.c.n])
		}
		if err := r.fill(need); err != nil {
			return 0, err
		}
	}
}

// rest is the part of the buffer that is not consumed.
func (r *reader) rest() []byte {
	if r.pos < int64(len(r.buf)) {
		return r.buf[r.pos:]
	}
	return nil
}

// consume takes over what the parser used.
func (r *reader) consume() {
	r.pos += r.c.used
	r.c.base += r.c.used
	r.c.used = 0
	r.done.Store(r.base + r.pos)
}

// fill makes need bytes visible, or says why there are not as many.
func (r *reader) fill(need int) error {
	buf, err := r.w.fill(r.pos, need)
	r.base += r.pos
	r.buf, r.pos = buf, 0
	if len(buf) >= need {
		return nil
	}
	if !errors.Is(err, io.EOF) {
		return r.readError(err)
	}
	if err := r.p.cut(&r.c, buf); err != nil {
		return r.fileError(err)
	}
	r.err = io.EOF
	return r.err
}

// intact checks that a mapped file still has the bytes just parsed: behind the
// end of a file that shrank, its last page reads as zeros without any fault.
// Frames that are gone are taken back, and an error that those zeros may have
// caused is replaced. Without frames it returns the error that is due.
func (r *reader) intact(frames []Frame) (int, error) {
	n := len(frames)
	if size, ok := r.w.size(); ok {
		end := r.base + min(r.pos, int64(len(r.buf)))
		if r.pend != nil {
			end = r.base + int64(len(r.buf))
		}
		if size < end {
			for n > 0 && r.endOf(&frames[n-1]) > size {
				n--
			}
			r.pend = nil
			r.err = r.fileError(r.c.damage("%w", errShrunk))
		}
	}
	if n > 0 {
		return n, nil
	}
	err := r.pend
	r.pend = nil
	if err == nil {
		err = r.err
	}
	return 0, err
}

// endOf is the offset in the file of a frame's end. A frame without bytes points
// to its record's start (a slice without capacity does not move on), and its
// record header must be there.
func (r *reader) endOf(f *Frame) int64 {
	start := uintptr(unsafe.Pointer(unsafe.SliceData(r.buf)))
	data := uintptr(unsafe.Pointer(unsafe.SliceData(f.Data)))
	length := len(f.Data)
	if length == 0 {
		length = pcapRecordHeader
	}
	return r.base + int64(data-start) + int64(length)
}

// fileError names the file of a parser's error and keeps the error for good,
// unless one can go on behind it.
func (r *reader) fileError(err error) error {
	fe := &FileError{File: r.name, Decompressed: r.decompressed, Err: err}
	var d *damage
	if errors.As(err, &d) {
		fe.Unit, fe.Block, fe.Offset, fe.Resumable, fe.Err = d.unit, d.block, d.offset, d.resumable, d.err
	}
	if !fe.Resumable {
		r.err = fe
	}
	return fe
}

// Interfaces implements Source.
func (r *reader) Interfaces() []Interface {
	all := r.p.interfaces()
	return all[:len(all):len(all)]
}

// Lend implements Lender.
func (r *reader) Lend(n int) { r.w.lend(n) }

// Progress implements Progresser.
func (r *reader) Progress() (done, total int64) {
	if r.taken != nil {
		return r.taken.Load(), r.total()
	}
	return r.done.Load(), r.total()
}

// errClosed is what a closed source answers.
var errClosed = errors.New("captures: the source is closed")

// Close implements Source.
func (r *reader) Close() error {
	if r.closed {
		return nil
	}
	r.closed = true
	r.buf, r.pos, r.pend, r.err = nil, 0, nil, errClosed
	return r.w.close()
}
