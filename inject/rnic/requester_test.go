package rnic

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// post posts a WRITE, READ, SEND or atomic of n bytes from or to offset at.
func (r *rig) post(id uint64, op Op, at, n int, flags SendFlags) {
	r.t.Helper()
	must(r.t, r.q.PostSend(SendWR{
		ID: id, Op: op, Flags: flags | Signaled, SGL: []SGE{r.mr.SGE(at, n)}, RemoteVA: 0x10000, RKey: 0x55, CompareAdd: 7, Swap: 9,
	}))
	r.step()
}

func (r *rig) ack(psn dissect.PSN, s dissect.Syndrome) []byte {
	return r.packet(dissect.OpRCAcknowledge, psn, hdr{syndrome: s})
}

// psns are the PSNs of what the device sent.
func psns(got []heard) (list []dissect.PSN) {
	for _, g := range got {
		list = append(list, g.PSN)
	}
	return list
}

// sentPSNs fails the test unless the device sent requests of these PSNs, counted from its first.
func (r *rig) sentPSNs(want ...int) {
	r.t.Helper()
	got := psns(r.answers())
	ok := len(got) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = got[i] == dissect.PSN(ownPSN).Add(want[i])
	}
	if !ok {
		r.t.Errorf("sent %#x, want %#x + %v", got, ownPSN, want)
	}
}

const (
	good   = dissect.Syndrome(dissect.NoCreditInfo)
	seqNAK = dissect.Syndrome(0x60)
)

func TestRequestsOnTheWire(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.post(1, OpWrite, 3, 2*rigMTU+5, Solicited)
	got := r.answers()
	if len(got) != 3 {
		t.Fatalf("%d packets", len(got))
	}
	for i, want := range []dissect.Opcode{dissect.OpRCWriteFirst, dissect.OpRCWriteMiddle, dissect.OpRCWriteLast} {
		g := got[i]
		if g.Opcode != want || g.PSN != ownPSN+dissect.PSN(i) || g.DestQP != peerQPN || g.AckReq != (i == 2) || g.SE() || !g.MigReq() || g.PKey != 0xFFFF {
			t.Errorf("packet %d: %v PSN %#x AckReq %v SE %v", i, g.Opcode, g.PSN, g.AckReq, g.SE())
		}
	}
	if g := got[0]; g.VA != 0x10000 || g.RKey != 0x55 || g.DMALen != 2*rigMTU+5 {
		t.Errorf("RETH %#x %#x %d", g.VA, g.RKey, g.DMALen)
	}
	if g := got[2]; g.PayloadLen() != 5 || g.PadCount != 3 {
		t.Errorf("LAST of %d bytes, pad %d", g.PayloadLen(), g.PadCount)
	}
	must(t, r.q.PostSend(SendWR{Op: OpWriteImm, Flags: Solicited | Inline, Inline: []byte("inline"), Imm: 0xABCD, RemoteVA: 1, RKey: 2}))
	must(t, r.q.PostSend(SendWR{Op: OpSendInv, Imm: 0x1111}))
	r.step()
	got = r.answers()
	if g := got[0]; g.Opcode != dissect.OpRCWriteOnlyImm || !g.SE() || g.Imm != 0xABCD || string(g.data) != "inline" || g.PSN != ownPSN+3 {
		t.Errorf("WRITE with immediate: %v SE %v %#x %q", g.Opcode, g.SE(), g.Imm, g.data)
	}
	if g := got[1]; g.Opcode != dissect.OpRCSendOnlyInv || g.Imm != 0x1111 || g.PayloadLen() != 0 {
		t.Errorf("SEND with invalidate: %v %#x", g.Opcode, g.Imm)
	}
	r.post(2, OpCompareSwap, 0, 8, 0)
	r.post(3, OpFetchAdd, 0, 8, 0)
	got = r.answers()
	if g := got[0]; g.Opcode != dissect.OpRCCompareSwap || g.Compare != 7 || g.Swap != 9 || g.VA != 0x10000 || g.RKey != 0x55 {
		t.Errorf("compare and swap %d %d", g.Compare, g.Swap)
	}
	if g := got[1]; g.Opcode != dissect.OpRCFetchAdd || g.Swap != 7 {
		t.Errorf("fetch and add %d", g.Swap)
	}
}

