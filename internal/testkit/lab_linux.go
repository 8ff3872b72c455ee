package testkit

import (
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// Lab is two network namespaces joined by a veth pair, whose ends are both called by the name that they got. The
// namespaces have no names and live as long as the test: whatever becomes of it, nothing stays behind.
type Lab struct {
	A, B *Namespace
}

// Namespace is one side of a Lab.
type Namespace struct {
	Iface  string
	t      testing.TB
	fd     netns.NsHandle
	handle *netlink.Handle
}

// LabOptions describe a Lab. The zero value has interfaces "veth0" of MTU 4500, with one queue.
type LabOptions struct {
	Iface  string
	MTU    int
	Queues int // to send and to receive, of both
}

// NewLab makes a Lab, and skips the test where that is not allowed. IPv6 is off, so that nothing is on the wire but what
// the test sends.
func NewLab(t testing.TB, o LabOptions) *Lab {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if o.Iface == "" {
		o.Iface = "veth0"
	}
	if o.MTU == 0 {
		o.MTU = 4500
	}
	if o.Queues == 0 {
		o.Queues = 1
	}
	lab := &Lab{newNamespace(t, o.Iface), newNamespace(t, o.Iface)}
	lab.A.Do(func() {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = o.Iface, o.MTU
		pair := &netlink.Veth{PeerName: o.Iface, PeerNamespace: netlink.NsFd(lab.B.fd)}
		if o.Queues > 0 {
			attrs.NumRxQueues, attrs.NumTxQueues = o.Queues, o.Queues
			pair.PeerNumRxQueues, pair.PeerNumTxQueues = uint32(o.Queues), uint32(o.Queues)
		}
		pair.LinkAttrs = attrs
		if err := lab.A.handle.LinkAdd(pair); err != nil {
			t.Errorf("a veth pair: %v", err)
		}
	})
	for _, side := range []*Namespace{lab.A, lab.B} {
		if t.Failed() {
			t.FailNow()
		}
		link := side.Link()
		if err := side.handle.LinkSetMTU(link, o.MTU); err != nil {
			t.Fatal(err)
		}
		if err := side.handle.LinkSetUp(link); err != nil {
			t.Fatal(err)
		}
	}
	return lab
}

func newNamespace(t testing.TB, iface string) *Namespace {
	t.Helper()
	type made struct {
		fd  netns.NsHandle
		err error
	}
	done := make(chan made)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine, and with it its namespace
		fd, err := netns.New()
		if err == nil {
			err = os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0)
			if os.IsNotExist(err) || os.IsPermission(err) {
				err = nil
			}
		}
		done <- made{fd, err}
	}()
	got := <-done
	if got.err != nil {
		t.Fatalf("a network namespace: %v", got.err)
	}
	handle, err := netlink.NewHandleAt(got.fd, unix.NETLINK_ROUTE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		handle.Close()
		got.fd.Close()
	})
	return &Namespace{Iface: iface, t: t, fd: got.fd, handle: handle}
}

// Do runs f within the namespace. Sockets that it opens belong there for good.
func (n *Namespace) Do(f func()) {
	n.t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread ends with the goroutine
		err := netns.Set(n.fd)
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		n.t.Fatalf("enter the namespace: %v", err)
	}
}

// Start starts a program within the namespace.
func (n *Namespace) Start(cmd *exec.Cmd) (err error) {
	n.t.Helper()
	n.Do(func() { err = cmd.Start() })
	return err
}

// Link is the interface as it is now.
func (n *Namespace) Link() netlink.Link {
	n.t.Helper()
	link, err := n.handle.LinkByName(n.Iface)
	if err != nil {
		n.t.Fatalf("%s: %v", n.Iface, err)
	}
	return link
}

// Received is how many frames the interface has received.
func (n *Namespace) Received() uint64 { return n.Link().Attrs().Statistics.RxPackets }

// Delete deletes the pair.
func (n *Namespace) Delete() {
	n.t.Helper()
	if err := n.handle.LinkDel(n.Link()); err != nil {
		n.t.Fatal(err)
	}
}

// SetUp brings the interface up or down.
func (n *Namespace) SetUp(up bool) {
	n.t.Helper()
	change := n.handle.LinkSetDown
	if up {
		change = n.handle.LinkSetUp
	}
	if err := change(n.Link()); err != nil {
		n.t.Fatal(err)
	}
}

// Sender sends frames as they are out of a namespace's interface.
type Sender struct {
	t  testing.TB
	fd int
	to unix.SockaddrLinklayer
}

// NewSender opens a sender.
func (n *Namespace) NewSender() *Sender {
	n.t.Helper()
	s := &Sender{t: n.t, to: unix.SockaddrLinklayer{Ifindex: n.Link().Attrs().Index, Halen: 6}}
	var err error
	n.Do(func() { s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0) })
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { unix.Close(s.fd) })
	return s
}

// Send sends frames one after the other, and returns when the far end has them.
func (s *Sender) Send(frames []Frame) {
	s.t.Helper()
	for i := range frames {
		if err := unix.Sendto(s.fd, frames[i].Data, 0, &s.to); err != nil {
			s.t.Fatalf("send frame %d: %v", i+1, err)
		}
	}
}
