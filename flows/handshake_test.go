package flows

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// shake feeds a capture to handshakes and returns what it proved.
func shake(frames []testkit.Frame) []handshakeEvent {
	events, _ := shakeAll(frames)
	return events
}

func shakeAll(frames []testkit.Frame) ([]handshakeEvent, *handshakes) {
	h := newHandshakes(handshakeLimits{})
	var events []handshakeEvent
	packets, data := testkit.Decode(frames)
	for i := range packets {
		events = h.packet(&packets[i], data[i], events)
	}
	return events, h
}

// kinds are the events' kinds in order, in words.
func kinds(events []handshakeEvent) string {
	var s []string
	for i := range events {
		s = append(s, events[i].Kind.String())
	}
	return strings.Join(s, ", ")
}

func ofKind(events []handshakeEvent, k eventKind) (found []handshakeEvent) {
	for _, e := range events {
		if e.Kind == k {
			found = append(found, e)
		}
	}
	return found
}

// wantKinds fails unless got is of the kinds that are listed.
func wantKinds(t *testing.T, got []handshakeEvent, want string) {
	t.Helper()
	if k := kinds(got); k != want {
		t.Fatalf("events are %q, want %q", k, want)
	}
}

func addrOf(s string) dissect.Addr { return dissect.AddrFrom(netip.MustParseAddr(s)) }

// TestHandshakesOfRealCaptures compares what handshakes finds in captures of
// Linux soft-RoCE with what the programs printed, and with the first requests
// that follow.
func TestHandshakesOfRealCaptures(t *testing.T) {
	manifest := testkit.RXEManifest(t)
	for _, file := range testkit.Files(t, testkit.RXE(t), "*.pcap") {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "iwarp_") {
			continue
		}
		t.Run(name, func(t *testing.T) {
			entry := manifest.Entry(t, name)
			frames := testkit.ReadCapture(t, file)
			events, h := shakeAll(frames)
			pairs := ofKind(events, evPair)
			client, server := entry.Client.QueuePairs(), entry.Server.QueuePairs()
			if bySocket(entry.Client) {
				checkSocketPairs(t, name, entry, pairs, client, server)
				checkSocketPackets(t, frames, h)
			} else if h.socketPackets() != 0 {
				t.Errorf("%d packets belong to a socket exchange, want none", h.socketPackets())
			}
			for _, e := range pairs {
				if e.Late || !e.RolesKnown || !e.VLANKnown && e.By == ByCM {
					t.Errorf("pair %v/%v: late %v, roles known %v", e.A, e.B, e.Late, e.RolesKnown)
				}
				slack := 1
				if strings.HasPrefix(name, "netem_") { // the first may be lost or late
					slack = 64
				}
				checkFirstPSN(t, frames, e, slack)
			}
			if n := len(ofKind(events, evHalf)); entry.Observed.CM["REQ"] > 0 && n == 0 {
				t.Errorf("REQs in the capture, but no event of them")
			}
			if entry.Truth.CM && len(client) > 0 && len(server) == len(client) && entry.Truth.Transport == "RC" &&
				!strings.Contains(entry.Client.Runs[0].Command, " -z ") { // whose own queue pairs are told by SENDs over CM's
				checkCMPairs(t, pairs, client, server)
			}
		})
	}
}

// bySocket reports whether a machine's programs tell their queue pairs over
// TCP.
func bySocket(m testkit.Machine) bool {
	for _, run := range m.Runs {
		c := " " + run.Command + " "
		if strings.Contains(c, " ibv_") || strings.Contains(c, " ib_") && !strings.Contains(c, " -R ") && !strings.Contains(c, " -z ") {
			return true
		}
	}
	return false
}

// checkSocketPackets expects every TCP packet to be one of the exchange: there
// is nothing else on TCP in these captures.
func checkSocketPackets(t *testing.T, frames []testkit.Frame, h *handshakes) {
	t.Helper()
	packets, _ := testkit.Decode(frames)
	n := uint64(0)
	for i := range packets {
		if packets[i].Proto == dissect.ProtoTCP {
			n++
		}
	}
	if h.socketPackets() != n {
		t.Errorf("%d packets belong to the exchange, want all %d of TCP", h.socketPackets(), n)
	}
}

