package load

import (
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestLoss loses 1 % both ways. RC has all data right; UC has whole messages or none, and UD each datagram or not.
func TestLoss(t *testing.T) {
	l := newLab(t, 0.01, Serving{}, nil)
	for _, e := range everything {
		for _, on := range e.on {
			plan := Plan{Op: e.op, Transport: on, Size: 5001, QPs: 2, Count: 50, Depth: 8, Verify: true, Seed: 7}
			if on == dissect.UD {
				plan.Size, plan.Count = 1001, 1000
			}
			if isAtomic(e.op) {
				plan.Count = 300
			}
			res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: 1024, AckTimeout: 10}})
			l.good(plan, res, err)
			switch c := &res.Counters; {
			case on == dissect.RC && res.Lost > 0:
				t.Errorf("%v: RC lost %d", e.op, res.Lost)
			case on != dissect.RC && res.Lost == 0:
				t.Errorf("%v on %v: nothing lost", e.op, on)
			case on == dissect.RC && c.PacketSeqErr+c.ImpliedNakSeqErr+c.LocalAckTimeoutErr == 0:
				t.Errorf("%v: nothing sent again", e.op)
			}
		}
	}
}

// TestCorruption writes into the memory in between: it is found, and told where.
func TestCorruption(t *testing.T) {
	for _, op := range []rnic.Op{rnic.OpWrite, rnic.OpRead, rnic.OpSend, rnic.OpFetchAdd} {
		l := newLab(t, 0, Serving{}, nil)
		spoil := func(now int64) bool { // before the messages are looked at
			for _, v := range l.r.all {
				for _, s := range v.qps {
					switch {
					case isSend(op):
						s.recv.Bytes()[5] = 0x55 // of the first receive's number
					case isAtomic(op):
						s.mr.Bytes()[5]++
					default:
						s.mr.Bytes()[5] = 0x55
					}
				}
			}
			return l.r.stations[0].work(now)
		}
		must(t, l.give.Do(func() error { l.r.stations[0].worker.Work = spoil; return nil }))
		res, err := l.run(Plan{Op: op, Transport: dissect.RC, Size: 2000, Count: 12, Depth: 4, Verify: true, Seed: 3}, peer.Request{Local: connect.Parameters{MTU: 1024}})
		if err != nil || res.Wrong == 0 || res.FirstWrong == "" {
			t.Errorf("%v: %+v, %v", op, res, err)
		}
	}
}

// TestRallies is each way of messages that answer each other, with whom it is played.
func TestRallies(t *testing.T) {
	for _, c := range []struct {
		way     peer.Way
		program string
		op      rnic.Op
		on      dissect.Transport
		rally   Rally
		serving Serving
	}{
		{peer.ByExchange, "", rnic.OpSend, dissect.RC, SendRally, Serving{}},
		{peer.ByExchange, "", rnic.OpSend, dissect.UD, SendRally, Serving{}},
		{peer.ByPingpong, "", rnic.OpSend, dissect.RC, SendRally, Serving{}},
		{peer.ByPingpong, "", rnic.OpSend, dissect.UC, SendRally, Serving{}},
		{peer.ByPingpong, "", rnic.OpSend, dissect.UD, SendRally, Serving{}},
		{peer.ByPerftest, "ib_send_lat", rnic.OpSend, dissect.RC, SendRally, Serving{Rally: SendRally}},
		{peer.ByPerftest, "ib_send_lat", rnic.OpSend, dissect.UD, SendRally, Serving{Rally: SendRally}},
		{peer.ByPerftest, "ib_write_lat", rnic.OpWrite, dissect.RC, WriteRally, Serving{Rally: WriteRally, RallySize: 100, RallyCount: 300}},
		{peer.ByPerftest, "ib_write_lat", rnic.OpWrite, dissect.UC, WriteRally, Serving{Rally: WriteRally, RallySize: 100, RallyCount: 300}},
		{peer.ByPerftest, "ib_read_lat", rnic.OpRead, dissect.RC, OneWay, Serving{}},
		{peer.ByPerftest, "ib_atomic_lat", rnic.OpFetchAdd, dissect.RC, OneWay, Serving{}},
		{peer.ByPerftest, "ib_write_bw", rnic.OpWrite, dissect.RC, OneWay, Serving{}},
		{peer.ByPerftest, "ib_send_bw", rnic.OpSend, dissect.UC, OneWay, Serving{}},
		{peer.ByPerftest, "ib_atomic_bw", rnic.OpCompareSwap, dissect.RC, OneWay, Serving{}},
	} {
		l := newLab(t, 0, c.serving, func(o *peer.Listening) { o.Transport = c.on })
		plan := Plan{Op: c.op, Transport: c.on, Size: 100, Count: 300, Rally: c.rally, Verify: c.way == peer.ByExchange}
		r := peer.Request{Way: c.way, Local: connect.Parameters{MTU: 1024}, Perftest: connect.PerftestOptions{Program: c.program}}
		res, err := l.run(plan, r)
		if err != nil || res.Messages != plan.Count || res.Wrong+res.Lost > 0 {
			t.Errorf("%v %s %v on %v: %d messages, %d wrong, %v", c.way, c.program, c.op, c.on, res.Messages, res.Wrong, err)
			continue
		}
		if want := int64(plan.Count) - 1; res.Histogram.TotalCount() < want {
			t.Errorf("%v %s: %d latencies, want %d", c.way, c.program, res.Histogram.TotalCount(), want)
		}
		l.judged()
	}
}