func TestAcknowledgements(t *testing.T) {
	for _, c := range []struct {
		id, what string
		ack      []int // PSNs from the first
		ended    int
	}{
		{"ACK-01", "a later one completes both", []int{1}, 2},
		{"ACK-04", "copies", []int{0, 0, 0}, 1},
		{"ACK-05", "stale", []int{-1, -2}, 0},
		{"ACK-06", "never sent", []int{4, 100}, 0},
		{"ACK-07", "one for all", []int{3}, 3},
		{"", "in the middle of a message", []int{2}, 2},
	} {
		t.Run(c.id+" "+c.what, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			r.post(0, OpWrite, 0, 4, 0)
			r.post(1, OpSend, 0, 4, 0)
			r.post(2, OpWrite, 0, 2*rigMTU, 0)
			for _, n := range c.ack {
				r.send(r.ack(dissect.PSN(ownPSN).Add(n), good))
			}
			got := r.polled()
			if len(got) != c.ended {
				t.Fatalf("%d completions, want %d", len(got), c.ended)
			}
			for i, e := range got {
				if e.ID != uint64(i) || e.Status != Success {
					t.Errorf("completion %+v", e)
				}
			}
		})
	}
}

// ACK-02: the time-out, its length, go-back-N to the oldest, and the end of patience.
func TestTimeoutAndRetries(t *testing.T) {
	r := newRig(t, dissect.RC, nil) // time-out 4.096 µs << 10, three retries
	const wait = 4096 << 10
	r.post(1, OpWrite, 0, 4, 0)
	r.post(2, OpWrite, 0, 4, 0)
	r.sentPSNs(0, 1)
	r.send(r.ack(ownPSN, good)) // progress restarts the timer
	r.pass(wait - 1000)
	r.sentPSNs()
	r.pass(1000)
	r.sentPSNs(1)
	r.post(3, OpWrite, 0, 4, 0)
	r.sentPSNs(2)
	for range 2 {
		r.pass(wait)
		r.sentPSNs(1, 2)
	}
	r.polled()
	r.pass(wait)
	r.sentPSNs()
	r.ended(RetryExcErr, WRFlushErr)
	if r.q.State() != ERROR || r.dev.Counters().LocalAckTimeoutErr != 4 {
		t.Errorf("%v, %d time-outs", r.q.State(), r.dev.Counters().LocalAckTimeoutErr)
	}
	if _, ok := r.dev.Next(); ok {
		t.Error("a timer is left")
	}
}

func TestTimeoutZeroWaitsForEver(t *testing.T) {
	r := newRig(t, dissect.RC, func(_ *QPInit, a *Attr) { a.Timeout = 0 })
	r.post(1, OpWrite, 0, 4, 0)
	r.answers()
	r.pass(time.Hour)
	r.sentPSNs()
}

// NAK-01 to 03.
func TestSequenceNAKs(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.post(1, OpWrite, 0, 4, 0)
	r.post(2, OpWrite, 0, 3*rigMTU, 0)
	r.post(3, OpSend, 0, 4, 0)
	r.sentPSNs(0, 1, 2, 3, 4)
	r.send(r.ack(ownPSN+2, seqNAK)) // in the middle of a message
	if got := r.answers(); len(got) != 3 || got[0].Opcode != dissect.OpRCWriteMiddle || got[0].PSN != ownPSN+2 {
		t.Errorf("went back to %#x", psns(got))
	}
	if got := r.polled(); len(got) != 1 || got[0].ID != 1 {
		t.Errorf("completions %+v", got)
	}
	r.send(r.ack(ownPSN+1, seqNAK), r.ack(ownPSN+5, seqNAK)) // acknowledged already, never sent
	r.sentPSNs()
	for range 2 {
		r.send(r.ack(ownPSN+2, seqNAK))
		r.sentPSNs(2, 3, 4)
	}
	r.send(r.ack(ownPSN+2, seqNAK))
	r.sentPSNs()
	r.ended(RetryExcErr, WRFlushErr)
}

