package flows

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// clc is a CLC message of SMC-R, by RFC 7609, A.2.
func clc(kind, flags byte, length int, fill func(b []byte)) []byte {
	b := make([]byte, length)
	for _, at := range []int{0, length - 4} {
		copy(b[at:], "\xe2\xd4\xc3\xd9")
	}
	b[4], b[7] = kind, flags
	binary.BigEndian.PutUint16(b[5:], uint16(length))
	if fill != nil {
		fill(b)
	}
	return b
}

// clcPath is an Accept or a Confirm.
func clcPath(kind, flags byte, length int, address string, qpn, psn uint32, mtu byte) []byte {
	return clc(kind, flags, length, func(b []byte) {
		a := addrOf(address)
		binary.BigEndian.PutUint64(b[16:], a.Hi)
		binary.BigEndian.PutUint64(b[24:], a.Lo)
		b[38], b[39], b[40] = byte(qpn>>16), byte(qpn>>8), byte(qpn)
		binary.BigEndian.PutUint32(b[41:], 0x3e6)
		b[50] = 2<<4 | mtu
		binary.BigEndian.PutUint64(b[52:], 0xff1100001e2d0000)
		b[61], b[62], b[63] = byte(psn>>16), byte(psn>>8), byte(psn)
	})
}

func TestSMCR(t *testing.T) {
	proposal, decline := clc(1, 0x10, 52, nil), clc(4, 0x10, 28, nil)
	accept := func(flags byte) []byte { return clcPath(2, flags, 68, "10.0.0.2", 0x222, 0xB00001, 5) }
	confirm := clcPath(3, 0x10, 68, "10.0.0.1", 0x111, 0xA00001, 3)
	for _, c := range []struct {
		name, want string
		play       func(x *testkit.Exchange)
		late       bool
	}{
		{"version 1", "pair", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, proposal)
			x.B.TCP(push, accept(0x18))
			x.A.TCP(push, confirm)
			x.A.TCP(push, []byte("what comes behind it is not looked at"))
		}, false},
		{"version 2, in pieces", "pair", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, clc(1, 0x22, 156, nil))
			a := clcPath(2, 0x28, 160, "10.0.0.2", 0x222, 0xB00001, 5)
			x.B.TCP(push, a[:3])
			x.B.TCP(push, a[3:100])
			x.B.TCP(push, a[100:])
			x.A.TCP(push, clcPath(3, 0x28, 180, "10.0.0.1", 0x111, 0xA00001, 3))
		}, false},
		{"without its SYN", "pair", func(x *testkit.Exchange) {
			x.A.TCP(push, proposal)
			x.B.TCP(push, accept(0x18))
			x.A.TCP(push, confirm)
		}, false},
		{"a further connection over the same queue pairs", "pair", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, proposal)
			x.B.TCP(push, accept(0x10))
			x.A.TCP(push, confirm)
		}, true},
		{"declined by the server", "", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, proposal)
			x.B.TCP(push, decline)
			x.A.TCP(push, confirm)
			x.B.TCP(push, accept(0x18))
		}, false},
		{"declined by the client", "", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, proposal)
			x.B.TCP(push, accept(0x18))
			x.A.TCP(push, decline)
		}, false},
		{"without its last eyecatcher", "", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, proposal)
			bad := accept(0x18)
			bad[67]++
			x.B.TCP(push, bad)
			x.A.TCP(push, confirm)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			c.play(x)
			got, h := shakeAll(x.Frames())
			checkBooks(t, h)
			wantKinds(t, got, c.want)
			if c.want == "" {
				return
			}
			e := got[0]
			if e.A != (QPName{addrOf("10.0.0.1"), -1, 0x111}) || e.B != (QPName{addrOf("10.0.0.2"), -1, 0x222}) || !e.RolesKnown || e.By != BySocket || e.Late != c.late {
				t.Errorf("%+v", e)
			}
			n := e.NegB
			if e.NegA.StartPSN != 0xA00001 || n.StartPSN != 0xB00001 || n.PathMTU != 1024 || n.RKey != 0x3e6 || n.VA != 0xff1100001e2d0000 || !n.HasMemory || !e.HasPSNA || !e.HasPSNB {
				t.Errorf("%+v", e)
			}
			if !strings.HasPrefix(e.Why, "SMC-R CLC accept and confirm on TCP in frames ") {
				t.Error(e.Why)
			}
		})
	}
}

