package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	patience = time.Second // for ARP
	interval = 20 * time.Millisecond
)

// Find completes a path of which Interface and Dst are set. Where the kernel does not know the next hop's MAC address yet, it
// is made to ask for it, by a datagram to the discard port.
func Find(p *Path) error {
	link, err := netlink.LinkByName(p.Interface)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return fmt.Errorf("%s: %w", p.Interface, ErrNoInterface)
	case err != nil:
		return fmt.Errorf("%s: %w", p.Interface, err)
	case link.Attrs().Flags&net.FlagUp == 0:
		return fmt.Errorf("%s: %w: ip link set %s up", p.Interface, ErrDown, p.Interface)
	}
	attrs := link.Attrs()
	p.MTU = attrs.MTU
	if p.SrcMAC == [6]byte{} {
		copy(p.SrcMAC[:], attrs.HardwareAddr)
	}
	p.NextHop = p.Dst
	if p.whole() {
		return nil
	}
	if err := p.ask(); err != nil {
		return err
	}
	if p.DstMAC != [6]byte{} {
		return nil
	}
	return p.neighbour(attrs.Index)
}

// ask asks the routing table for the source address and the next hop.
func (p *Path) ask() error {
	noRoute := fmt.Errorf("%s to %v: %w: give %s an address of that network, or say the source and the MAC address of the destination", p.Interface, p.Dst, ErrNoRoute, p.Interface)
	// Asked for an interface, the kernel takes whatever it has no route to for a neighbour there.
	if _, err := netlink.RouteGet(p.Dst.AsSlice()); errors.Is(err, unix.ENETUNREACH) {
		return noRoute
	}
	options := &netlink.RouteGetOptions{Oif: p.Interface}
	if p.Src.IsValid() {
		options.SrcAddr = p.Src.AsSlice()
	}
	routes, err := netlink.RouteGetWithOptions(p.Dst.AsSlice(), options)
	if err != nil && p.Src.IsValid() { // an address that the host does not have
		options.SrcAddr = nil
		routes, err = netlink.RouteGetWithOptions(p.Dst.AsSlice(), options)
	}
	if err != nil || len(routes) == 0 {
		return noRoute
	}
	r := routes[0]
	if r.Type == unix.RTN_LOCAL {
		return fmt.Errorf("%v: %w: frames to it do not leave through %s", p.Dst, ErrOwnAddress, p.Interface)
	}
	if gw, ok := netip.AddrFromSlice(r.Gw); ok {
		p.NextHop = gw.Unmap()
	}
	if !p.Src.IsValid() {
		src, ok := netip.AddrFromSlice(r.Src)
		if !ok {
			return fmt.Errorf("%s: %w to %v with a source address: say one", p.Interface, ErrNoRoute, p.Dst)
		}
		p.Src = src.Unmap()
	}
	return nil
}

// neighbour finds the next hop's MAC address.
func (p *Path) neighbour(index int) error {
	for end := time.Now().Add(patience); ; time.Sleep(interval) {
		known, failed, err := p.lookUp(index)
		switch {
		case err != nil:
			return fmt.Errorf("neighbours of %s: %w", p.Interface, err)
		case known:
			return nil
		case failed && time.Now().After(end.Add(-patience/2)), time.Now().After(end):
			return fmt.Errorf("%s: %w for %v: is it there? its MAC address can be said instead", p.Interface, ErrNoNeighbour, p.NextHop)
		}
		p.solicit()
	}
}

// lookUp looks into the kernel's table.
func (p *Path) lookUp(index int) (known, failed bool, err error) {
	family := netlink.FAMILY_V4
	if p.NextHop.Is6() {
		family = netlink.FAMILY_V6
	}
	all, err := netlink.NeighList(index, family)
	if err != nil {
		return false, false, err
	}
	for _, n := range all {
		if ip, _ := netip.AddrFromSlice(n.IP); ip.Unmap() != p.NextHop {
			continue
		}
		if len(n.HardwareAddr) == len(p.DstMAC) && n.State&(netlink.NUD_INCOMPLETE|netlink.NUD_FAILED) == 0 {
			copy(p.DstMAC[:], n.HardwareAddr)
			return true, false, nil
		}
		return false, n.State&netlink.NUD_FAILED != 0, nil
	}
	return false, false, nil
}

// solicit makes the kernel ask who has the next hop's address. That it may fail is what lookUp then finds.
func (p *Path) solicit() {
	const discard = 9
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(p.NextHop, discard))
	if p.NextHop.IsLinkLocalUnicast() {
		to.Zone = p.Interface
	}
	c, err := net.DialUDP("udp", nil, to)
	if err != nil {
		return
	}
	defer c.Close()
	_, _ = c.Write([]byte{0})
}

// InterfaceTo finds the interface through which the kernel reaches an address.
func InterfaceTo(addr netip.Addr) (string, error) {
	noRoute := fmt.Errorf("%v: %w: say which interface", addr, ErrNoRoute)
	if zone := addr.Zone(); zone != "" {
		return zone, nil
	}
	routes, err := netlink.RouteGet(addr.AsSlice())
	if err != nil || len(routes) == 0 {
		return "", noRoute
	}
	if routes[0].Type == unix.RTN_LOCAL {
		return "", fmt.Errorf("%v: %w: frames to it leave through no interface", addr, ErrOwnAddress)
	}
	link, err := netlink.LinkByIndex(routes[0].LinkIndex)
	if err != nil {
		return "", noRoute
	}
	return link.Attrs().Name, nil
}