func checkSocketPairs(t *testing.T, name string, entry testkit.Entry, pairs []handshakeEvent, client, server []testkit.QueuePair) {
	t.Helper()
	if len(client) == 0 { // the program was stopped before it printed anything
		if len(pairs) != 1 {
			t.Errorf("%d pairs, want 1", len(pairs))
		}
		return
	}
	if len(pairs) != len(client) {
		t.Fatalf("%d pairs, want %d", len(pairs), len(client))
	}
	ips := [2]string{entry.Client.IP, entry.Server.IP}
	if strings.Contains(name, "ipv6") {
		ips = [2]string{"fd77::1", "fd77::2"}
	}
	vlan := -1
	if entry.Truth.VLAN != 0 {
		vlan = entry.Truth.VLAN
		ips = [2]string{"10.78.0.1", "10.78.0.2"}
	}
	for i, e := range pairs {
		for s, side := range []struct {
			got  QPName
			neg  Negotiated
			want testkit.QueuePair
		}{{e.A, e.NegA, client[i]}, {e.B, e.NegB, server[min(i, len(server)-1)]}} {
			if s == 1 && len(server) == 0 {
				continue
			}
			q := side.want
			if want := (QPName{addrOf(ips[s]), vlan, q.QPN}); side.got != want {
				t.Errorf("pair %d side %d is %v, want %v", i, s, side.got, want)
			}
			if side.neg.StartPSN != dissect.PSN(q.PSN) {
				t.Errorf("pair %d side %d starts at PSN %#x, want %#x", i, s, side.neg.StartPSN, q.PSN)
			}
			if q.RKey != 0 && (side.neg.RKey != q.RKey || side.neg.VA != q.VA || !side.neg.HasMemory) {
				t.Errorf("pair %d side %d: memory %#x at %#x, want %#x at %#x", i, s, side.neg.RKey, side.neg.VA, q.RKey, q.VA)
			}
			mtu := entry.Truth.MTU
			if entry.Truth.PingPong && side.neg.PathMTU == 0 || mtu == 0 {
				continue
			}
			if side.neg.PathMTU != mtu {
				t.Errorf("pair %d side %d: path MTU %d, want %d", i, s, side.neg.PathMTU, mtu)
			}
		}
		if e.By != BySocket || e.HasTransport || e.Why == "" {
			t.Errorf("pair %d: by %v, transport told %v, because %q", i, e.By, e.HasTransport, e.Why)
		}
	}
}

// checkCMPairs looks for the queue pairs that perftest printed; PSNs that it
// prints are its own, not those of CM.
func checkCMPairs(t *testing.T, pairs []handshakeEvent, client, server []testkit.QueuePair) {
	t.Helper()
	for i := range client {
		found := false
		for _, e := range pairs {
			found = found || e.A.QPN == client[i].QPN && e.B.QPN == server[i].QPN
		}
		if !found {
			t.Errorf("no pair of QPN %#x and %#x among %d", client[i].QPN, server[i].QPN, len(pairs))
		}
	}
}

// checkFirstPSN compares the starting PSNs with the first requests after the
// handshake, and the path MTU with the longest payload.
func checkFirstPSN(t *testing.T, frames []testkit.Frame, e handshakeEvent, slack int) {
	t.Helper()
	packets, _ := testkit.Decode(frames)
	seen := [2]bool{}
	for i := range packets {
		p := &packets[i]
		if p.Number <= e.Frame || !p.IsTransport() || p.Op().Role != dissect.Request || p.Op().Transport > dissect.UC || p.ICRC != dissect.ICRCValid {
			continue
		}
		for d, s := range [2]struct {
			from, to QPName
			psn      dissect.PSN
			mtu      int
		}{{e.A, e.B, e.NegA.StartPSN, e.NegA.PathMTU}, {e.B, e.A, e.NegB.StartPSN, e.NegB.PathMTU}} {
			if p.Src != s.from.Addr || p.Dst != s.to.Addr || p.DestQP != s.to.QPN || p.VLAN() != s.to.VLAN {
				continue
			}
			if s.mtu != 0 && p.PayloadLen() > s.mtu {
				t.Errorf("frame %d carries %d bytes, path MTU is %d", p.Number, p.PayloadLen(), s.mtu)
			}
			if !seen[d] && !p.PSN.In(s.psn, slack) {
				t.Errorf("%v starts at PSN %#x in frame %d, the handshake said %#x", s.from, p.PSN, p.Number, s.psn)
			}
			seen[d] = true
		}
	}
}

