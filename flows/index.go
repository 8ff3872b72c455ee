package flows

import (
	"math/bits"
	"math/rand/v2"

	"github.com/rocescope/rocescope/dissect"
)

// streamKey is what tells one stream from all others: where it goes, and of
// UD also where it comes from. QPNs alone are the destination's own choice.
type streamKey struct {
	dst    dissect.Addr
	src    dissect.Addr // UD only; else zero
	dstQPN uint32
	srcQPN uint32 // UD only; else noSource
	vlan   int16  // -1 without a tag
}

// noSource stands for a source QPN that packets do not tell.
const noSource = 1 << 24

// index finds a stream's slot by its key: open addressing with a seeded
// multiply hash, so that chosen addresses and QPNs cannot pile up. Entries are
// references to streams; the keys lie in the connections.
type index struct {
	slots []streamRef
	used  int // entries and tombstones
	live  int
	seed  [2]uint64
}

// streamRef names one direction of a connection: slab index × 2 + direction,
// plus 2. 0 is an empty slot, 1 a deleted one.
type streamRef uint32

const deletedRef streamRef = 1

func refOf(slot uint32, d Direction) streamRef { return streamRef(slot*2+uint32(d)) + 2 }

func (r streamRef) slot() uint32         { return uint32(r-2) / 2 }
func (r streamRef) direction() Direction { return Direction((r - 2) & 1) }

func newIndex() index {
	return index{slots: make([]streamRef, 64), seed: [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1}}
}

func (x *index) hash(k *streamKey) uint64 {
	h := mix(k.dst.Lo^x.seed[0], k.dst.Hi^uint64(k.dstQPN)<<32^uint64(uint16(k.vlan)))
	if k.srcQPN != noSource {
		h = mix(h^k.src.Lo, k.src.Hi^uint64(k.srcQPN)^x.seed[1])
	}
	return mix(h, x.seed[1])
}

// mix multiplies to 128 bits and folds the halves.
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a^0x9E3779B97F4A7C15, b^0xD6E8FEB86659FD93)
	return hi ^ lo
}

// find returns the stream's reference, 0 where there is none.
func (x *index) find(t *Tracker, k *streamKey, h uint64) streamRef {
	mask := uint64(len(x.slots) - 1)
	for i := h & mask; ; i = (i + 1) & mask {
		r := x.slots[i]
		if r == 0 {
			return 0
		}
		if r != deletedRef && t.conn(r.slot()).hasKey(r.direction(), k) {
			return r
		}
	}
}

// insert adds a reference whose key is not yet there.
func (x *index) insert(t *Tracker, r streamRef, h uint64) {
	if (x.used+1)*3 > len(x.slots)*2 {
		x.grow(t)
	}
	mask := uint64(len(x.slots) - 1)
	i := h & mask
	for x.slots[i] > deletedRef {
		i = (i + 1) & mask
	}
	if x.slots[i] == 0 {
		x.used++
	}
	x.live++
	x.slots[i] = r
}

func (x *index) remove(r streamRef, h uint64) {
	mask := uint64(len(x.slots) - 1)
	for i := h & mask; x.slots[i] != 0; i = (i + 1) & mask {
		if x.slots[i] == r {
			x.slots[i] = deletedRef
			x.live--
			return
		}
	}
}

func (x *index) grow(t *Tracker) {
	old := x.slots
	n := len(old)
	if x.live*3 > n {
		n *= 2
	}
	x.slots = make([]streamRef, n)
	x.used = x.live
	mask := uint64(n - 1)
	for _, r := range old {
		if r <= deletedRef {
			continue
		}
		k := t.conn(r.slot()).key(r.direction())
		i := x.hash(&k) & mask
		for x.slots[i] != 0 {
			i = (i + 1) & mask
		}
		x.slots[i] = r
	}
}
