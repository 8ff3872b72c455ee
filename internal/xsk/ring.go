package xsk

import "sync/atomic"

// Desc is a frame, or a part of one, in RX and TX.
type Desc struct {
	Addr    uint64 // offset into the UMEM
	Len     uint32
	Options uint32 // OptionContinued, OptionTxMetadata
}

// Options of a descriptor.
const (
	OptionContinued  = 1 << 0 // the packet goes on in the next descriptor
	OptionTxMetadata = 1 << 1 // a TxMetadata lies before the frame
)

// index is one side's free-running position, a word in memory that is shared with the kernel. Go's atomic loads and stores
// are sequentially consistent: a load acquires, a store releases, and a store is not overtaken by a later load of the
// ring's flags, which need-wakeup rests on.
type index = *uint32

// shared is what both kinds of ring have: whatever the kernel writes there, only slots of this ring are ever touched.
type shared[T any] struct {
	producer, consumer, flags index
	slots                     []T // a power of two of them
	mask                      uint32
	mem                       []byte // the mapping, nil in tests
}

// Size is the number of slots.
func (r *shared[T]) Size() int { return len(r.slots) }

// Slot is where index i of the ring lies. It is to be used only between Reserve and Submit, or Peek and Release.
func (r *shared[T]) Slot(i uint32) *T { return &r.slots[i&r.mask] }

// NeedWakeup says whether the kernel wants a system call before it goes on with this ring.
func (r *shared[T]) NeedWakeup() bool { return atomic.LoadUint32(r.flags)&1 != 0 }

// retire makes a ring whose memory is unmapped an empty one, so that a late caller gets nothing instead of a fault.
func (r *shared[T]) retire() {
	r.slots, r.mask, r.mem = make([]T, 1), 0, nil
	r.producer, r.consumer, r.flags = new(uint32), new(uint32), new(uint32)
}

// Producer is a ring that we put something into: Fill and TX.
type Producer[T any] struct {
	shared[T]
	next    uint32 // the first slot that is not reserved
	limit   uint32 // slots before this one are known to be free
	retired bool
}

// Reserve takes up to n free slots, the first of which is at index at: as many as there are. They go out by Submit, in
// order; what is reserved must be submitted or cancelled.
func (r *Producer[T]) Reserve(n uint32) (at, got uint32) {
	if r.limit-r.next < n {
		r.refresh()
	}
	if free := r.limit - r.next; n > free {
		n = free
	}
	at = r.next
	r.next += n
	return at, n
}

func (r *Producer[T]) refresh() {
	if r.retired {
		r.limit = r.next
		return
	}
	size := uint32(len(r.slots))
	if used := r.next - atomic.LoadUint32(r.consumer); used <= size {
		r.limit = r.next + size - used
	} else {
		r.limit = r.next // the other side's index makes no sense: nothing is free
	}
}

// Free is how many slots could be reserved now.
func (r *Producer[T]) Free() int {
	r.refresh()
	return int(r.limit - r.next)
}

// Cancel gives back the last n reserved slots.
func (r *Producer[T]) Cancel(n uint32) { r.next -= n }

// Submit hands the n oldest reserved slots to the kernel.
func (r *Producer[T]) Submit(n uint32) {
	// Only this side writes the word, so that reading it back needs no more than an add.
	atomic.StoreUint32(r.producer, *r.producer+n)
}

// Pending is how many slots were submitted that the kernel has not consumed.
func (r *Producer[T]) Pending() int {
	if n := *r.producer - atomic.LoadUint32(r.consumer); n <= uint32(len(r.slots)) {
		return int(n)
	}
	return 0
}

func (r *Producer[T]) retire() {
	r.shared.retire()
	r.next, r.limit, r.retired = 0, 0, true
}

// Consumer is a ring that we take something out of: RX and Completion.
type Consumer[T any] struct {
	shared[T]
	next  uint32 // the first slot that was not peeked at
	limit uint32 // slots before this one are known to be filled
}

// Peek takes up to n filled slots, the first of which is at index at: as many as there are. They stay ours until Release.
func (r *Consumer[T]) Peek(n uint32) (at, got uint32) {
	if r.limit-r.next < n {
		r.refresh()
	}
	if have := r.limit - r.next; n > have {
		n = have
	}
	at = r.next
	r.next += n
	return at, n
}

func (r *Consumer[T]) refresh() {
	producer := atomic.LoadUint32(r.producer)
	if held := r.next - *r.consumer; producer-r.next <= uint32(len(r.slots))-held {
		r.limit = producer
	} else {
		r.limit = r.next // the other side's index makes no sense: nothing is there
	}
}

// Available is how many slots could be peeked at now.
func (r *Consumer[T]) Available() int {
	r.refresh()
	return int(r.limit - r.next)
}

// Cancel forgets the last n slots peeked at: the next Peek finds them again.
func (r *Consumer[T]) Cancel(n uint32) { r.next -= n }

// Held is how many slots were peeked at and not yet released.
func (r *Consumer[T]) Held() int { return int(r.next - *r.consumer) }

// Release hands the n oldest slots peeked at back to the kernel.
func (r *Consumer[T]) Release(n uint32) { atomic.StoreUint32(r.consumer, *r.consumer+n) }

func (r *Consumer[T]) retire() {
	r.shared.retire()
	r.next, r.limit = 0, 0
}
