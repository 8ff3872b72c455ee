package port

import (
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestKernelKeepsQuiet: while a port is open the kernel does not say of RoCE that nobody listens to it.
func TestKernelKeepsQuiet(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{MTU: 1500})
	a, b := address(t, lab.A, "10.9.0.1/24"), address(t, lab.B, "10.9.0.2/24")
	neighbour(t, lab.B, "10.9.0.1", a)
	near := openIn(t, lab.A, onInterfaces[1], Options{All: true})
	outer := dissect.Outer{SrcMAC: a, DstMAC: b, Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), SrcPort: 49152}
	frame := outer.AppendTo(nil)
	frame = dissect.AppendTransport(frame, dissect.OpRCAcknowledge)
	var c dissect.Crafter
	frame, err := c.Seal(&outer, frame)
	if err != nil {
		t.Fatal(err)
	}
	// unreachable sends a packet to a port and says which ports the far kernel complains of.
	unreachable := func(ports ...uint16) (of []uint16) {
		slots := make([]uint32, 1)
		for _, port := range ports {
			if near.Take(slots) != 1 {
				t.Fatal("no slot")
			}
			room := near.Room(slots[0])
			n := copy(room, frame)
			room[14+20+2], room[14+20+3] = byte(port>>8), byte(port)
			if err := near.Send([]Out{{slots[0], int32(n)}}); err != nil {
				t.Fatal(err)
			}
		}
		in := make([]In, 10)
		for end := time.Now().Add(10 * time.Second); ; { // until it has complained of the last one
			n, err := near.Receive(in)
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range in[:n] {
				const inner = 14 + 20 + 8 // behind the ICMP header is the packet that it is about
				if len(f.Data) > inner+24 && f.Data[23] == 1 && f.Data[34] == 3 {
					of = append(of, uint16(f.Data[inner+22])<<8|uint16(f.Data[inner+23]))
				}
			}
			if len(of) > 0 && of[len(of)-1] == ports[len(ports)-1] {
				return of
			}
			if time.Now().After(end) {
				t.Fatalf("it complained of %v", of)
			}
			near.Wait(time.Millisecond)
		}
	}
	if got := unreachable(4791); len(got) != 1 {
		t.Fatalf("without a port open, the far end complains of %v", got)
	}
	for _, k := range onInterfaces {
		far := openIn(t, lab.B, k, Options{SendOnly: true})
		if got := unreachable(4791, 9); len(got) != 1 || got[0] != 9 {
			t.Errorf("beside %s, the kernel complains of %v", k.name, got)
		}
		far.Close()
	}
}

// address gives an interface one, and returns its hardware address.
func address(t *testing.T, n *testkit.Namespace, prefix string) (mac [6]byte) {
	t.Helper()
	n.Do(func() {
		link, err := netlink.LinkByName(n.Iface)
		if err != nil {
			t.Error(err)
			return
		}
		addr, err := netlink.ParseAddr(prefix)
		if err != nil {
			t.Error(err)
			return
		}
		if err := netlink.AddrAdd(link, addr); err != nil {
			t.Error(err)
		}
		copy(mac[:], link.Attrs().HardwareAddr)
	})
	return mac
}

// neighbour tells a namespace who has an address, so that it need not ask.
func neighbour(t *testing.T, n *testkit.Namespace, ip string, mac [6]byte) {
	t.Helper()
	n.Do(func() {
		link, err := netlink.LinkByName(n.Iface)
		if err != nil {
			t.Error(err)
			return
		}
		if err := netlink.NeighSet(&netlink.Neigh{
			LinkIndex: link.Attrs().Index, State: netlink.NUD_PERMANENT, IP: netip.MustParseAddr(ip).AsSlice(), HardwareAddr: mac[:],
		}); err != nil {
			t.Error(err)
		}
	})
}
