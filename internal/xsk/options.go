package xsk

import (
	"fmt"
	"math/bits"
)

// Mode is how frames get between the UMEM and the NIC.
type Mode int

// Modes of a socket.
const (
	Auto     Mode = iota // zero-copy where the driver has it, else copy
	Copy                 // the kernel copies each frame; works on every interface
	ZeroCopy             // the NIC reads and writes the UMEM; fails where the driver does not do that
)

func (m Mode) String() string {
	switch m {
	case Copy:
		return "copy"
	case ZeroCopy:
		return "zero-copy"
	}
	return "auto"
}

// Options says what socket is wanted. Interface and at least one of RX and TX must be set.
type Options struct {
	Interface string
	Queue     int
	UMEM      *UMEM

	// RX and TX are the rings' sizes, powers of two; without one the socket cannot receive, or send. To receive without
	// loss on a busy machine takes 16384.
	RX, TX int
	// Fill and Completion are by default as large as RX and TX.
	Fill, Completion int
	// RXChunks is how many chunks of the UMEM circulate between Fill and RX; default and maximum is the size of Fill.
	RXChunks int

	Mode Mode
	// MultiBuffer lets frames be longer than a chunk (Linux 6.6). All sockets on one UMEM have it or none.
	MultiBuffer bool
	// AlwaysKick gives up need-wakeup, by which a zero-copy driver says when it wants a system call.
	AlwaysKick bool
	// TxBudget is how many descriptors one Kick may send in copy mode, from 32 (default) to the size of TX. A kernel before
	// 6.17 goes on with 32; Socket.TxBudget tells.
	TxBudget int
	// MaxFrame is the longest frame that will be sent or is expected; Open fails with ErrFrameSize if it cannot pass.
	MaxFrame int

	BusyPoll BusyPoll
}

// BusyPoll lets the socket's own system calls drive the NIC's queue, instead of interrupts. It needs a queue with a NAPI
// instance of its own, as real NICs have.
type BusyPoll struct {
	Microseconds int  // how long a call may poll; 0 switches all of it off
	Budget       int  // packets a poll; default 64
	Prefer       bool // keep interrupts away while polling goes on (Linux 5.11)
}

func (o *Options) complete() error {
	bad := func(kind error, format string, args ...any) error {
		return &Error{Op: "open a socket on", Where: o.where(), Kind: kind, Hint: fmt.Sprintf(format, args...)}
	}
	if o.Interface == "" {
		return &Error{Op: "open a socket without an interface"}
	}
	if o.UMEM == nil {
		return bad(nil, "it needs a UMEM")
	}
	if o.RX == 0 && o.TX == 0 {
		return bad(nil, "neither RX nor TX was asked for")
	}
	if o.Queue < 0 {
		return bad(ErrQueue, "queues begin at 0")
	}
	// A socket with a queue of its own must have both of the kernel's rings, used or not.
	if o.Fill == 0 {
		o.Fill = max(o.RX, 64)
	}
	if o.Completion == 0 {
		o.Completion = max(o.TX, 64)
	}
	for _, r := range []struct {
		name string
		size int
	}{{"RX", o.RX}, {"TX", o.TX}, {"Fill", o.Fill}, {"Completion", o.Completion}} {
		if r.size != 0 && (r.size < 2 || r.size > 1<<20 || bits.OnesCount(uint(r.size)) != 1) {
			return bad(nil, "%s has size %d, which must be a power of two from 2 to %d", r.name, r.size, 1<<20)
		}
	}
	if o.RX == 0 {
		o.RXChunks = 0
	} else if o.RXChunks == 0 {
		o.RXChunks = o.Fill
	}
	if o.RXChunks > o.Fill {
		return bad(nil, "%d chunks do not fit into Fill, which has %d slots", o.RXChunks, o.Fill)
	}
	if o.TxBudget != 0 && (o.TxBudget < 32 || o.TxBudget > o.TX) {
		return bad(nil, "a budget of %d is not within 32 and the size of TX, %d", o.TxBudget, o.TX)
	}
	return o.fits()
}

// fits compares MaxFrame with the chunks.
func (o *Options) fits() error {
	u := o.UMEM
	room := int(u.chunk)
	if o.TX > 0 {
		room -= u.TxDataOffset()
	}
	if o.RX > 0 {
		room = min(room, u.RxFrameSize())
	}
	if o.MaxFrame > room && !o.MultiBuffer {
		return &Error{
			Op: "open a socket on", Where: o.where(), Kind: ErrFrameSize,
			Hint: fmt.Sprintf("a frame of %d bytes does not fit into one chunk of %d, which has room for %d: it needs MultiBuffer (Linux 6.6)", o.MaxFrame, u.chunk, room),
		}
	}
	return nil
}

func (o *Options) where() string { return fmt.Sprintf("%s queue %d", o.Interface, o.Queue) }
