package flows

import (
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/internal/testkit"
)

// Elements of DCBX, behind LLDP's type and length (IEEE 802.1Q D.2.10, D.2.11).
var (
	pfcFor3        = []byte{0xFE, 6, 0x00, 0x80, 0xC2, 11, 0x08, 0x08}
	pfcFor3Willing = []byte{0xFE, 6, 0x00, 0x80, 0xC2, 11, 0x88, 0x08}
	pfcFor5        = []byte{0xFE, 6, 0x00, 0x80, 0xC2, 11, 0x08, 0x20}
	roceIn3        = []byte{0xFE, 8, 0x00, 0x80, 0xC2, 12, 0, 0x63, 0x12, 0xB7}
	dscp26In5      = []byte{0xFE, 11, 0x00, 0x80, 0xC2, 12, 0, 0x63, 0x12, 0xB7, 0xA5, 0x00, 26} // and RoCE v2 in 3
)

// lldpFrame is an LLDP data unit of the station that sent a frame (back: of the one that it is for).
func lldpFrame(of testkit.Frame, back bool, at time.Duration, elements ...[]byte) testkit.Frame {
	mac := of.Data[6:12]
	if back {
		mac = of.Data[:6]
	}
	b := append([]byte{1, 0x80, 0xC2, 0, 0, 0x0E}, mac...)
	b = append(b, 0x88, 0xCC, 2, 7, 4)
	b = append(append(b, mac...), 4, 3, 7, 'p', '1', 6, 2, 0, 120)
	for _, e := range elements {
		b = append(b, e...)
	}
	b = append(b, 0, 0)
	for len(b) < 60 {
		b = append(b, 0)
	}
	of.Data, of.WireLen, of.Time = b, len(b), of.Time+int64(at)
	return of
}

func TestDCBXAndPriorities(t *testing.T) {
	for _, c := range []struct {
		name string
		tci  []uint16
		dscp uint8
		own  [][]byte
		peer [][]byte
		want string // of the finding's summary, "" for none
	}{
		{name: "tagged with a priority that has PFC", tci: []uint16{3<<13 | 100}, own: [][]byte{pfcFor3}},
		{name: "tagged with another", tci: []uint16{1<<13 | 100}, own: [][]byte{pfcFor3}, want: "data in priority 1, while"},
		{name: "no tag, and nothing tells the priority", dscp: 26, own: [][]byte{pfcFor3}},
		{name: "no tag, RoCE v2 has a priority with PFC", dscp: 26, own: [][]byte{pfcFor3, roceIn3}},
		{name: "no tag, RoCE v2 has one without", dscp: 26, own: [][]byte{pfcFor5, roceIn3}, want: "data in priority 3, while"},
		{name: "the DSCP counts more than the port", dscp: 26, own: [][]byte{pfcFor5, dscp26In5}},
		{name: "willing, and no peer to say", tci: []uint16{1<<13 | 100}, own: [][]byte{pfcFor3Willing}},
		{name: "willing, the peer has another", tci: []uint16{3<<13 | 100}, own: [][]byte{pfcFor3Willing}, peer: [][]byte{pfcFor5}, want: "PFC is on for 5 only"},
		{name: "no PFC element", tci: []uint16{1<<13 | 100}, own: [][]byte{roceIn3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: c.tci, TrafficClass: c.dscp << 2})
			m := x.A.Write(100)
			x.B.Answer(m)
			frames := x.Frames()
			frames = append(frames, lldpFrame(frames[0], false, time.Millisecond, c.own...)) // behind the data: DCBX is repeated, not asked for
			if c.peer != nil {
				frames = append(frames, lldpFrame(frames[0], true, 2*time.Millisecond, c.peer...))
			}
			s := look(frames)
			f := s.finding("pfc_off")
			switch {
			case c.want == "" && f != nil:
				t.Errorf("found %q", f.Summary)
			case c.want != "" && (f == nil || !strings.Contains(f.Summary, c.want)):
				t.Errorf("found %+v, want %q", f, c.want)
			}
		})
	}
}

// How long a connection's priority was paused is told where its tag shows the priority, and where all pauses are of the
// whole link.
func TestPausedTimeOfConnections(t *testing.T) {
	for _, c := range []struct {
		name  string
		tci   []uint16
		pause func(x *testkit.Exchange)
		known bool
		want  time.Duration
	}{
		{"its priority", []uint16{3<<13 | 100}, func(x *testkit.Exchange) { x.B.PFC(map[int]uint16{3: 1000}) }, true, 5120},
		{"another priority", []uint16{4<<13 | 100}, func(x *testkit.Exchange) { x.B.PFC(map[int]uint16{3: 1000}) }, true, 0},
		{"no tag", nil, func(x *testkit.Exchange) { x.B.PFC(map[int]uint16{3: 1000}) }, false, 0},
		{"no tag, the whole link", nil, func(x *testkit.Exchange) { x.B.Pause(1000) }, true, 5120},
		{"no pause", []uint16{3<<13 | 100}, func(*testkit.Exchange) {}, false, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: c.tci})
			m := x.A.Write(10)
			c.pause(x)
			x.Wait(time.Millisecond)
			x.B.Answer(m)
			s := look(x.Frames())
			if got := s.Connections[0].Streams[0]; got.PausedKnown != c.known || got.Paused != c.want {
				t.Errorf("paused for %v, known: %v", got.Paused, got.PausedKnown)
			}
		})
	}
}
