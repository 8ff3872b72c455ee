package flows

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows/iwarp"
	"github.com/rocescope/rocescope/internal/testkit"
)

// iwarpTalk is an iWARP connection in the making: both sides' FPDUs.
type iwarpTalk struct {
	*testkit.Duplex
	mpa [2]testkit.MPA
}

// iwarpOpen connects: flags of both start-up frames, revision 2 with IRD and
// ORD where they are enhanced.
func iwarpOpen(flags byte, private [2][]byte) *iwarpTalk {
	x := &iwarpTalk{Duplex: testkit.NewDuplex()}
	for side, kind := range []string{"Req", "Rep"} {
		x.mpa[side] = testkit.MPA{Markers: flags&0x80 != 0, CRC: flags&0x40 != 0}
		x.Send(side, testkit.MPAFrame(kind, flags, 2, private[side]))
		x.Ack(1 - side)
	}
	return x
}

// depths is the private data of an enhanced start-up frame.
func depths(ird, ord byte) []byte { return []byte{0, ird, 0, ord} }

func plainIWARP() *iwarpTalk { return iwarpOpen(0, [2][]byte{}) }

// fpdu sends ULPDUs of a side, each in its segment, and returns the place of the
// last one.
func (x *iwarpTalk) fpdu(side int, ulpdus ...[]byte) (at int) {
	for _, u := range ulpdus {
		at = x.Send(side, x.mpa[side].FPDU(u))
		x.Ack(1 - side)
	}
	return at
}

func sends(msn uint32, n int) []byte { return testkit.Untagged(3, true, 0, 0, msn, 0, make([]byte, n)) }

func answer(stag uint32, to uint64, n int) []byte {
	return testkit.Tagged(2, true, stag, to, make([]byte, n))
}

// damaged flips a bit of an FPDU's data.
func damaged(fpdu []byte) []byte {
	fpdu[len(fpdu)-6] ^= 0x10
	return fpdu
}

const (
	aToB = "10.0.0.1:40000 → 10.0.0.2:7174"
	bToA = "10.0.0.2:7174 → 10.0.0.1:40000"
)

