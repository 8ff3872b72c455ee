package wire

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// bench is two hosts, each on a virtual link to a third namespace, where a wire joins the two.
type bench struct {
	t           testing.TB
	left, right *testkit.Namespace // the hosts
	middle      *testkit.Namespace
	wire        *Wire
	end         context.CancelFunc
	done        chan error
}

func newBench(t testing.TB, mtu int) *bench {
	t.Helper()
	l := testkit.NewLab(t, testkit.LabOptions{Iface: "left0", MTU: mtu})
	r := testkit.NewLab(t, testkit.LabOptions{Iface: "right0", MTU: mtu})
	b := &bench{t: t, left: l.A, right: r.A, middle: l.B}
	var target *os.File
	var err error
	l.B.Do(func() { target, err = os.Open("/proc/thread-self/ns/net") })
	must(t, err)
	defer target.Close()
	r.B.Do(func() {
		var link netlink.Link
		if link, err = netlink.LinkByName("right0"); err == nil {
			err = netlink.LinkSetNsFd(link, int(target.Fd()))
		}
	})
	must(t, err)
	l.B.Do(func() {
		var link netlink.Link
		if link, err = netlink.LinkByName("right0"); err == nil {
			err = netlink.LinkSetUp(link)
		}
	})
	must(t, err)
	for i, host := range []*testkit.Namespace{b.left, b.right} {
		host.Do(func() {
			var link netlink.Link
			if link, err = netlink.LinkByName(host.Iface); err != nil {
				return
			}
			address, _ := netlink.ParseAddr([]string{"10.9.0.1/24", "10.9.0.2/24"}[i])
			err = errors.Join(netlink.AddrAdd(link, address), wholeChecksums(host.Iface))
		})
		must(t, err)
	}
	return b
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// wholeChecksums lets a host compute the checksums of what it sends, which between virtual interfaces it leaves out.
func wholeChecksums(iface string) error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	const setTxChecksums = 0x17 // ETHTOOL_STXCSUM
	value := struct{ cmd, data uint32 }{setTxChecksums, 0}
	request := struct {
		name [16]byte
		data unsafe.Pointer
		_    [16]byte
	}{data: unsafe.Pointer(&value)}
	copy(request.name[:], iface)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&request))); errno != 0 {
		return errno
	}
	return nil
}

