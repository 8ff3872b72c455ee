package captures

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"

	"github.com/rocescope/rocescope/dissect"
)

// Block types (draft-ietf-opsawg-pcapng, section 11.1).
const (
	blockIDB = 0x00000001 // Interface Description Block, 4.2
	blockOPB = 0x00000002 // Packet Block, obsolete, appendix A
	blockSPB = 0x00000003 // Simple Packet Block, 4.4
	blockNRB = 0x00000004 // Name Resolution Block, 4.5
	blockISB = 0x00000005 // Interface Statistics Block, 4.6
	blockEPB = 0x00000006 // Enhanced Packet Block, 4.3
	blockSHB = 0x0a0d0d0a // Section Header Block, 4.1; the same in both byte orders
)

// byteOrderMagic follows an SHB's length.
const (
	byteOrderMagic        = 0x1a2b3c4d
	byteOrderMagicSwapped = 0x4d3c2b1a
)

// Lengths of the fixed parts, with the 8 bytes of block header and the 4 bytes
// of trailing length.
const (
	blockMin = 12
	minSHB   = 28
	minIDB   = 20
	minOPB   = 32
	minSPB   = 16
	minISB   = 24
	minEPB   = 32
)

// maxInterfaces bounds what a file of nothing but interfaces can make us keep.
const maxInterfaces = 1 << 16

// pcapngParser reads pcapng files.
type pcapngParser struct {
	file  string
	big   bool      // this section is big-endian
	skip  bool      // this section has a version that we do not know
	first int       // index in all of this section's first interface
	ifs   []ngIface // of this section
	all   []Interface
	shb   shbInfo

	// A block that is skipped and not wholly visible: its trailing length is
	// checked when one gets there.
	trailer      uint32
	trailerType  uint32
	trailerStart int64 // where the block began
}

// ngIface is what reading a packet needs to know of its interface.
type ngIface struct {
	clock clock
	snap  uint32 // 0: no limit
	link  dissect.LinkType
}

// shbInfo is what a section says of all its interfaces.
type shbInfo struct{ hardware, os, application string }

func newPcapngParser(file string) *pcapngParser { return &pcapngParser{file: file} }

func (p *pcapngParser) interfaces() []Interface { return p.all }

func (p *pcapngParser) u32(b []byte) uint32 {
	v := binary.LittleEndian.Uint32(b)
	if p.big {
		v = bits.ReverseBytes32(v)
	}
	return v
}

func (p *pcapngParser) u16(b []byte) uint16 {
	v := binary.LittleEndian.Uint16(b)
	if p.big {
		v = bits.ReverseBytes16(v)
	}
	return v
}

// stamp reads a time stamp: high half first in either byte order.
func (p *pcapngParser) stamp(b []byte) uint64 {
	return uint64(p.u32(b))<<32 | uint64(p.u32(b[4:]))
}

// begin reads the first section header.
func (p *pcapngParser) begin(c *cursor, buf []byte) (int, error) {
	c.unit = "block"
	if len(buf) < blockMin {
		return blockMin, nil
	}
	total, err := p.blockLength(c, buf)
	if err != nil {
		return 0, err
	}
	if len(buf) < total {
		return total, nil
	}
	if err := p.framedSection(c, buf[:total]); err != nil {
		return 0, err
	}
	c.used = int64(total)
	c.block++
	return 0, nil
}

// blockLength reads the header of the block at b (at least blockMin bytes) and
// returns its length; it takes over the byte order of a section header.
func (p *pcapngParser) blockLength(c *cursor, b []byte) (int, error) {
	typ := p.u32(b)
	if typ == blockSHB {
		switch magic := binary.BigEndian.Uint32(b[8:]); magic {
		case byteOrderMagic:
			p.big = true
		case byteOrderMagicSwapped:
			p.big = false
		default:
			return 0, c.damage("%w: Section Header Block has byte-order magic %#08x instead of 0x1a2b3c4d in either order", ErrMalformed, magic)
		}
	}
	total := p.u32(b[4:])
	switch {
	case total < blockMin:
		return 0, c.damage("%w: %s says it is %d bytes long, the shortest block has %d", ErrMalformed, blockName(typ), total, blockMin)
	case total%4 != 0:
		return 0, c.damage("%w: %s says it is %d bytes long, which is no multiple of 4", ErrMalformed, blockName(typ), total)
	case total > maxBlock && (whole(typ) && !p.skip || typ == blockSHB):
		return 0, c.damage("%w: %s says it is %d bytes long, the most that is sane is %d", ErrMalformed, blockName(typ), total, maxBlock)
	case uint64(total) > math.MaxInt:
		return 0, c.damage("%w: %s of %d bytes on a 32-bit machine", ErrUnsupported, blockName(typ), total)
	}
	return int(total), nil
}

