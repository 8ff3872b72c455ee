// Package port is where generated frames leave and where answers arrive: one small interface, and behind it an AF_XDP socket,
// the kernel's live-frame generator, an AF_PACKET socket, a capture file, a pair in memory, or a pipe to a simulator.
//
// It owns how frames get out and in, what they cost and what was lost on the way, and the choice of the best way for an
// interface and a frame size. What the frames say belongs to its users: inject/stream, inject/rnic, inject/wire.
//
// # The model
//
// A port owns a fixed number of slots, each of which is the room of one frame. The sender takes free slots, writes frames into
// their rooms, and sends them; the port gives a slot back, by Take, once the frame has left. A slot's bytes stay what the sender
// wrote last: who sends the same kind of frame from the same slot patches only what differs.
//
//	n := p.Take(slots)
//	for i, s := range slots[:n] { frames[i] = port.Out{Slot: s, Len: write(p.Room(s))} }
//	err := p.Send(frames[:n])
//
// Received frames are borrowed: their bytes are good until the next Receive, and not to be written to.
//
//	n, err := p.Receive(in)
//	for _, f := range in[:n] { use(f.Data, f.Time) }
//	if n == 0 { err = p.Wait(time.Millisecond) }
//
// One goroutine may send (Take, Room, Send, Flush) while another receives (Receive, Wait); Stats may be called from anywhere.
// Nothing of this allocates or locks per frame. Several queues of an interface are several ports.
package port

import "time"

// Out is a frame to be sent: the first Len bytes of the room of Slot, an Ethernet frame without its FCS.
type Out struct {
	Slot uint32
	Len  int32
}

// In is a frame that arrived. Data is borrowed until the next Receive.
type In struct {
	Data []byte
	Time int64 // when it arrived, nanoseconds since 1970 of the port's clock
}

// Port sends and receives Ethernet frames without FCS.
type Port interface {
	Info() Info

	// Take fills slots with the numbers of free slots, as many as there are, and returns how many. It does not wait: a port
	// that is behind returns 0, and Flush helps it on.
	Take(slots []uint32) int
	// Room is the slot's memory, of Info.MaxFrame bytes.
	Room(slot uint32) []byte
	// Send hands the frames over in this order. Their slots belong to the port from then on, whatever the outcome. A frame
	// that the port can see it lost is counted in Stats; an error is for what ends the port, ErrGone or ErrClosed, and for an
	// interface that was set down, ErrDown: frames then wait for it to be up again, and the next Send or Flush.
	Send(frames []Out) error
	// Flush sees to it that everything handed over is on its way, and takes note of what has left.
	Flush() error

	// Receive fills in with frames that are there, and returns how many; it does not wait.
	Receive(in []In) (int, error)
	// Wait returns when something can be received or the time is over, whichever is first. The time is that of the port's clock:
	// a simulation's passes here, and only here.
	Wait(timeout time.Duration) error

	Stats() Stats
	// Close ends it, when nobody sends or receives any more.
	Close() error
}

// Waker is a port that can be woken.
type Waker interface {
	// Wake ends a Wait that sleeps now, or else the next one. Any goroutine may call it, until Close.
	Wake()
}

// Clock is the clock that a port's frames arrive by: the simulation's for a pipe, the one that a pair was given, and else the
// machine's.
func Clock(p Port) func() int64 {
	if own, ok := p.(interface{ Now() int64 }); ok {
		return own.Now
	}
	return now
}

// Info says what a port is.
type Info struct {
	Via       string // which kind it is, by the name that --via takes
	Interface string // empty if there is none
	Queue     int
	MTU       int // of the interface when the port was opened; 0 if there is none
	MaxFrame  int // the longest frame it can send, bytes; with an interface, one with a VLAN tag
	Slots     int
	Receives  bool   // whether anything can arrive
	Detail    string // how it does it, for people: "copy, native XDP, 512 descriptors a call"
}

// Stats counts frames since the port was opened.
type Stats struct {
	Sent        uint64 // handed over and not known to be lost
	SentBytes   uint64 // of all that was handed over
	SendLost    uint64 // handed over, and the kernel or the far end said that they were dropped
	Received    uint64
	RecvBytes   uint64
	RecvLost    uint64 // arrived, and found no room
	Outstanding int    // handed over and not yet known to have left
	LinkDropped uint64 // frames that the interface itself said, a moment ago, that it dropped on sending, whoever sent them
}

// Add adds what another queue of the same interface counted.
func (s *Stats) Add(o Stats) {
	s.Sent += o.Sent
	s.SentBytes += o.SentBytes
	s.SendLost += o.SendLost
	s.Received += o.Received
	s.RecvBytes += o.RecvBytes
	s.RecvLost += o.RecvLost
	s.Outstanding += o.Outstanding
	s.LinkDropped = max(s.LinkDropped, o.LinkDropped) // of the interface, not of the queue
}
