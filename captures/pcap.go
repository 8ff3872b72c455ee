package captures

import (
	"encoding/binary"
	"fmt"
	"math/bits"

	"github.com/rocescope/rocescope/dissect"
)

// Magic numbers of pcap files as their first four bytes read big-endian
// (draft-ietf-opsawg-pcap, section 4); the swapped ones mean a little-endian file.
const (
	magicMicro           = 0xa1b2c3d4
	magicMicroSwapped    = 0xd4c3b2a1
	magicNano            = 0xa1b23c4d
	magicNanoSwapped     = 0x4d3cb2a1
	magicModified        = 0xa1b2cd34 // Alexey Kuznetsov's patched libpcap: longer record headers
	magicModifiedSwapped = 0x34cdb2a1
)

const (
	pcapFileHeader     = 24
	pcapRecordHeader   = 16
	pcapModifiedHeader = 24 // adds interface index, protocol and packet type
	// pcapMaxCaptured is how long a record may be although its file's snap
	// length is shorter: libpcap's MAXIMUM_SNAPLEN. A snap length above that is
	// believed up to maxBlock.
	pcapMaxCaptured = 256 << 10
)

// pcapParser reads pcap files.
type pcapParser struct {
	big     bool   // the file is big-endian
	header  int    // length of a record header
	scale   uint64 // nanoseconds in a unit of the record's fraction
	lengths lengthOrder
	max     uint32 // captured bytes that are believed
	link    dissect.LinkType
	iface   []Interface
}

// lengthOrder is which of a record's two lengths comes first: old writers
// disagreed (libpcap's sf-pcap.c tells the story).
type lengthOrder uint8

const (
	capturedFirst lengthOrder = iota // since version 2.4
	wireFirst                        // until version 2.2
	smallerFirst                     // version 2.3: both were written; captured is never the larger
)

func newPcapParser(file string) *pcapParser {
	return &pcapParser{iface: []Interface{{File: file, FCSLen: -1, Stats: noStats}}}
}

func isPcapMagic(m uint32) bool {
	switch m {
	case magicMicro, magicMicroSwapped, magicNano, magicNanoSwapped, magicModified, magicModifiedSwapped:
		return true
	}
	return false
}

func (p *pcapParser) interfaces() []Interface { return p.iface }

// begin reads the file header.
func (p *pcapParser) begin(c *cursor, buf []byte) (int, error) {
	c.unit = "record"
	if len(buf) < pcapFileHeader {
		return pcapFileHeader, nil
	}
	p.header, p.scale = pcapRecordHeader, 1000
	var order binary.ByteOrder = binary.LittleEndian
	ifc := &p.iface[0]
	ifc.Resolution, ifc.UnitsPerSecond = "10^-6 s", 1_000_000
	switch magic(buf) {
	case magicMicro, magicNano, magicModified:
		p.big, order = true, binary.BigEndian
	}
	switch magic(buf) {
	case magicNano, magicNanoSwapped:
		p.scale = 1
		ifc.Resolution, ifc.UnitsPerSecond = "10^-9 s", nanosPerSecond
	case magicModified, magicModifiedSwapped:
		p.header = pcapModifiedHeader
	}

	major, minor := order.Uint16(buf[4:]), order.Uint16(buf[6:])
	if major != 2 {
		return 0, headerDamage(4, "%w: pcap version %d.%d, only 2.x is known; convert the file with the program that wrote it", ErrUnsupported, major, minor)
	}
	switch {
	case minor < 3:
		p.lengths = wireFirst
	case minor == 3:
		p.lengths = smallerFirst
	}

	snap := order.Uint32(buf[16:])
	p.max = min(max(snap, pcapMaxCaptured), maxBlock)
	ifc.SnapLen = int(min(snap, 1<<31-1))

	// The link type's upper half: 4 bits length of the FCS in 16-bit words, a
	// reserved bit, a bit that says that the length is meant, 10 reserved bits.
	link := order.Uint32(buf[20:])
	if link&0x0bff0000 != 0 {
		return 0, headerDamage(20, "%w: link type field %#08x has reserved bits set; a link type is in the low 16 bits (%d) and only an FCS length may stand above", ErrUnsupported, link, link&0xffff)
	}
	if link&0x04000000 != 0 {
		ifc.FCSLen = int(link>>28) * 2
	}
	p.link = dissect.LinkType(link)
	ifc.Link = p.link
	c.used = pcapFileHeader
	return 0, nil
}

// headerDamage is an error in the file header.
func headerDamage(offset int64, format string, args ...any) *damage {
	return &damage{unit: "file header", offset: offset, err: fmt.Errorf(format, args...)}
}

// record reads a record's header (draft-ietf-opsawg-pcap, section 5).
func (p *pcapParser) record(b []byte) (sec, frac, captured, wire uint32) {
	_ = b[15]
	sec, frac = binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	captured, wire = binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	if p.big {
		sec, frac = bits.ReverseBytes32(sec), bits.ReverseBytes32(frac)
		captured, wire = bits.ReverseBytes32(captured), bits.ReverseBytes32(wire)
	}
	if p.lengths != capturedFirst && (p.lengths == wireFirst || captured > wire) {
		captured, wire = wire, captured
	}
	return sec, frac, captured, wire
}

// parse reads records. Seconds are unsigned (until 2106); a fraction of a
// second or more is carried over; the sum cannot overflow.
func (p *pcapParser) parse(c *cursor, buf []byte, dst []Frame) error {
	at, n := 0, 0
	for n < len(dst) {
		b := buf[at:]
		if len(b) < p.header {
			c.need = p.header
			return nil
		}
		sec, frac, captured, wire := p.record(b)
		if captured > p.max {
			return c.damage("%w: record says %d captured bytes, the most that is sane for this file's snap length is %d; what follows cannot be found", ErrMalformed, captured, p.max)
		}
		end := p.header + int(captured)
		if len(b) < end {
			c.need = end
			return nil
		}
		c.lookAhead(b, end)
		f := &dst[n]
		f.Time = int64(uint64(sec)*nanosPerSecond + uint64(frac)*p.scale)
		f.Data = b[p.header:end:end]
		f.Offset = c.base + int64(at+p.header)
		f.WireLen = int(wire)
		f.Iface = 0
		f.Link = p.link
		f.HasTime = true
		f.Direction = InOut
		at += end
		n++
		c.used, c.n = int64(at), n
		c.block++
	}
	return nil
}

// cut implements parser.
func (p *pcapParser) cut(c *cursor, buf []byte) error {
	switch {
	case len(buf) == 0 && c.base > 0:
		return nil
	case c.base == 0:
		return headerDamage(0, "%w: a pcap file header has %d bytes, the file has %d", ErrTruncated, pcapFileHeader, len(buf))
	case len(buf) < p.header:
		return c.damage("%w: a record header has %d bytes, the file has %d more", ErrTruncated, p.header, len(buf))
	}
	_, _, captured, _ := p.record(buf)
	return c.damage("%w: record header says %d captured bytes, the file has %d more", ErrTruncated, captured, len(buf)-p.header)
}
