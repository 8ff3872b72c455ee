package connect

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// Parameters are what one end of a connection says of itself. A zero value of a field that an exchange does not tell means
// "not told": perftest tells no ACK time-out, CM no memory.
type Parameters struct {
	Transport dissect.Transport // RC, UC or UD
	Address   netip.Addr        // the address, or GID, that the queue pair sends from
	QPN       uint32
	PSN       dissect.PSN // the first PSN that this end sends; see CM for the sense it has there
	MTU       int         // path MTU in bytes
	PKey      uint16
	QKey      uint32 // of datagrams
	FlowLabel uint32 // chooses the UDP source port; 0 = the QPNs do; see UDPPort

	ResponderResources uint8 // READs and atomics that it answers at a time
	InitiatorDepth     uint8 // READs and atomics that it will have outstanding
	AckTimeout         uint8 // code of the local ACK time-out: 4.096 µs × 2^n
	RetryCount         uint8 // after a time-out or a sequence error
	RNRRetryCount      uint8 // after an RNR NAK; 7 is for ever
	SRQ                bool
	FlowControl        bool // end-to-end: it counts receive credits

	Memory Memory
}

// Memory is a memory region that the other end may read and write.
type Memory struct {
	RKey   uint32
	VA     uint64
	Length uint64 // 0 = not told
}

// IsZero reports whether no memory was told.
func (m Memory) IsZero() bool { return m == Memory{} }

const max24 = 1<<24 - 1

// Check reports the first value that cannot be. It asks for no more than a queue pair number; what else is needed depends on
// what is to be done.
func (p *Parameters) Check() error {
	switch {
	case p.Transport != dissect.RC && p.Transport != dissect.UC && p.Transport != dissect.UD:
		return fmt.Errorf("transport %v: it is to be RC, UC or UD", p.Transport)
	case p.QPN <= 1:
		return fmt.Errorf("QPN %#x: QPs 0 and 1 are for management", p.QPN)
	case p.QPN >= max24:
		return fmt.Errorf("QPN %#x: queue pair numbers have 24 bits, and 0xffffff is multicast", p.QPN)
	case p.PSN > max24:
		return fmt.Errorf("PSN %#x: PSNs have 24 bits", uint32(p.PSN))
	case p.MTU != 0 && !dissect.ValidMTU(p.MTU):
		return fmt.Errorf("MTU %d: path MTUs are 256, 512, 1024, 2048 and 4096", p.MTU)
	case p.FlowLabel > 1<<20-1:
		return fmt.Errorf("flow label %#x: flow labels have 20 bits", p.FlowLabel)
	case p.AckTimeout > 31:
		return fmt.Errorf("ACK time-out %d: its code has 5 bits", p.AckTimeout)
	case p.RetryCount > 7:
		return fmt.Errorf("retry count %d: it has 3 bits", p.RetryCount)
	case p.RNRRetryCount > 7:
		return fmt.Errorf("RNR retry count %d: it has 3 bits", p.RNRRetryCount)
	case p.Memory.Length > 0 && p.Memory.VA+p.Memory.Length-1 < p.Memory.VA:
		return errors.New("memory: address and length go beyond 64 bits")
	}
	return nil
}

// mtuCode is the code of a path MTU, 0 for what is none.
func mtuCode(mtu int) uint8 {
	for code := uint8(1); code <= 5; code++ {
		if dissect.MTUBytes(code) == mtu {
			return code
		}
	}
	return 0
}

// UDPPort is the UDP source port that Linux chooses for a connection: by the flow label, or where that is 0, by the two queue
// pair numbers, so that both directions have the same port.
func UDPPort(flowLabel, local, remote uint32) uint16 {
	if flowLabel == 0 {
		v := uint64(local) * uint64(remote)
		v ^= v >> 20
		v ^= v >> 40
		flowLabel = uint32(v)
	}
	flowLabel &= 0xFFFFF
	return uint16(0xC000 | (flowLabel^flowLabel>>14)&0x3FFF)
}
