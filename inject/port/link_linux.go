package port

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// link is a network interface, of the network namespace in which it was found.
type link struct {
	name    string
	index   int
	mtu     int
	kind    string // of virtual ones: "veth", "bridge", …
	lo      bool
	handle  *netlink.Handle
	dropped uint64 // frames that it had dropped on sending when it was found

	mu     sync.Mutex // of handle
	closed bool
	looked atomic.Int64  // when its counters were read
	since  atomic.Uint64 // frames that it dropped since it was found
}

// linkLook is how old its counters may be: to ask for them costs as much as sending a hundred frames.
const linkLook = 100 * time.Millisecond

// findLink looks an interface up, and refuses what frames cannot be sent on.
func findLink(name string) (*link, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, failed(name, "look the interface up", err, "")
	}
	nl, err := h.LinkByName(name)
	if err != nil {
		h.Close()
		if absent(err) {
			return nil, failed(name, "look the interface up", ErrGone, "there is none of this name in this network namespace: ip link lists them")
		}
		return nil, failed(name, "look the interface up", err, "")
	}
	a := nl.Attrs()
	l := &link{
		name: a.Name, index: a.Index, mtu: a.MTU, kind: nl.Type(), handle: h,
		lo: a.Flags&net.FlagLoopback != 0,
	}
	if a.Statistics != nil {
		l.dropped = a.Statistics.TxDropped
	}
	switch {
	case a.EncapType != "ether" && !l.lo:
		err = failed(name, "open", fmt.Errorf("%w: it carries no Ethernet frames (%s)", ErrNotSupported, a.EncapType), "use the interface below it")
	case a.Flags&net.FlagUp == 0:
		err = failed(name, "open", ErrDown, "ip link set "+name+" up")
	}
	if err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func absent(err error) bool {
	var none netlink.LinkNotFoundError
	return errors.As(err, &none) || errors.Is(err, unix.ENODEV)
}

// exists says whether it is still there.
func (l *link) exists() bool {
	_, err := l.look()
	return err == nil || !absent(err)
}

// up says whether it is up.
func (l *link) up() bool {
	nl, err := l.look()
	return err == nil && nl.Attrs().Flags&net.FlagUp != 0
}

// look asks the kernel about it.
func (l *link) look() (netlink.Link, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	return l.handle.LinkByIndex(l.index)
}

// txDropped is how many frames it dropped on sending since it was found, whoever sent them, a moment ago; after close, until
// then. A virtual link counts there what its far end had no room for.
func (l *link) txDropped() uint64 {
	now, looked := time.Now().UnixNano(), l.looked.Load()
	if now-looked >= int64(linkLook) && l.looked.CompareAndSwap(looked, now) {
		l.count()
	}
	return l.since.Load()
}

func (l *link) count() {
	nl, err := l.look()
	if err == nil && nl.Attrs().Statistics != nil {
		n := nl.Attrs().Statistics.TxDropped
		l.since.Store(n - min(n, l.dropped))
	}
}

func (l *link) close() {
	l.count() // the last ones
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.closed = true
		l.handle.Close()
	}
}

// refused gives a system call's error on the interface its meaning.
func (l *link) refused(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return failed(l.name, doing, fmt.Errorf("%w (%w)", ErrPrivilege, err), setcap)
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO), errors.Is(err, unix.ENETDOWN) && !l.exists():
		return failed(l.name, doing, ErrGone, "")
	case errors.Is(err, unix.ENETDOWN):
		return failed(l.name, doing, ErrDown, "ip link set "+l.name+" up")
	case errors.Is(err, unix.EBUSY):
		return failed(l.name, doing, fmt.Errorf("%w (%w)", ErrBusy, err), "")
	case errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.ENOPROTOOPT), errors.Is(err, unix.EPROTONOSUPPORT):
		return failed(l.name, doing, fmt.Errorf("%w (%w)", ErrNotSupported, err), "")
	}
	return failed(l.name, doing, err, "")
}
