package flows

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// Snapshot is the state of everything that a Tracker knows, made at a batch
// boundary. Nothing in it changes later.
type Snapshot struct {
	Packets      uint64 // tracked, of any protocol
	Protocols    ProtocolCounts
	Opcodes      [256]uint64
	ICRC         [4]uint64 // by dissect.ICRCStatus, of packets that have one
	Connections  []Connection
	Findings     []Finding     // gravest first, then by frame
	HostPairs    []HostPair    // in order of first sight
	HostsLeft    uint64        // streams of host pairs beyond those that are kept
	Pauses       []PauseSender // in the order of their first XOFF
	Shadow       ShadowMemory
	IWARP        []iwarp.Connection // in order of first sight
	Mirrored     uint64             // packets that were captured twice, inside a tunnel and outside it
	Evicted      uint64             // connections whose record went to the sink because the table was full
	FindingsLeft uint64             // findings that only the sink got, because the list was full
}

// ProtocolCounts are packets by protocol. CM and CNP packets are counted under
// RoCE (or InfiniBand) too; socket exchange packets are the TCP packets of
// connections in which an exchange was recognised.
type ProtocolCounts struct {
	RoCEv2, RoCEv1, InfiniBand, IWARP, CM, SocketExchange, PFC, CNP, Other uint64
}

// Connection is a pair of queue pairs; of UD, a source QP and a destination.
type Connection struct {
	ID          uint32
	Transport   dissect.Transport
	A, B        QP
	Evidence    Evidence
	Why         string    // the evidence in words
	Candidates  []QPName  // Ambiguous: who the other side may be
	Streams     [2]Stream // by Direction
	Directions  int       // 1 or 2: how many of the two were captured
	Tap         Tap
	FirstSeen   int64
	LastSeen    int64
	FirstFrame  uint64
	ServiceID   uint64    // CM
	Established int64     // CM: time of RTU or first packet; 0 unknown
	Detail      *Detail   // nil beyond Options.MaxDetails connections
	Upper       *UpperUse // nil where it is not known to carry an upper protocol
}

// QPName names a queue pair.
type QPName struct {
	Addr dissect.Addr
	VLAN int // -1 without
	QPN  uint32
}

// QP is one end of a connection.
type QP struct {
	QPName
	Known      bool // false: the wire does not tell who this is
	State      State
	History    []StateStep
	FirstPSN   dissect.PSN // first request PSN that this QP sends
	HasPSN     bool
	PathMTU    int // 0 = unknown
	Negotiated Negotiated
	InUse      InUse
}

// State is a queue pair's state, as far as the wire proves it.
type State uint8

// The states (IBA 10.3.1).
const (
	StateUnknown State = iota
	StateReset
	StateInit
	StateRTR
	StateRTS
	StateSQE
	StateError
)

var stateNames = [...]string{"unknown", "RESET", "INIT", "RTR", "RTS", "SQE", "ERROR"}

func (s State) String() string { return stateNames[s%7] }

// StateStep is a step of a queue pair's state machine and what proves it.
type StateStep struct {
	State    State
	Frame    uint64
	Time     int64
	Why      string
	Presumed bool
}

// Negotiated is what a handshake agreed on; a field's Set bit says whether it
// was captured.
type Negotiated struct {
	Set                bool
	PathMTU            int
	StartPSN           dissect.PSN // this QP's first request PSN
	RetryCount         int         // -1 = unknown, as with the next ones
	RNRRetryCount      int
	ResponderResources int // READs and atomics that this QP answers at a time
	InitiatorDepth     int // READs and atomics that this QP has outstanding
	AckTimeout         int // code n of 4.096 µs × 2^n
	SRQ                bool
	RKey               uint32 // socket exchanges tell these two
	VA                 uint64
	HasMemory          bool
}

