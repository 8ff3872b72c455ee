package stream

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// responder is the other end of a stream: it acknowledges what is in order, answers READs and atomics, and does what a test's
// script says.
type responder struct {
	t    *testing.T
	p    *port.Memory
	qps  map[uint32]*peer
	seen int // requests
	// script is asked for each request packet. false takes the packet away.
	script func(r *responder, q *peer, p *dissect.Packet) bool
	stop   atomic.Bool
	done   chan struct{}

	crafter dissect.Crafter
	outer   dissect.Outer
	frame   []byte
	most    int // PSNs of a QP that were not acknowledged at a time
}

// peer is a QP of the responder.
type peer struct {
	dest  uint32 // the stream's
	epsn  dissect.PSN
	asked bool // a NAK was sent for epsn
	msn   uint32
	first map[dissect.PSN]bool // PSNs that a script has seen
	acked dissect.PSN
	mute  int // acknowledgements not to be sent
}

const responderMTU = 256

// answered runs a configuration against a responder.
func answered(t *testing.T, c Config, script func(*responder, *peer, *dissect.Packet) bool) (*Result, *responder) {
	t.Helper()
	a, b := port.Pair(port.MemoryOptions{Slots: 256, MaxFrame: 2048})
	r := &responder{t: t, p: b, qps: map[uint32]*peer{}, script: script, done: make(chan struct{})}
	o := &c.Outer
	r.outer = dissect.Outer{Src: o.Dst, Dst: o.Src, SrcMAC: o.DstMAC, DstMAC: o.SrcMAC, SrcPort: 0xC123}
	for i := range c.QPs {
		first := dissect.PSN(c.PSN.At(i) & most24)
		r.qps[uint32(c.DestQPN.At(i))] = &peer{dest: uint32(c.LocalQPN.At(i)), epsn: first, acked: first, first: map[dissect.PSN]bool{}}
	}
	go r.run()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	result, err := s.Run(context.Background(), []port.Port{a})
	if err != nil {
		t.Fatal(err)
	}
	r.stop.Store(true)
	<-r.done
	a.Close()
	b.Close()
	return result, r
}

func (r *responder) run() {
	defer close(r.done)
	var d dissect.Decoder
	var p dissect.Packet
	in := make([]port.In, 32)
	for !r.stop.Load() {
		n, err := r.p.Receive(in)
		if err != nil {
			r.t.Error(err)
			return
		}
		for _, f := range in[:n] {
			d.Decode(dissect.LinkEthernet, f.Data, len(f.Data), &p)
			r.request(&p)
		}
		if n == 0 {
			_ = r.p.Wait(time.Millisecond)
		}
	}
}

func (r *responder) request(p *dissect.Packet) {
	q := r.qps[p.DestQP]
	if q == nil || p.Op().Role != dissect.Request {
		return
	}
	r.seen++
	r.most = max(r.most, p.PSN.Sub(q.acked)+1)
	if r.script != nil && !r.script(r, q, p) {
		return
	}
	switch {
	case p.PSN.After(q.epsn):
		if !q.asked {
			q.asked = true
			r.acknowledge(q, q.epsn, dissect.Syndrome(dissect.KindNAK)<<5|dissect.Syndrome(dissect.NAKSequence))
		}
		return
	case p.PSN.Before(q.epsn): // a duplicate
		r.acknowledge(q, q.epsn.Add(-1), dissect.NoCreditInfo)
		return
	}
	q.asked = false
	if p.Op().Ends() {
		q.msn++
	}
	switch p.Op().Family {
	case dissect.Read:
		r.read(q, p)
	case dissect.CompareSwap, dissect.FetchAdd:
		r.send(q, dissect.OpRCAtomicAcknowledge, p.PSN, dissect.NoCreditInfo, nil)
		q.epsn = p.PSN.Add(1)
	default:
		q.epsn = p.PSN.Add(1)
		if p.AckReq {
			if q.mute > 0 {
				q.mute--
				return
			}
			r.acknowledge(q, p.PSN, dissect.NoCreditInfo)
		}
	}
}

func (r *responder) read(q *peer, p *dissect.Packet) {
	left, psn := int(p.DMALen), p.PSN
	n := max(1, (left+responderMTU-1)/responderMTU)
	for k := range n {
		at := dissect.Middle
		switch {
		case n == 1:
			at = dissect.Only
		case k == 0:
			at = dissect.First
		case k == n-1:
			at = dissect.Last
		}
		op, _ := dissect.OpcodeOf(dissect.RC, dissect.Read, dissect.Response, at, 0)
		r.send(q, op, psn, dissect.NoCreditInfo, make([]byte, min(left, responderMTU)))
		left -= min(left, responderMTU)
		psn = psn.Add(1)
	}
	q.epsn = psn
}

