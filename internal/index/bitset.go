package index

import (
	"math/bits"
	"sort"
)

// bitset is a set of packet numbers that grows at its end. It finds the i-th one,
// and how many lie in front of a number, at once.
type bitset struct {
	origin uint64   // number of the first bit's packet
	words  []uint64 // from origin on
	before []uint64 // how many lie in front of each group
	count  uint64   // in all, those in front of origin included
	last   uint64   // number that was added or passed over last
}

const (
	groupWords = 8
	groupBits  = 64 * groupWords
	// trimFrom is how many bits are worth moving the rest.
	trimFrom = 1 << 20
)

func newBitset() *bitset { return &bitset{origin: 1} }

// extend says that of the numbers up to last those in list are in the set. Both
// ascend from call to call.
func (b *bitset) extend(list []uint64, last uint64) {
	for _, n := range list {
		i := n - b.origin
		b.room(i)
		b.words[i/64] |= 1 << (i % 64)
		b.count++
	}
	if last >= b.origin {
		b.room(last - b.origin)
	}
	b.last = max(b.last, last)
}

// room makes room for bit i, whole groups at a time.
func (b *bitset) room(i uint64) {
	for i/64 >= uint64(len(b.words)) {
		b.words = append(b.words, make([]uint64, groupWords)...)
		b.before = append(b.before, b.count)
	}
}

// trim forgets bits of numbers below first, if there are enough of them.
func (b *bitset) trim(first uint64) {
	if first < b.origin+trimFrom {
		return
	}
	groups := min((first-b.origin)/groupBits, uint64(len(b.before)))
	b.words = append([]uint64(nil), b.words[groups*groupWords:]...)
	b.before = append([]uint64(nil), b.before[groups:]...)
	b.origin += groups * groupBits
}

func (b *bitset) has(n uint64) bool {
	i := n - b.origin
	return n >= b.origin && i/64 < uint64(len(b.words)) && b.words[i/64]>>(i%64)&1 != 0
}

// rank is how many numbers of the set lie below n.
func (b *bitset) rank(n uint64) uint64 {
	if len(b.before) == 0 {
		return b.count
	}
	if n <= b.origin {
		return b.before[0]
	}
	i := n - b.origin
	if i/64 >= uint64(len(b.words)) {
		return b.count
	}
	c := b.before[i/groupBits]
	for w := i / groupBits * groupWords; w < i/64; w++ {
		c += uint64(bits.OnesCount64(b.words[w]))
	}
	return c + uint64(bits.OnesCount64(b.words[i/64]&(1<<(i%64)-1)))
}

// at is the i-th number of the set, from 0.
func (b *bitset) at(i uint64) (n uint64, ok bool) {
	if i >= b.count || len(b.before) == 0 || i < b.before[0] {
		return 0, false
	}
	g := sort.Search(len(b.before), func(g int) bool { return b.before[g] > i }) - 1
	left := int(i - b.before[g])
	for w := g * groupWords; ; w++ {
		word := b.words[w]
		if c := bits.OnesCount64(word); left >= c {
			left -= c
			continue
		}
		for ; left > 0; left-- {
			word &= word - 1
		}
		return b.origin + uint64(w*64+bits.TrailingZeros64(word)), true
	}
}
