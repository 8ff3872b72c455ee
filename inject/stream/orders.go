package stream

import (
	"math/bits"
	"sync/atomic"
)

// orders are the numbers of QPs that something is asked of, on their way from who looks at the answers to their sender: a ring
// with room for all of them, in which each is once at most.
type orders struct {
	qps  []uint32 // a power of two of them
	_    [64]byte
	head atomic.Uint32 // written by who asks
	_    [64]byte
	tail atomic.Uint32 // written by who does it
	_    [64]byte
}

func newOrders(qps int) *orders { return &orders{qps: make([]uint32, 1<<bits.Len(uint(qps-1)))} }

func (o *orders) put(number uint32) {
	head := o.head.Load()
	o.qps[int(head)&(len(o.qps)-1)] = number
	o.head.Store(head + 1)
}

func (o *orders) take() (number uint32, ok bool) {
	tail := o.tail.Load()
	if tail == o.head.Load() {
		return 0, false
	}
	number = o.qps[int(tail)&(len(o.qps)-1)]
	o.tail.Store(tail + 1)
	return number, true
}

func (o *orders) empty() bool { return o.tail.Load() == o.head.Load() }