// NAK-04 to 08, AETH-01, 02.
func TestNAKCodes(t *testing.T) {
	for _, c := range []struct {
		what     string
		syndrome dissect.Syndrome
		ended    []Status
	}{
		{"invalid request", 0x61, []Status{Success, RemInvReqErr, WRFlushErr}},
		{"remote access", 0x62, []Status{Success, RemAccessErr, WRFlushErr}},
		{"remote operational", 0x63, []Status{Success, RemOpErr, WRFlushErr}},
		{"invalid RD request is ignored", 0x64, nil},
		{"reserved code is ignored", 0x7F, nil},
		{"reserved kind is ignored", 0x40, nil},
	} {
		t.Run(c.what, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			for id := range uint64(3) {
				r.post(id, OpWrite, 0, 4, 0)
			}
			r.answers()
			r.send(r.ack(ownPSN+1, c.syndrome))
			r.ended(c.ended...)
			r.sentPSNs()
		})
	}
}

// RNR-01, 02.
func TestRNR(t *testing.T) {
	for code := range uint8(32) {
		r := newRig(t, dissect.RC, nil)
		r.post(1, OpWrite, 0, 4, 0)
		r.post(2, OpSend, 0, 4, 0)
		r.answers()
		wait := dissect.RNRTimer(code)
		r.send(r.ack(ownPSN+1, 0x20|dissect.Syndrome(code)))
		r.ended(Success)
		at := r.now
		r.pass(wait - 2*time.Microsecond)
		r.sentPSNs()
		r.pass(time.Duration(at + int64(wait) - r.now))
		r.sentPSNs(1)
	}
	r := newRig(t, dissect.RC, nil) // two retries
	r.post(1, OpSend, 0, 4, 0)
	for range 2 {
		r.answers()
		r.send(r.ack(ownPSN, 0x21))
		r.pass(20 * time.Microsecond)
		r.sentPSNs(0)
	}
	r.send(r.ack(ownPSN, 0x21))
	r.ended(RNRRetryExcErr)

	r = newRig(t, dissect.RC, func(_ *QPInit, a *Attr) { a.RNRRetry = 7 })
	r.post(1, OpSend, 0, 4, 0)
	for range 50 {
		r.answers()
		r.send(r.ack(ownPSN, 0x21))
		r.pass(20 * time.Microsecond)
		r.sentPSNs(0)
	}
	r.send(r.ack(ownPSN, good))
	r.ended(Success)
}

// ACK-08, RSP-01, 02: what is missing of a READ is asked for again, and only that.
func TestReadResumes(t *testing.T) {
	data := pattern(3*rigMTU + 9)
	answer := func(r *rig, op dissect.Opcode, n int) []byte {
		return r.packet(op, dissect.PSN(ownPSN).Add(n), hdr{syndrome: good, data: data[n*rigMTU : min((n+1)*rigMTU, len(data))]})
	}
	const first, mid, last = dissect.OpRCReadResponseFirst, dissect.OpRCReadResponseMid, dissect.OpRCReadResponseLast
	asked := func(t *testing.T, r *rig, n int) {
		t.Helper()
		got := r.answers()
		if len(got) == 0 || got[0].Opcode != dissect.OpRCReadRequest || got[0].PSN != dissect.PSN(ownPSN).Add(n) || got[0].VA != 0x10000+uint64(n*rigMTU) || int(got[0].DMALen) != len(data)-n*rigMTU {
			t.Fatalf("sent %#x", psns(got))
		}
	}
	for _, c := range []struct {
		id     string
		frames func(r *rig)
		resume int
	}{
		{"ACK-08 a later request is acknowledged", func(r *rig) {
			r.send(answer(r, first, 0), r.ack(ownPSN+4, good), r.ack(ownPSN+4, good))
		}, 1},
		{"RSP-01 MIDDLE lost", func(r *rig) { r.send(answer(r, first, 0), answer(r, mid, 2), answer(r, last, 3)) }, 1},
		{"RSP-01 FIRST lost", func(r *rig) { r.send(answer(r, mid, 1), answer(r, mid, 2), answer(r, last, 3)) }, 0},
		{"RSP-08 no answer", func(r *rig) { r.pass(5 * time.Millisecond) }, 0},
		{"RSP-01 LAST lost", func(r *rig) {
			r.send(answer(r, first, 0), answer(r, mid, 1), answer(r, mid, 2))
			r.pass(5 * time.Millisecond)
		}, 3},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			r.post(1, OpRead, 100, len(data), 0)
			r.post(2, OpWrite, 0, 4, 0)
			r.answers()
			before := bytes.Clone(r.mr.Bytes())
			c.frames(r)
			r.ended()
			asked(t, r, c.resume)
			op := first
			for n := c.resume; n < 4; n++ {
				if n == 3 {
					op = last
					if c.resume == 3 {
						op = dissect.OpRCReadResponseOnly
					}
				}
				r.send(answer(r, op, n))
				op = mid
			}
			r.send(r.ack(ownPSN+4, good))
			r.ended(Success, Success)
			copy(before[100:], data)
			if !bytes.Equal(r.mr.Bytes(), before) {
				t.Error("memory is not what was read")
			}
		})
	}
}

