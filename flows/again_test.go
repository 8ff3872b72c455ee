package flows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestGaps opens and fills gaps, around the wrap, and looks at what is left.
func TestGaps(t *testing.T) {
	const base = dissect.PSN(0xFFFFF8) // +8 is 0
	for _, c := range []struct {
		name string
		open [][2]int // offsets: from, and the PSN that came instead
		fill []int
		left string
		not  []int // in none
	}{
		{"none", nil, nil, "", []int{0}},
		{"one PSN", [][2]int{{3, 4}}, []int{3}, "", []int{3}},
		{"its beginning", [][2]int{{3, 9}}, []int{3, 4}, "5-9", nil},
		{"its end, behind the wrap", [][2]int{{3, 10}}, []int{9, 8}, "3-8", nil},
		{"its middle", [][2]int{{3, 12}}, []int{7}, "3-7 8-12", nil},
		{"all, from the back", [][2]int{{6, 10}}, []int{9, 8, 7, 6}, "", []int{6}},
		{"two, the second from the middle", [][2]int{{1, 3}, {6, 12}}, []int{8, 2}, "1-2 6-8 9-12", nil},
		{"into three pieces", [][2]int{{0, 10}}, []int{3, 6}, "0-3 4-6 7-10", nil},
		{"what is in none", [][2]int{{3, 5}}, nil, "3-5", []int{2, 5, 900}},
		{"twice the same", [][2]int{{3, 9}}, []int{5}, "3-5 6-9", []int{5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			tr := New(Options{})
			_, conn := tr.newConn()
			for _, g := range c.open {
				var m Mark
				tr.openGap(conn, AToB, base.Add(g[0]), &dissect.Packet{PSN: base.Add(g[1])}, &m)
				if !m.Has(MarkAfterGap) {
					t.Error("the packet behind a gap is not marked")
				}
			}
			for _, p := range c.fill {
				if !tr.fillGap(conn, AToB, base.Add(p)) {
					t.Errorf("+%d is in no gap", p)
				}
			}
			for _, p := range c.not {
				if tr.fillGap(conn, AToB, base.Add(p)) {
					t.Errorf("+%d is in a gap", p)
				}
			}
			var left []string
			if x := tr.extrasOf(conn); x != nil {
				for _, g := range x.gaps[AToB] {
					left = append(left, fmt.Sprintf("%d-%d", g.from.Sub(base), g.to.Sub(base)))
				}
			}
			if got := strings.Join(left, " "); got != c.left {
				t.Errorf("left is %q, want %q", got, c.left)
			}
		})
	}
}

// TestManyGaps keeps no more than it may, and counts what it forgets.
func TestManyGaps(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		x.Connect()
		for range maxGaps + 36 {
			x.A.Write(10).Packets[0].Drop()
			x.A.Write(10)
		}
	})
	st := &s.only(t).Streams[AToB]
	want(t, s, "out of order", st.OutOfOrder, maxGaps+36)
	want(t, s, "ambiguous", st.Ambiguous, maxGaps+36) // the side of a loss in silence is unknown
	if n := len(s.tracker.extrasOf(s.tracker.conn(0)).gaps[AToB]); n > maxGaps {
		t.Errorf("%d gaps are remembered", n)
	}
}

// story is what a stream counts of loss and repetition.
func story(st *Stream) string {
	return fmt.Sprintf("resent %d, runs %v, lost %d|%d, capture %d, reordered %d, copies %d, ambiguous %d",
		st.RetransmittedPackets, st.Retransmissions, st.LostBeforeTap, st.LostBehindTap, st.CaptureLost, st.Reordered, st.NetworkDuplicates, st.Ambiguous)
}