// TestByCM connects by CM, and a server's memory is known by its private data.
func TestByCM(t *testing.T) {
	l := newLab(t, 0, Serving{}, nil)
	to := func(i int) netip.AddrPort { return netip.AddrPortFrom(l.addrs[1][i], connect.PerftestPort) }
	for _, op := range []rnic.Op{rnic.OpWrite, rnic.OpRead, rnic.OpSend, rnic.OpFetchAdd} {
		for family := range 2 {
			plan := Plan{Op: op, Transport: dissect.RC, Size: 3000, QPs: 3, Count: 20}
			res, err := l.run(plan, peer.Request{Way: peer.ByCM, Peer: to(family), Local: connect.Parameters{MTU: 1024, Address: l.addrs[0][family]}})
			l.good(plan, res, err)
		}
	}
	plan := Plan{Op: rnic.OpSend, Transport: dissect.UD, Size: 1000, Count: 20}
	res, err := l.run(plan, peer.Request{Way: peer.ByCM, Peer: to(0), Local: connect.Parameters{MTU: 1024}})
	l.good(plan, res, err)
	l.judged()
	ts := testkit.FindTshark(t)
	file := testkit.WriteCapture(t, "load.pcap", l.tap.frames)
	if out, err := ts.Run("-n", "-r", file, "-Y", "_ws.malformed", "-T", "fields", "-e", "frame.number"); err != nil || out != "" {
		t.Errorf("tshark objects to frames %s%v", out, err)
	}
}

// TestGoodbye closes a serving host: who is connected by CM is told.
func TestGoodbye(t *testing.T) {
	l := newLab(t, 0, Serving{}, nil)
	q, err := NewRequester(l.ask, Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 100, Count: 1})
	must(t, err)
	must(t, q.Dial(t.Context(), peer.Request{Way: peer.ByCM, Peer: netip.AddrPortFrom(l.addrs[1][0], connect.PerftestPort), Local: connect.Parameters{MTU: 1024}}))
	for established := false; !established; {
		established = l.last().Kind == Ready
	}
	must(t, l.give.Close())
	if got := q.qps[0].c.QP.State(); got != rnic.ERROR {
		t.Errorf("the queue pair is in %v", got)
	}
	_ = q.Close() // the pair in memory has lost its other end
	if last := l.last(); last.Kind != Closed || last.Err != nil {
		t.Errorf("the end: %+v", last)
	}
}

// TestRefused asks by CM where nobody listens.
func TestRefused(t *testing.T) {
	l := newLab(t, 0, Serving{}, nil)
	var refused *peer.RejectedError
	_, err := l.run(Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 1, Count: 1}, peer.Request{Way: peer.ByCM, Peer: netip.AddrPortFrom(l.addrs[1][0], 99)})
	if !errors.As(err, &refused) || refused.Reason != dissect.RejInvalidServiceID {
		t.Errorf("nobody listens on port 99: %v", err)
	}
}

// TestTrouble is what goes wrong, and that the server lives on.
func TestTrouble(t *testing.T) {
	l := newLab(t, 0, Serving{Memory: 1 << 20, Connections: 4, Region: 64 << 10}, nil)
	one := Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 5000, Count: 5, Verify: true}
	fine := func() {
		t.Helper()
		res, err := l.run(one, peer.Request{Local: connect.Parameters{MTU: 1024}})
		l.good(one, res, err)
	}
	fails := func(want string, plan Plan, r peer.Request) error {
		t.Helper()
		_, err := l.run(plan, r)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", plan, err, want)
		}
		fine()
		return err
	}
	fine()
	many := one
	many.QPs = 5
	fails("as many as are allowed", many, peer.Request{Local: connect.Parameters{MTU: 1024}})
	big := one
	big.Size = 2 << 20
	fails("no room", big, peer.Request{Local: connect.Parameters{MTU: 1024}})
	fails("path MTU 8192", one, peer.Request{Local: connect.Parameters{MTU: 8192}})

	var server peer.Conn
	must(t, l.give.Do(func() error {
		party, err := l.r.Accept(peer.Call{Way: peer.ByHand})
		if err != nil {
			return err
		}
		qp, memory, err := party.Make(0, dissect.RC)
		if err != nil {
			return err
		}
		server = peer.Conn{QP: qp, Local: connect.Parameters{Transport: dissect.RC, QPN: qp.QPN(), Memory: memory, MTU: 1024, Address: l.addrs[1][0]}}
		return nil
	}))
	hand := peer.Request{Way: peer.ByHand, Peer: netip.AddrPortFrom(l.addrs[1][0], 0), Hand: []connect.Parameters{server.Local}, Local: connect.Parameters{MTU: 1024, AckTimeout: 5, RetryCount: 1}}
	one.Verify = false
	_, err := l.run(one, hand) // whose queue pair is in RESET: nobody answers
	var failed *CompletionError
	if !errors.As(err, &failed) || failed.Status != rnic.RetryExcErr {
		t.Errorf("a peer that does not answer: %v", err)
	}
}