func TestHandshakesOfOtherPeoplesCaptures(t *testing.T) {
	want := map[string]string{
		"rocev2_linlinw5_pingpong_rc.pcap":                           "socket 0x21/0x20",
		"rocev2_linlinw5_pingpong_ud.pcap":                           "socket 0x23/0x22",
		"rocev2_linlinw5_rdma_atomic_bw.pcap":                        "socket 0x29/0x28",
		"rocev2_linlinw5_rdma_read_bw.pcap":                          "socket 0x1e/0x1c",
		"rocev2_linlinw5_rdma_send_bw.pcap":                          "socket 0x24/0x23",
		"rocev2_linlinw5_rdma_cm.pcap":                               "cm 0x3d/0x3b, cm 0x3e/0x3c",
		"rocev2_linlinw5_rping.pcap":                                 "cm 0x2c/0x2b",
		"rocev2_montybeatnik_test.pcap":                              "cm 0x17/0x11",
		"rocev2_sanderw71_Frame_req_and_response.pcapng":             "cm 0x1e/0x11",
		"rocev2_sanderw71_Frame_req_and_response_htons_bytes.pcapng": "cm 0x26/0x11, cm 0x27/0x11",
		"rocev2_sanderw71_capture_S10000_C1.pcapng":                  "cm 0x11/0x11",
	}
	for _, file := range testkit.Files(t, testkit.Public(t), "rocev2_*") {
		name := filepath.Base(file)
		t.Run(name, func(t *testing.T) {
			frames := testkit.ReadCapture(t, file)
			var got []string
			for _, e := range ofKind(shake(frames), evPair) {
				got = append(got, fmt.Sprintf("%v %#x/%#x", e.By, e.A.QPN, e.B.QPN))
				checkFirstPSN(t, frames, e, 1)
			}
			if s := strings.Join(got, ", "); s != want[name] {
				t.Errorf("pairs are %q, want %q", s, want[name])
			}
		})
	}
}

// TestHandshakesOfBothTaps reads captures of a wire that lost some of the
// messages of CM; TCP it left alone.
func TestHandshakesOfBothTaps(t *testing.T) {
	told := map[string]string{
		"cm_req_dreq_loss_tap_a.pcap": "half, resent, pair, established, disconnect request, disconnect request, disconnected",
		"cm_req_dreq_loss_tap_b.pcap": "half, pair, established, disconnect request, disconnected",
		"cm_rtu_loss_tap_a.pcap":      "half, pair, established, resent, resent, resent, resent, disconnect request, disconnected",
		"cm_rtu_loss_tap_b.pcap":      "half, pair, resent, resent, established, disconnect request, disconnected",
	}
	for _, pair := range testkit.TwoTapManifest(t).Pairs {
		for _, f := range pair.Files {
			t.Run(f.File, func(t *testing.T) {
				frames := testkit.ReadCapture(t, filepath.Join(testkit.TwoTap(t), f.File))
				events := shake(frames)
				if want := told[f.File]; want != "" {
					wantKinds(t, events, want)
				}
				var pairs []handshakeEvent
				by := ByCM
				if bySocket(pair.Client) { // and, in one of them, a connection of rping's by CM
					by = BySocket
				}
				for _, e := range ofKind(events, evPair) {
					if e.By == by {
						pairs = append(pairs, e)
					}
				}
				client, server := pair.Client.QueuePairs(), pair.Server.QueuePairs()
				if len(pairs) == 0 || by == BySocket && len(pairs) != len(client) {
					t.Fatalf("%d pairs, want %d", len(pairs), len(client))
				}
				for i := range client {
					a, b := QPName{pairs[i].A.Addr, -1, client[i].QPN}, QPName{pairs[i].B.Addr, -1, server[i].QPN}
					if e := pairs[i]; e.A != a || e.B != b || e.NegA.StartPSN != dissect.PSN(client[i].PSN) || e.NegB.StartPSN != dissect.PSN(server[i].PSN) {
						t.Errorf("pair %d is %+v", i, e)
					}
				}
			})
		}
	}
}
