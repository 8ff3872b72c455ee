package flows

import (
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

func TestSeries(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{Gap: time.Nanosecond})
	x.Connect()
	m := x.A.Write(3000) // three packets
	x.Wait(10 * time.Microsecond)
	m.Packets[1].MarkCE()
	x.B.CNP()
	x.B.Answer(m)
	x.Wait(time.Second)
	r := x.A.Read(2000)
	x.Wait(20 * time.Microsecond)
	x.B.Answer(r)
	if c := look(x.Frames()).only(t); c.Detail == nil || c.Detail.Series.Points != nil {
		t.Error("a series though none was asked for")
	}
	s := lookWith(Options{Series: true}, 256, x.Frames())
	c := s.only(t)
	ser := c.Detail.Series
	if ser.Interval != 1024 || ser.Start != c.FirstSeen {
		t.Errorf("interval %v from %d", ser.Interval, ser.Start)
	}
	if len(ser.Points) != 4 { // a second of silence takes no point
		t.Fatalf("%d points: %+v", len(ser.Points), ser.Points)
	}
	sent, acked, asked, answered := &ser.Points[0].Streams[AToB], &ser.Points[1], &ser.Points[2].Streams[AToB], &ser.Points[3]
	if sent.Packets != 3 || sent.Payload != 3000 || sent.CE != 1 || sent.InFlight != 3000 || sent.Outstanding != 1 || sent.Messages != 0 {
		t.Errorf("sent: %+v", sent)
	}
	if a := &acked.Streams[AToB]; a.Messages != 1 || a.Latency.Count != 1 || a.Latency.Max < 10_000 || a.Latency.P99 > a.Latency.Max || a.RTT.Count != 1 || a.RTT.Min < 10_000 {
		t.Errorf("acknowledged: %+v", a)
	}
	if b := &acked.Streams[BToA]; b.CNPs != 1 || b.Packets != 2 {
		t.Errorf("answers: %+v", b)
	}
	if asked.InFlight != 2000 || asked.Payload != 0 {
		t.Errorf("asked: %+v", asked)
	}
	if b := &answered.Streams[BToA]; b.Payload != 2000 || answered.Streams[AToB].Messages != 1 {
		t.Errorf("answered: %+v", answered)
	}
}

// TestSeriesDoubles: whatever the length, the number of points is bounded, and
// their sums are those of the stream.
func TestSeriesDoubles(t *testing.T) {
	for _, gap := range []time.Duration{time.Microsecond, 137 * time.Microsecond, 11 * time.Millisecond} {
		x := testkit.NewExchange(testkit.ExchangeOptions{Gap: gap})
		x.Connect()
		for i := range 700 {
			m := x.A.Write(100 + i)
			if i%50 == 0 {
				x.Wait(gap * 40)
				m.ResendFrom(0)
			}
			x.B.Answer(m)
		}
		s := lookWith(Options{Series: true}, 256, x.Frames())
		c := s.only(t)
		ser := &c.Detail.Series
		if len(ser.Points) > MaxPoints || len(ser.Points) < MaxPoints/4 {
			t.Errorf("gap %v: %d points", gap, len(ser.Points))
		}
		var sum [2]PointStream
		last := int64(-1)
		for i := range ser.Points {
			p := &ser.Points[i]
			if p.Time <= last || (p.Time-ser.Start)%int64(ser.Interval) != 0 {
				t.Fatalf("gap %v: point %d at %d behind %d", gap, i, p.Time, last)
			}
			last = p.Time
			for d := range sum {
				sum[d].Packets += p.Streams[d].Packets
				sum[d].Bytes += p.Streams[d].Bytes
				sum[d].Payload += p.Streams[d].Payload
				sum[d].Messages += p.Streams[d].Messages
				sum[d].Retransmissions += p.Streams[d].Retransmissions
				sum[d].Latency.Count += p.Streams[d].Latency.Count
				sum[d].RTT.Count += p.Streams[d].RTT.Count
			}
		}
		for d := range sum {
			st := &c.Streams[d]
			if sum[d].Packets != st.Packets || sum[d].Bytes != st.Bytes || sum[d].Payload != st.PayloadBytes || sum[d].Retransmissions != st.RetransmittedPackets ||
				sum[d].Messages != st.Messages[OpWrite].Completed || sum[d].Latency.Count != st.Latency.Count || sum[d].RTT.Count != st.RTT.Count {
				t.Errorf("gap %v, %v: %+v, stream %+v", gap, Direction(d), sum[d], st)
			}
		}
	}
}