func (r *responder) acknowledge(q *peer, psn dissect.PSN, s dissect.Syndrome) {
	r.send(q, dissect.OpRCAcknowledge, psn, s, nil)
}

// send sends an answer.
func (r *responder) send(q *peer, op dissect.Opcode, psn dissect.PSN, s dissect.Syndrome, payload []byte) {
	f := r.outer.AppendTo(r.frame[:0])
	at := len(f)
	if op == dissect.OpCNP {
		f = dissect.AppendCNP(f, 0)
	} else {
		f = dissect.AppendTransport(f, op)
	}
	h := dissect.BTH(f[at:])
	h.SetDestQP(q.dest)
	h.SetPSN(psn)
	if ack := dissect.AETH(op.Info().View(f[at:], dissect.LayerAETH)); ack != nil {
		ack.SetSyndrome(s)
		ack.SetMSN(dissect.MSN(q.msn & most24))
		if s.Kind() == dissect.KindACK && psn.Add(1).After(q.acked) {
			q.acked = psn.Add(1)
		}
	}
	f, err := r.crafter.Seal(&r.outer, append(f, payload...))
	if err != nil {
		r.t.Error(err)
	}
	r.put(f)
	r.frame = f
}

// put hands a frame over.
func (r *responder) put(f []byte) {
	var slot [1]uint32
	for r.p.Take(slot[:]) == 0 {
		_ = r.p.Flush()
	}
	n := copy(r.p.Room(slot[0]), f)
	if err := r.p.Send([]port.Out{{Slot: slot[0], Len: int32(n)}}); err != nil {
		r.t.Error(err)
	}
}

// loop is a stream of some QPs that is answered.
func loop(t testing.TB, change func(*Config)) Config {
	c := Config{
		Outer: layouts[0].outer, MTU: responderMTU, QPs: 4, LocalQPN: Steps(0x100, 1), DestQPN: Steps(0x800, 3), PSN: Steps(0xFFFFFA, 0x1000),
		Count: 50, Seed: 3, Size: mustSizes(t, "1-2000/111"),
	}
	for _, name := range []string{"send", "send-imm", "send-inv", "write", "write-imm", "read", "cas", "fetch-add"} {
		op, err := ParseOp(name, dissect.RC)
		if err != nil {
			t.Fatal(err)
		}
		c.Mix = append(c.Mix, op)
	}
	if change != nil {
		change(&c)
	}
	return c
}

// whole checks that everything was sent and answered, and that the figures add up.
func whole(t *testing.T, r *Result) {
	t.Helper()
	if r.Asked != 200 || r.Messages != 200 || r.Expecting != 200 || r.Answered != 200 || r.Unanswered != 0 || r.Stopped != 0 {
		t.Errorf("asked %d, messages %d, expecting %d, answered %d, unanswered %d, stopped %d", r.Asked, r.Messages, r.Expecting, r.Answered, r.Unanswered, r.Stopped)
	}
	if r.Packets != r.Port.Sent+r.Port.SendLost || r.Bytes != r.Port.SentBytes {
		t.Errorf("%d packets of %d bytes, the port has %+v", r.Packets, r.Bytes, r.Port)
	}
	for _, q := range r.QPs {
		if q.PSNs != q.Acked || q.Messages != 50 {
			t.Errorf("QP 0x%x: %d messages, %d PSNs, %d acknowledged", q.Dest, q.Messages, q.PSNs, q.Acked)
		}
	}
}

func TestAnswersAreAccountedFor(t *testing.T) {
	var reads, atomics uint64
	r, _ := answered(t, loop(t, nil), func(_ *responder, _ *peer, p *dissect.Packet) bool {
		switch p.Op().Family {
		case dissect.Read:
			reads += uint64(p.DMALen)
		case dissect.CompareSwap, dissect.FetchAdd:
			atomics++
		}
		return true
	})
	whole(t, r)
	a := &r.Answers
	if a.ReadBytes != reads || a.Atomics != atomics || a.ACKs == 0 || a.ACKs != r.Messages-r.Ops[5].Messages-atomics || a.RNRs+a.NAKs[0]+a.Old+a.Ghosts != 0 {
		t.Errorf("%+v; %d bytes of READs, %d atomics", a, reads, atomics)
	}
	if r.Latency.Count != 200 || r.Latency.Min <= 0 || r.Latency.P50 < r.Latency.Min || r.Latency.Max < r.Latency.P999 {
		t.Errorf("%+v", r.Latency)
	}
	if r.Resent != 0 {
		t.Errorf("%d packets were sent again", r.Resent)
	}
}

