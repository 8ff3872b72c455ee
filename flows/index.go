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
// references to streams, whose keys lie in the connections; so as not to look
// into other connections on the way, an entry has eight bits of the hash.
type index struct {
	slots []entry
	used  int // entries and tombstones
	live  int
	seed  [2]uint64
}

// streamRef names one direction of a connection: slab index × 2 + direction,
// plus 2.
type streamRef uint32

// entry is a reference and, above it, a part of its key's hash. Without a
// reference, 0 is an empty slot and 1 a deleted one.
type entry uint32

const (
	refBits         = 24
	emptySlot entry = 0
	deleted   entry = 1
)

func refOf(slot uint32, d Direction) streamRef { return streamRef(slot*2+uint32(d)) + 2 }

func (r streamRef) slot() uint32         { return uint32(r-2) / 2 }
func (r streamRef) direction() Direction { return Direction((r - 2) & 1) }

func entryOf(r streamRef, h uint64) entry { return entry(r) | tagOf(h) }

// tagOf is the part of a hash that an entry has: not the one that chooses the slot.
func tagOf(h uint64) entry { return entry(h>>56) << refBits }

func (e entry) ref() streamRef { return streamRef(e & (1<<refBits - 1)) }

// has reports whether the entry may be that of a key whose tag is given.
func (e entry) has(tag entry) bool { return e>>refBits == tag>>refBits && e.ref() > streamRef(deleted) }

func newIndex() index {
	return index{slots: make([]entry, 64), seed: [2]uint64{rand.Uint64() | 1, rand.Uint64() | 1}}
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
	mask, tag := uint64(len(x.slots)-1), tagOf(h)
	for i := h & mask; ; i = (i + 1) & mask {
		e := x.slots[i]
		if e == emptySlot {
			return 0
		}
		if r := e.ref(); e.has(tag) && t.conn(r.slot()).hasKey(r.direction(), k) {
			return r
		}
	}
}

// guess returns what find would in most cases, without a look at connections.
func (x *index) guess(h uint64) streamRef {
	mask, tag := uint64(len(x.slots)-1), tagOf(h)
	for i := h & mask; x.slots[i] != emptySlot; i = (i + 1) & mask {
		if x.slots[i].has(tag) {
			return x.slots[i].ref()
		}
	}
	return 0
}

// insert adds a reference whose key is not yet there.
func (x *index) insert(t *Tracker, r streamRef, h uint64) {
	if (x.used+1)*3 > len(x.slots)*2 {
		x.grow(t)
	}
	i := x.room(h)
	if x.slots[i] == emptySlot {
		x.used++
	}
	x.live++
	x.slots[i] = entryOf(r, h)
}

// room is the first slot from its own on that a key can have.
func (x *index) room(h uint64) uint64 {
	mask := uint64(len(x.slots) - 1)
	i := h & mask
	for x.slots[i].ref() > streamRef(deleted) {
		i = (i + 1) & mask
	}
	return i
}

func (x *index) remove(r streamRef, h uint64) {
	mask, e := uint64(len(x.slots)-1), entryOf(r, h)
	for i := h & mask; x.slots[i] != emptySlot; i = (i + 1) & mask {
		if x.slots[i] == e {
			x.slots[i] = deleted
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
	x.slots = make([]entry, n)
	x.used = x.live
	for _, e := range old {
		if r := e.ref(); r > streamRef(deleted) {
			k := t.conn(r.slot()).key(r.direction())
			h := x.hash(&k)
			x.slots[x.room(h)] = entryOf(r, h)
		}
	}
}
