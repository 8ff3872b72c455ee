package connect

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

var (
	ip6A, ip6B = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
	hostA      = &Host{MAC: [6]byte{2, 0, 0, 0, 0, 1}, Addrs: []netip.Addr{addrA, ip6A}}
	hostB      = &Host{MAC: [6]byte{2, 0, 0, 0, 0, 2}, Addrs: []netip.Addr{addrB, ip6B}}
)

// asker asks for b as a, and is what it found.
type asker struct {
	Resolver
	sent  [][]byte
	found []string
}

func newAsker(vlans ...uint16) *asker {
	a := &asker{}
	a.Host, a.VLANs = hostA, vlans
	a.Send = func(f []byte) error { a.sent = append(a.sent, slices.Clone(f)); return nil }
	a.Found = func(addr netip.Addr, mac [6]byte, ok bool) {
		s := addr.String() + " nobody"
		if ok {
			s = addr.String() + " " + string('0'+rune(mac[5]))
		}
		a.found = append(a.found, s)
	}
	return a
}

func TestResolver(t *testing.T) {
	for _, vlans := range [][]uint16{nil, {0x6064}, {1, 2}} {
		for _, addr := range []netip.Addr{addrB, ip6B} {
			a := newAsker(vlans...)
			must(t, a.Ask(0, addr))
			must(t, a.Ask(0, addr)) // once is enough
			if len(a.sent) != 1 {
				t.Fatalf("%d questions", len(a.sent))
			}
			answer := hostB.Answer(nil, a.sent[0])
			if len(answer) == 0 {
				t.Fatalf("no answer to %x", a.sent[0])
			}
			a.Handle(a.sent[0]) // one's own, back from somewhere
			a.Handle(answer)
			a.Handle(answer)
			must(t, a.Ask(1, addr)) // known by now
			want := addr.String() + " 2"
			if !slices.Equal(a.found, []string{want, want}) || len(a.sent) != 1 || a.Tick(never-1) != never {
				t.Errorf("found %q, sent %d", a.found, len(a.sent))
			}
			if o := a.Via(hostB.MAC, addr); o.DstMAC != hostB.MAC || o.SrcMAC != hostA.MAC || o.Dst != addr || o.Src.Is4() != addr.Is4() {
				t.Errorf("%+v", o)
			}
			a.Forget(addr)
			must(t, a.Ask(2, addr))
			if len(a.sent) != 2 {
				t.Error("what was forgotten is not asked again")
			}
			if len(hostA.Answer(nil, a.sent[0])) > 0 {
				t.Error("a host answers its own question")
			}
		}
	}
}

func TestResolverGivesUp(t *testing.T) {
	a := newAsker()
	must(t, a.Ask(0, addrB))
	ticks := 0
	for next := a.Tick(0); next != never; next = a.Tick(next) {
		ticks++
	}
	if len(a.sent) != askTries || ticks != askTries || !slices.Equal(a.found, []string{"10.0.0.2 nobody"}) {
		t.Errorf("%d questions, %d ticks, found %q", len(a.sent), ticks, a.found)
	}
	if a.Ask(0, netip.MustParseAddr("224.0.0.1")) == nil || a.Ask(0, netip.IPv4Unspecified()) == nil {
		t.Error("asks for addresses that nobody has")
	}
	a.Host = &Host{Addrs: []netip.Addr{addrA}}
	if a.Ask(0, ip6B) == nil {
		t.Error("asks for IPv6 from IPv4")
	}
	for i := range maxQuestions + 1 {
		if err := a.Ask(0, netip.AddrFrom4([4]byte{10, 1, byte(i >> 8), byte(i)})); (err != nil) != (i == maxQuestions) {
			t.Errorf("question %d: %v", i, err)
		}
	}
}

// echo is an echo request from a to b.
func echo(src, dst netip.Addr) []byte {
	f := append(append([]byte{}, hostB.MAC[:]...), hostA.MAC[:]...)
	message := append([]byte{echoRequest, 0, 0, 0, 0x12, 0x34, 0, 1}, "some data to come back, of odd length"...)
	if dst.Is6() {
		return appendICMPv6(be.AppendUint16(f, etherIPv6), src, dst, 0x68, 64, echoRequest6, message)
	}
	putICMPSum(message, 0)
	f = append(be.AppendUint16(f, etherIPv4), 0x45, 0x68, 0, byte(20+len(message)), 0x77, 0x77, 0, 0, 64, protoICMP, 0, 0)
	f = append(append(f, src.AsSlice()...), dst.AsSlice()...)
	dissect.IPv4(f[14:34]).UpdateChecksum()
	return append(f, message...)
}