// TestSMCROfLinux compares what Linux's own exchange tells (testdata/smcr_clc.pcapng, of the laboratory's row smcr) with what tshark reads in
// it.
func TestSMCROfLinux(t *testing.T) {
	frames := testkit.ReadCapture(t, "testdata/smcr_clc.pcapng")
	got, _ := shakeAll(frames)
	wantKinds(t, got, "pair")
	e := got[0]
	ours := fmt.Sprintf("0x%06x 0x%06x 0x%08x 0x%016x %v 0x%06x 0x%06x 0x%08x 0x%016x %v", e.B.QPN, uint32(e.NegB.StartPSN), e.NegB.RKey, e.NegB.VA, e.NegB.PathMTU,
		e.A.QPN, uint32(e.NegA.StartPSN), e.NegA.RKey, e.NegA.VA, e.NegA.PathMTU)
	const want = "0x000011 0x18c4da 0x000003e6 0xff1100001e2d0000 4096 0x000011 0x041cd6 0x000003b9 0xff1100001e2d0000 4096"
	if ours != want || e.A.Addr != addrOf("10.77.0.3") || e.B.Addr != addrOf("10.77.0.2") || e.Late {
		t.Errorf("%s\nwant %s\n%+v", ours, want, e)
	}
	var theirs []string
	for _, row := range testkit.FindTshark(t).Fields(t, "testdata/smcr_clc.pcapng", "smc.accept.server.qp.number", "smc.accept.initial.psn", "smc.accept.server.rmb.rkey",
		"smc.accept.server.rmb.virtual.address", "smc.accept.qp.mtu.value", "smc.confirm.client.qp.number", "smc.initial.psn", "smc.confirm.client.rmb.rkey",
		"smc.client.rmb.virtual.address", "smc.confirm.qp.mtu.value") {
		for _, v := range row {
			if v == "5" { // a code
				v = "4096"
			}
			if v != "" {
				theirs = append(theirs, v)
			}
		}
	}
	if got := strings.Join(theirs, " "); got != want {
		t.Errorf("tshark reads %s", got)
	}
}

// described makes the exchanges of the tests, on the port that testkit's TCP uses.
func described(messages ...ExchangeMessage) []Exchange {
	return []Exchange{{Name: "ours", Ports: []uint16{18515}, Messages: messages}}
}

func shakeDescribed(t *testing.T, x *testkit.Exchange, e []Exchange) []handshakeEvent {
	t.Helper()
	h := newHandshakes(handshakeLimits{Exchanges: e})
	var events []handshakeEvent
	packets, data := testkit.Decode(x.Frames())
	for i := range packets {
		events = h.packet(&packets[i], data[i], events)
	}
	checkBooks(t, h)
	return events
}

func TestDescribedText(t *testing.T) {
	line := ExchangeMessage{Pattern: regexp.MustCompile(`^QP (?P<qpn>\w+) PSN (?P<psn>\w+)(?: KEY (?P<rkey>\w+) AT (?P<vaddr>\w+))?(?: GID (?P<gid>\S+))?(?: MTU (?P<mtu>\w+))?$`), End: "\n", Base: 10}
	both := ExchangeMessage{Server: true, Pattern: regexp.MustCompile(`yours (?P<peer_qpn>\w+)/(?P<peer_psn>\w+) mine (?P<qpn>\w+)/(?P<psn>\w+)`), End: ";", Base: 16}
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, []byte("hello, world\nQP 273 PSN 0xa00001 KEY 7 AT 0x1000 MTU 4096\nQP 1 PSN 1\nQP 27"))
	x.B.TCP(push, []byte("QP 546 PSN 11534337 KEY 8 AT 0x2000 GID ::ffff:10.0.0.9 MTU 3\n"))
	x.A.TCP(push, []byte("4 PSN 5\n"))
	x.B.TCP(push, []byte("QP 547 PSN 6\n"))
	got := shakeDescribed(t, x, described(line))
	wantKinds(t, got, "pair, pair")
	e := got[0]
	if e.A != (QPName{addrOf("10.0.0.1"), -1, 273}) || e.B != (QPName{addrOf("10.0.0.9"), -1, 546}) || e.NegA.StartPSN != 0xA00001 || e.NegB.StartPSN != 11534337 ||
		e.NegA.RKey != 7 || e.NegA.VA != 0x1000 || e.NegB.RKey != 8 || e.NegA.PathMTU != 1024 || e.Why != "ours messages on TCP in frames 4 and 5" {
		t.Errorf("%+v", e)
	}
	if e = got[1]; e.A.QPN != 274 || e.B.QPN != 547 || e.NegA.HasMemory {
		t.Errorf("%+v", e)
	}

	x = testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, []byte("give me one;"))
	x.B.TCP(push, []byte("yours 111/a00001 mine 222/0xb00001;"))
	got = shakeDescribed(t, x, described(both))
	wantKinds(t, got, "pair")
	if e := got[0]; e.A != (QPName{addrOf("10.0.0.1"), -1, 0x111}) || e.B != (QPName{addrOf("10.0.0.2"), -1, 0x222}) || e.NegA.StartPSN != 0xA00001 || e.NegB.StartPSN != 0xB00001 {
		t.Errorf("%+v", e)
	}
}

