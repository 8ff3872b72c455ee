package iwarp

import "github.com/rocescope/rocescope/dissect"

// Rule is what an Event is about.
type Rule uint8

// The rules. What the arguments of an Event are stands beside each.
const (
	CRC            Rule = iota // an FPDU's CRC-32C is wrong: length
	Marker                     // a marker does not point at its FPDU: FPDUPTR, what it must be
	StartUp                    // a start-up frame breaks MPA: StartUpFault, numbers
	Depths                     // the responder wants more READs open than the initiator serves: ORD, IRD
	Header                     // a DDP or RDMAP header breaks its protocol: HeaderFault, control word
	MSN                        // an untagged message's number does not follow: queue, MSN, what it must be
	Segment                    // a segment does not continue its message: opcode, offset, what it must be
	ReadResponse               // an answer to nothing that was asked: STag, offset, length
	ReadOrder                  // an answer out of turn: STag, offset, requests passed over
	ReadDepth                  // more READs open than the other side serves: how many, IRD
	SpokeFirst                 // the responder sent before the initiator did
	AfterTerminate             // an FPDU behind a Terminate
	Terminated                 // a Terminate message: its error
	Rejected                   // the responder refused the connection
	Lost                       // bytes that the capture lacks: how many
	NumRules
)

// Event is a broken rule, a refusal, or a loss.
type Event struct {
	Rule      Rule
	Conn      *Connection
	Direction Direction
	Frame     uint64
	Time      int64
	Args      [3]uint64
}

// StartUpFault is what is wrong with a start-up frame.
type StartUpFault uint8

// The faults.
const (
	PrivateTooLong StartUpFault = 1 + iota // private data of more than 512 bytes: how many
	BadRevision                            // revision: which
	ReservedSet                            // reserved bits: the byte
	RequestRejects                         // a request with the reject bit
	EnhancedShort                          // enhanced without IRD and ORD: bytes of private data
	WrongSide                              // a request from the responder, or a reply from the initiator
	RevisionAbove                          // a reply of a higher revision: its, the request's
)

// HeaderFault is what is wrong with the header of a segment.
type HeaderFault uint8

// The faults.
const (
	TooShort HeaderFault = 1 + iota
	DDPVersion
	RDMAPVersion
	ReservedBits
	ReservedOpcode
	WrongBuffer // tagged where the opcode is untagged, or the reverse
	WrongQueue
)

var headerFaults = [...]string{
	TooShort: "the ULPDU is shorter than its headers", DDPVersion: "the DDP version is not 1", RDMAPVersion: "the RDMAP version is not 1",
	ReservedBits: "reserved bits are set", ReservedOpcode: "the RDMAP opcode is reserved",
	WrongBuffer: "the tagged bit does not fit the opcode", WrongQueue: "the queue does not fit the opcode",
}

func (f HeaderFault) String() string {
	if int(f) < len(headerFaults) {
		return headerFaults[f]
	}
	return "unknown"
}

// headerFault judges a segment's header, as far as the capture has it; 0 is
// well.
func headerFault(b []byte, ulpdu int) HeaderFault {
	if ulpdu < 2 {
		return TooShort
	}
	if len(b) < 2 {
		return 0
	}
	h := dissect.DDP(b)
	op := h.Opcode().Info()
	switch {
	case h.Version() != 1:
		return DDPVersion
	case h.RDMAPVersion() != 1:
		return RDMAPVersion
	case op == nil:
		return ReservedOpcode
	case h.Reserved() != 0:
		return ReservedBits
	case h.Tagged() != op.Tagged:
		return WrongBuffer
	case ulpdu < h.Size() || h.Last() && ulpdu < op.Size && op.Size > h.Size():
		return TooShort
	case !op.Tagged && len(b) >= h.Size() && h.QN() != op.Queue:
		return WrongQueue
	}
	return 0
}