func TestHostEchoes(t *testing.T) {
	for _, c := range [][2]netip.Addr{{addrA, addrB}, {ip6A, ip6B}} {
		q := echo(c[0], c[1])
		a := hostB.Answer(nil, q)
		if len(a) != len(q) || [6]byte(a[:6]) != hostA.MAC || [6]byte(a[6:12]) != hostB.MAC || string(a[len(a)-37:]) != string(q[len(q)-37:]) {
			t.Fatalf("%x\nanswered by\n%x", q, a)
		}
		for i := range q { // a flipped bit anywhere: no panic, and no answer where it matters
			bad := slices.Clone(q)
			bad[i] ^= 0x10
			hostB.Answer(nil, bad)
			hostB.Answer(nil, q[:i])
			if len(hostB.Answer(nil, q[:i])) > 0 {
				t.Fatalf("an answer to %d of %d bytes", i, len(q))
			}
			if i >= 34 && c[0].Is4() && len(hostB.Answer(nil, bad)) > 0 {
				t.Fatalf("an answer to a request damaged at %d", i)
			}
		}
		if len(hostA.Answer(nil, q)) > 0 || len((&Host{MAC: hostB.MAC}).Answer(nil, q)) > 0 {
			t.Error("answered by who does not have the address")
		}
		buf := make([]byte, 0, 2048)
		if n := testing.AllocsPerRun(100, func() { hostB.Answer(buf, q) }); n > 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// TestHostTshark lets tshark check questions and answers, their checksums too.
func TestHostTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	a := newAsker()
	must(t, a.Ask(0, addrB))
	must(t, a.Ask(0, ip6B))
	a.VLANs = []uint16{100}
	must(t, a.Ask(0, netip.MustParseAddr("10.0.0.9")))
	// Is an address taken? Asked from no address.
	probe := slices.Clone(a.sent[1])
	probe = appendND(probe[:14], ndSolicit, 0, netip.IPv6Unspecified(), netip.MustParseAddr("ff02::1:ff00:2"), ip6B, ndOptSource, hostA.MAC)
	all := [][]byte{
		a.sent[0], hostB.Answer(nil, a.sent[0]), a.sent[1], hostB.Answer(nil, a.sent[1]), a.sent[2],
		echo(addrA, addrB), hostB.Answer(nil, echo(addrA, addrB)), echo(ip6A, ip6B), hostB.Answer(nil, echo(ip6A, ip6B)), hostB.Answer(nil, probe),
	}
	var frames []testkit.Frame
	for _, f := range all {
		frames = append(frames, testkit.Frame{Data: f, WireLen: len(f), Link: dissect.LinkEthernet})
	}
	file := testkit.WriteCapture(t, "host.pcap", frames)
	rows, err := ts.Query(testkit.TsharkQuery{
		File:   file,
		Fields: []string{"arp.opcode", "arp.src.hw_mac", "arp.dst.proto_ipv4", "icmp.type", "icmpv6.type", "icmpv6.nd.na.flag.s", "icmpv6.opt.linkaddr", "icmp.checksum.status", "icmpv6.checksum.status", "ip.checksum.status", "eth.dst", "_ws.malformed"},
		Args:   []string{"-o", "ip.check_checksum:TRUE"},
	})
	must(t, err)
	const macA, macB = "02:00:00:00:00:01", "02:00:00:00:00:02"
	want := [][]string{
		{"1", macA, "10.0.0.2", "", "", "", "", "", "", "", "ff:ff:ff:ff:ff:ff", ""},
		{"2", macB, "10.0.0.1", "", "", "", "", "", "", "", macA, ""},
		{"", "", "", "", "135", "", macA, "", "1", "", "33:33:ff:00:00:02", ""},
		{"", "", "", "", "136", "1", macB, "", "1", "", macA, ""},
		{"1", macA, "10.0.0.9", "", "", "", "", "", "", "", "ff:ff:ff:ff:ff:ff", ""},
		{"", "", "", "8", "", "", "", "1", "", "1", macB, ""},
		{"", "", "", "0", "", "", "", "1", "", "1", macA, ""},
		{"", "", "", "", "128", "", "", "", "1", "", macB, ""},
		{"", "", "", "", "129", "", "", "", "1", "", macA, ""},
		{"", "", "", "", "136", "0", macB, "", "1", "", "33:33:00:00:00:01", ""},
	}
	for i := range want {
		for j, w := range want[i] {
			got := rows[i][j]
			if got == "True" || got == "False" { // other versions of tshark
				got = map[string]string{"True": "1", "False": "0"}[got]
			}
			if got != w {
				t.Errorf("frame %d, column %d: %q, want %q", i+1, j, got, w)
			}
		}
	}
}
