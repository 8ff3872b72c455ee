package flows

import (
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// follow writes a capture and follows it.
func follow(o testkit.ExchangeOptions, write func(x *testkit.Exchange)) *seen {
	x := testkit.NewExchange(o)
	write(x)
	return look(x.Frames())
}

// want compares one thing, and shows the whole capture where it differs.
func want[T comparable](t *testing.T, s *seen, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s is %v, want %v\n%s", what, got, want, s.describe())
	}
}

func TestIPIdentification(t *testing.T) {
	const silent, fresh, copied, late = ipidSilent, ipidNew, ipidCopy, ipidLate
	for _, c := range []struct {
		name string
		ids  []uint16
		want []ipidVerdict
	}{
		{"counts up by one", []uint16{5, 6, 7, 8, 9}, []ipidVerdict{silent, silent, silent, fresh, fresh}},
		{"counts up by more, for other streams take their share", []uint16{5, 9, 20, 21, 60}, []ipidVerdict{silent, silent, silent, fresh, fresh}},
		{"wraps", []uint16{0xFFFD, 0xFFFE, 0xFFFF, 0, 1}, []ipidVerdict{silent, silent, silent, fresh, fresh}},
		{"the same again is a copy", []uint16{5, 6, 7, 8, 8, 7}, []ipidVerdict{silent, silent, silent, fresh, copied, copied}},
		{"one left out that comes is late", []uint16{5, 6, 7, 8, 10, 9, 9}, []ipidVerdict{silent, silent, silent, fresh, fresh, late, copied}},
		{"late across the wrap", []uint16{0xFFFC, 0xFFFD, 0xFFFE, 0, 0xFFFF, 1}, []ipidVerdict{silent, silent, silent, fresh, late, fresh}},
		{"always 0", []uint16{0, 0, 0, 0, 0}, []ipidVerdict{silent, silent, silent, silent, silent}},
		{"0 again and again in the midst", []uint16{5, 6, 7, 8, 0x4000}, []ipidVerdict{silent, silent, silent, fresh, fresh}},
		{"further back than what is remembered", []uint16{5, 6, 7, 500, 100}, []ipidVerdict{silent, silent, silent, fresh, silent}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.A.Write(10)
			packets, _ := testkit.Decode(x.Frames())
			p := packets[0]
			var s stream
			for i, id := range c.ids {
				p.IPID = id
				if got := judgeIPID(&s, &p, i == 0); got != c.want[i] {
					t.Errorf("packet %d, identification %#x: %d, want %d", i, id, got, c.want[i])
				}
			}
		})
	}
	var s stream
	if judgeIPID(&s, new(dissect.Packet), false) != ipidSilent {
		t.Error("a packet without IPv4 has no identification")
	}
}

func TestDamagedPacketsMoveNothing(t *testing.T) {
	t.Run("they make no connection", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) { x.A.Write(10).Packets[0].BreakICRC() })
		want(t, s, "number of connections", len(s.Connections), 0)
		want(t, s, "finding", s.finding("bad_icrc").Where, "10.0.0.1 → 10.0.0.2")
	})
	t.Run("a request does not advance the PSN", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Write(10)
			m.Packets[0].BreakICRC()
			m.ResendFrom(0)
			x.B.Answer(m)
		})
		st := &s.only(t).Streams[AToB]
		want(t, s, "retransmissions", st.RetransmittedPackets, 0) // for this tap it is the first
		want(t, s, "damaged packets", st.BadICRC, 1)
		want(t, s, "packets", st.Packets, 5)
		want(t, s, "messages", strings.Join(s.of(AToB), ", "), "write 100 IBV_WC_SUCCESS, send 100 IBV_WC_SUCCESS, write 10 IBV_WC_SUCCESS")
	})
	t.Run("an ACK completes nothing", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			begun(x)
			x.B.Answer(x.A.Write(10))[0].BreakICRC()
		})
		want(t, s, "last message", s.of(AToB)[2], "write 10 open")
	})
	t.Run("it counts for the pair that is found later", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			for i := range 20 { // no handshake
				m := x.A.Write(10)
				if i == 1 {
					m.Packets[0].BreakICRC()
					m.ResendFrom(0)
				}
				x.B.Answer(m)
			}
		})
		c := s.only(t)
		want(t, s, "evidence", c.Evidence, Inferred)
		want(t, s, "damaged packets", c.Streams[AToB].BadICRC, 1)
		f := s.finding("bad_icrc")
		want(t, s, "occurrences", f.Count, 1)
		want(t, s, "connection", f.Conn, c.ID)
	})
	t.Run("one whose ICRC was cut off is believed", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			x.Connect()
			m := x.A.Write(100)
			m.Packets[0].Snap(90)
			x.B.Answer(m)
		})
		want(t, s, "messages", strings.Join(s.of(AToB), ", "), "write 100 IBV_WC_SUCCESS")
	})
}