func TestRequestsSentAgain(t *testing.T) {
	for _, c := range []struct {
		name    string
		options testkit.ExchangeOptions
		write   func(x *testkit.Exchange)
		story   string
		grave   string
	}{
		{
			name: "lost before the tap, and one more of the same message",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(8000)
				m.Packets[2].Drop()
				m.Packets[5].Drop()
				x.B.NAK(m.First.Add(2), dissect.NAKSequence)
				m.ResendFrom(2)
				x.B.Answer(m)
			},
			story: "resent 6, runs [1 0 0 0], lost 2|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "lost_before_tap",
		},
		{
			name: "a NAK that is told twice is one loss",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(8000)
				x.B.NAK(m.First.Add(2), dissect.NAKSequence)
				x.B.NAK(m.First.Add(2), dissect.NAKSequence)
				m.ResendFrom(2)
				x.B.Answer(m)
			},
			story: "resent 6, runs [1 0 0 0], lost 0|1, capture 0, reordered 0, copies 0, ambiguous 0", grave: "lost_behind_tap",
		},
		{
			name: "a resend that loses a packet in its turn",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(8000)
				x.B.NAK(m.First.Add(2), dissect.NAKSequence)
				m.ResendFrom(2)[2].Drop()
				x.B.NAK(m.First.Add(4), dissect.NAKSequence)
				m.ResendFrom(4)
				x.B.Answer(m)
			},
			story: "resent 9, runs [2 0 0 0], lost 1|1, capture 0, reordered 0, copies 0, ambiguous 0", grave: "lost_before_tap lost_behind_tap",
		},
		{
			name: "a NAK that comes while the resend with the hole goes on",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(12000)
				x.B.NAK(m.First.Add(2), dissect.NAKSequence)
				again := m.ResendFrom(2)
				again[2].Drop()
				again[6].Drop()
				nak := x.B.NAK(m.First.Add(4), dissect.NAKSequence) // seen behind the fourth packet of the resend
				nak.Time = again[3].Time + 1
				m.ResendFrom(4)
				x.B.Answer(m)
			},
			story: "resent 16, runs [2 0 0 0], lost 2|1, capture 0, reordered 0, copies 0, ambiguous 0", grave: "lost_before_tap lost_behind_tap",
		},
		{
			name: "an RNR in the midst of a message, and what was in flight behind it",
			write: func(x *testkit.Exchange) {
				m := x.A.Send(6000)
				x.B.RNR(m.First.Add(3), 12)
				x.B.NAK(m.First.Add(3), dissect.NAKSequence)
				x.B.NAK(m.First.Add(3), dissect.NAKSequence)
				x.Wait(time.Millisecond)
				m.ResendFrom(3) // a MIDDLE
				x.B.Answer(m)
			},
			story: "resent 3, runs [0 1 0 0], lost 0|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "rnr_nak",
		},
		{
			name: "an RNR that another one follows",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(2000, testkit.Imm(1))
				for range 3 {
					x.B.RNR(m.Last, 12)
					x.Wait(time.Millisecond)
					m.ResendFrom(1)
				}
				x.B.Answer(m)
			},
			story: "resent 3, runs [0 3 0 0], lost 0|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "rnr_nak",
		},
		{
			name: "silence, twice",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(2000)
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.B.Answer(m)
			},
			story: "resent 4, runs [0 0 2 0], lost 0|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "timeout",
		},
		{
			name: "the ACK was lost behind the tap",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(2000)
				x.B.Answer(m)
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.B.Ack(m.Last, x.B.MSN)
				sendAll(x, 10)
			},
			story: "resent 2, runs [0 0 0 1], lost 0|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "resent_after_ack",
		},
		{
			name: "a copy of a packet and a copy of its ACK",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(2000)
				m.Packets[1].Duplicate(300 * time.Nanosecond)
				x.B.Answer(m)[0].Duplicate(300 * time.Nanosecond)
				sendAll(x, 10)
			},
			story: "resent 0, runs [0 0 0 0], lost 0|0, capture 0, reordered 0, copies 1, ambiguous 0", grave: "",
		},
		{
			name: "a copy where the IP identification does not tell", options: testkit.ExchangeOptions{FixedIPID: true},
			write: func(x *testkit.Exchange) {
				m := x.A.Write(2000)
				m.Packets[1].Duplicate(300 * time.Nanosecond)
				x.B.Answer(m)
				sendAll(x, 10)
			},
			story: "resent 0, runs [0 0 0 0], lost 0|0, capture 0, reordered 0, copies 1, ambiguous 0", grave: "",
		},
		{
			name: "late where the IP identification does not tell", options: testkit.ExchangeOptions{FixedIPID: true},
			write: func(x *testkit.Exchange) {
				m := x.A.Write(3000)
				m.Packets[1].Delay(1100 * time.Nanosecond)
				x.Wait(10 * time.Microsecond)
				x.B.Answer(m)
			},
			story: "resent 0, runs [0 0 0 0], lost 0|0, capture 0, reordered 1, copies 0, ambiguous 0", grave: "reordered",
		},
		{
			name: "what was late comes behind its own resend",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(4000)
				m.Packets[1].Delay(20 * time.Microsecond)
				x.B.NAK(m.First.Add(1), dissect.NAKSequence)
				m.ResendFrom(1)
				x.Wait(50 * time.Microsecond)
				x.B.Answer(m)
			},
			story: "resent 3, runs [1 0 0 0], lost 0|0, capture 0, reordered 1, copies 0, ambiguous 0", grave: "reordered",
		},
		{
			name: "lost by the capture, then lost by the network: it goes on counting",
			write: func(x *testkit.Exchange) {
				x.B.Answer(x.A.Write(10))
				hole := x.A.Write(3000)
				hole.Packets[1].Drop()
				x.B.Answer(hole)
				for range 10 {
					m := x.A.Write(3000)
					x.B.NAK(m.First.Add(1), dissect.NAKSequence)
					m.ResendFrom(1)
					x.B.Answer(m)
				}
			},
			story: "resent 20, runs [10 0 0 0], lost 0|10, capture 1, reordered 0, copies 0, ambiguous 0", grave: "lost_behind_tap",
		},
		{
			name: "the tail of all is lost, and comes again",
			write: func(x *testkit.Exchange) {
				m := x.A.Write(3000)
				m.Packets[2].Drop()
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.B.Answer(m)
			},
			story: "resent 2, runs [0 0 1 0], lost 0|0, capture 0, reordered 0, copies 0, ambiguous 0", grave: "timeout",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, psn := range []dissect.PSN{0, 0xFFFFFC} {
				o := c.options
				o.PSNA, o.PSNB = psn, psn
				s := follow(o, func(x *testkit.Exchange) { begun(x); c.write(x) })
				conn := s.only(t)
				want(t, s, "what happened", story(&conn.Streams[AToB]), c.story)
				want(t, s, "findings above note", strings.Join(s.grave(), " "), c.grave)
				for _, line := range s.of(AToB) {
					if !strings.HasSuffix(line, "IBV_WC_SUCCESS") {
						t.Errorf("not all is well: %s", line)
					}
				}
			}
		})
	}
}

// TestNothingIsClaimedOfStrangers: where the other side is not known, nothing
// says why a packet was sent again.
func TestNothingIsClaimedOfStrangers(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		for range 3 {
			x.A.Write(10)
		}
		m := x.A.Write(2000)
		x.Wait(50 * time.Millisecond)
		m.ResendFrom(0)
	})
	st := &s.only(t).Streams[AToB]
	want(t, s, "runs", st.Retransmissions, [NumCauses]uint64{})
	want(t, s, "ambiguous", st.Ambiguous, 1)
	want(t, s, "resent", st.RetransmittedPackets, 2)
	want(t, s, "findings above note", strings.Join(s.grave(), " "), "")
}
