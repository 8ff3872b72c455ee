package load

import "encoding/binary"

// The pattern. Of a message of 8 bytes or more, the first 8 are its number among its queue pair's, so that a receiver knows which
// it has; all else is a pseudo-random sequence that seed, queue pair and number choose. Shorter ones have no number.

// numbered is the size from which messages have a number.
const numbered = 8

const golden = 0x9E3779B97F4A7C15

// mix is the finalizer of SplitMix64: a bijection that spreads each bit.
func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}

// stream is where a message's sequence begins.
func stream(seed uint64, qp int, number uint64, size int) uint64 {
	if size < numbered {
		number = 0
	}
	return mix(seed ^ mix(uint64(qp)+1) ^ mix(number*golden+2))
}

// fill writes a message.
func fill(b []byte, seed uint64, qp int, number uint64) {
	x := stream(seed, qp, number, len(b))
	if len(b) >= numbered {
		binary.LittleEndian.PutUint64(b, number)
		b = b[numbered:]
	}
	for ; len(b) >= 8; b = b[8:] {
		x += golden
		binary.LittleEndian.PutUint64(b, mix(x))
	}
	last := mix(x + golden)
	for i := range b {
		b[i] = byte(last >> (8 * i))
	}
}

// number is what a message says of itself.
func number(b []byte) uint64 {
	if len(b) < numbered {
		return 0
	}
	return binary.LittleEndian.Uint64(b)
}

// differs returns the offset of the first byte that is not as in the message of a number; -1 if all are.
func differs(b []byte, seed uint64, qp int, number uint64) int {
	x, at := stream(seed, qp, number, len(b)), 0
	if len(b) >= numbered {
		if got := binary.LittleEndian.Uint64(b); got != number {
			return firstByte(got ^ number)
		}
		at = numbered
	}
	for ; len(b)-at >= 8; at += 8 {
		x += golden
		if got := binary.LittleEndian.Uint64(b[at:]); got != mix(x) {
			return at + firstByte(got^mix(x))
		}
	}
	last := mix(x + golden)
	for i := range b[at:] {
		if b[at+i] != byte(last>>(8*i)) {
			return at + i
		}
	}
	return -1
}

// firstByte is the lowest byte that is not 0.
func firstByte(x uint64) (i int) {
	for ; x&0xFF == 0; x >>= 8 {
		i++
	}
	return i
}

// atomicValue is what an atomic's word holds before the atomic of a number.
func atomicValue(cas bool, seed uint64, qp int, number uint64) uint64 {
	if cas {
		return stream(seed, qp, number, numbered)
	}
	return stream(seed, qp, 0, numbered) + number
}

// Atomics work on words in this machine's byte order, as remote keys of other machines' memory do.
func word(b []byte) uint64       { return binary.NativeEndian.Uint64(b) }
func putWord(b []byte, v uint64) { binary.NativeEndian.PutUint64(b, v) }