// Packets are lost in First, Middle and Last; each is asked for, and the QP goes back to the very packet.
func TestGoesBackToTheAskedPSN(t *testing.T) {
	lost := map[dissect.Position]int{}
	r, _ := answered(t, loop(t, nil), func(r *responder, q *peer, p *dissect.Packet) bool {
		if r.seen%17 == 0 && p.PSN == q.epsn && !q.first[p.PSN] {
			q.first[p.PSN] = true
			lost[p.Op().Position]++
			return false
		}
		return true
	})
	if len(lost) < 4 {
		t.Fatalf("lost only %v", lost)
	}
	// The last packets of a QP may be lost, and nothing behind them tells: the responder says nothing then.
	if r.Messages != 200 || r.Answers.NAKs[dissect.NAKSequence] == 0 || r.Resent == 0 || r.Stopped != 0 || r.Expecting != r.Answered+r.Unanswered {
		t.Errorf("%d messages, %d NAKs, %d resent, %d stopped; %d answered, %d not", r.Messages, r.Answers.NAKs[0], r.Resent, r.Stopped, r.Answered, r.Unanswered)
	}
	for _, q := range r.QPs {
		if q.Acked+40 < q.PSNs {
			t.Errorf("QP 0x%x: %d PSNs, %d acknowledged", q.Dest, q.PSNs, q.Acked)
		}
	}
}

// An RNR NAK is for the PSN to be sent again after the timer's time.
func TestGoesBackAfterRNR(t *testing.T) {
	n := uint64(0)
	const code = 1 // 10 µs
	r, _ := answered(t, loop(t, func(c *Config) { c.Window = 64 }), func(r *responder, q *peer, p *dissect.Packet) bool {
		if p.Op().Flags&dissect.ConsumesReceive != 0 && p.PSN == q.epsn && !q.first[p.PSN] && len(q.first) < 3 {
			q.first[p.PSN] = true
			q.asked = true // what follows is dropped silently
			n++
			r.acknowledge(q, p.PSN, dissect.Syndrome(dissect.KindRNR)<<5|code)
			return false
		}
		return true
	})
	whole(t, r)
	if n != 12 || r.Answers.RNRs != n || r.Answers.RNRTimers[code] != n || r.Resent == 0 {
		t.Errorf("%d RNR NAKs; counted %d, %d; %d packets sent again", n, r.Answers.RNRs, r.Answers.RNRTimers[code], r.Resent)
	}
}

// refuseThird answers the third message of the first QP by a NAK.
func refuseThird(code dissect.NAKCode) func(*responder, *peer, *dissect.Packet) bool {
	return func(r *responder, q *peer, p *dissect.Packet) bool {
		if p.DestQP != 0x800 || q.msn < 3 {
			return true
		}
		if !q.asked {
			q.asked = true
			r.acknowledge(q, q.epsn, dissect.Syndrome(dissect.KindNAK)<<5|dissect.Syndrome(code))
		}
		return false
	}
}

func TestAFatalNAKStopsTheQP(t *testing.T) {
	for _, policy := range []Policy{GoBack, Stop} {
		// With a window the QP cannot be through before the NAK comes.
		r, _ := answered(t, loop(t, func(c *Config) { c.OnNAK, c.Window = policy, 16 }), refuseThird(dissect.NAKRemoteAccess))
		if r.Stopped != 1 || r.QPs[0].Stopped == nil || r.QPs[0].Stopped.What != "NAK: remote access error" {
			t.Fatalf("policy %d: %d stopped, %+v", policy, r.Stopped, r.QPs[0].Stopped)
		}
		if want := r.QPs[0].FirstPSN.Add(int(r.QPs[0].Acked)); r.QPs[0].Stopped.PSN != want {
			t.Errorf("policy %d: stopped at PSN %d, want %d", policy, r.QPs[0].Stopped.PSN, want)
		}
		if r.NotSent == 0 || r.Asked != r.Messages+r.Cut+r.NotSent || r.Answers.NAKs[dissect.NAKRemoteAccess] != 1 {
			t.Errorf("policy %d: asked %d, messages %d, cut %d, not sent %d, NAKs %v", policy, r.Asked, r.Messages, r.Cut, r.NotSent, r.Answers.NAKs[:5])
		}
		if r.Answered != 153 || r.Resent != 0 {
			t.Errorf("policy %d: %d messages answered, %d packets sent again", policy, r.Answered, r.Resent)
		}
	}
}

