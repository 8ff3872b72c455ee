package flows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// whole lists what a requester's messages came to: "read 5000 ✓ 3".
func (s *seen) whole(d Direction) string {
	var list []string
	for i := range s.messages {
		m := &s.messages[i]
		if m.Direction != d {
			continue
		}
		text := fmt.Sprintf("%v %d/%d", m.Op, m.Seen, m.Bytes)
		if m.Status != StatusSuccess {
			text += " " + m.Status.String()
		}
		if m.Resends > 0 {
			text += fmt.Sprintf(" resent %d", m.Resends)
		}
		if m.Coalesced {
			text += " coalesced"
		}
		list = append(list, text)
	}
	return strings.Join(list, ", ")
}

func TestAnswers(t *testing.T) {
	for _, c := range []struct {
		name  string
		write func(x *testkit.Exchange)
		want  string // the messages of A
		story string // of B's stream; "" = nothing was lost or sent again
		grave string
	}{
		{
			name: "one ACK for many",
			write: func(x *testkit.Exchange) {
				for range 3 {
					x.B.Complete(x.A.Write(10))
				}
				x.B.Answer(x.A.Send(2000))
			},
			want: "write 10/10 coalesced, write 10/10 coalesced, write 10/10 coalesced, send 2000/2000",
		},
		{
			name: "an ACK in the midst of a message completes what is before it",
			write: func(x *testkit.Exchange) {
				x.B.Complete(x.A.Write(10))
				m := x.A.Write(5000)
				x.B.Ack(m.First.Add(2), x.B.MSN)
				x.B.Answer(m)
			},
			want: "write 10/10 coalesced, write 5000/5000",
		},
		{
			name: "an old ACK moves nothing",
			write: func(x *testkit.Exchange) {
				m, n := x.A.Write(10), x.A.Write(10)
				x.B.Answer(m)
				x.B.Answer(n)
				o := x.A.Write(10)
				x.B.Ack(m.Last, 3)
				x.B.Answer(o)
			},
			want: "write 10/10, write 10/10, write 10/10",
		},
		{
			name: "an ACK before its data, for the capture is not in the order of the wire",
			write: func(x *testkit.Exchange) {
				for range 3 {
					m := x.A.Write(3000)
					x.B.Answer(m)[0].Delay(-4500 * time.Nanosecond)
				}
			},
			want: "write 3000/3000, write 3000/3000, write 3000/3000",
		},
		{
			name: "READ responses before their request",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(10)
				x.B.Answer(m)[0].Delay(-1500 * time.Nanosecond)
			},
			want: "read 10/10",
		},
		{
			name: "READs of every length",
			write: func(x *testkit.Exchange) {
				for _, n := range []int{0, 1, 1023, 1024, 1025, 2048, 5000} {
					x.B.Answer(x.A.Read(n))
				}
				sendAll(x, 10)
			},
			want: "read 0/0, read 1/1, read 1023/1023, read 1024/1024, read 1025/1025, read 2048/2048, read 5000/5000, write 10/10",
		},
		{
			name: "several READs outstanding, and a WRITE behind them",
			write: func(x *testkit.Exchange) {
				a, b, w := x.A.Read(3000), x.A.Read(3000), x.A.Write(10)
				x.B.Answer(a)
				x.B.Answer(b)
				x.B.Answer(w)
			},
			want: "read 3000/3000, read 3000/3000, write 10/10",
		},
		{
			name: "an ACK beyond a READ that was not answered does not complete it",
			write: func(x *testkit.Exchange) {
				r, w := x.A.Read(3000), x.A.Write(10)
				x.B.ReadResponses(r)[0].Drop()
				x.B.Complete(r)
				x.B.Answer(w)
			},
			want:  "write 10/10, read 1976/3000 open",
			story: "resent 0, lost 0|0, overtaken 0",
		},
		{
			name: "the rest of a READ is asked for: it is the same message",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(6000)
				p := x.B.Answer(m)
				p[2].Drop()
				x.Wait(50 * time.Millisecond)
				x.B.Answer(m.ReadRest(2))
			},
			want:  "read 6000/6000 resent 1",
			story: "resent 4, lost 1|0, overtaken 0", grave: "response_lost_before_tap timeout",
		},
		{
			name: "the last response is lost: the rest is one packet",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(6000)
				x.B.Answer(m)[5].Drop()
				x.Wait(50 * time.Millisecond)
				x.B.Answer(m.ReadRest(5))
			},
			want:  "read 6000/6000 resent 1",
			story: "resent 0, lost 1|0, overtaken 0", grave: "response_lost_before_tap timeout",
		},
		{
			name: "two resumes, the second for less",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(6000)
				x.B.Answer(m)[1].Drop()
				x.Wait(50 * time.Millisecond)
				x.B.Answer(m.ReadRest(1))[3].Drop()
				x.Wait(50 * time.Millisecond)
				x.B.Answer(m.ReadRest(4))
			},
			want:  "read 6000/6000 resent 1",                                                    // by then this tap has seen all of it
			story: "resent 6, lost 1|0, overtaken 0", grave: "response_lost_before_tap timeout", // what was in flight behind the first loss was dropped, and says nothing
		},
		{
			name: "all of a READ is asked for again, for its request was lost behind the tap",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(3000)
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.B.Answer(m)
			},
			want:  "read 3000/3000 resent 1",
			story: "resent 0, lost 0|0, overtaken 0", grave: "timeout",
		},
		{
			name: "a response is late",
			write: func(x *testkit.Exchange) {
				m := x.A.Read(6000)
				x.B.Answer(m)[2].Delay(1500 * time.Nanosecond)
			},
			want:  "read 6000/6000",
			story: "resent 0, lost 0|0, overtaken 1",
		},
		{
			name: "the last response of a READ is overtaken by the next READ's first",
			write: func(x *testkit.Exchange) {
				m, n := x.A.Read(3000), x.A.Read(3000)
				x.B.Answer(m)[2].Delay(1500 * time.Nanosecond)
				x.B.Answer(n)
			},
			want:  "read 3000/3000, read 3000/3000",
			story: "resent 0, lost 0|0, overtaken 1",
		},
		{
			name: "a sequence NAK implies what is before it, but not a READ",
			write: func(x *testkit.Exchange) {
				w, r, v := x.A.Write(10), x.A.Read(10), x.A.Write(3000)
				x.B.Complete(w)
				x.B.NAK(v.First, dissect.NAKSequence)
				v.ResendFrom(0)
				x.B.Answer(r)
				x.B.Answer(v)
			},
			want: "write 10/10 coalesced, read 10/10, write 3000/3000 resent 3", grave: "lost_behind_tap",
		},
		{
			name: "atomics: what was there before, and a replay that agrees",
			write: func(x *testkit.Exchange) {
				m := x.A.FetchAdd(5)
				x.B.Complete(m)
				x.B.AtomicAck(m, 41)
				x.Wait(50 * time.Millisecond)
				m.ResendFrom(0)
				x.B.AtomicAck(m, 41)
				n := x.A.CompareSwap(41, 9)
				x.B.Complete(n)
				x.B.AtomicAck(n, 46)
			},
			want: "fetch_add 0/8, compare_swap 0/8", grave: "resent_after_ack",
		},
		{
			name: "a refused request, and what was behind it",
			write: func(x *testkit.Exchange) {
				m, n := x.A.Write(3000), x.A.Write(10)
				x.B.Complete(x.A.Write(10))
				x.B.NAK(m.First, dissect.NAKRemoteAccess)
				x.B.NAK(n.First, dissect.NAKRemoteAccess) // told again
			},
			want: "write 3000/3000 IBV_WC_REM_ACCESS_ERR, write 10/10 IBV_WC_WR_FLUSH_ERR, write 10/10 IBV_WC_WR_FLUSH_ERR", grave: "nak_remote_access",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, psn := range []dissect.PSN{0, 0xFFFFFD} {
				s := follow(testkit.ExchangeOptions{PSNA: psn}, func(x *testkit.Exchange) { begun(x); c.write(x) })
				got := strings.TrimPrefix(s.whole(AToB), "write 100/100, send 100/100, ")
				want(t, s, "messages", got, c.want)
				want(t, s, "findings above note", strings.Join(s.grave(), " "), c.grave)
				st := &s.only(t).Streams[BToA]
				if c.story == "" {
					c.story = "resent 0, lost 0|0, overtaken 0"
				}
				want(t, s, "answers", fmt.Sprintf("resent %d, lost %d|%d, overtaken %d", st.RetransmittedPackets, st.LostBeforeTap, st.LostBehindTap, st.Reordered), c.story)
				want(t, s, "ghosts", st.GhostAcks, 0)
			}
		})
	}
}

