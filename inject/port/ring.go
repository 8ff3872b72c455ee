package port

import (
	"math/bits"
	"sync/atomic"
)

// ring is a bounded queue from one goroutine to another, without locks.
type ring[T any] struct {
	slots []T // a power of two of them
	mask  uint32
	_     [64]byte
	head  atomic.Uint32 // written by whoever puts
	_     [64]byte
	tail  atomic.Uint32 // written by whoever takes
	_     [64]byte
}

// newRing makes a ring of n slots or a few more.
func newRing[T any](n int) *ring[T] {
	size := uint32(1) << bits.Len32(uint32(max(n, 1)-1))
	return &ring[T]{slots: make([]T, size), mask: size - 1}
}

// put appends as many as there is room for, and says how many.
func (r *ring[T]) put(values []T) int {
	head := r.head.Load()
	n := min(len(values), len(r.slots)-int(head-r.tail.Load()))
	for i := range n {
		r.slots[(head+uint32(i))&r.mask] = values[i]
	}
	r.head.Store(head + uint32(n))
	return n
}

// take removes as many as there are, up to len(values), and says how many.
func (r *ring[T]) take(values []T) int {
	tail := r.tail.Load()
	n := min(len(values), int(r.head.Load()-tail))
	for i := range n {
		values[i] = r.slots[(tail+uint32(i))&r.mask]
	}
	r.tail.Store(tail + uint32(n))
	return n
}

// len is how many there are.
func (r *ring[T]) len() int { return int(r.head.Load() - r.tail.Load()) }