// A hole that is there again when the READ is answered again is seen at once, not by the time-out.
func TestReadResumesAgain(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.post(1, OpRead, 0, 4*rigMTU, 0)
	r.sentPSNs(0)
	answer := func(op dissect.Opcode, n int) []byte {
		return r.packet(op, dissect.PSN(ownPSN).Add(n), hdr{syndrome: good, data: make([]byte, rigMTU)})
	}
	const first, mid, last = dissect.OpRCReadResponseFirst, dissect.OpRCReadResponseMid, dissect.OpRCReadResponseLast
	r.send(answer(first, 0), answer(mid, 2), answer(last, 3)) // 1 is missing
	r.sentPSNs(1)
	r.send(answer(mid, 2)) // and again
	r.sentPSNs(1)
	r.send(answer(last, 3))
	r.sentPSNs()
	r.send(answer(first, 1), answer(mid, 2), answer(last, 3))
	r.ended(Success)
}

// RSP-03, 04, 06, 09, NAK-07, AETH-05.
func TestBadResponses(t *testing.T) {
	for _, c := range []struct {
		id     string
		op     Op
		size   int
		answer dissect.Opcode
		h      hdr
		ended  Status
	}{
		{"RSP-03 MIDDLE first", OpRead, 600, dissect.OpRCReadResponseMid, hdr{data: make([]byte, rigMTU)}, BadRespErr},
		{"RSP-03 LAST first", OpRead, 600, dissect.OpRCReadResponseLast, hdr{syndrome: good, data: make([]byte, 8)}, BadRespErr},
		{"RSP-03 ONLY for a long READ", OpRead, 600, dissect.OpRCReadResponseOnly, hdr{syndrome: good, data: make([]byte, rigMTU)}, BadRespErr},
		{"RSP-04 short", OpRead, 100, dissect.OpRCReadResponseOnly, hdr{syndrome: good, data: make([]byte, 99)}, LocLenErr},
		{"RSP-04 long", OpRead, 100, dissect.OpRCReadResponseOnly, hdr{syndrome: good, data: make([]byte, 101)}, LocLenErr},
		{"RSP-06 atomic answer for a READ", OpRead, 8, dissect.OpRCAtomicAcknowledge, hdr{syndrome: good}, BadRespErr},
		{"RSP-06 READ response for an atomic", OpFetchAdd, 8, dissect.OpRCReadResponseOnly, hdr{syndrome: good, data: make([]byte, 8)}, BadRespErr},
		{"NAK-07 NAK in a READ response", OpRead, 8, dissect.OpRCReadResponseOnly, hdr{syndrome: 0x62, data: make([]byte, 8)}, BadRespErr},
	} {
		t.Run(c.id, func(t *testing.T) {
			r := newRig(t, dissect.RC, nil)
			r.post(1, c.op, 0, c.size, 0)
			r.answers()
			before := bytes.Clone(r.mr.Bytes())
			r.send(r.packet(c.answer, ownPSN, c.h))
			r.ended(c.ended)
			if !bytes.Equal(before, r.mr.Bytes()) {
				t.Error("memory was changed")
			}
		})
	}
}

