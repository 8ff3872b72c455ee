package flows

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

const push = dissect.TCPAck | 0x08

// open writes a three-way handshake; A is the client.
func open(x *testkit.Exchange) {
	x.A.TCP(dissect.TCPSyn, nil)
	x.B.TCP(dissect.TCPSyn|dissect.TCPAck, nil)
	x.A.TCP(dissect.TCPAck, nil)
}

// The texts, as written by hand in the form of each program.
func pingpongText(qpn, psn uint32, gid string) []byte {
	return fmt.Appendf(nil, "0000:%06x:%06x:%s\x00", qpn, psn, gid)
}

const (
	gid1 = "00000000000000000000ffff0a000001"
	gid2 = "00000000000000000000ffff0a000002"
)

func colons(gid string) string {
	var s []string
	for i := 0; i < len(gid); i += 2 {
		s = append(s, gid[i:i+2])
	}
	return strings.Join(s, ":")
}

func keyText(qpn, psn uint32, gid string) []byte {
	return fmt.Appendf(nil, "0000:0001:%06x:%06x:00000aaa:000055d0c189d000:%s:00000000:\x00", qpn, psn, colons(gid))
}

func preamble(version, mtu string) []byte {
	b := append(append([]byte(nil), version...), make([]byte, 16-len(version))...)
	b = append(b, 0, 0, 0x10, 0, 0, 0, 0, 0x40)
	return append(append(b, mtu...), 0)
}

func TestSocketForms(t *testing.T) {
	const keys = "%04x:0010:%06x:%06x:00000aaa:000055d0c189d000:"
	for _, c := range []struct {
		name   string
		form   textForm
		length int
		a, b   string
		memory bool
	}{
		{"pingpong", textPingpong, 52, "0000:000111:a00001:" + gid1 + "\x00", "0000:000222:b00001:" + gid2 + "\x00", false},
		{"perftest without GID", textKeys, 59, fmt.Sprintf(keys, 1, 0x111, 0xa00001) + "00000000\x00", fmt.Sprintf(keys, 2, 0x222, 0xb00001) + "00000000\x00", true},
		{"perftest without GID, checked", textKeysCheck, 76, fmt.Sprintf(keys, 1, 0x111, 0xa00001) + "00000000000000ff:00000000\x00", fmt.Sprintf(keys, 2, 0x222, 0xb00001) + "00000000000000ff:00000000\x00", true},
		{"perftest", textKeysGID, 108, fmt.Sprintf(keys, 0, 0x111, 0xa00001) + colons(gid1) + ":00000000:\x00", fmt.Sprintf(keys, 0, 0x222, 0xb00001) + colons(gid2) + ":00000000:\x00", true},
		{"perftest, checked", textKeysGIDCheck, 125, fmt.Sprintf(keys, 0, 0x111, 0xa00001) + "00000000000000ff:" + colons(gid1) + ":00000000:\x00", fmt.Sprintf(keys, 0, 0x222, 0xb00001) + "00000000000000ff:" + colons(gid2) + ":00000000:\x00", true},
		{"upper case", textPingpong, 52, "0000:000111:A00001:" + strings.ToUpper(gid1) + "\x00", "0000:000222:B00001:" + strings.ToUpper(gid2) + "\x00", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if len(c.a) != c.length || len(textShapes[c.form]) != c.length {
				t.Fatalf("the text has %d bytes, its shape %d, want %d", len(c.a), len(textShapes[c.form]), c.length)
			}
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			open(x)
			x.A.TCP(push, []byte(c.a))
			x.B.TCP(push, []byte(c.b))
			got, h := shakeAll(x.Frames())
			wantKinds(t, got, "pair")
			e := got[0]
			a, b := QPName{addrOf("10.0.0.1"), -1, 0x111}, QPName{addrOf("10.0.0.2"), -1, 0x222}
			if c.form == textKeys || c.form == textKeysCheck { // by LID
				a.Addr, b.Addr = dissect.Addr{Lo: 1}, dissect.Addr{Lo: 2}
			}
			if e.A != a || e.B != b || e.NegA.StartPSN != 0xA00001 || e.NegB.StartPSN != 0xB00001 || !e.HasPSNA || !e.HasPSNB {
				t.Errorf("%+v", e)
			}
			if e.By != BySocket || !e.RolesKnown || e.FromA || e.HasTransport || e.VLANKnown != a.Addr.Is4() || e.Packets != 5 || h.socketPackets() != 5 {
				t.Errorf("%+v", e)
			}
			if e.NegA.HasMemory != c.memory || c.memory && (e.NegA.RKey != 0xAAA || e.NegA.VA != 0x55d0c189d000) {
				t.Errorf("memory is %+v", e.NegA)
			}
			if e.NegA.RetryCount != -1 || e.NegA.AckTimeout != -1 || e.NegA.InitiatorDepth != -1 || e.NegA.PathMTU != 0 {
				t.Errorf("%+v", e.NegA)
			}
		})
	}
}

