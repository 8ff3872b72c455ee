package flows

import (
	"fmt"
	"testing"

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

// The snapshot has the connections, the sink the messages, and the packets are
// counted as iWARP's.
func TestIWARPInTracker(t *testing.T) {
	x := plainIWARP()
	x.fpdu(0, sends(1, 100))
	x.fpdu(1, testkit.Tagged(0, true, 0x77, 0x1000, make([]byte, 500)))
	run := look(x.Frames)
	var got []string
	for _, m := range run.iwarp {
		got = append(got, fmt.Sprintf("%v %d %v", m.Op, m.Length, m.Status))
	}
	if fmt.Sprint(got) != "[send 100 done write 500 done]" {
		t.Errorf("messages %v", got)
	}
	if n := run.Protocols.IWARP; n != uint64(len(x.Frames)-3) { // the handshake is before the first sign of iWARP
		t.Errorf("%d packets of iWARP", n)
	}
	if len(run.IWARP) != 1 || run.IWARP[0].Streams[iwarp.BToA].Messages[iwarp.Write].Bytes != 500 {
		t.Errorf("%+v", run.IWARP)
	}
}