// iwarpCases are captures that prove each check of iWARP, and healthy ones that
// are as like them as can be.
var iwarpCases = []struct {
	id      string
	broken  func() (x *iwarpTalk, at int)
	fine    func() *iwarpTalk
	summary string
	besides []string
}{
	{
		id: "iwarp_crc", summary: "1 FPDU with a wrong CRC-32C, " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := iwarpOpen(0x40, [2][]byte{})
			x.fpdu(0, sends(1, 20))
			at := x.Send(0, damaged(x.mpa[0].FPDU(sends(2, 20))))
			x.fpdu(0, sends(3, 20))
			return x, at
		},
		fine: func() *iwarpTalk {
			x := iwarpOpen(0x40, [2][]byte{})
			x.fpdu(0, sends(1, 20), sends(2, 20), sends(3, 20))
			return x
		},
	},
	{
		id: "iwarp_marker", summary: "a marker says that its FPDU begins 90 bytes back, it is 508, " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := iwarpOpen(0x80, [2][]byte{})
			b := x.mpa[0].FPDU(sends(1, 1000))
			b[515] = 90
			b[514] = 0
			return x, x.Send(0, b)
		},
		fine: func() *iwarpTalk {
			x := iwarpOpen(0x80, [2][]byte{})
			x.fpdu(0, sends(1, 1000), sends(2, 600))
			return x
		},
	},
	{
		id: "iwarp_start_up", summary: "reserved bits are set (flags 0x04), " + aToB,
		broken: func() (*iwarpTalk, int) { x := iwarpOpen(4, [2][]byte{}); return x, 3 },
		fine:   plainIWARP,
	},
	{
		id: "iwarp_depths", summary: "the reply asks for 9 READs open, the initiator serves 8, " + bToA,
		broken: func() (*iwarpTalk, int) { return iwarpOpen(0x10, [2][]byte{depths(8, 4), depths(4, 9)}), 5 },
		fine:   func() *iwarpTalk { return iwarpOpen(0x10, [2][]byte{depths(8, 4), depths(4, 8)}) },
	},
	{
		id: "iwarp_header", summary: "the RDMAP version is not 1 (control word 0x4183), " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := iwarpOpen(0x40, [2][]byte{})
			u := sends(1, 8)
			u[1] = 0x83
			return x, x.fpdu(0, u)
		},
		fine: func() *iwarpTalk { x := iwarpOpen(0x40, [2][]byte{}); x.fpdu(0, sends(1, 8)); return x },
	},
	{
		id: "iwarp_msn", summary: "message 3 of queue 0 where 2 was due, " + aToB,
		broken: func() (*iwarpTalk, int) { x := plainIWARP(); x.fpdu(0, sends(1, 8)); return x, x.fpdu(0, sends(3, 8)) },
		fine:   func() *iwarpTalk { x := plainIWARP(); x.fpdu(0, sends(1, 8), sends(2, 8)); return x },
	},
	{
		id: "iwarp_segment", summary: "a segment of a Write has offset 4000 where 3100 was due, " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, testkit.Tagged(0, false, 5, 3000, make([]byte, 100)))
			return x, x.fpdu(0, testkit.Tagged(0, true, 5, 4000, make([]byte, 100)))
		},
		fine: func() *iwarpTalk {
			x := plainIWARP()
			x.fpdu(0, testkit.Tagged(0, false, 5, 3000, make([]byte, 100)), testkit.Tagged(0, true, 5, 3100, make([]byte, 100)))
			return x
		},
	},
	{
		id: "iwarp_read_response", summary: "60 bytes for STag 0x7 at 0x10 were not asked for, " + bToA,
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, testkit.ReadRequest(1, 7, 0x10, 64, 9, 0))
			return x, x.fpdu(1, answer(7, 0x10, 60))
		},
		fine: func() *iwarpTalk {
			x := plainIWARP()
			x.fpdu(0, testkit.ReadRequest(1, 7, 0x10, 64, 9, 0))
			x.fpdu(1, answer(7, 0x10, 64))
			return x
		},
	},
	{
		id: "iwarp_read_order", summary: "the READ into STag 0x8 was answered before 1 request in front of it, " + bToA,
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, testkit.ReadRequest(1, 7, 0, 64, 9, 0), testkit.ReadRequest(2, 8, 0, 32, 9, 0))
			return x, x.fpdu(1, answer(8, 0, 32))
		},
		fine: func() *iwarpTalk {
			x := plainIWARP()
			x.fpdu(0, testkit.ReadRequest(1, 7, 0, 64, 9, 0), testkit.ReadRequest(2, 8, 0, 32, 9, 0))
			x.fpdu(1, answer(7, 0, 64), answer(8, 0, 32))
			return x
		},
	},
	{
		id: "iwarp_read_depth", summary: "3 READs and atomics open, the other side serves 2, " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := iwarpOpen(0x10, [2][]byte{depths(2, 2), depths(2, 2)})
			x.fpdu(0, testkit.ReadRequest(1, 7, 0, 64, 9, 0), testkit.ReadRequest(2, 8, 0, 32, 9, 0))
			return x, x.fpdu(0, testkit.ReadRequest(3, 9, 0, 32, 9, 0))
		},
		fine: func() *iwarpTalk {
			x := iwarpOpen(0x10, [2][]byte{depths(2, 2), depths(2, 2)})
			x.fpdu(0, testkit.ReadRequest(1, 7, 0, 64, 9, 0), testkit.ReadRequest(2, 8, 0, 32, 9, 0))
			x.fpdu(1, answer(7, 0, 64))
			x.fpdu(0, testkit.ReadRequest(3, 9, 0, 32, 9, 0))
			return x
		},
	},
	{
		id: "iwarp_spoke_first", summary: "the responder sent an FPDU before the initiator did, " + bToA,
		broken: func() (*iwarpTalk, int) { x := plainIWARP(); return x, x.fpdu(1, sends(1, 8)) },
		fine:   func() *iwarpTalk { x := plainIWARP(); x.fpdu(0, sends(1, 8)); x.fpdu(1, sends(1, 8)); return x },
	},
	{
		id: "iwarp_after_terminate", summary: "1 FPDU behind a Terminate message, " + aToB, besides: []string{"iwarp_terminated"},
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, sends(1, 8), testkit.Untagged(7, true, 0, 2, 1, 0, []byte{0x01, 0x02, 0, 0}))
			return x, x.fpdu(0, sends(2, 8))
		},
		fine: func() *iwarpTalk {
			x := plainIWARP()
			x.fpdu(0, sends(1, 8), testkit.Untagged(7, true, 0, 2, 1, 0, []byte{0x01, 0x02, 0, 0}))
			return x
		},
	},
	{
		id: "iwarp_terminated", summary: "terminated: RDMAP: remote protection error: access rights violation, told by " + bToA,
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, sends(1, 8))
			return x, x.fpdu(1, testkit.Untagged(7, true, 0, 2, 1, 0, []byte{0x01, 0x02, 0, 0}))
		},
		fine: func() *iwarpTalk { x := plainIWARP(); x.fpdu(0, sends(1, 8)); x.Close(1); return x },
	},
	{
		id: "iwarp_rejected", summary: "an MPA reply refuses the connection, " + bToA,
		broken: func() (*iwarpTalk, int) {
			x := &iwarpTalk{Duplex: testkit.NewDuplex()}
			x.Send(0, testkit.MPAFrame("Req", 0, 1, nil))
			return x, x.Send(1, testkit.MPAFrame("Rep", 0x20, 1, []byte("no")))
		},
		fine: plainIWARP,
	},
	{
		id: "iwarp_capture_loss", summary: "48 bytes are missing in the capture in 2 places, " + aToB,
		broken: func() (*iwarpTalk, int) {
			x := plainIWARP()
			x.fpdu(0, sends(1, 0))
			at := 0
			for i := range uint32(2) {
				gone := x.fpdu(0, sends(2+2*i, 0))
				x.Frames = append(x.Frames[:gone], x.Frames[gone+1:]...)
				n := x.fpdu(0, sends(3+2*i, 8))
				if i == 0 {
					at = n
				}
			}
			return x, at
		},
		fine: func() *iwarpTalk { x := plainIWARP(); x.fpdu(0, sends(1, 0), sends(2, 0), sends(3, 8)); return x },
	},
}