func TestAtomicAnswer(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.post(1, OpFetchAdd, 16, 8, 0)
	r.answers()
	r.send(r.packet(dissect.OpRCAtomicAcknowledge, ownPSN, hdr{syndrome: good, orig: 0x1122334455667788}))
	r.ended(Success)
	if got := binary.NativeEndian.Uint64(r.mr.Bytes()[16:]); got != 0x1122334455667788 {
		t.Errorf("got %#x", got)
	}
}

func TestReadDepthAndFence(t *testing.T) {
	r := newRig(t, dissect.RC, func(_ *QPInit, a *Attr) { a.MaxRdAtomic = 2 })
	r.post(1, OpRead, 0, 2*rigMTU, 0)
	r.post(2, OpRead, 0, 4, 0)
	r.post(3, OpRead, 0, 4, 0) // one too many
	r.post(4, OpWrite, 0, 4, 0)
	r.sentPSNs(0, 2) // the WRITE does not overtake
	r.send(r.packet(dissect.OpRCReadResponseFirst, ownPSN, hdr{syndrome: good, data: make([]byte, rigMTU)}))
	r.sentPSNs()
	r.send(r.packet(dissect.OpRCReadResponseLast, ownPSN+1, hdr{syndrome: good, data: make([]byte, rigMTU)}))
	r.sentPSNs(3, 4)
	r.post(5, OpSend, 0, 4, Fence)
	r.post(6, OpSend, 0, 4, 0)
	r.sentPSNs()
	r.send(r.packet(dissect.OpRCReadResponseOnly, ownPSN+2, hdr{syndrome: good, data: make([]byte, 4)}))
	r.sentPSNs()
	r.send(r.packet(dissect.OpRCReadResponseOnly, ownPSN+3, hdr{syndrome: good, data: make([]byte, 4)}))
	r.sentPSNs(5, 6)
}

func TestWindowAndAckReq(t *testing.T) {
	r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy = Policy{Window: 5, AckEvery: 3} })
	r.post(1, OpWrite, 0, 8*rigMTU, 0)
	got := r.answers()
	want := []bool{false, false, true, false, true} // the third, and the window's last
	if len(got) != len(want) {
		t.Fatalf("%d packets in flight", len(got))
	}
	for i := range want {
		if got[i].AckReq != want[i] {
			t.Errorf("packet %d: AckReq %v", i, got[i].AckReq)
		}
	}
	r.send(r.ack(ownPSN+2, good))
	r.sentPSNs(5, 6, 7)
}

func TestWindowOfAnswers(t *testing.T) {
	r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy.Window = 3 })
	r.post(1, OpRead, 0, 4*rigMTU, 0) // longer than the window: goes all the same
	r.post(2, OpRead, 0, rigMTU, 0)
	r.sentPSNs(0)
	r.send(r.packet(dissect.OpRCReadResponseFirst, ownPSN, hdr{syndrome: good, data: make([]byte, rigMTU)}))
	r.sentPSNs()
	r.send(r.packet(dissect.OpRCReadResponseMid, ownPSN+1, hdr{data: make([]byte, rigMTU)}))
	r.sentPSNs(4)
}

// AETH-04: credits hold what takes a receive, one message beyond the limit, and nothing else.
func TestCredits(t *testing.T) {
	r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy.Credits = true })
	r.post(1, OpSend, 0, 4, 0)
	r.sentPSNs(0)
	r.send(r.packet(dissect.OpRCAcknowledge, ownPSN, hdr{syndrome: 0x01, msn: 1})) // one credit: up to message 2
	for id := range uint64(4) {
		r.post(2+id, OpSend, 0, 4, 0)
	}
	r.sentPSNs(1, 2) // 2, and 3 that is one beyond
	r.send(r.packet(dissect.OpRCAcknowledge, ownPSN+2, hdr{syndrome: 0x00, msn: 3}))
	r.sentPSNs(3) // no credit, but one may always go
	r.send(r.packet(dissect.OpRCAcknowledge, ownPSN+3, hdr{syndrome: 0x1F, msn: 4}))
	r.sentPSNs(4)
	r.send(r.packet(dissect.OpRCAcknowledge, ownPSN+4, hdr{syndrome: 0x00, msn: 5}))
	r.post(7, OpSend, 0, 4, 0)
	r.post(8, OpWrite, 0, 4, 0)
	r.post(9, OpRead, 0, 4, 0)
	r.sentPSNs(5, 6, 7) // 6 is the one beyond; WRITE and READ take no receive
	r.post(10, OpWriteImm, 0, 4, 0)
	r.sentPSNs()
}

