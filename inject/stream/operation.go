package stream

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// Operation is something that a stream can send.
type Operation struct {
	Name  string
	About string

	family dissect.Family
	role   dissect.Role
	flags  dissect.OpFlags
	size   int // that every message has; 0 = by configuration
}

// operations is the one list of them. Which services have one, and what its packets are, says the opcode table.
var operations = []Operation{
	{"send", "SEND", dissect.Send, dissect.Request, 0, 0},
	{"send-imm", "SEND with immediate: the number of the message", dissect.Send, dissect.Request, dissect.WithImm, 0},
	{"send-inv", "SEND with invalidate, of the QP's rkey", dissect.Send, dissect.Request, dissect.WithInv, 0},
	{"write", "RDMA WRITE", dissect.Write, dissect.Request, 0, 0},
	{"write-imm", "RDMA WRITE with immediate: the number of the message", dissect.Write, dissect.Request, dissect.WithImm, 0},
	{"read", "RDMA READ request", dissect.Read, dissect.Request, 0, 0},
	{"cas", "atomic compare and swap, of the number of the message by the next", dissect.CompareSwap, dissect.Request, 0, atomicSize},
	{"fetch-add", "atomic fetch and add, of 1", dissect.FetchAdd, dissect.Request, 0, atomicSize},
	{"ack", "acknowledgements, as a responder sends them", dissect.Acknowledge, dissect.Response, 0, noSize},
	{"cnp", "congestion notifications", dissect.Congestion, dissect.NoRole, 0, noSize},
}

const (
	// noSize is the size of what is no message.
	noSize = -1
	// atomicSize is what an atomic works on.
	atomicSize = 8
)

// Operations returns the list.
func Operations() []Operation { return operations }

// FindOperation finds an operation by its name.
func FindOperation(name string) (*Operation, bool) {
	for i := range operations {
		if operations[i].Name == name {
			return &operations[i], true
		}
	}
	return nil, false
}

// opcode is that of a packet at a place in the operation's messages.
func (o *Operation) opcode(t dissect.Transport, p dissect.Position) (dissect.Opcode, bool) {
	if o.family == dissect.Congestion {
		return dissect.OpCNP, p == dissect.Only && t != dissect.UD
	}
	flags := o.flags
	if p == dissect.First || p == dissect.Middle {
		flags = 0 // only the end of a message tells them
	}
	return dissect.OpcodeOf(t, o.family, o.role, p, flags)
}

// On reports whether a service has the operation.
func (o *Operation) On(t dissect.Transport) bool {
	_, ok := o.opcode(t, dissect.Only)
	return ok
}

// Request reports whether the operation is a message of a requester, which takes PSNs.
func (o *Operation) Request() bool { return o.role == dissect.Request }

// Op is a part of a mix.
type Op struct {
	Operation *Operation
	Transport dissect.Transport // RC, UC or UD
	Sizes     Sizes             // without a value: that of the whole stream
	Weight    float64           // 0 = 1
}

// transports are the services that streams have.
var transports = map[string]dissect.Transport{"rc": dissect.RC, "uc": dissect.UC, "ud": dissect.UD}

// ParseTransport reads RC, UC or UD.
func ParseTransport(text string) (dissect.Transport, error) {
	if t, ok := transports[strings.ToLower(text)]; ok {
		return t, nil
	}
	return 0, fmt.Errorf("%q is no service of a stream; there are RC, UC and UD", text)
}

// UnknownOperationError says that there is no such operation.
type UnknownOperationError struct{ Name string }

func (e *UnknownOperationError) Error() string {
	return fmt.Sprintf("no operation is called %q", e.Name)
}

// ParseOp reads OPERATION[@SERVICE][=WEIGHT], as in "write", "send@ud=2".
func ParseOp(text string, service dissect.Transport) (Op, error) {
	name, weight, weighted := strings.Cut(text, "=")
	op := Op{Transport: service}
	if weighted {
		var err error
		if op.Weight, err = strconv.ParseFloat(weight, 64); err != nil || !(op.Weight > 0) || op.Weight > 1e9 {
			return op, fmt.Errorf("%q: %q is no weight: a number above 0", text, weight)
		}
	}
	name, on, named := strings.Cut(name, "@")
	if named {
		var err error
		if op.Transport, err = ParseTransport(on); err != nil {
			return op, err
		}
	}
	var ok bool
	if op.Operation, ok = FindOperation(name); !ok {
		return op, &UnknownOperationError{name}
	}
	return op, nil
}