// TestWrongKey asks with a wrong R_Key, address and length: refused, by a completion that says so.
func TestWrongKey(t *testing.T) {
	for name, spoil := range map[string]func(*connect.Memory){
		"rkey":    func(m *connect.Memory) { m.RKey ^= 0x100 },
		"address": func(m *connect.Memory) { m.VA += 1 << 30 },
		"length":  func(m *connect.Memory) { m.VA += m.Length - 1 },
	} {
		l := newLab(t, 0, Serving{}, nil)
		plan := Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 100, Count: 5}
		q, err := NewRequester(l.ask, plan)
		must(t, err)
		must(t, q.Dial(t.Context(), peer.Request{Peer: l.tcp, Local: connect.Parameters{MTU: 1024, Address: l.addrs[0][0]}}))
		spoil(&q.qps[0].c.Remote.Memory)
		var failed *CompletionError
		if err := q.Run(t.Context()); !errors.As(err, &failed) || failed.Status != rnic.RemAccessErr {
			t.Errorf("%s: %v", name, err)
		}
		must(t, q.Close())
		res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: 1024}})
		l.good(plan, res, err)
	}
}

// TestPeerGone cuts the wire in the middle: the work fails as the specification says, and both devices live on.
func TestPeerGone(t *testing.T) {
	l := newLab(t, 0, Serving{}, nil)
	go func() {
		for l.give.Device().Counters().RxWriteRequests == 0 {
			time.Sleep(time.Millisecond)
		}
		l.tap.cut.Store(true)
	}()
	res, err := l.run(Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 1 << 20, Duration: time.Minute},
		peer.Request{Local: connect.Parameters{MTU: 1024, AckTimeout: 8, RetryCount: 3}})
	var failed *CompletionError
	if !errors.As(err, &failed) || failed.Status != rnic.RetryExcErr {
		t.Fatalf("%+v, %v", res, err)
	}
	if n := l.ask.Device().QPs(); n != 0 || l.ask.Err() != nil {
		t.Errorf("%d queue pairs are left, and the host says %v", n, l.ask.Err())
	}
	l.tap.cut.Store(false)
	plan := Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: 5000, Count: 5, Verify: true}
	res, err = l.run(plan, peer.Request{Local: connect.Parameters{MTU: 1024}})
	l.good(plan, res, err)
}

// TestManyQPs takes turns on many queue pairs.
func TestManyQPs(t *testing.T) {
	l := newLab(t, 0, Serving{}, nil)
	plan := Plan{Op: rnic.OpSend, Transport: dissect.RC, Size: 64, QPs: 2000, Count: 20, Depth: 4, Verify: true}
	res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: 256}})
	l.good(plan, res, err)
}

// TestNoAllocations: the work of both sides allocates nothing for a message.
func TestNoAllocations(t *testing.T) {
	testkit.SkipUnderRace(t)
	l := newLab(t, 0, Serving{}, nil)
	l.tap.off.Store(true)
	for _, op := range []rnic.Op{rnic.OpWrite, rnic.OpSend, rnic.OpRead, rnic.OpFetchAdd} {
		few := testing.AllocsPerRun(1, func() { l.messages(op, 10) })
		many := testing.AllocsPerRun(1, func() { l.messages(op, 3010) })
		if extra := (many - few) / 3000; extra > 0.05 {
			t.Errorf("%v: %.2f allocations a message", op, extra)
		}
	}
}

func (l *lab) messages(op rnic.Op, n uint64) {
	plan := Plan{Op: op, Transport: dissect.RC, Size: 64, Count: n, Verify: op != rnic.OpWrite} // which is checked in rounds, by socket
	res, err := l.run(plan, peer.Request{Local: connect.Parameters{MTU: 1024}})
	l.good(plan, res, err)
}

func TestPattern(t *testing.T) {
	for size := range 300 {
		b := make([]byte, size)
		for _, k := range []uint64{0, 1, 77} {
			fill(b, 5, 3, k)
			if at := differs(b, 5, 3, k); at >= 0 {
				t.Fatalf("size %d, message %d: differs from itself at %d", size, k, at)
			}
			if size >= numbered && number(b) != k {
				t.Fatalf("size %d: number %d, want %d", size, number(b), k)
			}
			for i := range b {
				b[i] ^= 0x10
				if at := differs(b, 5, 3, k); at != i {
					t.Fatalf("size %d: a change of byte %d is found at %d", size, i, at)
				}
				b[i] ^= 0x10
			}
			if size > numbered+4 && (differs(b, 6, 3, k) < 0 || differs(b, 5, 4, k) < 0) {
				t.Fatalf("size %d: other seeds and queue pairs have the same", size)
			}
		}
	}
}