// TestSocketStories are about what a TCP connection has to look like.
func TestSocketStories(t *testing.T) {
	a, b := keyText(0x111, 0xA00001, gid1), keyText(0x222, 0xB00001, gid2)
	a2, b2 := keyText(0x112, 0xA00002, gid1), keyText(0x223, 0xB00002, gid2)
	both := func(x *testkit.Exchange, a, b []byte) {
		x.A.TCP(push, a)
		x.B.TCP(push, b)
	}
	for _, c := range []struct {
		name, want string
		write      func(x *testkit.Exchange)
		check      func(t *testing.T, got []handshakeEvent)
	}{
		{"perftest", "pair, pair, established", func(x *testkit.Exchange) {
			x.Perftest(x.Beside(nil))
		}, func(t *testing.T, got []handshakeEvent) {
			for i, e := range got[:2] {
				if e.A.QPN != 0x11+0x10*uint32(i) || e.B.QPN != 0x12+0x10*uint32(i) || e.NegA.PathMTU != 1024 || e.NegB.PathMTU != 1024 {
					t.Errorf("%+v", e)
				}
			}
			if e := got[2]; e.A.QPN != 0x11 || e.B.QPN != 0x12 {
				t.Errorf("%v and %v are established", e.A, e.B)
			}
		}},
		{"pingpong", "pair, established", func(x *testkit.Exchange) { x.Pingpong() }, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.Why != "ibv_*_pingpong texts on TCP in frames 4 and 5" {
				t.Error(e.Why)
			}
		}},
		{"the smaller of two path MTUs", "pair", func(x *testkit.Exchange) {
			open(x)
			both(x, preamble("6.06", "5"), preamble("5.31", "2"))
			both(x, a, b)
		}, func(t *testing.T, got []handshakeEvent) {
			if got[0].NegA.PathMTU != 512 || got[0].NegB.PathMTU != 512 {
				t.Errorf("path MTU is %d and %d", got[0].NegA.PathMTU, got[0].NegB.PathMTU)
			}
		}},
		{"a version that does not tell the path MTU in two bytes", "pair", func(x *testkit.Exchange) {
			open(x)
			both(x, preamble("6.06", "5"), preamble("5.30", "2"))
			both(x, a, b)
		}, func(t *testing.T, got []handshakeEvent) {
			if got[0].NegA.PathMTU != 0 {
				t.Errorf("path MTU is %d", got[0].NegA.PathMTU)
			}
		}},
		{"all in two segments", "pair, pair, established", func(x *testkit.Exchange) {
			open(x)
			both(x, bytes.Join([][]byte{preamble("6.06", "3"), a, a2, a}, nil), bytes.Join([][]byte{preamble("6.06", "3"), b, b2, b}, nil))
		}, func(t *testing.T, got []handshakeEvent) {
			if got[1].A.QPN != 0x112 || got[1].B.QPN != 0x223 || got[1].NegB.PathMTU != 1024 {
				t.Errorf("%+v", got[1])
			}
		}},
		{"in segments of one byte", "pair, pair", func(x *testkit.Exchange) {
			open(x)
			for _, e := range []struct {
				end  *testkit.End
				data []byte
			}{{x.A, append(preamble("6.06", "3"), a...)}, {x.B, append(preamble("6.06", "3"), b...)}, {x.A, a2}, {x.B, b2}} {
				for i := range e.data {
					e.end.TCP(push, e.data[i:i+1])
				}
			}
		}, func(t *testing.T, got []handshakeEvent) {
			if got[0].NegA.PathMTU != 1024 {
				t.Errorf("path MTU is %d", got[0].NegA.PathMTU)
			}
		}},
		{"segments sent again", "pair", func(x *testkit.Exchange) {
			open(x)
			first := x.A.TCP(push, a[:50])
			x.A.TCP(push, a[50:])
			first.Duplicate(time.Microsecond / 2)
			first.Duplicate(time.Millisecond)
			x.B.TCP(push, b).Duplicate(time.Millisecond)
		}, nil},
		{"segments out of order", "pair", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, a[:50]).Delay(100 * time.Microsecond)
			x.A.TCP(push, a[50:80])
			x.A.TCP(push, a[80:]).Duplicate(time.Microsecond / 2)
			x.B.TCP(push, b)
		}, nil},
		{"data before its SYN: pairs are not guessed", "", func(x *testkit.Exchange) {
			x.A.TCP(dissect.TCPSyn, nil).Delay(100 * time.Microsecond)
			x.B.TCP(dissect.TCPSyn|dissect.TCPAck, nil).Delay(100 * time.Microsecond)
			x.A.TCP(push, a)
			x.Wait(time.Millisecond)
			x.B.TCP(push, b)
			both(x, a2, b2)
		}, nil},
		{"one SYN is not in the capture", "pair", func(x *testkit.Exchange) {
			x.A.TCP(dissect.TCPSyn, nil).Drop()
			x.B.TCP(dissect.TCPSyn|dissect.TCPAck, nil)
			both(x, a, b)
		}, func(t *testing.T, got []handshakeEvent) {
			if got[0].A.QPN != 0x111 || !got[0].RolesKnown {
				t.Errorf("%+v", got[0])
			}
		}},
		{"the capture begins in the middle: pairs are not guessed", "", func(x *testkit.Exchange) {
			x.A.TCP(push, a2)
			x.B.TCP(push, b)
			x.A.TCP(push, a)
			x.B.TCP(push, b2)
		}, nil},
		{"the capture begins in the middle: the first pair is told over and over", "pair", func(x *testkit.Exchange) {
			x.B.TCP(push, b2)
			both(x, a, b)
			both(x, make([]byte, 40), make([]byte, 40))
			both(x, a, b)
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; !e.Late || e.A.QPN != 0x111 || e.B.QPN != 0x222 || e.RolesKnown {
				t.Errorf("%+v", e)
			}
		}},
		{"a segment is not in the capture: pairs are not guessed", "", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, a).Drop()
			x.B.TCP(push, b)
			both(x, a2, b2)
			x.A.TCP(dissect.TCPFin|dissect.TCPAck, nil)
		}, nil},
		{"a segment is cut by the snap length", "", func(x *testkit.Exchange) {
			open(x)
			x.A.TCP(push, a).Snap(14 + 20 + 20 + 60)
			x.B.TCP(push, b)
			both(x, a2, b2)
		}, nil},
		{"srq_pingpong's many empty texts", "pair, pair, established, established", func(x *testkit.Exchange) {
			open(x)
			none := pingpongText(0, 0, strings.Repeat("0", 32))
			mine := append(pingpongText(0x111, 1, gid1), pingpongText(0x112, 2, gid1)...)
			yours := append(pingpongText(0x222, 3, gid2), pingpongText(0x223, 4, gid2)...)
			both(x, append(mine, bytes.Repeat(none, 254)...), append(yours, bytes.Repeat(none, 254)...))
			x.A.TCP(push, []byte("done\x00"))
		}, nil},
		{"texts of different forms", "", func(x *testkit.Exchange) {
			open(x)
			both(x, a, pingpongText(0x222, 1, gid2))
			both(x, a, b)
		}, nil},
		{"only one side sends texts", "", func(x *testkit.Exchange) {
			open(x)
			both(x, a, []byte("HTTP/1.1 200 OK\r\n"))
			both(x, a, []byte("more"))
		}, nil},
		{"almost a text", "", func(x *testkit.Exchange) {
			open(x)
			a, b := bytes.Clone(a), bytes.Clone(b)
			a[107], b[107] = '\n', '\n'
			both(x, a, b)
		}, nil},
		{"much else before it", "", func(x *testkit.Exchange) {
			open(x)
			both(x, make([]byte, 1400), nil)
			both(x, make([]byte, 1400), nil)
			both(x, make([]byte, 1400), nil)
			both(x, a, b)
		}, nil},
		{"the ports are used again", "pair, pair", func(x *testkit.Exchange) {
			open(x)
			both(x, a, b)
			x.A.TCP(dissect.TCPFin|dissect.TCPAck, nil)
			x.B.TCP(dissect.TCPFin|dissect.TCPAck, nil)
			open(x)
			both(x, a, b)
		}, nil},
		{"SYNs sent again change nothing", "pair", func(x *testkit.Exchange) {
			syn, ack := x.A.TCP(dissect.TCPSyn, nil), x.B.TCP(dissect.TCPSyn|dissect.TCPAck, nil)
			x.A.TCP(push, a)
			syn.Duplicate(5 * time.Microsecond)
			ack.Duplicate(5 * time.Microsecond)
			x.Wait(time.Millisecond)
			x.B.TCP(push, b)
		}, nil},
		{"RoCE runs over other addresses", "pair", func(x *testkit.Exchange) {
			open(x)
			both(x, keyText(0x111, 1, "fd770000000000000000000000000001"), keyText(0x222, 2, "fd770000000000000000000000000002"))
		}, func(t *testing.T, got []handshakeEvent) {
			if e := got[0]; e.A.Addr != addrOf("fd77::1") || e.B.Addr != addrOf("fd77::2") || e.VLANKnown {
				t.Errorf("%+v", e)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			c.write(x)
			got := shake(x.Frames())
			wantKinds(t, got, c.want)
			for _, e := range got {
				if e.Kind == evPair && (e.By != BySocket || e.Why == "" || e.Packets == 0) {
					t.Errorf("%+v", e)
				}
			}
			if c.check != nil {
				c.check(t, got)
			}
		})
	}
}