func TestDescribedBinary(t *testing.T) {
	client := ExchangeMessage{Client: true, Size: 32, Little: true, Begins: []byte("RDMA"), Fields: []ExchangePlace{
		{"qpn", 4, 4}, {"psn", 8, 3}, {"rkey", 12, 4}, {"vaddr", 16, 8}, {"gid", 24, 4},
	}}
	server := ExchangeMessage{Server: true, Size: 12, Fields: []ExchangePlace{{"qpn", 0, 3}, {"psn", 4, 4}, {"mtu", 8, 2}}}
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, []byte("noise RD"))
	x.A.TCP(push, []byte("MA\x11\x01\x00\x00\x01\x00\xa0\x00\x07\x00\x00\x00\x00\x10\x00\x00\x00\x00\x00\x80\x0a\x00\x00\x08\xff\xff\xff"))
	x.A.TCP(push, []byte("\xff"))
	x.B.TCP(push, []byte("\x00\x02\x22\xff\x12\xb0\x00\x01\x08\x00\x00\x00"))
	got := shakeDescribed(t, x, described(client, server))
	wantKinds(t, got, "pair")
	e := got[0]
	if e.A != (QPName{addrOf("10.0.0.8"), -1, 0x111}) || e.B != (QPName{addrOf("10.0.0.2"), -1, 0x222}) || e.NegA.StartPSN != 0xA00001 || e.NegB.StartPSN != 0xB00001 ||
		e.NegA.RKey != 7 || e.NegA.VA != 0x8000000000001000 || e.NegB.HasMemory {
		t.Errorf("%+v", e)
	}

	// Without a port, the first bytes tell it.
	any := []Exchange{{Name: "ours", Messages: []ExchangeMessage{{Size: 8, Begins: []byte{0xAA, 0xBB, 0xCC, 0xDD}, Fields: []ExchangePlace{{"qpn", 4, 4}}}}}}
	x = testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, []byte("\xaa\xbb\xcc\xdd\x00\x00\x01\x11"))
	x.B.TCP(push, []byte("\xaa\xbb\xcc\xdd\x00\x00\x02\x22"))
	got = shakeDescribed(t, x, any)
	wantKinds(t, got, "pair")
	if e := got[0]; e.A.QPN != 0x111 || e.B.QPN != 0x222 || e.HasPSNA || e.HasPSNB {
		t.Errorf("%+v", e)
	}
}

// TestExchangePairsQPs is about what comes of it: QPs whose PSNs nothing tells apart are pairs, and the connection says why.
func TestExchangePairsQPs(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, []byte("QP 17\n"))
	x.B.TCP(push, []byte("QP 18\n"))
	x.A.Write(100)
	tr := New(Options{Exchanges: described(ExchangeMessage{Pattern: regexp.MustCompile(`QP (?P<qpn>\d+)`), End: "\n", Base: 10})})
	testkit.Batches(x.Frames(), 64, func(packets []dissect.Packet, data [][]byte) {
		tr.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
	})
	tr.Finish()
	s := tr.Snapshot()
	if len(s.Connections) != 1 {
		t.Fatalf("%d connections", len(s.Connections))
	}
	if c := &s.Connections[0]; c.Evidence != BySocket || c.A.QPN != 17 || c.B.QPN != 18 || !strings.HasPrefix(c.Why, "ours messages") {
		t.Errorf("%+v", c)
	}
}

// FuzzExchange reads any bytes as SMC-R's messages and as described ones. Whatever they are, what is dealt with is in the bytes, and a queue
// pair that is told can be one.
func FuzzExchange(f *testing.F) {
	formats := []messageFormat{smcFormat{}}
	text := ExchangeMessage{Pattern: regexp.MustCompile(`(?P<qpn>\w+) (?P<psn>\w+) (?P<gid>\S+) (?P<peer_qpn>\w+)`), End: "\n", Base: 16}
	binary := ExchangeMessage{Size: 24, Little: true, Begins: []byte("AB"), Fields: []ExchangePlace{{"qpn", 2, 3}, {"psn", 5, 3}, {"gid", 8, 16}, {"peer_qpn", 20, 4}, {"mtu", 7, 1}}}
	for _, x := range [][]Exchange{described(text), described(binary), described(ExchangeMessage{Size: 4, Fields: []ExchangePlace{{"qpn", 0, 4}, {"lid", 3, 4}}})} {
		formats = append(formats, &x[0])
	}
	f.Add(clcPath(2, 0x18, 68, "10.0.0.2", 0x222, 1, 5))
	f.Add(clc(1, 0x22, 156, nil))
	f.Add([]byte("11 22 fe80::1 33\n"))
	f.Add([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, format := range formats {
			for rest := b; ; {
				told, n := format.next(rest, anyRole)
				if n > len(rest) || n <= 0 && (told.hasOwn || told.hasPeer) {
					t.Fatalf("%s: %d of %d bytes are dealt with: %+v", format.what(), n, len(rest), told)
				}
				if told.hasOwn && (told.own.qpn <= 1 || told.own.qpn > 1<<24-1) || told.hasPeer && (told.peer.qpn <= 1 || told.peer.qpn > 1<<24-1) {
					t.Fatalf("%s: %+v", format.what(), told)
				}
				if n <= 0 {
					break
				}
				rest = rest[n:]
			}
		}
		// Through the table, cut in two anywhere, it is the same.
		if len(b) == 0 || bytes.HasPrefix(b, []byte{0}) {
			return
		}
		x := testkit.NewExchange(testkit.ExchangeOptions{})
		open(x)
		cut := int(b[0]) % len(b)
		x.A.TCP(push, b[:cut])
		x.A.TCP(push, b[cut:])
		x.B.TCP(push, b)
		shakeDescribed(t, x, described(text))
	})
}
