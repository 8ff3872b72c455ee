package flows

import "github.com/rocescope/rocescope/dissect"

// Mark says what one packet is to the connection that it belongs to. The
// tracker fills it; a sender of traffic fills it itself, for it knows.
type Mark struct {
	Bits      MarkBits
	Conn      uint32    // the connection's number, 1 and up; 0 = none
	Message   uint32    // index of the message among its requester's, 0 and up; valid with MarkMessage
	PSNOffset uint32    // PSN relative to the first request PSN of its requester; valid with MarkPSN
	Round     uint16    // how many times the packet's PSN was sent before, as far as seen
	Direction Direction // of the packet itself
}

// Direction is one of a connection's two.
type Direction uint8

// The directions.
const (
	AToB Direction = iota
	BToA
)

// Reverse returns the other direction.
func (d Direction) Reverse() Direction { return d ^ 1 }

func (d Direction) String() string {
	if d == AToB {
		return "a_to_b"
	}
	return "b_to_a"
}

// MarkBits are what can be said of a packet at once.
type MarkBits uint32

// The bits.
const (
	MarkRequest        MarkBits = 1 << iota // sent by a requester
	MarkResponse                            // sent by a responder
	MarkMessage                             // Message is valid
	MarkPSN                                 // PSNOffset is valid
	MarkRetransmission                      // a request, or READ response, sent again
	MarkDuplicate                           // a copy made by the network or by the capture
	MarkAfterGap                            // PSNs before it are missing
	MarkReordered                           // late: it fills a gap that later packets left
	MarkNAK                                 // a NAK
	MarkRNR                                 // an RNR NAK
	MarkCE                                  // carries congestion experienced
	MarkCNP                                 // a congestion notification
	MarkBadICRC                             // damaged: moves nothing
	MarkGhost                               // answers a request that was never seen
	MarkFinding                             // at least one finding names this packet
	MarkUnclear                             // sent again or copied: the wire does not tell
	MarkCopy                                // seen before in another tunnel, or outside: not counted again
)

// upperShift is where the bits hold the packet's dissect.Upper.
const upperShift = 24

// Upper is what the packet's payload is in the words of an upper protocol.
func (m *Mark) Upper() dissect.Upper { return dissect.Upper(m.Bits >> upperShift) }

func (m *Mark) setUpper(u dissect.Upper) { m.Bits |= MarkBits(u) << upperShift }

// markAgain are the bits of a request that brings nothing new.
const markAgain = MarkRetransmission | MarkDuplicate | MarkUnclear

// Has reports whether all bits of b are set.
func (m *Mark) Has(b MarkBits) bool { return m.Bits&b == b }