// TestSeriesOfCredits: what answers grant, the fewest of an interval, and how long a requester had none left; nothing where
// answers say nothing of credits.
func TestSeriesOfCredits(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{Credit: 1, Gap: time.Nanosecond})
	x.Connect()
	x.B.Answer(x.A.Send(10)) // grants one
	m := x.A.Send(10)
	x.Wait(2 * time.Millisecond)
	x.B.Acknowledge(m.First, 0x05, 2) // grants six
	x.B.Acknowledge(m.First, 0x1F, 2) // says nothing
	ser := &lookWith(Options{Series: true}, 256, x.Frames()).only(t).Detail.Series
	if len(ser.Points) != 2 {
		t.Fatalf("%d points: %+v", len(ser.Points), ser.Points)
	}
	first, last := &ser.Points[0].Streams[AToB], &ser.Points[1].Streams[AToB]
	if !first.CreditsKnown || first.Credits != 1 || first.CreditWait != 0 || first.Outstanding != 1 {
		t.Errorf("first: %+v", first)
	}
	if !last.CreditsKnown || last.Credits != 6 || last.CreditWait < 2*time.Millisecond || last.CreditWait > 2100*time.Microsecond {
		t.Errorf("last: %+v", last)
	}
	for i := range ser.Points {
		if b := &ser.Points[i].Streams[BToA]; b.CreditsKnown || b.CreditWait != 0 {
			t.Errorf("B asked for nothing: %+v", b)
		}
	}
	var sum pointDir
	for _, n := range []int16{neverGranted, 4, neverGranted, 2, 3} { // as when intervals are put together
		sum.merge(&pointDir{granted: n, creditWait: 5})
	}
	if r := sum.record(); r.Credits != 1 || !r.CreditsKnown || r.CreditWait != 25 {
		t.Errorf("together: %+v", r)
	}
}

// TestSeriesBackwards: time stamps that go backwards do no harm.
func TestSeriesBackwards(t *testing.T) {
	s := newSeries(1000)
	for _, at := range []int64{1000, 5000, 500, -1 << 60, 5000, 1 << 60, 7000} {
		s.at(at).dir[0].packets++
	}
	n := uint64(0)
	for _, p := range s.record().Points {
		n += p.Streams[0].Packets
	}
	if n != 7 {
		t.Errorf("%d packets", n)
	}
}

// TestDetailsBounded: only so many connections have details, and an evicted
// one gives its place back.
func TestDetailsBounded(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{Transport: dissect.UC})
	for i := range 10 {
		x.Beside(func(o *testkit.ExchangeOptions) { o.QPNB = uint32(0x100 + i) }).A.Write(10)
	}
	s := lookWith(Options{MaxDetails: 4}, 16, x.Frames())
	n := 0
	for i := range s.Connections {
		if s.Connections[i].Detail != nil {
			n++
		}
	}
	if n != 4 || s.tracker.details != 4 {
		t.Errorf("%d have details, %d counted", n, s.tracker.details)
	}
	s = lookWith(Options{MaxDetails: 4, MaxConnections: 2}, 16, x.Frames())
	if last := s.Connections[len(s.Connections)-1]; last.Detail == nil || s.tracker.details > 2 {
		t.Errorf("%d counted; the newest has %v", s.tracker.details, last.Detail)
	}
	if s = lookWith(Options{MaxDetails: -1}, 16, x.Frames()); s.tracker.details != 0 || s.Connections[0].Detail != nil {
		t.Error("details though none were asked for")
	}
}
