package xsk

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Attachment is a program bound to an interface. It ends with Close, with the process, or with the interface.
type Attachment struct {
	Interface string
	Mode      AttachMode // AttachNative or AttachGeneric
	// NotNative is why native mode was not possible, if AttachAuto had to make do with generic.
	NotNative error

	link link.Link
}

// Attach binds the program to an interface. Frames that it wants are passed to the kernel until a socket is registered.
func (p *Program) Attach(name string, mode AttachMode) (*Attachment, error) {
	if mode != AttachAuto {
		return p.attach(name, mode)
	}
	a, err := p.attach(name, AttachNative)
	if err == nil || errors.Is(err, ErrBusy) || errors.Is(err, ErrPrivilege) || errors.Is(err, ErrGone) {
		return a, err
	}
	a, generic := p.attach(name, AttachGeneric)
	if generic != nil {
		return nil, errors.Join(err, generic)
	}
	a.NotNative = err
	return a, nil
}

func (p *Program) attach(name string, mode AttachMode) (*Attachment, error) {
	op := "attach the XDP program in " + mode.String() + " mode to"
	iface, err := interfaceByName(op, name)
	if err != nil {
		return nil, err
	}
	flags := link.XDPDriverMode
	if mode == AttachGeneric {
		flags = link.XDPGenericMode
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p.program, Interface: iface.Index, Flags: flags})
	if err == nil {
		return &Attachment{Interface: name, Mode: mode, link: l}, nil
	}
	e := &Error{Op: op, Where: name, Err: err}
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		e.Kind, e.Hint = ErrBusy, attachedHint(name)
	case errors.Is(err, unix.ERANGE):
		e.Kind = ErrFrameSize
		e.Hint = fmt.Sprintf("the MTU of %d is more than this driver takes with XDP", iface.MTU)
		if p.options.NoFrags || HaveFrags() != nil {
			e.Hint += ", for frames go into one page if the program is not aware of fragments (Linux 5.18)"
		} else {
			e.Hint += ": lower it, or attach in generic mode"
		}
	case errors.Is(err, unix.EOPNOTSUPP):
		e.Kind, e.Hint = ErrNotSupported, "attach in generic mode"
	case errors.Is(err, unix.EINVAL) && haveXDPLink() != nil:
		e.Err = haveXDPLink()
	case errors.Is(err, unix.EINVAL):
		e.Hint = fmt.Sprintf("drivers say so where the MTU (%d) is too large for XDP, or offloads or the number of queues stand in its way: the kernel's log may tell", iface.MTU)
	default:
		return nil, failure(op, name, err, "CAP_NET_ADMIN", "CAP_BPF")
	}
	return nil, e
}

// Vacant is an error of the kind ErrBusy if an XDP program is attached to an interface: Attach would be refused. Who asks it before
// Open does not wait for queues that somebody keeps; a program that ends detaches before the kernel frees its queues.
func Vacant(name string) error {
	const op = "attach an XDP program to"
	iface, err := interfaceByName(op, name)
	if err != nil {
		return err
	}
	if attachedProgram(iface.Index) == 0 {
		return nil
	}
	return &Error{Op: op, Where: name, Kind: ErrBusy, Err: unix.EBUSY, Hint: attachedHint(name)}
}

// attachedProgram is the XDP program that an interface has, 0 if there is none, or it is not known.
func attachedProgram(index int) uint32 {
	if l, err := netlink.LinkByIndex(index); err == nil && l.Attrs().Xdp != nil && l.Attrs().Xdp.Attached {
		return l.Attrs().Xdp.ProgId
	}
	return 0
}

func attachedHint(name string) string {
	return "another XDP program is attached: ip link show " + name + " names it, ip link set " + name + " xdp off removes it if it has no link"
}

// Close unbinds the program.
func (a *Attachment) Close() error { return a.link.Close() }
