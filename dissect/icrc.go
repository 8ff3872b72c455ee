package dissect

import (
	"encoding/binary"
	"hash/crc32"
	"math/bits"
)

// ICRCSize is the length of the invariant CRC at the end of a packet.
const ICRCSize = 4

// icrcStart is the CRC after eight bytes of ones, in the finished form that
// crc32.Update takes.
const icrcStart = 0x2144DF1C

// The fields that count as ones, by words of eight bytes from the network header
// to the end of the BTH, little-endian: in IPv4 traffic class, time to live and
// checksum, in IPv6 and GRH traffic class, flow label and hop limit, then the
// UDP checksum, and the BTH's byte of FECN, BECN and reserved bits.
var (
	onesIPv4 = [...]uint64{0xFF00, 0xFFFF00FF, 0, 0xFFFF0000, 0xFF}
	onesIPv6 = [...]uint64{0xFF000000_FFFFFF0F, 0, 0, 0, 0, 0xFFFF_0000_0000_0000, 0xFF_0000_0000}
	onesGRH  = [...]uint64{0xFF000000_FFFFFF0F, 0, 0, 0, 0, 0xFF_0000_0000}
)

// slicing are the tables for the CRC of eight bytes at a time: slicing[k][v] is
// that of v with k zero bytes behind it. The CRC instructions, which package
// hash/crc32 uses from 64 bytes on, need longer to begin and end than these
// tables for all of a header.
var slicing = func() (t [8][256]uint32) {
	t[0] = *crc32.IEEETable
	for v := range t[0] {
		for k := 1; k < 8; k++ {
			t[k][v] = t[0][byte(t[k-1][v])] ^ t[k-1][v]>>8
		}
	}
	return t
}()

// usual is Sum for the usual headers: crc goes over b with ones in place.
func usual(b []byte, ones []uint64) uint32 {
	crc := ^uint32(icrcStart)
	rest := b
	for _, m := range ones {
		v := (le64(rest) | m) ^ uint64(crc)
		crc = slicing[7][byte(v)] ^ slicing[6][byte(v>>8)] ^ slicing[5][byte(v>>16)] ^ slicing[4][byte(v>>24)] ^
			slicing[3][byte(v>>32)] ^ slicing[2][byte(v>>40)] ^ slicing[1][byte(v>>48)] ^ slicing[0][byte(v>>56)]
		rest = rest[8:]
	}
	return crc32.Update(^crc, crc32.IEEETable, rest)
}

// ICRC computes invariant CRCs (IBA 7.8.1, annex A17.3.3): the CRC-32 of
// Ethernet over the packet from its network header on, with the fields that
// change on the way replaced by ones. The zero value is ready for use; one
// ICRC serves one goroutine.
type ICRC struct {
	// head is the masked copy of the headers. It is kept at 64 bytes and more,
	// below which the CRC instructions of the processor are not used, and in
	// the struct because crc32.Update would move a local array to the heap.
	head [256]byte
	long []byte // in its place behind a long chain of IPv6 extension headers
}

// Sum computes the ICRC of a packet: b runs from the network header's first
// byte (IPv4, IPv6, GRH or LRH, as l says) to the last pad byte, and the BTH
// begins at b[bth]. Stored little-endian behind the pad, the value is what goes
// on the wire.
func (c *ICRC) Sum(b []byte, l Layer, bth int) uint32 {
	switch {
	case l == LayerIPv4 && bth == 28 && len(b) >= 8*len(onesIPv4):
		return usual(b, onesIPv4[:])
	case l == LayerIPv6 && bth == 48 && len(b) >= 8*len(onesIPv6):
		return usual(b, onesIPv6[:])
	case l == LayerGRH && bth == 40 && len(b) >= 8*len(onesGRH):
		return usual(b, onesGRH[:])
	}
	return c.general(b, l, bth)
}

// general is Sum for whatever headers.
func (c *ICRC) general(b []byte, l Layer, bth int) uint32 {
	n := bth + 12
	if n < 64 {
		n = 64
	}
	n = min((n+15)&^15, len(b))
	head := c.head[:]
	if n > len(head) {
		if n > len(c.long) {
			c.long = make([]byte, n)
		}
		head = c.long
	}
	head = head[:n]
	copy(head, b)
	crc := uint32(icrcStart)
	switch l {
	case LayerIPv4:
		maskIPv4(head)
	case LayerIPv6:
		maskIPv6(head)
	case LayerGRH:
		maskIPv6(head)
	case LayerLRH:
		crc = 0
		if LRH(head).LNH() == 3 { // ones stand for the whole LRH
			for i := range head[:8] {
				head[i] = 0xFF
			}
			maskIPv6(head[8:])
		} else {
			head[0] |= 0xF0 // virtual lane
		}
	}
	if l == LayerIPv4 || l == LayerIPv6 {
		head[bth-2], head[bth-1] = 0xFF, 0xFF // UDP checksum
	}
	head[bth+4] = 0xFF // FECN, BECN and the reserved bits beside them
	crc = crc32.Update(crc, crc32.IEEETable, head)
	return crc32.Update(crc, crc32.IEEETable, b[n:])
}

// maskIPv4 sets traffic class, time to live and header checksum to ones.
func maskIPv4(h []byte) {
	h[1], h[8], h[10], h[11] = 0xFF, 0xFF, 0xFF, 0xFF
}

// maskIPv6 sets traffic class, flow label and hop limit to ones.
func maskIPv6(h []byte) {
	h[0] |= 0x0F
	h[1], h[2], h[3], h[7] = 0xFF, 0xFF, 0xFF, 0xFF
}

// span finds the bytes that a decoded packet's ICRC covers: from lo to the
// ICRC itself at icrc; network is the layer at lo. ok is false where the packet
// has no ICRC.
func (p *Packet) span() (network Layer, lo, icrc int, ok bool) {
	layers := p.layers & (1<<LayerLRH | 1<<LayerIPv4 | 1<<LayerIPv6 | 1<<LayerGRH)
	if !p.Has(LayerICRC) || layers == 0 {
		return 0, 0, 0, false
	}
	l := Layer(bits.TrailingZeros64(uint64(layers))) // the outermost
	return l, int(p.off[l]), int(p.payload+p.payloadLen) + int(p.PadCount), true
}

// Verify computes the ICRC of a decoded packet and compares it with the one in
// the frame. A packet that the capture cut, and an IP fragment, cannot be
// judged.
func (c *ICRC) Verify(p *Packet, frame []byte) ICRCStatus {
	l, lo, at, ok := p.span()
	switch {
	case !ok || p.fragmented():
		return ICRCUnchecked
	case at+ICRCSize > len(frame):
		return ICRCNotCaptured
	}
	if c.Sum(frame[lo:at], l, int(p.off[LayerBTH])-lo) == le32(frame[at:]) {
		return ICRCValid
	}
	return ICRCInvalid
}

// Compute returns the right ICRC of a decoded packet. ok is false where it has
// none, or was cut by the capture.
func (c *ICRC) Compute(p *Packet, frame []byte) (crc uint32, ok bool) {
	l, lo, at, ok := p.span()
	if !ok || at > len(frame) {
		return 0, false
	}
	return c.Sum(frame[lo:at], l, int(p.off[LayerBTH])-lo), true
}

func le64(b []byte) uint64 {
	_ = b[7]
	return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 |
		uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
}

func le32(b []byte) uint32 {
	_ = b[3]
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func putLE32(b []byte, v uint32) { binary.LittleEndian.PutUint32(b, v) }
