// Package route finds out from the kernel how frames get from an interface to a destination: the source address that it would
// take, the router in between, the MAC addresses. What is given is not asked for.
//
// It owns links, routes and neighbours as netlink tells them, and leaves alone what it finds: nothing is configured. It does
// not know what is sent.
package route

import (
	"errors"
	"net/netip"
)

// What cannot be found, for errors.Is.
var (
	ErrNoInterface = errors.New("no such interface")
	ErrDown        = errors.New("the interface is down")
	ErrNoRoute     = errors.New("no route")
	ErrNoNeighbour = errors.New("no answer to ARP or neighbour discovery")
	ErrOwnAddress  = errors.New("the address is this host's own")
	ErrUnsupported = errors.New("addresses are looked up on Linux only")
)

// Path is how frames reach a destination. Before Find its zero values are what is to be found.
type Path struct {
	Interface      string
	Src, Dst       netip.Addr
	SrcMAC, DstMAC [6]byte
	NextHop        netip.Addr // a router, or Dst
	MTU            int        // of the interface
}

// whole reports whether there is nothing to be asked but the interface.
func (p *Path) whole() bool {
	return p.Src.IsValid() && p.SrcMAC != [6]byte{} && p.DstMAC != [6]byte{}
}
