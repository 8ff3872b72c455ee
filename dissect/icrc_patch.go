package dissect

import (
	"hash/crc32"
	"sync"
)

// ICRCReach is how far before the ICRC the patch tables reach: from the pad of the longest packet to its network header.
const ICRCReach = 4224

// ICRCTable says how an ICRC changes with one byte: by XOR with the entry of what the byte changes by.
type ICRCTable [256]uint32

// ICRCTables returns the tables for patching packets without computing their ICRC anew: tables[k] is that of a byte with k
// more covered bytes (pad included) between itself and the ICRC.
//
// A CRC is linear: of two messages of one length, the CRCs differ by what the messages' difference gives, byte by byte. So
// the ICRC of a packet of which a few bytes are written is that of the packet with these bytes zero, XOR an entry for each
// of them, whatever lies between. Bytes that the ICRC counts as ones have no part in it.
func ICRCTables() *[ICRCReach]ICRCTable { return icrcTables() }

var icrcTables = sync.OnceValue(func() *[ICRCReach]ICRCTable {
	t := new([ICRCReach]ICRCTable)
	t[0] = ICRCTable(*crc32.IEEETable)
	for k := 1; k < len(t); k++ {
		for v, crc := range t[k-1] {
			t[k][v] = t[0][byte(crc)] ^ crc>>8
		}
	}
	return t
})

// ICRCWord patches four bytes of a packet at a time: those from its place in the frame on.
type ICRCWord struct {
	tables *[4]ICRCTable
	at     int
}

// NewICRCWord returns the word at frame[at:] of frames that have their ICRC at frame[icrc:]. ok is false where the tables
// do not reach.
func NewICRCWord(at, icrc int) (w ICRCWord, ok bool) {
	k := icrc - at - 4 // of the word's last byte
	if at < 0 || k < 0 || k+4 > ICRCReach {
		return w, false
	}
	return ICRCWord{(*[4]ICRCTable)(ICRCTables()[k : k+4]), at}, true
}

// At is where the word begins in the frame.
func (w *ICRCWord) At() int { return w.at }

// Delta is what the word adds to the ICRC (by XOR) of a packet that has zeros there.
func (w *ICRCWord) Delta(v uint32) uint32 {
	t := w.tables
	return t[3][v>>24] ^ t[2][byte(v>>16)] ^ t[1][byte(v>>8)] ^ t[0][byte(v)]
}

// Delta16 is Delta of a word whose upper half is zero. A word's delta is that of its halves together.
func (w *ICRCWord) Delta16(v uint16) uint32 { return w.tables[1][v>>8] ^ w.tables[0][byte(v)] }

// Put writes the word, and returns what it adds to the ICRC.
func (w *ICRCWord) Put(frame []byte, v uint32) uint32 {
	put32(frame[w.at:], v)
	return w.Delta(v)
}