func TestCaptureStartsInTheMidst(t *testing.T) {
	cut := func(skip int, write func(x *testkit.Exchange)) *seen {
		x := testkit.NewExchange(testkit.ExchangeOptions{PSNA: 0xFFFFFE})
		write(x)
		return look(x.Frames()[skip:])
	}
	t.Run("of a message", func(t *testing.T) {
		s := cut(2, func(x *testkit.Exchange) { sendAll(x, 5000, 10, 10, 10) })
		want(t, s, "number of findings", len(s.Findings), 0)
		want(t, s, "messages", strings.Join(s.of(AToB)[1:], ", "), "write 10 IBV_WC_SUCCESS, write 10 IBV_WC_SUCCESS, write 10 IBV_WC_SUCCESS")
	})
	t.Run("of the answer to a READ", func(t *testing.T) {
		s := cut(3, func(x *testkit.Exchange) {
			x.B.Answer(x.A.Read(5000))
			sendAll(x, 10, 10, 10, 10)
		})
		want(t, s, "number of findings", len(s.Findings), 0)
	})
	t.Run("between request and ACK", func(t *testing.T) {
		s := cut(2, func(x *testkit.Exchange) {
			m, n := x.A.Write(10), x.A.Write(10)
			x.B.Answer(m)
			x.B.Answer(n)
			sendAll(x, 10, 10, 10)
		})
		want(t, s, "number of findings", len(s.Findings), 0)
	})
}

func TestOneDirectionOnly(t *testing.T) {
	for _, side := range []testkit.Side{testkit.A, testkit.B} {
		x := testkit.NewExchange(testkit.ExchangeOptions{})
		for range 20 {
			m := x.A.Write(3000)
			x.B.Answer(m)
			x.B.Answer(x.A.Read(3000))
		}
		m := x.A.Write(3000)
		x.B.NAK(m.First.Add(1), dissect.NAKSequence)
		m.ResendFrom(1)
		x.B.Answer(m)
		src := x.From(side).Addr
		frames := slices.DeleteFunc(x.Frames(), func(f testkit.Frame) bool {
			var p dissect.Packet
			new(dissect.Decoder).Decode(f.Link, f.Data, f.WireLen, &p)
			return p.Src != dissect.AddrFrom(src)
		})
		s := look(frames)
		want(t, s, "findings above note", strings.Join(s.grave(), " "), "")
		c := s.only(t)
		want(t, s, "directions", c.Directions, 1)
		want(t, s, "evidence", c.Evidence, Unpaired)
		for i := range s.messages {
			if st := s.messages[i].Status; st != StatusOpen {
				t.Errorf("a message without answers is %v", st)
			}
		}
	}
}

// TestPSNWrap runs every capture of a check with PSNs that wrap in its midst.
func TestPSNWrap(t *testing.T) {
	for _, c := range checkCases {
		if c.options.PSNA != 0 {
			continue
		}
		var first []string
		for _, start := range []dissect.PSN{0x1000, 0xFFFFFF, 0xFFFFFE, 0xFFFFFD, 0xFFFFFC, 0x7FFFFE} {
			c.options.PSNA, c.options.PSNB = start, start.Add(-1)
			s, _ := c.run()
			var found []string
			for _, f := range s.occurrences {
				found = append(found, fmt.Sprintf("%v in frame %d", f.ID, f.Frame))
			}
			for i := range s.messages {
				m := &s.messages[i]
				found = append(found, fmt.Sprintf("message %d/%v/%d: %v %v, %d of %d bytes, %d resends", m.Conn, m.Direction, m.Index, m.Op, m.Status, m.Seen, m.Bytes, m.Resends))
			}
			for i := range s.marks {
				found = append(found, fmt.Sprintf("frame %d: %v, message %d, PSN +%d, round %d", i+1, s.marks[i].text(), s.marks[i].Message, s.marks[i].PSNOffset, s.marks[i].Round))
			}
			if c.id == "psn_jump" { // to an absolute PSN
				found = found[:1]
			}
			if first == nil {
				first = found
			} else if !slices.Equal(found, first) {
				for i := range min(len(found), len(first)) {
					if found[i] != first[i] {
						t.Errorf("%s, PSNs from %#x: %s; from 0x1000: %s", c.id, uint32(start), found[i], first[i])
						break
					}
				}
			}
		}
	}
}

