package flows

import (
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// crossed is the end of a connection in which both sides ask for it at once:
// together the two DREQs name both queue pairs.
func crossed(x *testkit.Exchange) {
	x.A.DREQ()
	x.B.DREQ()
	x.A.DREP()
	x.B.DREP()
}

// TestLateEvidence: a handshake message that comes when the connection is in
// use already proves what it is.
func TestLateEvidence(t *testing.T) {
	t.Run("of a pair that was inferred", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			sendAll(x, 10, 10, 10, 10, 10)
			crossed(x)
		})
		c := s.only(t)
		want(t, s, "evidence", c.Evidence, ByCM)
		want(t, s, "why", c.Why, "CM DREQ in frame 11, DREQ in frame 12")
		want(t, s, "messages", c.Streams[AToB].Messages[OpWrite].Completed, 5)
	})
	t.Run("of two streams that were not yet paired", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			sendAll(x, 10)
			crossed(x)
			sendAll(x, 10)
		})
		c := s.only(t)
		want(t, s, "evidence", c.Evidence, ByCM)
		want(t, s, "messages", strings.Join(s.of(AToB), ", "), "write 10 IBV_WC_SUCCESS, write 10 IBV_WC_SUCCESS")
	})
	t.Run("of a stream that nobody answers", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{Transport: dissect.UC}, func(x *testkit.Exchange) {
			x.A.Write(10)
			crossed(x)
			x.A.Write(10)
		})
		c := s.only(t)
		want(t, s, "evidence", c.Evidence, ByCM)
		want(t, s, "a is known", c.A.Known && c.B.Known, true)
		want(t, s, "QPN of a", c.A.QPN, 0x11)
		want(t, s, "messages", strings.Join(s.of(AToB), ", "), "write 10 SENT, write 10 SENT")
	})
	t.Run("of two streams that nobody could pair", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{Transport: dissect.UC}, func(x *testkit.Exchange) {
			x.A.Write(10)
			x.B.Write(10)
			crossed(x)
			x.A.Write(10)
			x.B.Write(10)
		})
		var sent [2]uint64 // before it was known that they are one they were two, which are not merged
		for i := range s.Connections {
			for d, q := range []*QP{&s.Connections[i].A, &s.Connections[i].B} {
				if q.Addr.String() == "10.0.0.1" {
					sent[0] += s.Connections[i].Streams[d].Packets
				} else {
					sent[1] += s.Connections[i].Streams[d].Packets
				}
			}
		}
		want(t, s, "packets", sent, [2]uint64{2, 2})
		want(t, s, "evidence", s.Connections[0].Evidence, ByCM)
		want(t, s, "packets of the pair", s.Connections[0].Streams[AToB].Packets+s.Connections[0].Streams[BToA].Packets, 3)
	})
	t.Run("of queue pairs that had no packet yet", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			crossed(x)
			sendAll(x, 10)
		})
		want(t, s, "evidence", s.only(t).Evidence, ByCM)
	})
}

// TestHandshakeToldTwice: perftest's programs tell their queue pairs once more,
// to synchronise.
func TestHandshakeToldTwice(t *testing.T) {
	s := follow(testkit.ExchangeOptions{PSNA: 7, PSNB: 9}, func(x *testkit.Exchange) {
		other := x.Beside(nil)
		x.Perftest(other)
		sendAll(x, 10)
		sendAll(other, 10)
	})
	want(t, s, "number of connections", len(s.Connections), 2)
	for i := range s.Connections {
		c := &s.Connections[i]
		want(t, s, "evidence", c.Evidence, BySocket)
		want(t, s, "first PSN of b, which asked for nothing", c.B.FirstPSN, 9)
		want(t, s, "offered memory", c.B.Negotiated.HasMemory && c.B.Negotiated.RKey == 0x1234, true)
	}
	want(t, s, "number of findings", len(s.Findings), 0)
}

