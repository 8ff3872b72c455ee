package wire

import (
	"fmt"
	"net"
	"sync"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/inject/port"
)

// links are the two interfaces as the kernel has them. While they are open, the interfaces also take frames for other stations.
type links struct {
	names  [2]string
	index  [2]int
	fd     int
	mu     sync.Mutex // of handle
	handle *netlink.Handle
}

func findLinks(names [2]string) (*links, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("wire: look the interfaces up: %w", err)
	}
	l := &links{names: names, handle: h, fd: -1}
	for i, name := range names {
		nl, err := h.LinkByName(name)
		if err != nil {
			l.close()
			return nil, fmt.Errorf("wire: %s: %w: there is none of this name in this network namespace: ip link lists them", name, port.ErrGone)
		}
		l.index[i] = nl.Attrs().Index
	}
	if l.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		l.close()
		return nil, fmt.Errorf("wire: open a packet socket: %w (%w)", port.ErrPrivilege, err)
	}
	for i, index := range l.index {
		m := unix.PacketMreq{Ifindex: int32(index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(l.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			l.close()
			return nil, fmt.Errorf("wire: %s: receive frames for other stations: %w", names[i], err)
		}
	}
	return l, nil
}

// down names those that are not up, or gone.
func (l *links) down() (names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, index := range l.index {
		nl, err := l.handle.LinkByIndex(index)
		if err != nil || nl.Attrs().Flags&net.FlagUp == 0 || nl.Attrs().RawFlags&unix.IFF_LOWER_UP == 0 {
			names = append(names, l.names[i])
		}
	}
	return names
}

func (l *links) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.handle.Close()
	if l.fd >= 0 {
		unix.Close(l.fd)
	}
}