func TestIWARPChecks(t *testing.T) {
	tested := map[string]bool{}
	for _, c := range iwarpCases {
		tested[c.id] = true
		t.Run(c.id, func(t *testing.T) {
			x, at := c.broken()
			s := look(x.Frames)
			f := s.finding(c.id)
			if f == nil {
				t.Fatalf("not found\n%s", s.describe())
			}
			if f.Summary != c.summary || f.Frame != uint64(at+1) {
				t.Errorf("frame %d: %q, want %d: %q", f.Frame, f.Summary, at+1, c.summary)
			}
			var want []string
			if f.Severity() > Note {
				want = append(want, c.id)
			}
			want = append(want, c.besides...)
			if got := s.grave(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("the findings above note are %v, want %v", got, want)
			}
			if s := look(c.fine().Frames); s.finding(c.id) != nil {
				t.Errorf("found in a healthy capture too\n%s", s.describe())
			}
		})
	}
	for _, id := range iwarpFindings {
		if !tested[id.String()] {
			t.Errorf("%v has no test", id)
		}
	}
}

// The snapshot has the connections, the sink the messages in the form of all
// messages, and the packets are counted as iWARP's.
func TestIWARPInTracker(t *testing.T) {
	x := plainIWARP()
	x.fpdu(0, sends(1, 100))
	x.fpdu(1, testkit.Tagged(0, true, 0x77, 0x1000, make([]byte, 500)))
	x.fpdu(0, testkit.ReadRequest(1, 7, 0x10, 64, 9, 0x20))
	x.fpdu(1, answer(7, 0x10, 64))
	swap := make([]byte, 52)
	swap[3], swap[7], swap[11], swap[19], swap[27], swap[43] = 2, 77, 5, 8, 3, 4
	x.fpdu(0, testkit.Untagged(10, true, 0, 1, 2, 0, swap))
	x.fpdu(1, testkit.Untagged(11, true, 0, 3, 1, 0, []byte{0, 0, 0, 77, 0, 0, 0, 0, 0, 0, 0, 4}))
	x.fpdu(0, testkit.Untagged(4, true, 0xDEAD, 0, 2, 0, []byte{1}), testkit.Untagged(9, true, 0, 0, 3, 0, []byte{0, 0, 0, 0, 0, 0, 1, 2}))
	x.fpdu(1, testkit.Untagged(7, true, 0, 2, 1, 0, []byte{0x01, 0x02, 0, 0}))
	run := look(x.Frames)
	const begun = 1e18
	want := []string{
		"1 a_to_b 0 send 100 of 100, 0x0 at 0x0, IBV_WC_SUCCESS 8-8-9, 1µs",
		"1 b_to_a 0 write 500 of 500, 0x77 at 0x1000, IBV_WC_SUCCESS 10-10-11, 1µs",
		"1 a_to_b 1 read 64 of 64, 0x9 at 0x20, IBV_WC_SUCCESS 12-12-14, 2µs",
		"1 a_to_b 2 compare_swap 8 of 8, 0x5 at 0x8, IBV_WC_SUCCESS 16-16-18, 2µs, compare 4 swap 3 original 4",
		"1 a_to_b 3 send 1 of 1, 0x0 at 0x0, IBV_WC_SUCCESS 20-20-21, 1µs, invalidates 0xdead",
		"1 a_to_b 4 immediate 8 of 8, 0x0 at 0x0, IBV_WC_SUCCESS 22-22-23, 1µs, immediate 0x102",
		"1 b_to_a 1 terminate 4 of 4, 0x0 at 0x0, IBV_WC_SUCCESS 24-24-25, 1µs",
	}
	var got []string
	for i := range run.iwarp {
		m := &run.iwarp[i]
		lat, _ := m.Latency()
		text := fmt.Sprintf("%d %v %d %v %d of %d, 0x%x at 0x%x, %v %d-%d-%d, %v", m.Conn, m.Direction, m.Index, m.Op, m.Seen, m.Bytes, m.RKey, m.VA, m.Status, m.FirstFrame, m.LastFrame, m.AnswerFrame, lat)
		switch {
		case m.HasOrig:
			text += fmt.Sprintf(", compare %d swap %d original %d", m.Compare, m.Swap, m.Orig)
		case m.Flags&dissect.WithInv != 0:
			text += fmt.Sprintf(", invalidates 0x%x", m.Imm)
		case m.Op == OpImmediate:
			text += fmt.Sprintf(", immediate 0x%x", m.IWARP.Immediate)
		}
		got = append(got, text)
		if r := m.IWARP; m.Op == OpRead && (r.SinkSTag != 7 || r.SinkOffset != 0x10) {
			t.Errorf("the READ goes to %x at %x", r.SinkSTag, r.SinkOffset)
		}
		if m.FirstSeen != begun+int64(m.FirstFrame-1)*1000 || m.Completed != begun+int64(m.AnswerFrame-1)*1000 || m.Op.String() == "unknown" {
			t.Errorf("%s: from %d to %d", text, m.FirstSeen, m.Completed)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("messages (-want +got):\n%s", diff)
	}
	if n := run.Protocols.IWARP; n != uint64(len(x.Frames)-3) { // the handshake is before the first sign of iWARP
		t.Errorf("%d packets of iWARP", n)
	}
	if len(run.IWARP) != 1 || run.IWARP[0].Streams[iwarp.BToA].Messages[iwarp.Write].Bytes != 500 {
		t.Errorf("%+v", run.IWARP)
	}
}

// Connections of iWARP and of queue pairs have numbers of one row, so that a
// message's number of its connection is that of one only.
func TestIWARPNumbers(t *testing.T) {
	roce, x := testkit.NewExchange(testkit.ExchangeOptions{}), plainIWARP()
	roce.Connect()
	x.fpdu(0, sends(1, 100))
	run := look(append(x.Frames, roce.Frames()...))
	if len(run.IWARP) != 1 || len(run.Connections) != 1 || run.IWARP[0].ID != 1 || run.Connections[0].ID != 2 {
		t.Errorf("%d and %d connections: %+v, %+v", len(run.IWARP), len(run.Connections), run.IWARP, run.Connections)
	}
}
