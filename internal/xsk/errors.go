package xsk

import (
	"errors"
	"fmt"
	"strings"
)

// What can go wrong, for errors.Is. Every error of this package that has one of these causes is an [*Error].
var (
	// ErrNotSupported: this system, kernel, driver or interface does not have it. What it is says an [*UnsupportedError].
	ErrNotSupported = errors.New("not supported")
	// ErrPrivilege: a capability is missing; [Error.Capabilities] names those that the step needs.
	ErrPrivilege = errors.New("missing privilege")
	// ErrBusy: another socket has the queue, or another XDP program the interface.
	ErrBusy = errors.New("in use")
	// ErrGone: the interface does not exist, or not any more.
	ErrGone = errors.New("interface gone")
	// ErrDown: the interface exists but is not up.
	ErrDown = errors.New("interface down")
	// ErrQueue: the interface does not have this queue.
	ErrQueue = errors.New("no such queue")
	// ErrFrameSize: the frames do not fit into chunks, the MTU, or the mode asked for.
	ErrFrameSize = errors.New("frame too long")
	// ErrMemory: no memory, no huge pages, or more than RLIMIT_MEMLOCK allows.
	ErrMemory = errors.New("not enough memory")
	// ErrClosed: the object was closed.
	ErrClosed = errors.New("closed")
)

// SetcapCapabilities is what a program needs to capture and send without being root, as setcap(8) takes it:
// raw sockets, XDP on an interface, loading BPF, and a UMEM beyond RLIMIT_MEMLOCK.
const SetcapCapabilities = "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock+ep"

// Error says what was tried, on what, and why it failed.
type Error struct {
	Op           string   // what was tried: "bind", "attach in native mode"
	Where        string   // on what: "eth0 queue 3"; may be empty
	Kind         error    // one of the sentinels of this package; may be nil
	Err          error    // what the kernel said; may be nil
	Hint         string   // what to try; may be empty
	Capabilities []string // with ErrPrivilege: those that the step needs, as CAP_NET_RAW
}

func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("xsk: ")
	b.WriteString(e.Op)
	if e.Where != "" {
		b.WriteByte(' ')
		b.WriteString(e.Where)
	}
	if e.Kind != nil {
		b.WriteString(": ")
		b.WriteString(e.Kind.Error())
	}
	if len(e.Capabilities) > 0 {
		b.WriteString(": needs " + strings.Join(e.Capabilities, ", "))
	}
	if e.Err != nil {
		if e.Kind != nil {
			fmt.Fprintf(&b, " (%v)", e.Err)
		} else {
			fmt.Fprintf(&b, ": %v", e.Err)
		}
	}
	if e.Hint != "" {
		b.WriteString("; ")
		b.WriteString(e.Hint)
	}
	return b.String()
}

// Unwrap gives errors.Is and errors.As both the sentinel and the kernel's word.
func (e *Error) Unwrap() []error {
	var errs []error
	if e.Kind != nil {
		errs = append(errs, e.Kind)
	}
	if e.Err != nil {
		errs = append(errs, e.Err)
	}
	return errs
}

// UnsupportedError names a feature that is not there, and why. It is [ErrNotSupported].
type UnsupportedError struct {
	Feature string // "multi-buffer", "zero-copy"
	Since   string // the first kernel that has it, "6.6"; empty if the kernel is not what lacks it
	Reason  string // whose word that is: "driver veth does not offer it"; may be empty
}

func (e *UnsupportedError) Error() string {
	s := e.Feature + " is not supported"
	if e.Reason != "" {
		s += ": " + e.Reason
	}
	if e.Since != "" {
		s += " (needs Linux " + e.Since + ")"
	}
	return s
}

// Is makes it [ErrNotSupported].
func (e *UnsupportedError) Is(target error) bool { return target == ErrNotSupported }