func TestCreditsAreGiven(t *testing.T) {
	for _, c := range []struct{ posted, credits int }{{0, 0}, {1, 1}, {5, 4}, {7, 6}, {8, 8}, {31, 24}} {
		r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy.Credits = true })
		r.recv(c.posted, 8)
		r.send(r.write(rigPSN, 4))
		got := r.answers()
		if n, ok := dissect.Credits(got[0].Syndrome.Value()); !ok || n != c.credits {
			t.Errorf("%d receives: %d credits, want %d", c.posted, n, c.credits)
		}
	}
}

func TestLocalProtection(t *testing.T) {
	r := newRig(t, dissect.RC, nil)
	r.post(1, OpWrite, 0, 4, 0)
	must(t, r.q.PostSend(SendWR{ID: 2, Op: OpWrite, SGL: []SGE{{VA: r.mr.VA(), Length: 4, LKey: 0xBAD00}}}))
	r.post(3, OpWrite, 0, 4, 0)
	r.sentPSNs(0)
	r.ended() // in order: the first is not acknowledged yet
	r.send(r.ack(ownPSN, good))
	r.ended(Success, LocProtErr, WRFlushErr)

	// RSP-09: the answer to a READ finds no memory that may be written.
	r = newRig(t, dissect.RC, nil)
	into, err := r.pd.RegMR(make([]byte, 64), LocalWrite)
	must(t, err)
	must(t, r.q.PostSend(SendWR{ID: 1, Op: OpRead, SGL: []SGE{into.SGE(0, 8)}}))
	r.step()
	must(t, into.Deregister())
	r.send(r.packet(dissect.OpRCReadResponseOnly, ownPSN, hdr{syndrome: good, data: make([]byte, 8)}))
	r.ended(LocProtErr)
}

// CC-03 to 06: a CNP slows its queue pair down, takes no PSN and no answer, and the rate recovers.
func TestCongestionControl(t *testing.T) {
	r := newRig(t, dissect.RC, func(i *QPInit, _ *Attr) { i.Policy = Policy{Paced: true, Window: 4096} })
	cnp := r.packet(dissect.OpCNP, 0, hdr{data: make([]byte, 16)})
	r.send(cnp)
	r.said()
	bps, ok := r.q.Rate()
	if !ok || bps != 50e9 {
		t.Errorf("rate %v after the first CNP, want half of 100 Gb/s", bps)
	}
	r.send(cnp) // too soon for a second cut
	if again, _ := r.q.Rate(); again != bps {
		t.Errorf("rate %v", again)
	}
	for range 200 {
		r.pass(10 * time.Microsecond)
		r.send(cnp)
	}
	if bps, _ = r.q.Rate(); bps != 100e6 {
		t.Errorf("rate %v in a storm, want the floor of 100 Mb/s", bps)
	}
	r.post(1, OpWrite, 0, 8*rigMTU, 0)
	sent := len(r.answers())
	for range 100 {
		r.pass(time.Microsecond)
		sent += len(r.answers())
	}
	if sent < 3 || sent > 6 { // 318 bytes at 100 Mb/s are 25 µs
		t.Errorf("%d packets in 100 µs", sent)
	}
	for range 30 {
		r.pass(10 * time.Microsecond)
	}
	r.send(r.ack(ownPSN+7, good))
	r.ended(Success)
	r.pass(3 * time.Second)
	r.post(2, OpWrite, 0, 4, 0)
	if now, ok := r.q.Rate(); ok && now < 5e9 {
		t.Errorf("rate %v three seconds later", now)
	}
}