// TestBatchesDoNotMatter follows the same packets in batches of different
// sizes.
func TestBatchesDoNotMatter(t *testing.T) {
	check := func(t *testing.T, frames []testkit.Frame) {
		all := lookWith(Options{}, len(frames)+1, frames)
		for _, size := range []int{1, 7, 31, 32, 33, 64} {
			s := lookWith(Options{}, size, frames)
			switch {
			case !reflect.DeepEqual(s.Snapshot, all.Snapshot):
				t.Errorf("in batches of %d the snapshot differs:\n%s\nwant\n%s", size, s.describe(), all.describe())
			case !reflect.DeepEqual(s.messages, all.messages):
				t.Errorf("in batches of %d the messages differ", size)
			case !reflect.DeepEqual(s.marks, all.marks):
				t.Errorf("in batches of %d the marks differ", size)
			case !reflect.DeepEqual(s.occurrences, all.occurrences):
				t.Errorf("in batches of %d the findings differ", size)
			}
		}
	}
	for _, sample := range samples.List() {
		t.Run(sample.Name, func(t *testing.T) {
			data, err := samples.Open(sample.Name)
			if err != nil {
				t.Fatal(err)
			}
			frames, err := testkit.ParseCapture(data)
			if err != nil {
				t.Fatal(err)
			}
			check(t, frames)
		})
	}
	t.Run("the library", func(t *testing.T) {
		for _, file := range testkit.Files(t, testkit.RXE(t), "*_rc_*.pcap", "cm_*.pcap", "netem_*.pcap") {
			t.Run(filepath.Base(file), func(t *testing.T) { check(t, testkit.ReadCapture(t, file)) })
		}
	})
}

// TestSnapshotChangesNothing takes snapshots on the way.
func TestSnapshotChangesNothing(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	for _, c := range checkCases[:10] {
		c.broken(x.Beside(nil))
	}
	frames := x.Frames()
	plain := look(frames)
	tr := New(Options{})
	testkit.Batches(frames, 5, func(packets []dissect.Packet, data [][]byte) {
		tr.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
		tr.Snapshot()
	})
	tr.Finish()
	if got := tr.Snapshot(); !reflect.DeepEqual(got, plain.Snapshot) {
		t.Error("taking snapshots on the way changed the last one")
	}
}

func TestEviction(t *testing.T) {
	const most = 64
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	var all []*testkit.Exchange
	for i := range most + 10 {
		q := x.Beside(func(o *testkit.ExchangeOptions) {
			o.QPNA, o.QPNB = uint32(0x1000+i), uint32(0x2000+i)
			o.CommIDA, o.CommIDB, o.TransactionID = uint32(i+1), uint32(i+1001), uint64(i+1)
		})
		q.Connect()
		done(q)
		if len(all) > 0 {
			done(all[0]) // the first one is never idle
		}
		all = append(all, q)
	}
	open := all[1].A.Write(10) // it was evicted: this begins anew
	all[1].B.Answer(open)
	s := lookWith(Options{MaxConnections: most}, 32, x.Frames())
	if len(s.Connections) > most {
		t.Errorf("%d connections in a table for %d", len(s.Connections), most)
	}
	want(t, s, "evicted", s.Evicted, uint64(len(s.evicted)))
	if n := len(s.Connections) + len(s.evicted); n < most+10 {
		t.Errorf("%d connections in all, want at least %d", n, most+10)
	}
	for i, c := range s.evicted {
		if c.Streams[AToB].Messages[OpWrite].Completed != 1 || c.Streams[BToA].Acks == 0 || c.Evidence != ByCM {
			t.Errorf("the final record of connection %d is not whole: %+v", c.ID, c.Streams[AToB])
		}
		if c.ID == 1 {
			t.Error("the connection that was never idle is evicted")
		}
		if i > 0 && c.LastSeen < s.evicted[i-1].LastSeen {
			t.Errorf("connection %d was idle longer than %d, and is evicted later", c.ID, s.evicted[i-1].ID)
		}
	}
	want(t, s, "messages", len(s.messages), 4*(most+10)+4*(most+9)+1)
}

