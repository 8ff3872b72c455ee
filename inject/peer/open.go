package peer

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/route"
)

// Open makes a host on an interface. It fails with the errors of inject/port and inject/route.
func Open(o Options) (*Host, error) {
	link, err := net.InterfaceByName(o.Interface)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.Interface, route.ErrNoInterface)
	}
	if link.Flags&net.FlagUp == 0 {
		return nil, fmt.Errorf("%s: %w: ip link set %s up", o.Interface, route.ErrDown, o.Interface)
	}
	if o.MAC == [6]byte{} {
		copy(o.MAC[:], link.HardwareAddr)
	}
	po := port.Options{Via: o.Via, Interface: o.Interface}
	kernel := len(o.Addrs) == 0
	if kernel {
		if o.Addrs, err = kernelAddrs(link); err != nil {
			return nil, err
		}
	} else {
		po.All = true // ARP and its kin
		if po.Via == "" {
			po.Via = port.ViaPacket // the kernel is to go on hearing them too
		}
	}
	if o.Device.MTU != 0 {
		po.MaxFrame = min(link.MTU+14, o.Device.MTU+around)
	}
	ports, _, err := port.Open(po)
	if err != nil {
		return nil, err
	}
	h, err := newHost(ports, o, kernel)
	if err != nil {
		errs := []error{err}
		for _, p := range ports {
			errs = append(errs, p.Close())
		}
		return nil, errors.Join(errs...)
	}
	return h, nil
}

// around is what a frame has at most besides its payload: Ethernet, a tag, IPv6, UDP, BTH, the longest extension headers, pad, ICRC.
const around = 14 + 4 + 40 + 8 + 12 + 28 + 3 + 4

// ErrNoAddress: the interface has no address, and none was given.
var ErrNoAddress = errors.New("it has no address")

// kernelAddrs are the addresses that an interface has.
func kernelAddrs(link *net.Interface) (addrs []netip.Addr, err error) {
	all, err := link.Addrs()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", link.Name, err)
	}
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			addr, _ := netip.AddrFromSlice(n.IP)
			addrs = append(addrs, addr.Unmap())
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("%s: %w: give it one (ip address add), or let rocescope have one of its own", link.Name, ErrNoAddress)
	}
	return addrs, nil
}

// local is the host's address to reach a peer from, and its place in the table of GIDs.
func (h *Host) local(peer netip.Addr) (netip.Addr, int, error) {
	best := -1
	addrs := h.o.Addrs
	for i, a := range addrs {
		switch {
		case a.Is4() != peer.Is4():
		case best < 0, addrs[best].IsLinkLocalUnicast() && !peer.IsLinkLocalUnicast(), !addrs[best].IsLinkLocalUnicast() && peer.IsLinkLocalUnicast() && a.IsLinkLocalUnicast():
			best = i
		}
	}
	if best < 0 {
		family := "IPv6"
		if peer.Is4() {
			family = "IPv4"
		}
		return netip.Addr{}, 0, fmt.Errorf("%v: this host has no %s address to reach it from: its addresses are %s", peer, family, join(addrs))
	}
	return addrs[best], best, nil
}

func join(addrs []netip.Addr) string {
	var all []string
	for _, a := range addrs {
		all = append(all, a.String())
	}
	return strings.Join(all, ", ")
}
