package index

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rocescope/rocescope/dissect"
)

// Row is a packet as lists and details show it.
type Row struct {
	Entry
	Packet dissect.Packet
	Data   []byte // its captured bytes, the row's own
}

// Reader reads packets. It is for one goroutine; any number of readers may be at
// work.
type Reader struct {
	x       *Index
	decoder dissect.Decoder

	// The block at hand, entry by entry.
	seg     *segment
	from    uint64 // number of entries[0]
	n       int
	entries [blockLen]Entry
	scan    scanner
	version uint64 // of the connections' numbers in entries

	// A stretch of the file at hand.
	iface  uint16
	at     int64
	buf    []byte
	ahead  int // how much to read at a time
	packet dissect.Packet
}

const (
	nearby   = 64 << 10 // read for somebody who jumps about
	straight = 1 << 20  // and for one who reads on
)

// NewReader makes a reader that checks ICRCs if the capture's reading does.
func (x *Index) NewReader() *Reader {
	r := &Reader{x: x, ahead: nearby}
	r.decoder.CheckICRC = x.o.Engine.CheckICRC
	return r
}

// Entry is what the index knows of a packet: no file is read. It is the reader's
// own, until the next call.
func (r *Reader) Entry(n uint64) (*Entry, error) {
	s := r.x.store.find(n)
	if s == nil {
		if n > r.x.Last() {
			return nil, fmt.Errorf("index: there is no packet %d: the last one so far is %d", n, r.x.Last())
		}
		return nil, &GoneError{n, r.x.First()}
	}
	if v := r.x.aliases.version.Load(); s != r.seg || n < r.from || n >= r.from+uint64(r.n) || v != r.version {
		r.version = v
		r.load(s, n)
	}
	return &r.entries[n-r.from], nil
}

// load decodes the block of a packet.
func (r *Reader) load(s *segment, n uint64) {
	x := s.table.view()
	i := int(n - s.first)
	lo := i - i%blockLen
	r.seg, r.from, r.n = s, s.first+uint64(lo), min(blockLen, x.n-lo)
	r.scan.reset(x.block(i))
	for k := range r.n {
		e := &r.entries[k]
		r.scan.next(e)
		e.Number = r.from + uint64(k)
		if r.x.turns.has(e.Mark.Conn, e.Number) {
			e.Mark.Direction = e.Mark.Direction.Reverse()
		}
		e.Mark.Conn = r.x.aliases.get(e.Mark.Conn)
	}
}

// At reads a packet into row, whose memory is used again.
func (r *Reader) At(n uint64, row *Row) error {
	e, err := r.Entry(n)
	if err != nil {
		return err
	}
	data, err := r.bytes(e)
	if err != nil {
		return err
	}
	row.Entry = *e
	row.Data = append(row.Data[:0], data...)
	r.decode(e, row.Data, &row.Packet)
	return nil
}

func (r *Reader) decode(e *Entry, data []byte, p *dissect.Packet) {
	e.describe(p, r.x)
	var link dissect.LinkType
	if l := r.x.places.list(); int(e.Iface) < len(l) {
		link = l[e.Iface].face.Link
	}
	r.decoder.Decode(link, data, int(e.WireLen), p)
	if u := e.Mark.Upper(); u != dissect.UpperNone {
		p.SetUpper(data, u)
	}
}

// describe fills in what the capture, and not its bytes, says of a packet.
func (e *Entry) describe(p *dissect.Packet, x *Index) {
	p.Number, p.Time, p.Base, p.Prev, p.Iface = e.Number, e.Time, x.base.Load(), e.Prev, e.Iface
	p.NoTime, p.Direction = e.NoTime, uint8(e.Direction)
	p.WireLen, p.CapLen = e.WireLen, e.CapLen
}

// Window reads up to n packets from one on, into dst, whose memory is used again.
// Packets that cannot be had end it, with the error if they are the first.
func (r *Reader) Window(from uint64, n int, dst []Row) ([]Row, error) {
	dst = dst[:0]
	for i := range n {
		number := from + uint64(i)
		if number > r.x.Last() {
			break
		}
		if len(dst) < cap(dst) {
			dst = dst[:len(dst)+1]
		} else {
			dst = append(dst, Row{})
		}
		if err := r.At(number, &dst[len(dst)-1]); err != nil {
			dst = dst[:len(dst)-1]
			if i == 0 {
				return dst, err
			}
			break
		}
	}
	return dst, nil
}

// bytes returns the bytes of the packet that Entry returned last. They are the
// reader's own until the next call.
func (r *Reader) bytes(e *Entry) ([]byte, error) {
	if r.seg.live == nil {
		return r.fromFile(e)
	}
	if cap(r.buf) < int(e.CapLen) {
		r.buf = make([]byte, e.CapLen)
	}
	r.buf = r.buf[:e.CapLen]
	if err := r.seg.live.read(r.buf, e.Offset); err != nil {
		return nil, fmt.Errorf("index: packet %d cannot be read back from the spool: %w", e.Number, err)
	}
	if r.x.store.find(e.Number) != r.seg {
		return nil, &GoneError{e.Number, r.x.First()} // meanwhile, and what was read may be another's
	}
	return r.buf, nil
}

// fromFile reads a packet's bytes where they lie.
func (r *Reader) fromFile(e *Entry) ([]byte, error) {
	if e.Iface != r.iface || e.Offset < r.at || e.Offset+int64(e.CapLen) > r.at+int64(len(r.buf)) {
		f, err := r.x.places.file(e.Iface)
		if err != nil {
			return nil, err
		}
		want := max(r.ahead, int(e.CapLen))
		if cap(r.buf) < want {
			r.buf = make([]byte, want)
		}
		r.buf = r.buf[:want]
		n, err := f.ReadAt(r.buf, e.Offset)
		r.buf, r.iface, r.at = r.buf[:n], e.Iface, e.Offset
		if n < int(e.CapLen) {
			r.buf = r.buf[:0]
			if err == nil || errors.Is(err, io.EOF) {
				return nil, fmt.Errorf("index: packet %d is not in %s any more: the file was cut short meanwhile", e.Number, f.Name())
			}
			return nil, fmt.Errorf("index: packet %d: %w", e.Number, err)
		}
	}
	lo := int(e.Offset - r.at)
	return r.buf[lo : lo+int(e.CapLen) : lo+int(e.CapLen)], nil
}

// Each calls fn with what the index knows of each packet from one on, until fn
// returns false, the context ends, or there are no more for now. No file is read.
// What fn gets is the reader's own.
func (r *Reader) Each(ctx context.Context, from uint64, fn func(*Entry) bool) error {
	for n := max(from, r.x.First()); n <= r.x.Last(); n++ {
		if n%blockLen == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		e, err := r.Entry(n)
		if gone := (*GoneError)(nil); errors.As(err, &gone) {
			n = max(n, r.x.First()-1)
			continue
		}
		if err != nil {
			return err
		}
		if !fn(e) {
			return nil
		}
	}
	return nil
}
