package xsk

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// wire is a pair of virtual interfaces, left and right, in a network namespace of their own.
type wire struct {
	left, right netlink.Link
}

const left, right = "left", "right"

// newWire makes one, with so many queues on each side. The test's thread is then in that namespace, and dies with the test.
func newWire(t testing.TB, mtu, queues int) *wire {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("network namespaces and XDP need root")
	}
	if err := haveSockets(); err != nil {
		t.Skip(err)
	}
	runtime.LockOSThread() // and never unlock it: the thread cannot come back
	ns, err := netns.New()
	if err != nil {
		t.Skipf("no network namespaces: %v", err)
	}
	t.Cleanup(func() { ns.Close() })
	// The kernel's own IPv6 traffic would be counted as well.
	os.WriteFile("/proc/sys/net/ipv6/conf/default/disable_ipv6", []byte("1"), 0o644)
	os.WriteFile("/proc/sys/net/ipv6/conf/all/disable_ipv6", []byte("1"), 0o644)

	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.NumRxQueues, attrs.NumTxQueues = left, mtu, queues, queues
	veth := netlink.NewVeth(attrs)
	veth.PeerName, veth.PeerMTU, veth.PeerNumRxQueues, veth.PeerNumTxQueues = right, uint32(mtu), uint32(queues), uint32(queues)
	if err := netlink.LinkAdd(veth); err != nil {
		t.Skipf("no virtual interfaces: %v", err)
	}
	w := &wire{}
	for _, side := range []struct {
		name string
		link *netlink.Link
	}{{left, &w.left}, {right, &w.right}} {
		l, err := netlink.LinkByName(side.name)
		if err != nil {
			t.Fatal(err)
		}
		if err := netlink.LinkSetUp(l); err != nil {
			t.Fatal(err)
		}
		*side.link = l
	}
	// A link takes a moment to carry something after it is up.
	hello := frameOptions{etherType: 0x88B5}.build(nil)
	for _, way := range [][2]netlink.Link{{w.left, w.right}, {w.right, w.left}} {
		waitFor(t, "life on the wire", func() bool {
			send(t, way[0], hello)
			l, err := netlink.LinkByIndex(way[1].Attrs().Index)
			return err == nil && l.Attrs().Statistics.RxPackets > 0
		})
	}
	return w
}

func newTestUMEM(t testing.TB, o UMEMOptions) *UMEM {
	t.Helper()
	u, err := NewUMEM(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := u.Close(); err != nil {
			t.Error(err)
		}
	})
	return u
}

