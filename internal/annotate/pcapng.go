package annotate

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// Block types of pcapng (draft-ietf-opsawg-pcapng, section 11.1) that matter
// here, and the lengths of the fixed parts of packet blocks with their header.
const (
	blockSHB = 0x0a0d0d0a
	blockOPB = 0x00000002 // obsolete Packet Block
	blockSPB = 0x00000003
	blockEPB = 0x00000006

	magicBig  = 0x1a2b3c4d
	fixedEPB  = 28
	fixedSPB  = 12
	optEnd    = 0
	optRemark = 1
	minBlock  = 12
	maxBlock  = 64 << 20
	maxRemark = 1<<16 - 1
)

// copier copies a pcapng file.
type copier struct {
	from  *bufio.Reader
	to    io.Writer
	order binary.ByteOrder
	buf   []byte
	out   []byte
	frame uint64
	known bool // the section is of a version whose blocks are known
	made  int  // comments written
}

// CopyPcapng copies a pcapng file and puts comments on its packets; it returns
// how many. A packet in a block that has no room for comments (a Simple Packet
// Block) gets one that has, and with it the time 0 in place of none.
func CopyPcapng(to io.Writer, from io.Reader, c *Comments) (comments int, err error) {
	x := &copier{from: bufio.NewReaderSize(from, 1<<20), to: to}
	for {
		err := x.block(c)
		if errors.Is(err, io.EOF) {
			return x.made, nil
		}
		if err != nil {
			return x.made, err
		}
	}
}

// block copies one block; io.EOF at the end.
func (x *copier) block(c *Comments) error {
	head, err := x.from.Peek(minBlock)
	if err != nil {
		if errors.Is(err, io.EOF) && len(head) == 0 {
			return io.EOF
		}
		return cutOff(err)
	}
	if binary.BigEndian.Uint32(head) == blockSHB {
		x.order = binary.LittleEndian
		if binary.BigEndian.Uint32(head[8:]) == magicBig {
			x.order = binary.BigEndian
		}
	}
	if x.order == nil {
		return errors.New("the file does not begin with a Section Header Block")
	}
	typ, length := x.order.Uint32(head), x.order.Uint32(head[4:])
	if length < minBlock || length%4 != 0 {
		return fmt.Errorf("a block of type %#x says that it is %d bytes long", typ, length)
	}
	packet := x.known && (typ == blockEPB || typ == blockOPB || typ == blockSPB)
	if !packet && typ != blockSHB {
		if _, err := io.CopyN(x.to, x.from, int64(length)); err != nil {
			return cutOff(err)
		}
		return nil
	}
	if length > maxBlock {
		return fmt.Errorf("a block of type %#x says that it is %d bytes long", typ, length)
	}
	if cap(x.buf) < int(length) {
		x.buf = make([]byte, length)
	}
	x.buf = x.buf[:length]
	if _, err := io.ReadFull(x.from, x.buf); err != nil {
		return cutOff(err)
	}
	out := x.buf
	if typ == blockSHB {
		x.known = length >= 28 && x.order.Uint16(x.buf[12:]) == 1
	} else {
		x.frame++
		if texts := c.Of(x.frame); len(texts) > 0 {
			if out, err = x.comment(typ, texts); err != nil {
				return err
			}
		}
	}
	_, err = x.to.Write(out)
	return err
}

func cutOff(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// comment makes the packet block at hand anew, with comments in front of its
// options.
func (x *copier) comment(typ uint32, texts []string) ([]byte, error) {
	b := x.buf
	fixed := fixedEPB
	out := x.out[:0]
	if typ == blockSPB {
		if len(b) < fixedSPB+4 {
			return nil, fmt.Errorf("packet %d is in a Simple Packet Block that is too short", x.frame)
		}
		captured := min(x.order.Uint32(b[8:]), uint32(len(b)-fixedSPB-4))
		head := [...]uint32{blockEPB, 0, 0, 0, 0, captured, x.order.Uint32(b[8:])}
		for _, v := range head {
			out = x.put32(out, v)
		}
		out = append(out, b[fixedSPB:len(b)-4]...)
	} else {
		if len(b) < fixed+4 {
			return nil, fmt.Errorf("packet %d is in a block that is too short", x.frame)
		}
		captured := int64(x.order.Uint32(b[20:]))
		end := int64(fixed) + (captured+3)&^3
		if end > int64(len(b)-4) {
			return nil, fmt.Errorf("packet %d says that it is longer than its block", x.frame)
		}
		out = append(out, b[:end]...)
		fixed = int(end)
	}
	for _, t := range texts {
		t = t[:min(len(t), maxRemark)]
		out = x.put16(x.put16(out, optRemark), uint16(len(t)))
		out = append(out, t...)
		for n := len(t); n%4 != 0; n++ {
			out = append(out, 0)
		}
		x.made++
	}
	if rest := b[fixed : len(b)-4]; typ != blockSPB && len(rest) > 0 {
		out = append(out, rest...)
	} else {
		out = x.put16(x.put16(out, optEnd), 0)
	}
	out = x.put32(out, uint32(len(out)+4))
	x.order.PutUint32(out[4:], uint32(len(out)))
	x.out = out
	return out, nil
}

func (x *copier) put16(b []byte, v uint16) []byte {
	b = append(b, 0, 0)
	x.order.PutUint16(b[len(b)-2:], v)
	return b
}

func (x *copier) put32(b []byte, v uint32) []byte {
	b = append(b, 0, 0, 0, 0)
	x.order.PutUint32(b[len(b)-4:], v)
	return b
}