// whole says whether blocks of a type are read, not skipped.
func whole(typ uint32) bool {
	switch typ {
	case blockSHB, blockIDB, blockOPB, blockSPB, blockISB, blockEPB:
		return true
	}
	return false
}

// parse reads blocks.
func (p *pcapngParser) parse(c *cursor, buf []byte, dst []Frame) error {
	at, n := 0, 0
	if p.trailer != 0 {
		if len(buf) < 4 {
			c.need = 4
			return nil
		}
		if err := p.endSkip(c, buf); err != nil {
			return err
		}
		at = 4
	}
	for n < len(dst) {
		b := buf[at:]
		if len(b) < blockMin {
			c.need = blockMin
			return nil
		}
		total, err := p.blockLength(c, b)
		if err != nil {
			return err
		}
		c.lookAhead(b, total)
		typ := p.u32(b)
		if len(b) < total {
			if p.skip && typ != blockSHB || !whole(typ) {
				p.beginSkip(c, typ, total)
				c.need = 4
				return nil
			}
			c.need = total
			return nil
		}
		b = b[:total]
		if typ != blockSHB && p.u32(b[total-4:]) != uint32(total) {
			return p.mismatch(c, b)
		}
		if p.skip && typ != blockSHB {
			typ = blockNRB // anything that is skipped
		}
		switch typ {
		case blockEPB:
			err = p.enhanced(c, b, &dst[n])
			if err == nil {
				n++
			}
		case blockSPB:
			err = p.simple(c, b, &dst[n])
			if err == nil {
				n++
			}
		case blockOPB:
			err = p.obsolete(c, b, &dst[n])
			if err == nil {
				n++
			}
		case blockSHB:
			err = p.framedSection(c, b)
		case blockIDB:
			err = p.describe(c, b)
		case blockISB:
			err = p.statistics(c, b)
		}
		if err != nil {
			if d, ok := err.(*damage); ok && d.resumable {
				c.used = int64(at + total)
				c.block++
			}
			return err
		}
		at += total
		c.used, c.n = int64(at), n
		c.block++
	}
	return nil
}

// framedSection reads a Section Header Block and checks its trailing length
// last: an option that runs over it is the better explanation.
func (p *pcapngParser) framedSection(c *cursor, b []byte) error {
	err := p.section(c, b)
	if p.u32(b[len(b)-4:]) == uint32(len(b)) {
		return err
	}
	if d, ok := err.(*damage); ok {
		d.resumable = false
		return d
	}
	return p.mismatch(c, b)
}

// mismatch is the error for two lengths that differ. Which of them is right
// nobody can say, so that is the end.
func (p *pcapngParser) mismatch(c *cursor, b []byte) error {
	return c.damage("%w: %s says %d bytes at its start and %d at its end", ErrMalformed, blockName(p.u32(b)), len(b), p.u32(b[len(b)-4:]))
}

// beginSkip passes over all but the trailing length of the block at hand.
func (p *pcapngParser) beginSkip(c *cursor, typ uint32, total int) {
	p.trailer, p.trailerType, p.trailerStart = uint32(total), typ, c.base+c.used
	c.used += int64(total) - 4
}

// endSkip checks the trailing length of a block that was passed over.
func (p *pcapngParser) endSkip(c *cursor, buf []byte) error {
	if got := p.u32(buf); got != p.trailer {
		d := c.damage("%w: %s says %d bytes at its start and %d at its end", ErrMalformed, blockName(p.trailerType), p.trailer, got)
		d.offset = p.trailerStart
		return d
	}
	p.trailer = 0
	c.used = 4
	c.block++
	return nil
}

// enhanced reads an Enhanced Packet Block.
func (p *pcapngParser) enhanced(c *cursor, b []byte, f *Frame) error {
	if len(b) < minEPB {
		return p.short(c, "Enhanced Packet Block", b, minEPB)
	}
	id := p.u32(b[8:])
	if uint64(id) >= uint64(len(p.ifs)) {
		return p.noInterface(c, "Enhanced Packet Block", id)
	}
	ifc := &p.ifs[id]
	captured := p.u32(b[20:])
	room := uint32(len(b) - minEPB)
	if captured > room {
		return p.overflow(c, "Enhanced Packet Block", captured, room)
	}
	end := 28 + captured
	f.Direction = InOut
	if room-captured >= 4 {
		if err := p.packetOptions(c, b[28+(captured+3)&^3:len(b)-4], int(id), f); err != nil {
			return err
		}
	}
	f.Time = ifc.clock.nanos(p.stamp(b[12:]))
	f.Data = b[28:end:end]
	f.Offset = c.base + c.used + 28
	f.WireLen = int(p.u32(b[24:]))
	f.Iface = p.first + int(id)
	f.Link = ifc.link
	f.HasTime = ifc.clock.units != 0
	return nil
}