// TestHandshakeOfAnotherNetwork: a TCP exchange need not run where the RDMA
// traffic does.
func TestHandshakeOfAnotherNetwork(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		rdma := x.Beside(func(o *testkit.ExchangeOptions) { o.QPNA, o.QPNB = x.QPNA, x.QPNB; o.VLANs = []uint16{100} })
		x.Perftest()
		sendAll(rdma, 10, 10)
	})
	c := s.only(t)
	want(t, s, "evidence", c.Evidence, BySocket)
	want(t, s, "VLAN", c.A.VLAN, 100)
}

// TestDatagramsOfAHandshake: a UD queue pair that a handshake named lends it to
// all that it talks to.
func TestDatagramsOfAHandshake(t *testing.T) {
	s := follow(testkit.ExchangeOptions{Transport: dissect.UD}, func(x *testkit.Exchange) {
		x.Pingpong()
		x.A.Send(10)
		x.B.Send(10)
	})
	want(t, s, "number of connections", len(s.Connections), 2)
	for i := range s.Connections {
		c := &s.Connections[i]
		want(t, s, "evidence", c.Evidence, BySocket)
		want(t, s, "start PSN is known", c.A.Negotiated.Set, true)
	}
}

// TestLateAnswer: a responder of whose host something was heard may be late.
func TestLateAnswer(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.Connect()
	var last *testkit.Message
	for range 2 * maxUnheard {
		last = x.A.Write(10)
	}
	x.B.Ack(last.Last, 2*maxUnheard)
	w := look(x.Frames()).only(t).Streams[AToB].Messages[OpWrite]
	if w.Count != 2*maxUnheard || w.Completed != w.Count {
		t.Errorf("%+v", w)
	}
}

// TestManyOpenMessages: where answers never come, the oldest messages are given
// up, not kept.
func TestManyOpenMessages(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for range maxOpen + 500 {
		x.A.Write(10)
	}
	s := look(x.Frames())
	want(t, s, "messages", len(s.messages), maxOpen+500)
	if n := len(s.tracker.open); n > maxUnheard+500 {
		t.Errorf("%d records of open messages", n)
	}
	for i := range s.messages {
		if s.messages[i].Index != uint32(i) {
			t.Fatalf("message %d is handed over as number %d", s.messages[i].Index, i)
		}
	}
}

// TestFindingsAreBounded: beyond the bound, findings are not kept, but told.
func TestFindingsAreBounded(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for i := range 20 {
		q := x.Beside(func(o *testkit.ExchangeOptions) {
			o.QPNA, o.QPNB = uint32(0x100+i), uint32(0x200+i)
			o.CommIDA, o.CommIDB, o.TransactionID = uint32(i+1), uint32(i+101), uint64(i+1)
		})
		q.Connect()
		q.A.Write(10).Packets[0].BreakICRC()
		sendAll(q, 10)
		q.A.Write(10).Packets[0].BreakICRC()
	}
	s := lookWith(Options{MaxFindings: 5}, 64, x.Frames())
	bad := 0
	for _, f := range s.occurrences {
		if f.ID == findBadICRC {
			bad++
		}
	}
	want(t, s, "occurrences told", bad, 40)
	if n := len(s.tracker.findings.list); n > 5 {
		t.Errorf("%d findings are kept, want at most 5", n)
	}
	kept := uint64(0)
	for _, f := range s.tracker.findings.list {
		kept += f.Count
	}
	if left := s.FindingsLeft; left == 0 || kept+left != uint64(len(s.occurrences)) {
		t.Errorf("%d times in the list and %d left out, of %d", kept, left, len(s.occurrences))
	}
}

func TestConnectionsInOrder(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for i := range 30 {
		q := x.Beside(func(o *testkit.ExchangeOptions) { o.QPNA, o.QPNB = uint32(0x100+i), uint32(0x200+i) })
		sendAll(q, 10, 10, 10)
		x.Wait(time.Millisecond)
	}
	s := look(x.Frames())
	for i := range s.Connections {
		if i > 0 && s.Connections[i].ID <= s.Connections[i-1].ID {
			t.Errorf("connection %d comes behind %d", s.Connections[i].ID, s.Connections[i-1].ID)
		}
	}
}