// join starts the wire.
func (b *bench) join(o Options) {
	b.t.Helper()
	var err error
	o.Interfaces = [2]string{"left0", "right0"}
	b.middle.Do(func() { b.wire, err = Open(o) })
	if errors.Is(err, port.ErrNotSupported) {
		b.t.Skip(err)
	}
	must(b.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	b.end, b.done = cancel, make(chan error, 1)
	go func() { b.done <- b.wire.Run(ctx) }()
	b.t.Cleanup(func() { b.part() })
}

// part stops it.
func (b *bench) part() {
	b.t.Helper()
	if b.end == nil {
		return
	}
	b.end()
	b.end = nil
	if err := <-b.done; err != nil {
		b.t.Error(err)
	}
	if err := b.wire.Close(); err != nil {
		b.t.Error(err)
	}
}

// listener receives frames at a host.
func (b *bench) listener(n *testkit.Namespace) port.Port {
	b.t.Helper()
	var p port.Port
	var err error
	n.Do(func() { p, err = port.OpenPacket(port.Options{Interface: n.Iface, All: true}) })
	must(b.t, err)
	b.t.Cleanup(func() { p.Close() })
	return p
}

// receive takes frames until there are so many.
func receive(t testing.TB, p port.Port, want int) (all [][]byte) {
	t.Helper()
	in := make([]port.In, 64)
	for end := time.Now().Add(20 * time.Second); len(all) < want; {
		n, err := p.Receive(in)
		must(t, err)
		for _, f := range in[:n] {
			all = append(all, slices.Clone(f.Data))
		}
		if n == 0 {
			must(t, p.Wait(time.Millisecond))
		}
		if time.Now().After(end) {
			t.Fatalf("%d of %d frames arrived", len(all), want)
		}
	}
	return all
}

// none looks whether anything more arrives.
func none(t testing.TB, p port.Port) {
	t.Helper()
	must(t, p.Wait(50*time.Millisecond))
	in := make([]port.In, 64)
	n, err := p.Receive(in)
	must(t, err)
	if n != 0 {
		t.Errorf("%d frames too many; the first: %x", n, in[0].Data)
	}
}

func rules(t testing.TB, texts ...string) *fault.Set {
	t.Helper()
	s := &fault.Set{Seed: 1}
	for _, text := range texts {
		r, err := fault.Parse(text)
		must(t, err)
		s.Rules = append(s.Rules, r)
	}
	return s
}

// traffic is what goes over a link: RoCE of all sizes, tagged or not, over IPv4 and IPv6, and what is not RoCE.
func traffic(t testing.TB) (frames []testkit.Frame) {
	for _, o := range []testkit.ExchangeOptions{
		{MTU: 4096}, {MTU: 4096, IPv6: true}, {VLANs: []uint16{0x6005}}, {VLANs: []uint16{0x0003, 0x6005}, IPv6: true}, {RoCEv1: true},
	} {
		x := testkit.NewExchange(o)
		x.Connect()
		for _, size := range []int{0, 1, 100, 4096, 20000} {
			x.A.Write(size)
			x.A.Send(size)
		}
		frames = append(frames, x.Frames()...)
	}
	for _, text := range []string{"\x08\x06", "\x88\xcc", "\x86\xdd", "\x12\x34", "\x00\x20"} {
		f := append([]byte("\x01\x80\xc2\x00\x00\x0e\x02\x00\x00\x00\x00\x01"), text...)
		frames = append(frames, testkit.Frame{Data: append(f, bytes.Repeat([]byte{7}, 60)...)})
	}
	return frames
}

var vias = []string{port.ViaXDP, port.ViaPacket}

// TestNothingIsTouched: without rules every frame arrives once, in order, as it was sent, in both directions.
func TestNothingIsTouched(t *testing.T) {
	for _, via := range vias {
		t.Run(via, func(t *testing.T) {
			b := newBench(t, 4300)
			b.join(Options{Via: via})
			frames := traffic(t)
			for _, d := range [][2]*testkit.Namespace{{b.left, b.right}, {b.right, b.left}} {
				to := b.listener(d[1])
				from := d[0].NewSender()
				for range 5 {
					from.Send(frames)
					got := receive(t, to, len(frames))
					for i := range frames {
						if !bytes.Equal(got[i], frames[i].Data) {
							t.Fatalf("frame %d:\n%x\nwant\n%x", i, got[i], frames[i].Data)
						}
					}
				}
				none(t, to)
				to.Close()
			}
			b.part()
			for _, s := range b.wire.Stats() {
				if n := uint64(5 * len(frames)); s.Received < n || s.Forwarded != s.Received || s.Made+s.Struck+s.Missed+s.TooLong+s.Stuck+s.SendLost != 0 {
					t.Errorf("%+v", s)
				}
			}
		})
	}
}

// TestPingAndTCP: what is not RoCE works over the wire, too.
func TestPingAndTCP(t *testing.T) {
	for _, via := range vias {
		t.Run(via, func(t *testing.T) {
			b := newBench(t, 4300)
			b.join(Options{Via: via, Rules: rules(t, "drop when bth")})
			var l net.Listener
			var err error
			b.right.Do(func() { l, err = net.Listen("tcp", "10.9.0.2:7") })
			must(t, err)
			defer l.Close()
			go func() { // echoes
				c, err := l.Accept()
				if err == nil {
					_, _ = io.Copy(c, c)
					c.Close()
				}
			}()
			var c net.Conn
			b.left.Do(func() { c, err = net.DialTimeout("tcp", "10.9.0.2:7", 10*time.Second) })
			must(t, err)
			defer c.Close()
			must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
			sent := bytes.Repeat([]byte("0123456789abcdef"), 1<<16)
			go func() {
				_, _ = c.Write(sent)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			got, err := io.ReadAll(c)
			if err != nil || !bytes.Equal(got, sent) {
				t.Fatalf("%d bytes came back, %v", len(got), err)
			}
			var p net.PacketConn
			b.left.Do(func() { p, err = net.ListenPacket("ip4:icmp", "10.9.0.1") })
			must(t, err)
			defer p.Close()
			must(t, p.SetDeadline(time.Now().Add(10*time.Second)))
			echo := []byte{8, 0, 0xf7, 0xfd, 0, 1, 0, 1}
			_, err = p.WriteTo(echo, &net.IPAddr{IP: net.IPv4(10, 9, 0, 2)})
			must(t, err)
			answer := make([]byte, 64)
			n, _, err := p.ReadFrom(answer)
			if err != nil || n != 8 || answer[0] != 0 {
				t.Errorf("ping: %x, %v", answer[:n], err)
			}
		})
	}
}

// TestExactCounts: each rule strikes as often as it should, both ways, and the capture says where.
func TestExactCounts(t *testing.T) {
	for _, via := range vias {
		t.Run(via, func(t *testing.T) {
			b := newBench(t, 4300)
			file := filepath.Join(t.TempDir(), "both.pcapng")
			rec, err := captures.NewRecorder(captures.RecorderOptions{Path: file, WriterOptions: captures.WriterOptions{Interfaces: Described([2]string{"left0", "right0"})}})
			must(t, err)
			b.join(Options{Via: via, Record: rec, Rules: rules(
				t, "drop way=out every=10 when bth.opcode == RC_RDMA_WRITE_ONLY", "duplicate way=in nth=3-5", "set way=out bth.psn=+1 nth=7 when bth.opcode == RC_SEND_ONLY",
				"reorder way=out by=1 nth=1 when bth.opcode == RC_SEND_ONLY_WITH_IMMEDIATE",
			)})
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			for range 100 {
				x.A.Write(64)
			}
			for range 10 {
				x.A.Send(64)
			}
			x.A.Send(64, testkit.Imm(1))
			x.A.Send(64)
			frames := x.Frames()
			right, left := b.listener(b.right), b.listener(b.left)
			b.left.NewSender().Send(frames)
			got := receive(t, right, 102)
			none(t, right)
			var psns, want []dissect.PSN
			for _, f := range got {
				var p dissect.Packet
				d := dissect.Decoder{CheckICRC: true}
				d.Decode(dissect.LinkEthernet, f, len(f), &p)
				if p.ICRC != dissect.ICRCValid {
					t.Errorf("PSN %d: ICRC %v", p.PSN, p.ICRC)
				}
				psns = append(psns, p.PSN)
			}
			for i := range dissect.PSN(112) {
				switch {
				case i < 100 && i%10 == 9:
				case i == 106:
					want = append(want, 107)
				case i == 110:
				case i == 111:
					want = append(want, 111, 110)
				default:
					want = append(want, i)
				}
			}
			if !slices.Equal(psns, want) {
				t.Errorf("PSNs %v, want\n%v", psns, want)
			}
			b.right.NewSender().Send(frames[:10])
			if got := receive(t, left, 13); !bytes.Equal(got[3], got[2]) || !bytes.Equal(got[5], got[4]) || bytes.Equal(got[8], got[9]) {
				t.Error("the third to fifth were not doubled")
			}
			none(t, left)
			b.part()
			must(t, rec.Close())
			counts := map[string]uint64{}
			for _, c := range b.wire.Counts() {
				counts[c.Rule.Name] += c.Struck
				if c.Failed != 0 {
					t.Errorf("%+v", c)
				}
			}
			if counts["drop"] != 10 || counts["duplicate"] != 3 || counts["set"] != 1 || counts["reorder"] != 1 {
				t.Errorf("%v", counts)
			}
			checkComments(t, file)
		})
	}
}

// checkComments lets tshark read the capture's comments.
func checkComments(t *testing.T, file string) {
	t.Helper()
	ts := testkit.FindTshark(t)
	rows, err := ts.Query(testkit.TsharkQuery{File: file, Fields: []string{"frame.interface_name", "frame.packet_flags_direction", "frame.comment", "infiniband.bth.psn"}, Filter: "infiniband"})
	must(t, err)
	n := map[string]int{}
	for _, r := range rows {
		word, _, _ := strings.Cut(strings.TrimPrefix(r[2], "fault: "), " ")
		n[r[0]+" "+r[1]+" "+word]++
	}
	for what, want := range map[string]int{
		"left0 0x00000001 ": 100, "left0 0x00000001 drop": 10, "left0 0x00000001 set": 1, "right0 0x00000002 set": 1,
		"left0 0x00000001 reorder": 1, "right0 0x00000002 reorder": 1,
		"right0 0x00000001 ": 7, "right0 0x00000001 duplicate": 3, "left0 0x00000002 duplicate": 3,
	} {
		if n[what] != want {
			t.Errorf("%q: %d packets in the capture, want %d", what, n[what], want)
		}
	}
	if t.Failed() {
		t.Logf("%v", n)
	}
}

// TestDown: an interface that goes down is named, and the wire works again when it is up.
func TestDown(t *testing.T) {
	b := newBench(t, 4300)
	b.join(Options{Via: port.ViaPacket})
	to, from := b.listener(b.right), b.left.NewSender()
	frames := traffic(t)
	from.Send(frames)
	receive(t, to, len(frames))
	if d := b.wire.Down(); d != nil {
		t.Errorf("%v are said to be down", d)
	}
	b.left.SetUp(false)
	if d := b.wire.Down(); !slices.Equal(d, []string{"left0"}) {
		t.Errorf("%v are down, want left0", d)
	}
	b.left.SetUp(true)
	for end := time.Now().Add(10 * time.Second); b.wire.Down() != nil && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	from.Send(frames)
	receive(t, to, len(frames))
}

func TestRefused(t *testing.T) {
	if _, err := Open(Options{Interfaces: [2]string{"a", "a"}}); err == nil || !strings.Contains(err.Error(), "to itself") {
		t.Error(err)
	}
	b := newBench(t, 4300)
	var err error
	b.middle.Do(func() { _, err = Open(Options{Interfaces: [2]string{"left0", "nowhere"}}) })
	if !errors.Is(err, port.ErrGone) || !strings.Contains(err.Error(), "nowhere") {
		t.Error(err)
	}
	b.middle.Do(func() {
		var link netlink.Link
		if link, err = netlink.LinkByName("right0"); err == nil {
			err = netlink.LinkSetMTU(link, 1500)
		}
	})
	must(t, err)
	b.middle.Do(func() { _, err = Open(Options{Interfaces: [2]string{"left0", "right0"}, Via: port.ViaPacket}) })
	if err == nil || !strings.Contains(err.Error(), "ip link set right0 mtu 4300") {
		t.Error(err)
	}
}
