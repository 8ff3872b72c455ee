package iwarp

import (
	"github.com/rocescope/rocescope/dissect"
)

// Op is what a message does.
type Op uint8

// The operations.
const (
	Send Op = iota
	Write
	Read
	Atomic
	Immediate
	Terminate
	NumOps
)

var opNames = [NumOps]string{"send", "write", "read", "atomic", "immediate", "terminate"}

func (o Op) String() string {
	if o < NumOps {
		return opNames[o]
	}
	return "unknown"
}

// opOf maps the opcodes of requests.
var opOf = [...]Op{
	dissect.RDMAPWrite: Write, dissect.RDMAPReadRequest: Read, dissect.RDMAPReadResponse: Read,
	dissect.RDMAPSend: Send, dissect.RDMAPSendInvalidate: Send, dissect.RDMAPSendSE: Send, dissect.RDMAPSendSEInvalidate: Send,
	dissect.RDMAPTerminate: Terminate, dissect.RDMAPImmediate: Immediate, dissect.RDMAPImmediateSE: Immediate,
	dissect.RDMAPAtomicRequest: Atomic, dissect.RDMAPAtomicResponse: Atomic,
}

// Status is what became of a message.
type Status uint8

// The statuses.
const (
	Open       Status = iota // not acknowledged or answered when the capture ended
	Done                     // its last byte was acknowledged by TCP; READ and atomic: answered
	Incomplete               // a part was never seen
)

var statusNames = [...]string{"open", "done", "incomplete"}

func (s Status) String() string { return statusNames[s%3] }

// Message is one request as the wire shows it.
type Message struct {
	Conn       *Connection
	Index      uint32 // among its requester's, 0 and up, by when they began
	Op         Op
	Opcode     dissect.RDMAPOpcode
	Direction  Direction // of who asked for it
	Status     Status
	STag       uint32 // of the remote buffer: WRITE's sink, READ's source, atomic
	Offset     uint64 // in it
	SinkSTag   uint32 // READ: where the data goes
	SinkOffset uint64
	Length     uint64 // bytes carried, of READ those asked for
	Seen       uint64 // payload that was seen
	Wire       uint64 // bytes of its FPDUs, and of those of the answer
	Segments   int
	MSN        uint32 // of untagged messages
	Invalidate uint32 // SEND with Invalidate: the steering tag
	Immediate  uint64
	Atomic     Operands
	First      uint64 // frames of the capture: the first byte of the request
	Last       uint64 // … its last one
	Answer     uint64 // the acknowledgement, or the last byte of the response
	Begun      int64
	Sent       int64 // time of Last
	Done       int64 // time of Answer
}

// Operands are an atomic's, and the value that the memory held before.
type Operands struct {
	Operation         uint8 // 0 fetch and add, 2 compare and swap
	Add, Swap         uint64
	Compare, Original uint64
	Answered          bool // Original is known
}

// Latency is from the message's first byte to its acknowledgement or the end of
// its answer.
func (m *Message) Latency() (int64, bool) { return m.Done - m.Begun, m.Status == Done }

// Ends are who asked for it, and who was asked.
func (m *Message) Ends() (from, to End) {
	if m.Direction == BToA {
		return m.Conn.B, m.Conn.A
	}
	return m.Conn.A, m.Conn.B
}

// Invalidates and Solicited say which kind of SEND it is.
func (m *Message) Invalidates() bool {
	return m.Opcode == dissect.RDMAPSendInvalidate || m.Opcode == dissect.RDMAPSendSEInvalidate
}

// Solicited reports whether the receiver is to wake its program.
func (m *Message) Solicited() bool {
	return m.Opcode == dissect.RDMAPSendSE || m.Opcode == dissect.RDMAPSendSEInvalidate || m.Opcode == dissect.RDMAPImmediateSE
}

// isAnswer reports whether this is no request but the answer to an atomic.
func (m *Message) isAnswer() bool { return m.Opcode == dissect.RDMAPAtomicResponse }
