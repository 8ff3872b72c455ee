package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/rnic"
)

// operation is what a plan calls an operation of the software RNIC.
type operation struct {
	name string
	op   rnic.Op
}

var operations = []operation{
	{"write", rnic.OpWrite},
	{"write-imm", rnic.OpWriteImm},
	{"read", rnic.OpRead},
	{"send", rnic.OpSend},
	{"send-imm", rnic.OpSendImm},
	{"compare-swap", rnic.OpCompareSwap},
	{"fetch-add", rnic.OpFetchAdd},
}

// OperationName is the name of an operation in rocescope's exchange.
func OperationName(op rnic.Op) string {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.op == op })
	if i < 0 {
		return ""
	}
	return operations[i].name
}

func operationOf(name string) (rnic.Op, bool) {
	i := slices.IndexFunc(operations, func(o operation) bool { return o.name == name })
	if i < 0 {
		return 0, false
	}
	return operations[i].op, true
}

func isAtomic(op rnic.Op) bool  { return op == rnic.OpCompareSwap || op == rnic.OpFetchAdd }
func isSend(op rnic.Op) bool    { return op == rnic.OpSend || op == rnic.OpSendImm }
func isWrite(op rnic.Op) bool   { return op == rnic.OpWrite || op == rnic.OpWriteImm }
func takesRecv(op rnic.Op) bool { return isSend(op) || op == rnic.OpWriteImm }

// Rally is how the messages of the two sides follow each other.
type Rally uint8

// The rallies.
const (
	OneWay     Rally = iota // as many as the depth allows, one way
	SendRally               // a SEND, answered by a SEND, and so on; the asking side begins
	WriteRally              // the same with WRITEs, which each side finds by their last byte; the answering side begins (perftest)
)

// Plan is what a Requester does.
type Plan struct {
	Op        rnic.Op
	Transport dissect.Transport
	Size      int           // bytes of a message
	QPs       int           // 0 = 1
	Depth     int           // messages outstanding on a queue pair; 0 = 128, of latencies 1
	Count     uint64        // messages on each queue pair; 0 = until Duration is over
	Duration  time.Duration // 0 = until Count are done
	Rally     Rally
	Verify    bool
	Seed      uint64
	Stall     time.Duration // how long nothing may complete; 0 = 60 s
	Policy    rnic.Policy
}

// Limits.
const (
	maxSize     = 1 << 30
	mostPosted  = 1 << 16 // work requests of all queue pairs
	verifyBytes = 64 << 20
	defaultDeep = 128
)

// complete checks a plan and fills in what was left out.
func (p *Plan) complete() error {
	if p.QPs == 0 {
		p.QPs = 1
	}
	if isAtomic(p.Op) {
		p.Size = 8
	}
	if p.Depth == 0 {
		p.Depth = defaultDeep
	}
	if p.Stall == 0 {
		p.Stall = time.Minute
	}
	if p.Rally != OneWay {
		p.Depth = 1
	}
	switch {
	case p.QPs < 0 || p.Depth < 0 || p.Size < 0:
		return errors.New("numbers of queue pairs, messages and bytes are not negative")
	case p.Size > maxSize:
		return fmt.Errorf("a message of %d bytes: at most %d", p.Size, maxSize)
	case p.Count == 0 && p.Duration == 0:
		return errors.New("neither a number of messages nor a duration")
	case p.Transport == dissect.UD && !isSend(p.Op), p.Transport == dissect.UC && (p.Op == rnic.OpRead || isAtomic(p.Op)):
		return fmt.Errorf("%v has no %v", p.Transport, p.Op)
	case p.Rally == SendRally && !isSend(p.Op), p.Rally == WriteRally && (p.Op != rnic.OpWrite || p.Size == 0):
		return fmt.Errorf("%v of %d bytes cannot be answered by the like", p.Op, p.Size)
	case p.Rally == WriteRally && p.Verify:
		return errors.New("WRITEs that are found by their last byte have no room for a pattern")
	}
	if p.Count > 0 {
		p.Depth = int(min(uint64(p.Depth), p.Count))
	}
	p.Depth = max(1, min(p.Depth, mostPosted/p.QPs))
	if p.Verify {
		p.Depth = max(1, min(p.Depth, verifyBytes/p.QPs/max(p.stride(), 1)))
	}
	return nil
}

// stride is how far apart messages lie in memory.
func (p *Plan) stride() int { return (max(p.Size, 8) + 63) &^ 63 }

// slots is how many messages of a queue pair memory holds, on both sides.
func (p *Plan) slots() int {
	if p.Verify {
		return p.Depth
	}
	return 1
}

// Traffic is the plan as rocescope's exchange tells it.
func (p *Plan) Traffic() (*connect.Traffic, error) {
	if err := p.complete(); err != nil {
		return nil, err
	}
	return &connect.Traffic{
		Operation: OperationName(p.Op), Size: p.Size, Slots: p.slots(), Verify: p.Verify, Seed: p.Seed, Answer: p.Rally == SendRally,
	}, nil
}

// mostPackets is how many packets of all queue pairs may be under way: what the rings of ports have room for. A real network would
// be asked to slow down by congestion control; between two ends in software nothing is.
const mostPackets = 4096

// turnPackets is how many packets a queue pair may post in its turn: one acknowledgement answers them all.
const turnPackets = 8

// packets is how many packets of a message may be under way, roughly.
func (p *Plan) packets() int { return min(max(1, p.Size/1024), p.window()) }

func (p *Plan) window() int { return cmp.Or(p.Policy.Window, 256) }

// budget is how many messages of all queue pairs may be posted.
func (p *Plan) budget() int {
	window, packets := p.window(), p.packets()
	if p.QPs*min(window, p.Depth*packets) <= mostPackets {
		return p.QPs * p.Depth
	}
	return max(1, mostPackets/packets)
}
