package flows

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// shareOut tracks frames by n trackers, each with the pairs of addresses that owner gives it.
func shareOut(frames []testkit.Frame, o Options, n int, owner func(a, b dissect.Addr) int) []*Tracker {
	parts := make([]*Tracker, n)
	packets, data := testkit.Decode(frames)
	for k := range parts {
		o.Share = &Share{Index: k, Of: n, Owner: owner}
		t := New(o)
		newest := int64(0)
		var b Batch
		for i := range packets {
			newest = max(newest, packets[i].Time)
			src, dst, plain := dissect.Between(frames[i].Link, frames[i].Data)
			if plain && owner(src, dst) != k {
				continue
			}
			b.Packets, b.Data = append(b.Packets, packets[i]), append(b.Data, data[i])
			b.Newest, b.Common = append(b.Newest, newest), append(b.Common, !plain)
		}
		b.Marks = make([]Mark, len(b.Packets))
		t.Track(&b)
		t.Reach(newest)
		t.Finish()
		parts[k] = t
	}
	return parts
}

// byHost has each tracker follow hosts by the last but one byte of their addresses.
func byHost(n int) func(a, b dissect.Addr) int {
	return func(a, _ dissect.Addr) int { return int(a.Lo>>8&0xFF) % n }
}

// TestTogether: several trackers know together what one knows, of pairs of hosts with all that may befall them.
func TestTogether(t *testing.T) {
	all := testkit.Pairs(9)
	for i, x := range all {
		switch i % 3 {
		case 0:
			x.Connect()
		case 1:
			x.Perftest()
		}
	}
	for round := range 20 {
		for i, x := range all {
			switch m := x.A.Write(3000); (i + round) % 7 {
			case 1: // lost, and asked for
				m.Packets[1].Drop()
				x.B.NAK(m.First.Add(1), dissect.NAKSequence)
				m.ResendFrom(1)
				x.B.Answer(m)
			case 2: // damaged, and sent again
				m.Packets[0].BreakICRC()
				x.Wait(time.Millisecond)
				m.ResendFrom(0)
				x.B.Answer(m)
			case 3: // not ready
				x.B.RNR(m.First, 1)
				m.ResendFrom(0)
				x.B.Answer(m)
			case 4: // marked
				m.Packets[2].MarkCE()
				x.B.CNP()
				x.B.Answer(m)
			case 5: // a copy
				m.Packets[0].Duplicate(time.Microsecond)
				x.B.Answer(m)
			default:
				x.B.Answer(m)
			}
		}
	}
	all[0].Disconnect()
	late := all[3].Beside(func(o *testkit.ExchangeOptions) { o.QPNA, o.QPNB = 0x301, 0x302 })
	late.Connect() // and no data
	frames := all[0].Frames()
	for _, o := range []Options{{}, {Series: true, MaxDetails: 4}, {MaxDetails: -1}} {
		one := New(o)
		testkit.Batches(frames, 64, func(packets []dissect.Packet, data [][]byte) {
			one.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
		})
		one.Finish()
		want := one.Snapshot()
		if len(want.Connections) < 10 || len(want.Findings) < 20 {
			t.Fatalf("%d connections, %d findings", len(want.Connections), len(want.Findings))
		}
		for _, n := range []int{1, 2, 3, 9} {
			got, crossed := Together(shareOut(frames, o, n, byHost(n)))
			if diff := cmp.Diff(want, got); diff != "" || crossed != "" {
				t.Errorf("%d trackers, %q:\n%.3000s", n, crossed, diff)
			}
		}
	}
}

// TestSharesGrantWhatIsScarce: fine histograms go to the first of the capture, whichever tracker has them.
func TestSharesGrantWhatIsScarce(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{A: "10.0.1.1", B: "10.0.1.2"})
	x.Connect()
	x.B.Answer(x.A.Write(8))
	for i := range 2 * maxFine {
		y := x.Beside(func(o *testkit.ExchangeOptions) {
			o.A, o.B, o.QPNA, o.QPNB = fmt.Sprintf("10.0.%d.1", i%7), fmt.Sprintf("10.0.%d.2", i%7), uint32(0x1000+2*i), uint32(0x1001+2*i)
		})
		y.Connect()
		y.B.Answer(y.A.Write(8))
	}
	got, crossed := Together(shareOut(x.Frames(), Options{}, 2, byHost(2)))
	if crossed != "" {
		t.Fatal(crossed)
	}
	fine := 0
	for i := range got.Connections {
		c := &got.Connections[i]
		if c.ID != uint32(i+1) {
			t.Fatalf("connection %d has number %d", i, c.ID)
		}
		if l := c.Streams[AToB].Latency; l.Count > 0 && !l.Coarse {
			if fine++; i >= maxFine {
				t.Errorf("connection %d has a fine histogram", c.ID)
			}
		}
	}
	if fine != maxFine {
		t.Errorf("%d fine histograms, want %d", fine, maxFine)
	}
}

// TestSharesKnowTheirBounds: where a bound of the capture may have been met, trackers do not speak for it.
func TestSharesKnowTheirBounds(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{A: "10.0.1.1", B: "10.0.1.2"})
	y := x.Beside(func(o *testkit.ExchangeOptions) { o.A, o.B = "10.0.2.1", "10.0.2.2" })
	for range 4 {
		x.A.Write(8).Packets[0].BreakICRC()
		y.A.Write(8).Packets[0].BreakICRC()
	}
	frames := slices.Clone(x.Frames())
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, ""},
		{Options{MaxConnections: 15}, "too many connections"},
		{Options{MaxFindings: 1}, "a table that is full"},
	} {
		if _, crossed := Together(shareOut(frames, c.o, 2, byHost(2))); crossed != c.want {
			t.Errorf("%+v: %q, want %q", c.o, crossed, c.want)
		}
	}
}

// TestSharesGrantAtTheEnd: connections whose other side only the end of the capture tells get what is scarce behind all others, in
// the order in which packets showed them.
func TestSharesGrantAtTheEnd(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{A: "10.0.1.1", B: "10.0.1.2"})
	all := []*testkit.Exchange{x}
	for i := range 11 {
		all = append(all, x.Beside(func(o *testkit.ExchangeOptions) {
			o.A, o.B, o.QPNA, o.QPNB = fmt.Sprintf("10.0.%d.1", i*5%7), fmt.Sprintf("10.0.%d.2", i*5%7), uint32(0x1000+2*i), uint32(0x1001+2*i)
		}))
	}
	for _, y := range all { // too few answers for a pair before the end
		y.A.Write(8)
	}
	for _, y := range all[4:] {
		y.B.Ack(y.A.Next.Add(-1), 1)
	}
	all[9].B.Write(8)
	frames := x.Frames()
	for most := 1; most <= 12; most++ {
		o := Options{MaxDetails: most}
		one := New(o)
		testkit.Batches(frames, 64, func(packets []dissect.Packet, data [][]byte) {
			one.Track(&Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
		})
		one.Finish()
		for _, n := range []int{2, 3} {
			got, crossed := Together(shareOut(frames, o, n, byHost(n)))
			if diff := cmp.Diff(one.Snapshot(), got); diff != "" || crossed != "" {
				t.Errorf("%d details, %d trackers, %q:\n%.2000s", most, n, crossed, diff)
			}
		}
	}
}
