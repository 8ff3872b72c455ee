package xsk

import "fmt"

// ProgramOptions says which frames the XDP program gives to the sockets. RoCE v2 (UDP port 4791 over IPv4 or IPv6) and RoCE
// v1 (EtherType 0x8915) always are among them, with up to two VLAN tags.
type ProgramOptions struct {
	// Queues is how many queues may have a socket; default 64.
	Queues int
	// Pause takes pause and priority flow control frames (EtherType 0x8808). Most NICs do not let them through anyway.
	Pause bool
	// TCPPorts takes TCP segments from and to these ports, up to MaxTCPPorts of them: programs that exchange their queue pair
	// numbers over a socket, and iWARP.
	TCPPorts []uint16
	// All takes every frame: for a mirror port, tunnels, or protocols that the program does not know. The host is then deaf
	// on this interface.
	All bool
	// NoFrags loads the program such that the kernel refuses it on interfaces with an MTU beyond one page.
	NoFrags bool
}

// MaxTCPPorts is how many ports the program compares with, each of which costs every TCP segment a little.
const MaxTCPPorts = 32

// Attach modes of a program.
type AttachMode int

// How a program is bound to an interface.
const (
	AttachAuto    AttachMode = iota // native, and generic where that is refused
	AttachNative                    // in the driver, before the kernel spends anything on the frame
	AttachGeneric                   // in the kernel's receive path; works on every interface
)

func (m AttachMode) String() string {
	switch m {
	case AttachNative:
		return "native"
	case AttachGeneric:
		return "generic"
	}
	return "auto"
}

// Verdict is why the program did what it did with a frame.
type Verdict int

// The verdicts. The first ones mean that the frame was redirected, the others that it was passed on to the kernel's stack.
// The program itself drops nothing; what a socket has no room for is dropped behind it, and counted in the socket's [Stats].
const (
	RedirectedRoCEv2 Verdict = iota
	RedirectedRoCEv1
	RedirectedPause
	RedirectedTCP
	RedirectedAny // ProgramOptions.All
	PassedOther   // not what was asked for
	PassedNoSocket
	PassedFragment // a later fragment of an IP packet, of UDP or TCP: it has no ports
	PassedShort    // its headers end before the ports, or lie too deep
	verdicts
)

var verdictNames = [verdicts]string{
	"redirected: RoCE v2", "redirected: RoCE v1", "redirected: pause", "redirected: TCP", "redirected: any",
	"passed: other traffic", "passed: no socket on the queue", "passed: later IP fragment", "passed: headers cut off",
}

func (v Verdict) String() string {
	if v >= 0 && v < verdicts {
		return verdictNames[v]
	}
	return fmt.Sprintf("verdict %d", int(v))
}

// Counters counts frames by verdict, over all CPUs.
type Counters [verdicts]uint64

// Redirected is how many frames were handed to sockets.
func (c Counters) Redirected() (n uint64) {
	for _, v := range c[:PassedOther] {
		n += v
	}
	return n
}

// Passed is how many frames went on to the kernel's stack.
func (c Counters) Passed() (n uint64) {
	for _, v := range c[PassedOther:] {
		n += v
	}
	return n
}

func (o *ProgramOptions) complete() error {
	if o.Queues == 0 {
		o.Queues = 64
	}
	if o.Queues < 0 || o.Queues > 1<<16 {
		return &Error{Op: fmt.Sprintf("make a program for %d queues", o.Queues)}
	}
	if len(o.TCPPorts) > MaxTCPPorts {
		return &Error{Op: fmt.Sprintf("make a program for %d TCP ports", len(o.TCPPorts)), Hint: fmt.Sprintf("%d are possible", MaxTCPPorts)}
	}
	return nil
}