func TestAtomicValues(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		begun(x)
		m := x.A.CompareSwap(1, 2, testkit.At(0x1000, 7))
		x.B.Complete(m)
		x.B.AtomicAck(m, 1)
		n := x.A.FetchAdd(3, testkit.At(0x1000, 7))
		x.B.Complete(n)
		x.B.AtomicAck(n, 2)
		x.A.FetchAdd(4)
	})
	type values struct {
		op                  Operation
		va                  uint64
		rkey                uint32
		swap, compare, orig uint64
		known               bool
	}
	for i, w := range []values{
		{OpCompareSwap, 0x1000, 7, 2, 1, 1, true},
		{OpFetchAdd, 0x1000, 7, 3, 0, 2, true},
		{OpFetchAdd, 0x7F0000001000, 0x1234, 4, 0, 0, false},
	} {
		m := &s.messages[len(s.messages)-3+i]
		want(t, s, fmt.Sprintf("atomic %d", i), values{m.Op, m.VA, m.RKey, m.Swap, m.Compare, m.Orig, m.HasOrig}, w)
	}
}

// TestReadSpanWithoutMTU: the span of a READ comes from the next request, or
// from its answer.
func TestReadSpanWithoutMTU(t *testing.T) {
	for _, mtu := range []int{256, 1024, 4096} {
		for name, write := range map[string]func(x *testkit.Exchange){
			"from the next request": func(x *testkit.Exchange) {
				a, b := x.A.Read(10000), x.A.Read(10000)
				x.B.Answer(a)
				x.B.Answer(b)
			},
			"from the answer": func(x *testkit.Exchange) {
				x.B.Answer(x.A.Read(10000))
				x.B.Answer(x.A.Read(10000))
			},
		} {
			t.Run(fmt.Sprintf("%s, %d", name, mtu), func(t *testing.T) {
				s := follow(testkit.ExchangeOptions{MTU: mtu, PSNA: 0xFFFFFF}, func(x *testkit.Exchange) {
					x.Pingpong() // which tells no path MTU
					write(x)
					sendAll(x, 10)
				})
				want(t, s, "messages", s.whole(AToB), "read 10000/10000, read 10000/10000, write 10/10")
				want(t, s, "path MTU", s.only(t).A.PathMTU, mtu)
				want(t, s, "number of findings", len(s.Findings), 0)
			})
		}
	}
}

