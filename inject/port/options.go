package port

import "time"

// Options say what port is wanted. Only Interface must be set, for the kinds that have one.
type Options struct {
	// Via is the kind, a name of Kinds; the best one is chosen if it is empty.
	Via       string
	Interface string
	// Queue is the first queue of the interface, and Queues how many are wanted, each of which is a port: by default one to
	// send, and all that the interface has where something is to be received, since it spreads what arrives over them.
	Queue, Queues int

	// MaxFrame is the longest frame that will be sent, without FCS; opening fails with ErrFrameSize if it cannot pass. Default
	// is what the interface's MTU allows.
	MaxFrame int
	// Slots is how many frames may be on their way; default 1024, and 65536 at most.
	Slots int
	// Batch is how many frames one system call may send where that can be chosen; default 512.
	Batch int

	// SendOnly is for who does not look at what comes back: nothing is received, nor taken away from the kernel.
	SendOnly bool
	// Repeats says that the traffic is Messages, which the kernel can make by itself (OpenLive).
	Repeats bool
	// Ring is how many frames may wait to be received, over all queues; default 16384. Not speed but this decides whether a
	// busy machine loses any.
	Ring int
	// RoCE v2 and v1 are received, and on request also pause frames, TCP from and to some ports, or everything.
	Pause    bool
	TCPPorts []uint16
	All      bool

	// Clock says when a frame is sent, for the kinds that write that down (pcap); default is the machine's.
	Clock func() int64
	// File is what the kind pcap writes to: a path, or "-" for standard output.
	File string
	// Overwrite a file that exists.
	Overwrite bool

	// Command starts the simulation that the kind pipe talks to, by standard input and output; without one they are ours.
	Command []string
	// Patience is how long, of real time, a simulation may take to answer; default is no limit, for it may be a million times
	// slower than what it simulates.
	Patience time.Duration
}

// maxSlots keeps a port's memory below a gigabyte.
const maxSlots = 1 << 16

// complete fills in what does not depend on an interface.
func (o *Options) complete() {
	if o.Slots <= 0 {
		o.Slots = 1024
	}
	o.Slots = min(o.Slots, maxSlots)
	if o.Batch <= 0 {
		o.Batch = 512
	}
	if o.Ring <= 0 {
		o.Ring = 16384
	}
	if o.Clock == nil {
		o.Clock = now
	}
}