// TestSocketSegmentation cuts an exchange of several queue pairs into random
// segments, and lets the network double and reorder them.
func TestSocketSegmentation(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		x := testkit.NewExchange(testkit.ExchangeOptions{})
		open(x)
		x.Wait(time.Millisecond)
		n := 1 + r.IntN(5)
		var streams [2][]byte
		for s := range streams {
			streams[s] = preamble("6.06", "4")
			for i := range n {
				streams[s] = append(streams[s], keyText(uint32(0x100*(s+1)+i), uint32(i), [2]string{gid1, gid2}[s])...)
			}
		}
		for len(streams[0])+len(streams[1]) > 0 {
			s := r.IntN(2)
			k := min(1+r.IntN(150), len(streams[s]))
			if k == 0 {
				continue
			}
			p := [2]*testkit.End{x.A, x.B}[s].TCP(push, streams[s][:k])
			if r.IntN(5) == 0 {
				p.Duplicate(time.Duration(r.IntN(5)) * time.Microsecond)
			}
			if r.IntN(5) == 0 {
				p.Delay(time.Duration(r.IntN(5)) * time.Microsecond)
			}
			streams[s] = streams[s][k:]
		}
		pairs := ofKind(shake(x.Frames()), evPair)
		if len(pairs) != n {
			t.Fatalf("%d pairs, want %d", len(pairs), n)
		}
		for i, e := range pairs {
			if e.A.QPN != uint32(0x100+i) || e.B.QPN != uint32(0x200+i) || e.NegA.PathMTU != 2048 || e.Late {
				t.Fatalf("pair %d is %v and %v", i, e.A, e.B)
			}
		}
	}
}

