package flows

import (
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// send and read are short for what conversations consist of here.
func send(size int) testkit.SimOp {
	return testkit.SimOp{Family: dissect.Send, Size: size, Imm: true}
}

func read(size int) testkit.SimOp { return testkit.SimOp{Family: dissect.Read, Size: size} }

// TestCoincidences: what one fault does while another is made good, or just
// then, in conversations that misled the tracker before.
func TestCoincidences(t *testing.T) {
	for _, c := range []struct {
		name   string
		o      testkit.SimOptions
		copies uint64
		lost   uint64 // before the tap, of A's requests
	}{
		{
			name: "a READ is one packet, and so is its loss",
			o: testkit.SimOptions{
				ExchangeOptions: testkit.ExchangeOptions{MTU: 256},
				Ops:             [2][]testkit.SimOp{{send(0), send(0), read(513), send(0)}},
				Latency:         [2]time.Duration{100, 100}, Window: 16, Depth: 1, AckMessages: 1, Retries: 16,
				Faults: []testkit.SimFault{{From: testkit.A, Nth: 0, Kind: testkit.Lose}, {From: testkit.A, Nth: 6, Kind: testkit.Lose}},
			},
			lost: 2,
		},
		{
			name: "its requester goes back once more while answers arrive: not a copy",
			o: testkit.SimOptions{
				ExchangeOptions: testkit.ExchangeOptions{MTU: 2048, FixedIPID: true},
				Ops:             [2][]testkit.SimOp{{read(0), send(0), {Family: dissect.FetchAdd}, send(2225)}},
				Latency:         [2]time.Duration{100, 100}, Window: 4, Depth: 2, AckMessages: 1,
				Faults: []testkit.SimFault{{From: testkit.B, Nth: 0, Kind: testkit.Lose}},
			},
		},
		{
			name: "late, right behind the NAK that asks for it, and then sent again: not lost",
			o: testkit.SimOptions{
				ExchangeOptions: testkit.ExchangeOptions{MTU: 256},
				Ops:             [2][]testkit.SimOp{{send(257)}, {send(0), send(0)}},
				Latency:         [2]time.Duration{127, 100}, Window: 4, Depth: 1, AckMessages: 1,
				Faults: []testkit.SimFault{{From: testkit.A, Nth: 0, Kind: testkit.Reorder, By: 2}},
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			announced(&c.o)
			x := run(c.o)
			d := AToB
			if x.side(d) != testkit.A {
				d = BToA
			}
			s := &x.c.Streams[d]
			if list := append(x.wrong(), x.wrongMessages()...); len(list) > 0 || s.LostBeforeTap != c.lost || s.NetworkDuplicates != c.copies {
				t.Errorf("lost %d, want %d; copies %d, want %d\n%s", s.LostBeforeTap, c.lost, s.NetworkDuplicates, c.copies, x.describe(list))
			}
		})
	}
}

// TestPairingCrossed: of two connections that begin with the same PSN the
// capture has one request and all answers each. The four streams fit each other
// crosswise as well as they fit rightly.
func TestPairingCrossed(t *testing.T) {
	var captures [][]testkit.Frame
	for i, missed := range []testkit.Side{testkit.A, testkit.B} {
		o := testkit.SimOptions{
			ExchangeOptions: testkit.ExchangeOptions{MTU: 256, QPNA: uint32(0x11 + i), QPNB: uint32(0x21 + i)},
			Ops:             [2][]testkit.SimOp{{send(0)}, {send(0)}},
			Latency:         [2]time.Duration{100, 100}, Window: 1, Depth: 1, AckMessages: 1,
			Faults: []testkit.SimFault{{From: missed, Nth: 0, Kind: testkit.Miss}},
		}
		captures = append(captures, testkit.Simulate(o).Frames)
	}
	s := look(together(captures...))
	if len(s.Connections) != 4 {
		t.Fatalf("%d streams, want four\n%s", len(s.Connections), s.describe())
	}
	for i := range s.Connections {
		if c := &s.Connections[i]; c.A.Known && c.B.Known || c.Evidence == Inferred {
			t.Errorf("%v of %v and %v", c.Evidence, c.A, c.B)
		}
	}
}
