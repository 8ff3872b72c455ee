package route

import (
	"errors"
	"net"
	"net/netip"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/internal/testkit"
)

// addressed is a lab whose ends have addresses.
func addressed(t *testing.T) *testkit.Lab {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	for n, address := range map[*testkit.Namespace]string{lab.A: "10.9.0.1/24", lab.B: "10.9.0.2/24"} {
		n.Do(func() {
			a, err := netlink.ParseAddr(address)
			if err == nil {
				err = netlink.AddrAdd(n.Link(), a)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	return lab
}

func mac(n *testkit.Namespace) (m [6]byte) {
	copy(m[:], n.Link().Attrs().HardwareAddr)
	return m
}

func TestFindANeighbour(t *testing.T) {
	lab := addressed(t)
	lab.A.Do(func() {
		p := Path{Interface: lab.A.Iface, Dst: netip.MustParseAddr("10.9.0.2")}
		if err := Find(&p); err != nil {
			t.Error(err)
			return
		}
		want := Path{
			Interface: lab.A.Iface, Src: netip.MustParseAddr("10.9.0.1"), Dst: p.Dst, SrcMAC: mac(lab.A), DstMAC: mac(lab.B), NextHop: p.Dst, MTU: 4500,
		}
		if p != want {
			t.Errorf("%+v\nwant\n%+v", p, want)
		}
	})
}

func TestFindBehindARouter(t *testing.T) {
	lab := addressed(t)
	lab.A.Do(func() {
		_, far, _ := net.ParseCIDR("10.77.0.0/16")
		if err := netlink.RouteAdd(&netlink.Route{Dst: far, Gw: net.IPv4(10, 9, 0, 2)}); err != nil {
			t.Error(err)
			return
		}
		p := Path{Interface: lab.A.Iface, Dst: netip.MustParseAddr("10.77.1.2")}
		if err := Find(&p); err != nil || p.DstMAC != mac(lab.B) || p.NextHop != netip.MustParseAddr("10.9.0.2") {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestWhatIsGivenIsNotAskedFor(t *testing.T) {
	lab := addressed(t)
	lab.A.Do(func() {
		given := Path{
			Interface: lab.A.Iface, Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.9"),
			SrcMAC: [6]byte{2, 1}, DstMAC: [6]byte{2, 2},
		}
		p := given
		if err := Find(&p); err != nil || p.Src != given.Src || p.SrcMAC != given.SrcMAC || p.DstMAC != given.DstMAC {
			t.Errorf("%+v, %v", p, err)
		}
		// A source that the interface does not have may be given: only the MAC address is looked up.
		p = Path{Interface: lab.A.Iface, Src: netip.MustParseAddr("10.9.0.77"), Dst: netip.MustParseAddr("10.9.0.2")}
		if err := Find(&p); err != nil || p.Src != netip.MustParseAddr("10.9.0.77") || p.DstMAC != mac(lab.B) {
			t.Errorf("%+v, %v", p, err)
		}
	})
}

func TestWhatCannotBeFound(t *testing.T) {
	lab := addressed(t)
	lab.A.Do(func() {
		for _, c := range []struct {
			name, iface, dst string
			want             error
		}{
			{"an interface that is not there", "nosuch0", "10.9.0.2", ErrNoInterface},
			{"a network that is not there", lab.A.Iface, "172.16.1.1", ErrNoRoute},
			{"a host that is not there", lab.A.Iface, "10.9.0.99", ErrNoNeighbour},
			{"the host itself", lab.A.Iface, "10.9.0.1", ErrOwnAddress},
		} {
			p := Path{Interface: c.iface, Dst: netip.MustParseAddr(c.dst)}
			if err := Find(&p); !errors.Is(err, c.want) {
				t.Errorf("%s: %v, want %v", c.name, err, c.want)
			}
		}
	})
}