// TestLatency: the time to an ACK that covers one message only, sent once, is
// no upper bound.
func TestLatency(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		x.Connect()
		for i := range 100 {
			m := x.A.Write(10)
			x.Wait(time.Duration(i+1) * time.Microsecond)
			x.B.Answer(m)
		}
		x.B.Complete(x.A.Write(10))
		x.B.Answer(x.A.Write(10))
	})
	l := s.only(t).Streams[AToB].Latency
	want(t, s, "count", l.Count, 102)
	want(t, s, "upper bounds", l.Coalesced, 1)
	want(t, s, "shortest", l.Min, 1000)
	want(t, s, "longest", l.Max, 101_000)
	if l.P50 < 47_000 || l.P50 > 55_000 || l.P99 < 94_000 || l.P99 > 101_000 {
		t.Errorf("percentiles are %d and %d, want 51000 and 100000 within one part in sixteen", l.P50, l.P99)
	}
}

func TestBuckets(t *testing.T) {
	for ns := int64(0); ns < 1<<38; ns += ns/50 + 1 {
		b := bucketOf(ns)
		if from := bucketFrom(b); ns < from || b < coarseBuckets-1 && ns >= bucketFrom(b+1) {
			t.Fatalf("%d ns is in bucket %d, which begins at %d ns", ns, b, from)
		}
	}
}

// TestMessageInTwoPartsIsOne: a message whose middle is lost is known in two parts for a while, and counted once.
func TestMessageInTwoPartsIsOne(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		begun(x)
		m := x.A.Send(3000)
		m.Packets[1].Drop()
		x.B.NAK(m.First.Add(1), dissect.NAKSequence)
		m.ResendFrom(1)
		x.B.Answer(m)
		x.B.Answer(x.A.Write(10))
	})
	want(t, s, "grave findings", strings.Join(s.grave(), ", "), "lost_before_tap")
	want(t, s, "messages", strings.Join(s.of(AToB), ", "), "write 100 IBV_WC_SUCCESS, send 100 IBV_WC_SUCCESS, send 3000 IBV_WC_SUCCESS, write 10 IBV_WC_SUCCESS")
}

// TestRNRCrossesResend: what a sequence NAK asked for may pass the RNR NAK on the way.
func TestRNRCrossesResend(t *testing.T) {
	s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
		begun(x)
		first, second := x.A.Send(10), x.A.Send(20)
		first.Packets[0].Drop()
		x.B.NAK(first.First, dissect.NAKSequence)
		x.B.RNR(first.First, 12)
		x.Wait(5 * time.Microsecond)
		first.ResendFrom(0)
		second.ResendFrom(0)
		x.B.Answer(first)
		x.B.Answer(second)
	})
	if s.finding("rnr_early") != nil {
		t.Error("a resend that a sequence NAK asked for is taken for one that did not wait for the RNR timer")
	}
}