func openSocket(t testing.TB, o Options) *Socket {
	t.Helper()
	if o.UMEM == nil {
		o.UMEM = newTestUMEM(t, UMEMOptions{Chunks: 1024})
	}
	s, err := Open(o)
	if errors.Is(err, ErrNotSupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// attachProgram loads the program and attaches it, until the test ends.
func attachProgram(t testing.TB, name string, o ProgramOptions, mode AttachMode) *Program {
	t.Helper()
	p, err := LoadProgram(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	a, err := p.Attach(name, mode)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Close() })
	if a.Mode != mode {
		t.Fatalf("attached in %v mode, not %v", a.Mode, mode)
	}
	return p
}

// receiver opens a socket that the right side's program redirects to.
func receiver(t testing.TB, p *Program, o Options) *Socket {
	t.Helper()
	s := openSocket(t, o)
	if err := p.Register(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// frameOptions says what headers a test frame has.
type frameOptions struct {
	ipv6      bool
	vlan      []uint16 // EtherTypes of the tags
	etherType uint16   // instead of IP
	protocol  byte     // default UDP
	port      uint16   // destination; default 4791
	source    uint16   // port; default 49152
	options   int      // bytes of IPv4 options, or of IPv6 extension headers
	extension byte     // their type; default hop-by-hop
	fragment  uint16   // offset in 8 bytes
	length    int      // of the whole frame
	mark      uint32   // goes into the last 4 bytes, and fills the rest
}

// build writes the frame to b and returns it. Its checksums are left out: nobody looks at them.
func (o frameOptions) build(b []byte) []byte {
	if o.length == 0 {
		o.length = 128
	}
	if o.port == 0 {
		o.port = rocePort
	}
	if o.source == 0 {
		o.source = 49152
	}
	if o.protocol == 0 {
		o.protocol = protocolUDP
	}
	b = append(b, 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1)
	for _, tag := range o.vlan {
		b = binary.BigEndian.AppendUint16(b, tag)
		b = binary.BigEndian.AppendUint16(b, 7)
	}
	switch {
	case o.etherType != 0:
		b = binary.BigEndian.AppendUint16(b, o.etherType)
	case o.ipv6:
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv6)
		rest := o.length - len(b) - 40
		next := o.protocol
		if o.options > 0 || o.fragment > 0 {
			next = o.extension
		}
		b = append(b, 0x60, 0, 0, 0, byte(rest>>8), byte(rest), next, 64)
		b = append(b, make([]byte, 32)...)
		switch {
		case o.fragment > 0 || o.extension == 44:
			b = append(b, o.protocol, 0, byte(o.fragment>>5), byte(o.fragment<<3), 0, 0, 0, 1)
		case o.options > 0:
			b = append(b, o.protocol, byte(o.options/8-1))
			b = append(b, make([]byte, o.options-2)...)
		}
	default:
		b = binary.BigEndian.AppendUint16(b, etherTypeIPv4)
		rest := o.length - len(b)
		b = append(b, 0x45+byte(o.options/4), 0, byte(rest>>8), byte(rest), 0, 0, byte(o.fragment>>8), byte(o.fragment), 64, o.protocol, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2)
		b = append(b, make([]byte, o.options)...)
	}
	if o.etherType == 0 {
		rest := o.length - len(b)
		b = binary.BigEndian.AppendUint16(b, o.source)
		b = binary.BigEndian.AppendUint16(b, o.port)
		b = append(b, byte(rest>>8), byte(rest), 0, 0)
	}
	for len(b) < o.length-4 {
		b = append(b, byte(o.mark)+byte(len(b)))
	}
	return binary.BigEndian.AppendUint32(b, o.mark)
}

// place copies a frame into chunks of the UMEM, and makes its descriptors.
func place(u *UMEM, chunks []uint64, frame []byte) (descs []Desc) {
	size := u.ChunkSize() - u.TxDataOffset()
	for i := 0; len(frame) > 0; i++ {
		n := min(size, len(frame))
		addr := chunks[i] + uint64(u.TxDataOffset())
		copy(u.Bytes(addr, uint32(n)), frame)
		frame = frame[n:]
		d := Desc{Addr: addr, Len: uint32(n)}
		if len(frame) > 0 {
			d.Options = OptionContinued
		}
		descs = append(descs, d)
	}
	return descs
}

// send puts one frame on the wire through a socket of packet type, as the kernel itself would.
func send(t testing.TB, l netlink.Link, frame []byte) {
	t.Helper()
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: l.Attrs().Index}); err != nil {
		t.Fatal(err)
	}
}

// collect receives until want packets have come, or nothing has for some time.
func collect(t testing.TB, s *Socket, want int, use func(frame []byte)) (got int) {
	t.Helper()
	packets := make([]Packet, 64)
	buffer := make([]byte, 0, 16384)
	for got < want {
		n := s.Receive(packets)
		for _, p := range packets[:n] {
			buffer = s.Append(buffer[:0], p)
			if len(buffer) != int(p.Len) {
				t.Fatalf("%d bytes of a packet of %d", len(buffer), p.Len)
			}
			use(buffer)
		}
		got += n
		s.Release()
		if n == 0 {
			ready, err := s.Wait(300 * time.Millisecond)
			if err != nil {
				t.Fatal(err)
			}
			if !ready {
				return got
			}
		}
	}
	// One more look: nothing may come twice.
	if ready, _ := s.Wait(20 * time.Millisecond); ready {
		got += s.Receive(packets)
		s.Release()
	}
	return got
}

func counters(t testing.TB, p *Program) Counters {
	t.Helper()
	c, err := p.Counters()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func stats(t testing.TB, s *Socket) Stats {
	t.Helper()
	x, err := s.Stats()
	if err != nil {
		t.Fatal(err)
	}
	return x
}
