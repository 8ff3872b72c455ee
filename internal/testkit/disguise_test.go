package testkit

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
)

// checkDisguise compares a capture with its disguise: each packet that may be left is there, says the same in other
// numbers, and its ICRC is as right as it was.
func checkDisguise(t *testing.T, frames []Frame, pairs []QPPair, how DisguisePSN) {
	t.Helper()
	d, err := Disguise(frames, pairs, how, 7)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := Decode(frames)
	after, _ := Decode(d.Frames)
	left := 0
	for i := range before {
		if before[i].Proto != dissect.ProtoTCP && !isGSI(&before[i]) {
			left++
		}
	}
	if len(after) != left {
		t.Fatalf("%d frames are left, want %d", len(after), left)
	}
	peer := map[QPAddr]QPAddr{}
	for _, p := range d.Pairs {
		peer[p.A], peer[p.B] = p.B, p.A
		if p.A.QPN == p.B.QPN {
			t.Errorf("%v and %v have equal numbers", p.A, p.B)
		}
	}
	if len(peer) != 2*len(pairs) {
		t.Errorf("%d queue pairs in %d pairs", len(peer), len(pairs))
	}
	shift := map[QPAddr]int{}
	first := map[QPAddr]bool{}
	ports := map[QPAddr]uint16{}
	for i := range after {
		old, p := &before[d.Origin[i]], &after[i]
		if old.Time != p.Time || old.Opcode != p.Opcode || old.MSN != p.MSN || old.Syndrome != p.Syndrome || old.PayloadLen() != p.PayloadLen() || old.VA != p.VA || old.ICRC != p.ICRC {
			t.Fatalf("frame %d has changed beyond its numbers", i+1)
		}
		if !p.IsTransport() || p.ICRC == dissect.ICRCInvalid {
			continue
		}
		to := QPAddr{p.Dst, p.DestQP}
		if want, ok := d.QPs[QPAddr{old.Dst, old.DestQP}]; ok && want != to {
			t.Fatalf("frame %d is for %v, want %v", i+1, to, want)
		}
		if p.Op().Transport != dissect.RC {
			continue
		}
		if port, ok := ports[to]; ok && port != p.SrcPort {
			t.Errorf("frame %d to %v has source port %d, before it was %d", i+1, to, p.SrcPort, port)
		}
		ports[to] = p.SrcPort
		requester := to
		if p.Op().Role == dissect.Request {
			requester = peer[to]
			if !first[requester] && how == ZeroPSNs && p.PSN != 0 {
				t.Errorf("%v starts at %d", requester, p.PSN)
			}
			first[requester] = true
		}
		moved := p.PSN.Sub(old.PSN)
		if s, ok := shift[requester]; ok && s != moved {
			t.Errorf("frame %d: PSNs of %v move by %d, before by %d", i+1, requester, moved, s)
		}
		shift[requester] = moved
	}
}

func TestDisguise(t *testing.T) {
	x := NewExchange(ExchangeOptions{PSNA: 0xFFFFF0, PSNB: 5})
	y := x.Beside(nil)
	x.Perftest(y)
	x.Connect()
	x.B.Answer(x.A.Write(5000))
	y.A.Answer(y.B.Read(3000))
	x.A.Answer(x.B.FetchAdd(1))
	y.B.NAK(y.A.Send(5).First, dissect.NAKSequence)
	x.A.Write(5).Packets[0].BreakICRC()
	x.B.CNP()
	for _, how := range []DisguisePSN{RandomPSNs, EqualPSNs, ZeroPSNs} {
		checkDisguise(t, x.Frames(), []QPPair{x.Pair(), y.Pair()}, how)
	}
	if got := SocketPairs(x.Frames()); !slices.Equal(got, []QPPair{x.Pair(), y.Pair()}) {
		t.Errorf("the socket exchange pairs %v", got)
	}
	if got := CMPairs(x.Frames()); !slices.Equal(got, []QPPair{x.Pair()}) {
		t.Errorf("the CM handshake pairs %v", got)
	}
	if _, err := Disguise(x.Frames(), []QPPair{x.Pair()}, ZeroPSNs, 1); err == nil {
		t.Error("a queue pair without truth was disguised")
	}
	a, _ := Disguise(x.Frames(), []QPPair{x.Pair(), y.Pair()}, EqualPSNs, 1)
	b, _ := Disguise(x.Frames(), []QPPair{x.Pair(), y.Pair()}, EqualPSNs, 1)
	if !slices.EqualFunc(a.Frames, b.Frames, func(f, g Frame) bool { return slices.Equal(f.Data, g.Data) }) {
		t.Error("the same seed gives two disguises")
	}
	var starts []dissect.PSN
	packets, _ := Decode(a.Frames)
	seen := map[QPAddr]bool{}
	for i := range packets {
		if p := &packets[i]; p.Op().Role == dissect.Request && !seen[QPAddr{p.Dst, p.DestQP}] {
			seen[QPAddr{p.Dst, p.DestQP}] = true
			starts = append(starts, p.PSN)
		}
	}
	if len(starts) != 4 || slices.Max(starts) != slices.Min(starts) {
		t.Errorf("starting PSNs %v are not equal", starts)
	}
}

// TestDisguiseRXE disguises the library. It also makes sure of the truth itself: what answers a requester's packets has
// PSNs that the requester sent.
func TestDisguiseRXE(t *testing.T) {
	manifest := RXEManifest(t)
	for _, e := range manifest.Captures {
		if strings.HasPrefix(e.File, "iwarp_") {
			continue
		}
		t.Run(e.File, func(t *testing.T) {
			frames := ReadCapture(t, filepath.Join(RXE(t), e.File))
			pairs, ok := TruePairs(e, frames)
			if !ok {
				t.Logf("no pairs are known: UD, or made by hand")
				return
			}
			for _, how := range []DisguisePSN{RandomPSNs, EqualPSNs, ZeroPSNs} {
				checkDisguise(t, frames, pairs, how)
			}
			checkPairs(t, frames, pairs)
		})
	}
}

func checkPairs(t *testing.T, frames []Frame, pairs []QPPair) {
	peer := map[QPAddr]QPAddr{}
	for _, p := range pairs {
		peer[p.A], peer[p.B] = p.B, p.A
	}
	newest := map[QPAddr]dissect.PSN{}
	packets, _ := Decode(frames)
	for i := range packets {
		p := &packets[i]
		if !p.IsTransport() || p.ICRC == dissect.ICRCInvalid || p.Op().Transport != dissect.RC {
			continue
		}
		to := QPAddr{p.Dst, p.DestQP}
		if p.Op().Role == dissect.Request {
			if was, ok := newest[peer[to]]; !ok || p.PSN.After(was) {
				newest[peer[to]] = p.PSN
			}
		} else if last, ok := newest[to]; !ok || p.PSN.Sub(last) > 2048 || last.Sub(p.PSN) > 65536 {
			t.Fatalf("frame %d answers PSN %d of %v, whose newest is %d", i+1, p.PSN, to, last)
		}
	}
}