// InUse is what a queue pair's traffic shows of its queues and settings.
type InUse struct {
	SQSent, SQAcked    uint64  // work requests
	RQConsumed         uint64  // receive WQEs
	Outstanding        uint32  // most messages outstanding at a time
	OutstandingPackets uint32  // most request packets
	ReadDepth          uint32  // most READs and atomics
	PathMTU            int     // that its full packets show, 0 = none seen
	Credits            int     // receive WQEs that its responder granted last
	CreditLimit        int     // MSN up to which it may consume a receive, -1 = never told
	Retries            int     // most times that one message was begun again
	TimeoutMin         int64   // ns, shortest wait before it sent again unasked; 0 = never
	TimeoutMax         int64   // ns, longest
	TimeoutCodes       []uint8 // codes n of 4.096 µs × 2^n that fit the shortest
}

// Tap is where the capture was taken.
type Tap uint8

// The places.
const (
	TapUnknown Tap = iota
	TapNearA
	TapNearB
	TapBetween
)

var tapNames = [...]string{"unknown", "near a", "near b", "between"}

func (t Tap) String() string { return tapNames[t&3] }

// Stream is what one direction of a connection carried. Counts of requests
// belong to the requester that sends in this direction; counts of answers to
// the responder that sends in it.
type Stream struct {
	Packets, Bytes, PayloadBytes uint64
	Messages                     [NumOperations]MessageCounts
	RetransmittedPackets         uint64
	RetransmittedBytes           uint64
	Retransmissions              [NumCauses]uint64 // runs of packets sent again, by cause
	Duplicates                   uint64            // requests below the expected PSN, copies and resends alike
	OutOfOrder                   uint64            // packets that were not the expected next
	LostBeforeTap                uint64
	LostBehindTap                uint64
	CaptureLost                  uint64
	GhostAcks                    uint64
	Reordered                    uint64
	NetworkDuplicates            uint64
	Ambiguous                    uint64 // missing or repeated packets whose cause the wire does not tell
	Acks                         uint64
	NAKs                         [dissect.NumNAKCodes]uint64
	ReservedSyndromes            uint64
	RNRNAKs                      uint64
	RNRWait                      time.Duration
	ECNCE                        uint64
	CNPs                         uint64
	BadICRC                      uint64
	Goodput                      float64         // payload bits per second from first to last packet of it
	Latency                      Latency         // of the messages requested in this direction
	DSCP                         []uint8         // distinct values seen, in order of first sight
	SrcPorts                     int             // distinct UDP source ports, as far as counted
	SrcPort                      uint16          // the first one
	Priorities                   []uint8         // 802.1p, of tagged packets, in order of first sight
	Paused                       time.Duration   // how long any station had paused the stream's priority, or the whole link, in this capture
	PausedKnown                  bool            // pause frames were seen, and the priority is known: by the tag, or all of them stop the whole link
	MigReq                       bool            // of the first packet
	CNPDSCP                      []uint8         // of the CNPs in this direction, ascending
	CNPInterval                  time.Duration   // shortest time between two CNPs of this direction; 0 = fewer than two
	RTT                          RTT             // of the requests in this direction
	Latencies                    []LatencyBucket // those that hold something
	FirstSeen, LastSeen          int64
}

// MessageCounts counts the messages of one operation.
type MessageCounts struct {
	Count, Bytes, Completed, Failed uint64
	Imm, Inv                        uint64 // with immediate, with invalidate
}

// Cause is why packets were sent again.
type Cause uint8

// The causes.
const (
	CauseNAK      Cause = iota // behind a PSN sequence NAK
	CauseRNR                   // behind an RNR NAK
	CauseTimeout               // behind silence
	CauseSpurious              // although their ACK had passed this tap
	NumCauses
)

var causeNames = [NumCauses]string{"nak", "rnr", "timeout", "spurious"}

func (c Cause) String() string { return causeNames[c%NumCauses] }

// Latency summarises times from the first packet of a message to its answer,
// in nanoseconds.
type Latency struct {
	Count, Coalesced                    uint64
	Min, Mean, P50, P90, P99, P999, Max int64
	Coarse                              bool // percentiles are right within one part in four only; else in a hundred
}
