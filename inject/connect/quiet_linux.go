package connect

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
)

// Quiet keeps the kernel from answering RoCE packets that also reach it (all but those that AF_XDP takes) with "port
// unreachable", which makes some peers give up: UDP sockets hold port 4791 of IPv4 and IPv6 on the interface, or on all if it
// is "", until they are closed. A filter lets nothing into them.
//
// A socket needs no packet filter's rules, which would stay behind after a crash, and no program to set them.
func Quiet(iface string) (io.Closer, error) {
	var q quiet
	for _, network := range [...]string{"udp4", "udp6"} {
		c, err := hold(network, iface)
		if errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EADDRNOTAVAIL) {
			continue // no IPv6 here: nothing to be quiet about
		}
		if err != nil {
			_ = q.Close()
			if errors.Is(err, unix.EADDRINUSE) {
				return nil, fmt.Errorf("hold UDP port %d on %q: something has it already: another rocescope, or the kernel's own RoCE stack "+
					"(rdma link shows it; rmmod rdma_rxe ends it): %w", dissect.PortRoCEv2, iface, err)
			}
			return nil, fmt.Errorf("hold UDP port %d on %q: %w", dissect.PortRoCEv2, iface, err)
		}
		q = append(q, c)
	}
	return q, nil
}

type quiet []net.PacketConn

// Close lets the port go.
func (q quiet) Close() error {
	var errs []error
	for _, c := range q {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

func hold(network, iface string) (net.PacketConn, error) {
	l := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var err error
		if e := raw.Control(func(fd uintptr) { err = prepare(int(fd), network, iface) }); e != nil {
			return e
		}
		return err
	}}
	return l.ListenPacket(context.Background(), network, ":"+strconv.Itoa(dissect.PortRoCEv2))
}

// prepare makes a socket take nothing in, and of one interface only.
func prepare(fd int, network, iface string) error {
	drop := [1]unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K}} // accepts 0 bytes: drops
	if err := unix.SetsockoptSockFprog(fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop[0]}); err != nil {
		return fmt.Errorf("attach a filter: %w", err)
	}
	if network == "udp6" {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1); err != nil {
			return fmt.Errorf("IPv6 only: %w", err)
		}
	}
	if iface == "" {
		return nil
	}
	if err := unix.BindToDevice(fd, iface); err != nil {
		return fmt.Errorf("bind to the interface: %w", err)
	}
	return nil
}