// simple reads a Simple Packet Block: interface 0, no time; its captured length
// is nowhere written, but follows from the snap length.
func (p *pcapngParser) simple(c *cursor, b []byte, f *Frame) error {
	if len(b) < minSPB {
		return p.short(c, "Simple Packet Block", b, minSPB)
	}
	if len(p.ifs) == 0 {
		return p.noInterface(c, "Simple Packet Block", 0)
	}
	ifc := &p.ifs[0]
	wire := p.u32(b[8:])
	captured := min(wire, uint32(len(b)-minSPB))
	if ifc.snap != 0 {
		captured = min(captured, ifc.snap)
	}
	f.Time = 0
	f.Data = b[12 : 12+captured : 12+captured]
	f.Offset = c.base + c.used + 12
	f.WireLen = int(wire)
	f.Iface = p.first
	f.Link = ifc.link
	f.HasTime = false
	f.Direction = InOut
	return nil
}

// obsolete reads a Packet Block, which Enhanced Packet Blocks replaced.
func (p *pcapngParser) obsolete(c *cursor, b []byte, f *Frame) error {
	if len(b) < minOPB {
		return p.short(c, "Packet Block", b, minOPB)
	}
	id := uint32(p.u16(b[8:]))
	if uint64(id) >= uint64(len(p.ifs)) {
		return p.noInterface(c, "Packet Block", id)
	}
	ifc := &p.ifs[id]
	captured := p.u32(b[20:])
	if room := uint32(len(b) - minOPB); captured > room {
		return p.overflow(c, "Packet Block", captured, room)
	}
	if drops := p.u16(b[10:]); drops != 0xffff { // which means unknown
		p.all[p.first+int(id)].Stats.PacketDropped += int64(drops)
	}
	end := 28 + captured
	f.Time = ifc.clock.nanos(p.stamp(b[12:]))
	f.Data = b[28:end:end]
	f.Offset = c.base + c.used + 28
	f.WireLen = int(p.u32(b[24:]))
	f.Iface = p.first + int(id)
	f.Link = ifc.link
	f.HasTime = ifc.clock.units != 0
	f.Direction = InOut // its flags were never defined well enough to say
	return nil
}

// cut implements parser.
func (p *pcapngParser) cut(c *cursor, buf []byte) error {
	switch {
	case p.trailer != 0:
		d := c.damage("%w: header of %s says %d bytes, the file ends before", ErrTruncated, blockName(p.trailerType), p.trailer)
		d.offset = p.trailerStart
		return d
	case len(buf) == 0 && c.base > 0:
		return nil
	case len(buf) < blockMin:
		return c.damage("%w: the shortest block has %d bytes, the file has %d more", ErrTruncated, blockMin, len(buf))
	}
	return c.damage("%w: header of %s says %d bytes, the file has %d more", ErrTruncated, blockName(p.u32(buf)), p.u32(buf[4:]), len(buf))
}

// resume marks an error behind which reading can go on: the block's own length
// is sound.
func (c *cursor) resume(format string, args ...any) *damage {
	d := c.damage(format, args...)
	d.resumable = true
	return d
}

func (p *pcapngParser) short(c *cursor, name string, b []byte, least int) error {
	return c.resume("%w: %s of %d bytes, it has at least %d", ErrMalformed, name, len(b), least)
}

func (p *pcapngParser) overflow(c *cursor, name string, captured, room uint32) error {
	return c.resume("%w: %s says %d captured bytes, its block has room for %d", ErrMalformed, name, captured, room)
}

func (p *pcapngParser) noInterface(c *cursor, name string, id uint32) error {
	if len(p.ifs) == 0 {
		return c.resume("%w: %s refers to interface %d before any was described in this section", ErrMalformed, name, id)
	}
	return c.resume("%w: %s refers to interface %d, this section has described %d (from 0)", ErrMalformed, name, id, len(p.ifs))
}

// blockName is what the specification calls a block type.
func blockName(typ uint32) string {
	switch typ {
	case blockIDB:
		return "Interface Description Block"
	case blockOPB:
		return "Packet Block"
	case blockSPB:
		return "Simple Packet Block"
	case blockNRB:
		return "Name Resolution Block"
	case blockISB:
		return "Interface Statistics Block"
	case blockEPB:
		return "Enhanced Packet Block"
	case blockSHB:
		return "Section Header Block"
	}
	return fmt.Sprintf("block of type %#x", typ)
}
