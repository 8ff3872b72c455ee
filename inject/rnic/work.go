package rnic

import (
	"errors"
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// Op is what a send work request does.
type Op uint8

// The operations.
const (
	OpSend Op = iota
	OpSendImm
	OpSendInv
	OpWrite
	OpWriteImm
	OpRead
	OpCompareSwap
	OpFetchAdd
	numOps
)

// operations says what each operation is on the wire and in a completion, and which services have it (IBA 9.2.1, table 38).
var operations = [numOps]struct {
	name   string
	family dissect.Family
	flags  dissect.OpFlags
	comp   CompletionOp
	fixed  uint32 // the one length that it has; 0 = any
	on     [4]bool
}{
	OpSend:        {"SEND", dissect.Send, 0, CompSend, 0, services(dissect.RC, dissect.UC, dissect.UD)},
	OpSendImm:     {"SEND with immediate", dissect.Send, dissect.WithImm, CompSend, 0, services(dissect.RC, dissect.UC, dissect.UD)},
	OpSendInv:     {"SEND with invalidate", dissect.Send, dissect.WithInv, CompSend, 0, services(dissect.RC)},
	OpWrite:       {"RDMA WRITE", dissect.Write, 0, CompWrite, 0, services(dissect.RC, dissect.UC)},
	OpWriteImm:    {"RDMA WRITE with immediate", dissect.Write, dissect.WithImm, CompWrite, 0, services(dissect.RC, dissect.UC)},
	OpRead:        {"RDMA READ", dissect.Read, 0, CompRead, 0, services(dissect.RC)},
	OpCompareSwap: {"compare and swap", dissect.CompareSwap, 0, CompCompareSwap, atomicSize, services(dissect.RC)},
	OpFetchAdd:    {"fetch and add", dissect.FetchAdd, 0, CompFetchAdd, atomicSize, services(dissect.RC)},
}

// atomicSize is the length of what atomics work on.
const atomicSize = 8

func services(list ...dissect.Transport) (on [4]bool) {
	for _, t := range list {
		on[t] = true
	}
	return on
}

func (o Op) String() string {
	if o < numOps {
		return operations[o].name
	}
	return "unknown operation"
}

// answered reports whether the operation is completed by a response of its own, instead of an acknowledgement.
func (o Op) answered() bool { return o >= OpRead }

// SendFlags are properties of a send work request.
type SendFlags uint8

// The flags.
const (
	Signaled  SendFlags = 1 << iota // a completion is wanted; errors always make one
	Solicited                       // the peer's completion shall raise an event
	Fence                           // do not begin before all earlier READs and atomics are answered
	Inline                          // the data is in SendWR.Inline
)

// SendWR is a work request of a send queue.
type SendWR struct {
	ID     uint64
	Op     Op
	Flags  SendFlags
	SGL    []SGE  // local memory: what is sent, or where READs and atomics put their answer
	Inline []byte // with the flag Inline: what is sent; it is copied at once

	Imm      uint32 // OpSendImm, OpWriteImm: immediate data; OpSendInv: the remote key to invalidate
	RemoteVA uint64
	RKey     uint32
	// CompareAdd is what is compared with, or added; Swap is what is put in its place.
	CompareAdd, Swap uint64

	AH    *AH // UD: where to
	DstQP uint32
	QKey  uint32 // with its highest bit set, the queue pair's own is taken
}

// RecvWR is a work request of a receive queue.
type RecvWR struct {
	ID  uint64
	SGL []SGE
}

// Why a work request is not taken, for errors.Is.
var (
	ErrQueueFull = errors.New("the queue is full")
	ErrState     = errors.New("the queue pair's state does not allow it")
	ErrInvalid   = errors.New("the work request is not valid")
	ErrDestroyed = errors.New("the object was destroyed")
)

func invalid(what, format string, args ...any) error {
	return fmt.Errorf("rnic: %s: %w: %s", what, ErrInvalid, fmt.Sprintf(format, args...))
}

// sendWQE is a work request in a send queue, and how far it has come. Everything below length is the device's.
type sendWQE struct {
	id       uint64
	op       Op
	flags    SendFlags
	nsge     uint8
	imm      uint32
	rkey     uint32
	dstQP    uint32
	qkey     uint32
	length   uint32
	remoteVA uint64
	compare  uint64
	swap     uint64
	ah       *AH

	first   dissect.PSN
	packets uint32      // PSNs that it takes
	ssn     uint32      // its place among the messages of the connection, 24 bits
	asked   dissect.PSN // READ: where the newest request begins
	status  Status      // a local error that waits for the work requests before it
}

// recvWQE is a receive work request that was taken off its queue.
type recvWQE struct {
	id  uint64
	sgl []SGE // in the queue pair's room
	len uint64
}