// TestSocketTableIsBounded opens many connections, each with half an exchange
// and a hole.
func TestSocketTableIsBounded(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	x.A.TCP(push, bytes.Repeat(keyText(0x111, 1, gid1), 12))
	x.B.TCP(push, []byte("lost")).Drop()
	x.B.TCP(push, make([]byte, 1000))
	packets, data := testkit.Decode(x.Frames())
	h := newHandshakes(handshakeLimits{Flows: 64})
	var events []handshakeEvent
	for port := range 60000 {
		for i := range packets {
			p := packets[i]
			if p.SrcPort == 18515 {
				p.DstPort = uint16(port)
			} else {
				p.SrcPort = uint16(port)
			}
			events = h.packet(&p, data[i], events[:0])
		}
	}
	s := &h.sockets
	if len(s.flows.items) != 64 || len(s.index) != 64 {
		t.Errorf("%d flows, %d in the index, want 64", len(s.flows.items), len(s.index))
	}
	if s.waiting != 64*12 || s.lateBytes != 64*1000 || s.pairs != 0 {
		t.Errorf("%d texts wait, %d late bytes, %d pairs", s.waiting, s.lateBytes, s.pairs)
	}
}

func TestSocketOfOtherTrafficDoesNotAllocate(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	for range 8 {
		x.A.TCP(push, bytes.Repeat([]byte("GET / HTTP/1.1\r\nHost: a\r\n"), 40))
		x.B.TCP(push, bytes.Repeat([]byte("0000:0001:c0ffee, and so on "), 50))
	}
	packets, data := testkit.Decode(x.Frames())
	h := newHandshakes(handshakeLimits{})
	var events []handshakeEvent
	run := func() {
		for i := range packets {
			events = h.packet(&packets[i], data[i], events[:0])
		}
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
	fresh := 0
	if n := testing.AllocsPerRun(100, func() { // connections that are watched anew
		for i := range packets {
			p := packets[i]
			if fresh++; p.TCPFlags&dissect.TCPSyn != 0 {
				p.TCPSeq += uint32(fresh)
			}
			events = h.packet(&p, data[i], events[:0])
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if len(events) != 0 || h.socketPackets() != 0 {
		t.Error("an exchange was seen in other traffic")
	}
}

func BenchmarkSocketOtherTraffic(b *testing.B) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	open(x)
	for range 8 {
		x.A.TCP(push, make([]byte, 1400))
		x.B.TCP(dissect.TCPAck, nil)
	}
	packets, data := testkit.Decode(x.Frames())
	h := newHandshakes(handshakeLimits{})
	for b.Loop() {
		for i := range packets {
			h.packet(&packets[i], data[i], nil)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(packets)), "ns/packet")
}
