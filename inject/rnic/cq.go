package rnic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
)

// CompletionOp is what a completion completes.
type CompletionOp uint8

// The kinds, as in libibverbs: of the send queue, then of the receive queue.
const (
	CompSend CompletionOp = iota
	CompWrite
	CompRead
	CompCompareSwap
	CompFetchAdd
	CompRecv
	CompRecvWriteImm
)

var completionOps = [...]string{"SEND", "RDMA_WRITE", "RDMA_READ", "COMP_SWAP", "FETCH_ADD", "RECV", "RECV_RDMA_WITH_IMM"}

func (o CompletionOp) String() string {
	if int(o) < len(completionOps) {
		return completionOps[o]
	}
	return "unknown operation"
}

// CompletionFlags say which fields of a completion mean something.
type CompletionFlags uint8

// The flags.
const (
	HasImm      CompletionFlags = 1 << iota
	HasInv                      // Imm is the remote key that was invalidated
	HasGRH                      // UD: the first 40 bytes of the buffer are the packet's addresses
	IsSolicited                 // the peer asked for an event
)

// Completion is a completion queue entry. Of one with an error, ID, Status, QPN and Op are valid.
type Completion struct {
	ID      uint64
	Status  Status
	Op      CompletionOp
	Flags   CompletionFlags
	QPN     uint32
	ByteLen uint32
	Imm     uint32
	SrcQP   uint32       // UD
	Src     dissect.Addr // UD: the sender's address
}

// CQ is a completion queue.
type CQ struct {
	dev      *Device
	depth    uint32
	mask     uint32
	ring     []Completion
	head     atomic.Uint32 // the next to be polled
	tail     atomic.Uint32 // the device's next
	mu       sync.Mutex    // pollers
	armed    atomic.Uint32
	ready    chan struct{}
	overflow bool
	uses     int // QPs
}

// What a completion queue is armed for.
const (
	armedNot = iota
	armedSolicited
	armedAny
)

// maxQueue is the most entries of a queue.
const maxQueue = 1 << 20

// CreateCQ makes a completion queue with room for that many completions. One that runs over is an error of the queue and of the
// queue pairs that use it, as in hardware.
func (d *Device) CreateCQ(depth int) (*CQ, error) {
	if depth < 1 || depth > maxQueue {
		return nil, fmt.Errorf("rnic: create a completion queue: %d entries; it must have 1 … %d", depth, maxQueue)
	}
	size := roundUp(depth)
	return &CQ{dev: d, depth: uint32(depth), mask: size - 1, ring: make([]Completion, size), ready: make(chan struct{}, 1)}, nil
}

// roundUp returns the least power of two that is not less than n.
func roundUp(n int) uint32 {
	size := uint32(1)
	for size < uint32(n) {
		size <<= 1
	}
	return size
}

// Poll takes completions, as many as there are and fit, and returns how many.
func (c *CQ) Poll(out []Completion) int {
	head := c.head.Load()
	if head == c.tail.Load() {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	head = c.head.Load()
	n := min(int(c.tail.Load()-head), len(out))
	for i := range out[:n] {
		out[i] = c.ring[(head+uint32(i))&c.mask]
	}
	c.head.Store(head + uint32(n))
	return n
}

// ReqNotify asks for one signal on Ready at the next completion, or at the next that was solicited or failed. Poll once more after
// it, for completions that came before.
func (c *CQ) ReqNotify(solicitedOnly bool) {
	if solicitedOnly {
		c.armed.CompareAndSwap(armedNot, armedSolicited)
		return
	}
	c.armed.Store(armedAny)
}

// Ready is signalled as ReqNotify asked.
func (c *CQ) Ready() <-chan struct{} { return c.ready }

// Destroy ends a completion queue that no queue pair uses any more.
func (c *CQ) Destroy() error {
	c.dev.verbs.Lock()
	defer c.dev.verbs.Unlock()
	if c.uses > 0 {
		return errors.New("rnic: destroy a completion queue: queue pairs still use it")
	}
	return nil
}

// put adds a completion; q is its queue pair. It runs on the device's goroutine.
func (c *CQ) put(q *QP, e *Completion) {
	tail := c.tail.Load()
	if tail-c.head.Load() >= c.depth {
		if !c.overflow {
			c.overflow = true
			c.dev.event(Event{Type: EventCQErr, CQ: c})
		}
		q.fatal() // IBA 11.6.3.2: the queue pairs of an overrun completion queue are of no use any more
		return
	}
	e.QPN = q.qpn
	c.ring[tail&c.mask] = *e
	c.tail.Store(tail + 1)
	if a := c.armed.Load(); a == armedNot || a == armedSolicited && e.Flags&IsSolicited == 0 && e.Status == Success {
		return
	}
	c.armed.Store(armedNot)
	select {
	case c.ready <- struct{}{}:
	default:
	}
}
