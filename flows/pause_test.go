package flows

import (
	"strings"
	"testing"
	"time"

	"github.com/rocescope/rocescope/internal/testkit"
)

func TestPauseFrames(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{Gap: time.Nanosecond})
	const us = time.Microsecond
	x.B.PFC(map[int]uint16{3: 0xFFFF, 4: 100}) // at 100 Gb/s: 335.5 µs, 512 ns
	x.Wait(100*us - 1)
	x.B.PFC(map[int]uint16{3: 0}) // lets go after 100 µs
	x.Wait(100*us - 1)
	x.B.PFC(map[int]uint16{3: 0xFFFF})
	x.Wait(1000*us - 1) // it ends by itself
	x.A.Pause(0xFFFF)
	x.Wait(10*us - 1)
	x.A.Pause(0)
	s := look(x.Frames())
	if len(s.Pauses) != 2 {
		t.Fatalf("%d senders", len(s.Pauses))
	}
	b, a := &s.Pauses[0], &s.Pauses[1]
	full := duration(0xFFFF * 512 / 100)
	if b.PFC != 3 || b.Global != 0 || b.FirstFrame != 1 || b.MAC[0] != 2 {
		t.Errorf("%+v", b)
	}
	if q := b.Priorities[3]; q.XOFF != 2 || q.XON != 1 || q.Paused != 100*us+full || q.Longest != full || q.MaxQuanta != 0xFFFF {
		t.Errorf("priority 3: %+v", q)
	}
	if q := b.Priorities[4]; q.XOFF != 1 || q.Paused != 512 {
		t.Errorf("priority 4: %+v", q)
	}
	if q := a.Priorities[8]; a.Global != 2 || q.XOFF != 1 || q.XON != 1 || q.Paused != 10*us {
		t.Errorf("whole link: %+v", q)
	}
	if s.Protocols.PFC != 5 {
		t.Errorf("%d pause frames", s.Protocols.PFC)
	}
	if f := s.finding("pause_order"); f == nil || !strings.Contains(f.Summary, "2 stations pause") {
		t.Errorf("%+v", f)
	}
}

// TestLinkSpeed: how long a pause lasts hangs on the link's speed.
func TestLinkSpeed(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	x.B.PFC(map[int]uint16{3: 1000})
	x.Wait(time.Second)
	x.A.Write(10)
	for speed, want := range map[uint64]time.Duration{0: 5120, 10e9: 51200, 400e9: 1280} {
		s := lookWith(Options{LinkSpeed: speed}, 64, x.Frames())
		if got := s.Pauses[0].Priorities[3].Paused; got != want {
			t.Errorf("%d bit/s: paused for %v, want %v", speed, got, want)
		}
	}
}

func TestPauseChecks(t *testing.T) {
	tagged := testkit.ExchangeOptions{VLANs: []uint16{3<<13 | 100}}
	storm := func(xon bool) func() *testkit.Exchange {
		return func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 2)
			for range 20 {
				x.B.PFC(map[int]uint16{3: 0xFFFF})
				if xon {
					x.B.PFC(map[int]uint16{3: 0})
				}
				x.Wait(300 * time.Microsecond)
			}
			return x
		}
	}
	busy := func(priority int, wait time.Duration, o testkit.ExchangeOptions) func() *testkit.Exchange {
		return func() *testkit.Exchange {
			x := testkit.NewExchange(o)
			chat(x, 3)
			x.B.PFC(map[int]uint16{priority: 0xFFFF})
			x.Wait(wait)
			chat(x, 3)
			return x
		}
	}
	tests := []struct {
		name, id, text string
		write          func() *testkit.Exchange
		none           bool
	}{
		{"storm", "pause_storm", "priority 3: paused for", storm(false), false},
		{"XOFF and XON in turn are no storm", "pause_storm", "", storm(true), true},
		{"data in spite of PFC", "pause_not_honoured", "priority 3: 3 packets came while it was paused", busy(3, 50*time.Microsecond, tagged), false},
		{"data of another priority", "pause_not_honoured", "", busy(4, 50*time.Microsecond, tagged), true},
		{"data whose priority does not show", "pause_not_honoured", "", busy(3, 50*time.Microsecond, testkit.ExchangeOptions{}), true},
		{"data when the pause is over", "pause_not_honoured", "", busy(3, 400*time.Microsecond, tagged), true},
		{"data that was under way", "pause_not_honoured", "", func() *testkit.Exchange {
			x := testkit.NewExchange(tagged)
			chat(x, 3)
			x.B.PFC(map[int]uint16{3: 0xFFFF})
			x.A.Write(1000)
			return x
		}, true},
		{"untagged data in spite of a pause of the whole link", "pause_not_honoured", "whole link: 3 packets", func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			chat(x, 3)
			x.B.Pause(0xFFFF)
			x.Wait(50 * time.Microsecond)
			chat(x, 3)
			return x
		}, false},
		{"data while a switch paused, nobody knows whom", "pause_unclear", "3 packets from 02:00:0a:00:00:01", func() *testkit.Exchange {
			x := testkit.NewExchange(tagged)
			chat(x, 3)
			p := x.B.PFC(map[int]uint16{3: 0xFFFF})
			copy(p.Data[6:], []byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55})
			x.Wait(50 * time.Microsecond)
			for range 3 {
				x.A.Write(10)
			}
			return x
		}, false},
		{"frame cut short", "pause_malformed", "cut short", func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			p := x.B.PFC(map[int]uint16{3: 1})
			p.Data = p.Data[:24]
			p.WireLen = 24
			return x
		}, false},
		{"reserved bits", "pause_malformed", "reserved bits", func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.B.PFC(map[int]uint16{3: 1}).Data[16] = 0x80
			return x
		}, false},
		{"cut by the capture", "pause_malformed", "", func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.B.PFC(map[int]uint16{3: 1}).Snap(24)
			return x
		}, true},
		{"wrong address", "pause_malformed", "wrong address", func() *testkit.Exchange {
			x := testkit.NewExchange(testkit.ExchangeOptions{})
			x.B.PFC(map[int]uint16{3: 1}).Data[5] = 2
			return x
		}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := look(test.write().Frames())
			f := s.finding(test.id)
			switch {
			case test.none && f != nil:
				t.Errorf("found: %s", f.Summary)
			case !test.none && f == nil:
				t.Errorf("not found:\n%s", s.describe())
			case !test.none && !strings.Contains(f.Summary, test.text):
				t.Errorf("%q lacks %q", f.Summary, test.text)
			}
		})
	}
}

// TestPausedBySwitch: where all data is one station's, a switch's pause is for
// that station.
func TestPausedBySwitch(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{VLANs: []uint16{3<<13 | 100}})
	y := x.Beside(func(o *testkit.ExchangeOptions) { o.B = "10.0.0.3" })
	pause := func() {
		p := x.B.PFC(map[int]uint16{3: 0xFFFF})
		copy(p.Data[6:], []byte{0x00, 0x11, 0x22, 0x33, 0x44, 0x55})
	}
	pause()
	x.Wait(time.Millisecond)
	chat(x, 2)
	chat(y, 2)
	x.Wait(time.Millisecond)
	pause()
	x.Wait(50 * time.Microsecond)
	x.A.Write(10)
	x.B.Ack(0, 1) // comes from the switch
	s := look(x.Frames())
	if f := s.finding("pause_not_honoured"); f == nil || f.Count != 1 || !strings.HasPrefix(f.Summary, "00:11:22:33:44:55, priority 3: 1 packet") {
		t.Errorf("%+v", f)
	}
}
