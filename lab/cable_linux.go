package lab

import (
	"fmt"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interface is where rocescope takes part: it has the addresses of Host. Captures are made at the other end of the cable,
// TapName, which sees both directions whatever way frames take in and out of Interface: AF_XDP takes them before anybody
// else does, and others send past the kernel's own taps.
const (
	Interface = "host0"
	TapName   = "tap0"
)

// Seat is where a guest sits.
type Seat struct {
	N      int  // 0 or 1: in the names of its interfaces and in its addresses
	Bare   bool // the host's end has no addresses: it is for forwarding
	Memory int  // of the guest, in MiB; 0 = 512

	Rocescope string // the program, which the guest shall have as GuestRocescope; empty: it has none
}

// Interface is the host's end of the seat's cable.
func (s Seat) Interface() string { return fmt.Sprint("host", s.N) }

// Tap is the other end, of which captures are made.
func (s Seat) Tap() string { return fmt.Sprint("tap", s.N) }

// Side has the guest's addresses.
func (s Seat) Side() Side {
	if s.N == 0 {
		return Peer
	}
	return Side{netip.MustParsePrefix(fmt.Sprintf("10.77.0.%d/24", 2+s.N)), netip.MustParsePrefix(fmt.Sprintf("fd77::%d/64", 2+s.N))}
}

func (s Seat) mac() string { return fmt.Sprintf("02:00:0a:4d:00:%02x", 2+s.N) }

// Cable is what is between Interface and the guest: a veth pair, a bridge and the tap.
type Cable struct {
	MAC [6]byte // of Interface
}

func newCable(seat Seat) (*Cable, error) {
	bridge, far, host, tap := fmt.Sprint("bridge", seat.N), fmt.Sprint("wire", seat.N), seat.Interface(), seat.Tap()
	named := func(name string) netlink.LinkAttrs {
		a := netlink.NewLinkAttrs()
		a.Name, a.MTU = name, MTU
		return a
	}
	snooping := false
	for _, link := range []netlink.Link{
		&netlink.Bridge{LinkAttrs: named(bridge), MulticastSnooping: &snooping},
		&netlink.Veth{LinkAttrs: named(host), PeerName: far, PeerMTU: MTU},
		&netlink.Tuntap{LinkAttrs: named(tap), Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR},
	} {
		if err := netlink.LinkAdd(link); err != nil {
			return nil, fmt.Errorf("making the laboratory's %s: %w (a tap needs /dev/net/tun)", link.Attrs().Name, err)
		}
	}
	for _, name := range []string{bridge, far, tap, host} {
		set(name, "disable_ipv6", name != host || seat.Bare)
		for _, noise := range []string{"accept_dad", "router_solicitations", "mldv1_unsolicited_report_interval"} {
			set(name, noise, false)
		}
	}
	// The bridge is a host's interface too, and would answer ARP for addresses of its neighbour.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/all/arp_ignore", []byte("1"), 0); err != nil {
		return nil, err
	}
	var cable Cable
	for _, name := range []string{bridge, far, tap, host} {
		link, err := netlink.LinkByName(name)
		if err != nil {
			return nil, err
		}
		switch name {
		case far, tap:
			if err := netlink.LinkSetMaster(link, &netlink.Bridge{LinkAttrs: named(bridge)}); err != nil {
				return nil, fmt.Errorf("putting %s on the laboratory's bridge: %w", name, err)
			}
		case host:
			copy(cable.MAC[:], link.Attrs().HardwareAddr)
			if seat.Bare {
				break
			}
			if err := addAddresses(link); err != nil {
				return nil, err
			}
		}
		if err := netlink.LinkSetMTU(link, MTU); err != nil {
			return nil, err
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return nil, err
		}
	}
	return &cable, nil
}

// set makes a setting of IPv6. Not every kernel has each, and none is needed but for quiet.
func set(link, name string, on bool) {
	value := "0"
	if on {
		value = "1"
	}
	_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+link+"/"+name, []byte(value), 0)
}

func addAddresses(link netlink.Link) error {
	for _, text := range []string{Host.IP4.String(), Host.IP6.String()} {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(link, addr); err != nil {
			return fmt.Errorf("address %s for %s: %w", text, link.Attrs().Name, err)
		}
	}
	return nil
}

// Join makes one wire of the cables of two bare seats.
func Join(a, b Seat) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = "joint", MTU
	snooping := false
	joint := &netlink.Bridge{LinkAttrs: attrs, MulticastSnooping: &snooping}
	if err := netlink.LinkAdd(joint); err != nil {
		return fmt.Errorf("joining two guests: %w", err)
	}
	set(attrs.Name, "disable_ipv6", true)
	for _, s := range []Seat{a, b} {
		link, err := netlink.LinkByName(s.Interface())
		if err != nil {
			return err
		}
		if err := netlink.LinkSetMaster(link, joint); err != nil {
			return fmt.Errorf("joining two guests: %w", err)
		}
	}
	return netlink.LinkSetUp(joint)
}