func TestQueuePairsUsedAgain(t *testing.T) {
	again := func(x *testkit.Exchange) *testkit.Exchange {
		return x.Beside(func(o *testkit.ExchangeOptions) {
			o.QPNA, o.QPNB = x.QPNA, x.QPNB
			o.PSNA, o.PSNB = 0x5000, 0x6000
			o.CommIDA, o.CommIDB, o.TransactionID = 0xA2, 0xB2, 2
		})
	}
	for _, c := range []struct {
		name string
		end  func(x *testkit.Exchange)
	}{
		{"behind DREQ and DREP", func(x *testkit.Exchange) { x.Disconnect() }},
		{"behind a DREQ that nobody answered", func(x *testkit.Exchange) { x.A.DREQ() }},
		{"behind crossed DREQs", func(x *testkit.Exchange) { x.A.DREQ(); x.B.DREQ(); x.A.DREP(); x.B.DREP() }},
		{"without a word", func(*testkit.Exchange) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
				begun(x)
				c.end(x)
				x.Wait(time.Second)
				begun(again(x))
			})
			want(t, s, "number of connections", len(s.Connections), 2)
			want(t, s, "findings above note", strings.Join(s.grave(), " "), "")
			for i := range s.Connections {
				want(t, s, "packets of the first direction", s.Connections[i].Streams[AToB].Packets, 4)
				want(t, s, "messages of the first direction", s.Connections[i].Streams[AToB].Messages[OpWrite].Completed, 1)
			}
			want(t, s, "first PSN of the second", uint32(s.Connections[1].A.FirstPSN), 0x5000)
		})
	}
	t.Run("late packets belong to the first", func(t *testing.T) {
		s := follow(testkit.ExchangeOptions{}, func(x *testkit.Exchange) {
			begun(x)
			m := x.A.Write(10)
			x.Disconnect()
			x.B.Answer(m)
			begun(again(x))
		})
		want(t, s, "packets of the first connection", s.Connections[0].Streams[BToA].Packets, 5)
		want(t, s, "its last message", s.of(AToB)[2], "write 10 IBV_WC_SUCCESS")
	})
}

func TestUnreliableConnection(t *testing.T) {
	s := follow(testkit.ExchangeOptions{Transport: dissect.UC}, func(x *testkit.Exchange) {
		x.Connect()
		x.A.Write(2000)
		x.A.Send(10, testkit.Imm(7))
		m := x.A.Write(3000)
		m.Packets[2].Drop()
		n := x.A.Send(3000)
		n.Packets[0].Drop()
		x.A.Write(10)
		x.A.Write(3000).Packets[2].Drop()
	})
	want(t, s, "messages", strings.Join(s.of(AToB), ", "),
		"write 2000 SENT, send 10 SENT, write 3000 SENT, send 1976 SENT, write 10 SENT, write 3000 incomplete") // what was sent behind one shows that it was sent
	st := &s.only(t).Streams[AToB]
	want(t, s, "lost packets", st.LostBeforeTap, 2)
	want(t, s, "messages with immediate data", st.Messages[OpSend].Imm, 1)
	want(t, s, "retransmissions", st.RetransmittedPackets, 0)
	for i, m := range s.messages {
		if whole := i != 2 && i != 3 && i != 5; (m.Seen == []uint64{2000, 10, 3000, 3000, 10, 3000}[i]) != whole {
			t.Errorf("of message %d, %d bytes were seen", i, m.Seen)
		}
	}
	want(t, s, "findings above note", strings.Join(s.grave(), " "), "")
}

func TestUnreliableDatagrams(t *testing.T) {
	s := follow(testkit.ExchangeOptions{Transport: dissect.UD}, func(x *testkit.Exchange) {
		for range 4 {
			x.A.Send(100)
		}
		x.A.Send(100).Packets[0].Drop()
		x.A.Send(100)
		x.A.Send(100).Packets[0].Duplicate(time.Microsecond / 2)
		x.A.Send(100).Packets[0].Delay(1500 * time.Nanosecond)
		x.A.Send(100)
		x.A.Send(100)
		other := x.Beside(func(o *testkit.ExchangeOptions) { o.QPNA = x.QPNA; o.QPNB = 0x99 }) // one QP, another peer
		other.A.Send(200)
	})
	want(t, s, "number of connections", len(s.Connections), 2)
	c := &s.Connections[0]
	want(t, s, "evidence", c.Evidence, ByDETH)
	st := &c.Streams[AToB]
	want(t, s, "messages", st.Messages[OpSend].Completed, 9)
	want(t, s, "lost", st.LostBeforeTap, 1)
	want(t, s, "copies", st.NetworkDuplicates, 1)
	want(t, s, "overtaken", st.Reordered, 1)
	want(t, s, "bytes to the other peer", s.Connections[1].Streams[AToB].Messages[OpSend].Bytes, 200)
}
