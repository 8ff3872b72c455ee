package flows

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
)

// Operation is what a work request asks for.
type Operation uint8

// The operations, in the words of the analysis document.
const (
	OpSend Operation = iota
	OpWrite
	OpRead
	OpCompareSwap
	OpFetchAdd
	OpFlush
	OpAtomicWrite
	NumOperations
)

// Operations of iWARP alone, which no queue pair's counters have.
const (
	OpImmediate Operation = NumOperations + 1 + iota // immediate data without a WRITE
	OpTerminate                                      // the end of a connection, with its error
	numOperationNames
)

var operationNames = [numOperationNames]string{
	"send", "write", "read", "compare_swap", "fetch_add", "flush", "atomic_write", NumOperations: "unknown",
	OpImmediate: "immediate", OpTerminate: "terminate",
}

func (o Operation) String() string {
	if o < numOperationNames {
		return operationNames[o]
	}
	return "unknown"
}

// operationOf maps an opcode's family; ok is false for what is no work
// request.
func operationOf(f dissect.Family) (o Operation, ok bool) {
	switch f {
	case dissect.Send:
		return OpSend, true
	case dissect.Write:
		return OpWrite, true
	case dissect.Read:
		return OpRead, true
	case dissect.CompareSwap:
		return OpCompareSwap, true
	case dissect.FetchAdd:
		return OpFetchAdd, true
	case dissect.Flush:
		return OpFlush, true
	case dissect.AtomicWrite:
		return OpAtomicWrite, true
	}
	return 0, false
}

// Status is what a completion queue would say of a message, as far as the
// wire shows it.
type Status uint8

// The statuses. The numbers in their text are those of verbs.
const (
	StatusOpen       Status = iota // not completed when the capture ended
	StatusSuccess                  // acknowledged, or answered
	StatusSent                     // UC and UD: sent; nobody says whether it arrived
	StatusRetryExc                 // retries used up: presumed
	StatusRNRRetry                 // RNR retries used up: presumed
	StatusRemAccess                // refused: remote access error
	StatusRemInvReq                // refused: invalid request
	StatusRemOp                    // refused: remote operational error
	StatusRemInvRD                 // refused: invalid RD request
	StatusFlushed                  // seen after its QP had failed
	StatusIncomplete               // a part was never seen; what became of it is unknown
	NumStatuses
)

var statusText = [NumStatuses]struct {
	name string
	code int // of verbs' completion status; -1 where verbs has none
}{
	StatusOpen:       {"open", -1},
	StatusSuccess:    {"IBV_WC_SUCCESS", 0},
	StatusSent:       {"SENT", -1},
	StatusRetryExc:   {"IBV_WC_RETRY_EXC_ERR", 12},
	StatusRNRRetry:   {"IBV_WC_RNR_RETRY_EXC_ERR", 13},
	StatusRemAccess:  {"IBV_WC_REM_ACCESS_ERR", 10},
	StatusRemInvReq:  {"IBV_WC_REM_INV_REQ_ERR", 9},
	StatusRemOp:      {"IBV_WC_REM_OP_ERR", 11},
	StatusRemInvRD:   {"IBV_WC_REM_INV_RD_REQ_ERR", 15},
	StatusFlushed:    {"IBV_WC_WR_FLUSH_ERR", 5},
	StatusIncomplete: {"incomplete", -1},
}

func (s Status) String() string {
	if s < NumStatuses {
		return statusText[s].name
	}
	return "unknown"
}

// Code returns the number of verbs' completion status, -1 where verbs has
// none.
func (s Status) Code() int { return statusText[s%NumStatuses].code }

// Failed reports whether the work request ended with an error.
func (s Status) Failed() bool { return s >= StatusRetryExc && s <= StatusFlushed }

// Message is one work request as the wire shows it. One of iWARP has a steering
// tag for a key, an offset for an address, and no PSNs.
type Message struct {
	Conn      uint32
	Index     uint32    // among its requester's, in PSN order as first seen
	Direction Direction // requester → responder
	Op        Operation
	Status    Status
	Presumed  bool // the status is concluded from silence, not from an answer

	Flags    dissect.OpFlags // WithImm, WithInv, ConsumesReceive
	Segments uint32          // packets that the message takes in its requester's direction, resends not counted
	FirstPSN dissect.PSN
	LastPSN  dissect.PSN
	Bytes    uint64 // payload: what RETH says; for SENDs what was carried
	Seen     uint64 // payload bytes seen, each once
	VA       uint64 // WRITE, READ, atomics
	RKey     uint32
	Imm      uint32 // immediate data, or the key invalidated

	Swap, Compare, Orig uint64 // atomics: operands and the value before
	HasOrig             bool

	FirstSeen int64 // ns since the Unix epoch: its first packet
	LastSent  int64 // its last request packet, resends counted
	Completed int64 // the answer that settled it; 0 without
	Coalesced bool  // the answer covered later messages too: latency is an upper bound
	Resends   uint32
	WireBytes uint64 // all its request packets, and READ responses, as on the wire
	FirstFrame, LastFrame,
	AnswerFrame uint64

	Upper *Upper         // what an upper protocol says of it; nil for most
	IWARP *iwarp.Message // what only iWARP has; nil for all others
}

// Remote reports whether VA and RKey are those of remote memory, and the packet
// that has them was seen.
func (m *Message) Remote() bool { return m.Op != OpSend && (m.VA != 0 || m.RKey != 0) }

// Latency is the time from the message's first packet to its answer; ok is
// false where there was none, and where the clock was set back in between.
func (m *Message) Latency() (d time.Duration, ok bool) {
	if m.Completed == 0 || m.Completed < m.FirstSeen {
		return 0, false
	}
	return time.Duration(m.Completed - m.FirstSeen), true
}
