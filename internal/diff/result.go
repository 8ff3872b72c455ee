package diff

import "github.com/rocescope/rocescope/dissect"

// Kind is what became of a packet.
type Kind uint8

// The kinds. Those of the second half are of packets that one capture alone
// has and of which nobody can tell more.
const (
	Lost      Kind = iota // passed the first capture, and never came to the other
	Copied                // came more often than it was sent
	Overtaken             // came behind packets of its stream that were sent later
	Changed               // bytes that its ICRC covers changed on the way, or it was cut short
	Marked                // congestion was marked on the way
	Appeared              // only the capture that it passes last has it: nobody sent it, or the other capture missed it
	OnlyA                 // directions of unknown order
	OnlyB
	numKinds
)

var kindNames = [numKinds]string{"lost", "duplicated", "reordered", "changed", "marked", "appeared", "only_a", "only_b"}

func (k Kind) String() string {
	if k < numKinds {
		return kindNames[k]
	}
	return "unknown"
}

// Packet is one packet that did not come through as it was sent.
type Packet struct {
	Kind   Kind
	Stream int       // index in Result.Streams
	Frame  [2]uint64 // its number in a and in b; 0 where it is not there
	Time   int64     // by a's clock
	Opcode dissect.Opcode
	PSN    dissect.PSN

	Copies  []uint64 // Copied: the further frames at the capture that it passes last, Frame having the first
	Late    int64    // Overtaken: how much longer than usual it took, ns
	Edge    bool     // at the very beginning or end of what the other capture has
	Changes []Change // Changed, Marked
	BadA    bool     // its ICRC is wrong in a
	BadB    bool     // and in b
	Missing int      // Changed: bytes cut off
}

// Change is one field, or part of the payload, that changed.
type Change struct {
	Field  string // as in filters; "payload", "icrc"
	Offset int    // of the first byte that changed, in the frame of a
	Bits   []Bit
	Before uint64 // the field's value as it was sent; of the payload, and of the ICRC, the first byte that changed
	After  uint64
}

// Bit is a changed bit: byte offset in the frame of a, 0 the lowest of the byte.
type Bit struct {
	Byte int
	Bit  int
}

// Rewrite is a change that paths make to each packet, and no harm.
type Rewrite struct {
	Field         string
	Before, After uint64
	Packets       uint64
}

// SideInfo is what is known of a capture as a whole.
type SideInfo struct {
	Name        string
	Frames      uint64
	Packets     uint64 // that are compared
	First, Last int64
	Timed       bool
	Damage      []error
}

// Result is what the comparison found.
type Result struct {
	NoPackets bool // two event logs: they have messages and findings only
	A, B      SideInfo
	Clock     Clock
	ByIndex   bool // one capture has no times: the order of frames stands for them
	Matched   uint64
	Totals    [numKinds]uint64
	Outside   [2]uint64 // packets of one capture from when the other was not running
	Packets   []Packet  // in order of time, no more than Options.MaxPackets
	Left      uint64    // of them, left out
	Streams   []Stream
	Rewrites  []Rewrite
	Messages  *Messages // nil where they were not compared

	times timeline
}