func TestStopsWhereItIsTold(t *testing.T) {
	r, _ := answered(t, loop(t, func(c *Config) { c.OnNAK, c.Window = Stop, 16 }), refuseThird(dissect.NAKSequence))
	if r.Stopped != 1 || r.QPs[0].Stopped == nil || r.QPs[0].Stopped.What != "NAK: PSN sequence error" || r.Resent != 0 {
		t.Errorf("%d stopped, %+v, %d sent again", r.Stopped, r.QPs[0].Stopped, r.Resent)
	}
}

func TestIgnoresWhereItIsTold(t *testing.T) {
	r, _ := answered(t, loop(t, func(c *Config) { c.OnNAK = Ignore }), refuseThird(dissect.NAKSequence))
	if r.Stopped != 0 || r.Messages != 200 || r.NotSent != 0 || r.Resent != 0 || r.Answers.NAKs[dissect.NAKSequence] != 1 || r.Answered != 153 {
		t.Errorf("%d stopped, %d messages, %d answered, %d sent again", r.Stopped, r.Messages, r.Answered, r.Resent)
	}
}

// No QP has more PSNs on its way than the window lets. Every other acknowledgement is left out, so that there are some.
func TestTheWindowHolds(t *testing.T) {
	const window = 20
	r, peer := answered(t, loop(t, func(c *Config) { c.Window, c.Linger = window, 100*time.Millisecond }), func(_ *responder, q *peer, p *dissect.Packet) bool {
		if p.Op().Ends() {
			q.mute = int(q.msn & 1)
		}
		return true
	})
	whole(t, r)
	if peer.most > window || peer.most < window/2 {
		t.Errorf("%d PSNs were on their way", peer.most)
	}
}

// An acknowledgement that gets lost is made up for when nothing comes any more.
func TestAClosedWindowGoesBack(t *testing.T) {
	muted := map[uint32]bool{}
	r, _ := answered(t, loop(t, func(c *Config) {
		c.Mix, c.Size, c.Window, c.Linger = c.Mix[3:4], Size(600), 3, 100*time.Millisecond
	}), func(_ *responder, q *peer, p *dissect.Packet) bool {
		if q.msn == 20 && !muted[q.dest] {
			muted[q.dest] = true
			q.mute = 1
		}
		return true
	})
	whole(t, r)
	if r.Answers.Timeouts < 4 || r.Resent < 4 {
		t.Errorf("%d timeouts, %d packets sent again", r.Answers.Timeouts, r.Resent)
	}
}

func TestNobodyAnswers(t *testing.T) {
	r, _ := answered(t, loop(t, func(c *Config) { c.Window, c.Linger = 8, time.Millisecond }), func(*responder, *peer, *dissect.Packet) bool { return false })
	if r.Answered != 0 || r.Stopped != 4 || r.QPs[0].Stopped.What != "no answer" || r.Asked != r.Messages+r.Cut+r.NotSent {
		t.Errorf("%d answered, %d stopped, %+v", r.Answered, r.Stopped, r.QPs[0].Stopped)
	}
}

// What comes back and means nothing good is counted, and believed no further.
func TestStrangeAnswers(t *testing.T) {
	n := 0
	r, _ := answered(t, loop(t, nil), func(r *responder, q *peer, p *dissect.Packet) bool {
		if n++; n != 10 {
			return true
		}
		r.send(q, dissect.OpCNP, 0, 0, nil)
		r.acknowledge(q, p.PSN.Add(100_000), dissect.NoCreditInfo)
		r.acknowledge(q, p.PSN, dissect.Syndrome(dissect.KindReserved)<<5)
		r.send(&peer{dest: 0xABCDEF}, dissect.OpRCAcknowledge, 0, dissect.NoCreditInfo, nil)
		r.send(q, dissect.OpRCSendOnly, 0, 0, nil)
		r.send(q, dissect.OpRCAcknowledge, p.PSN, dissect.NoCreditInfo, nil)
		r.frame[len(r.frame)-1] ^= 1
		r.put(r.frame)
		return true
	})
	whole(t, r)
	a := &r.Answers
	if a.CNPs != 1 || a.Ghosts != 1 || a.Reserved != 1 || a.Other != 1 || a.Requests != 1 || a.BadICRC != 1 {
		t.Errorf("%+v", a)
	}
}
