package stream

import (
	"context"
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// liveConfig is a stream of one operation.
func liveConfig(t *testing.T, op string, size uint32, change func(*Config)) Config {
	t.Helper()
	o, err := ParseOp(op, dissect.RC)
	if err != nil {
		t.Fatal(err)
	}
	c := Config{
		Outer: dissect.Outer{
			DstMAC: [6]byte{2, 0, 0, 0, 0, 2}, SrcMAC: [6]byte{2, 0, 0, 0, 0, 1},
			Src: netip.MustParseAddr("10.9.0.1"), Dst: netip.MustParseAddr("10.9.0.2"), TrafficClass: 0x6A,
		},
		Mix: []Op{o}, Size: Size(size), QPs: 5, LocalQPN: Steps(0x20, 1), DestQPN: Steps(0x100, 3), PSN: Steps(0xFFFFF0, 5),
		RKey: Steps(0x1234, 7), VA: Steps(0x7F00_0000_0000, 1<<32), Count: 40, Region: 1 << 16, Seed: 9,
	}
	if change != nil {
		change(&c)
	}
	return c
}

// byMemory collects what a stream sends over an ordinary port.
func byMemory(t *testing.T, c Config) (frames [][]byte, r *Result) {
	t.Helper()
	a, b := port.Pair(port.MemoryOptions{})
	defer a.Close()
	defer b.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		in := make([]port.In, 64)
		for {
			n, err := b.Receive(in)
			for _, f := range in[:n] {
				frames = append(frames, append([]byte(nil), f.Data...))
			}
			if err != nil {
				return
			}
			if n == 0 && b.Wait(time.Second) != nil {
				return
			}
		}
	}()
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	if r, err = s.Run(context.Background(), []port.Port{sendOnly{a}}); err != nil {
		t.Fatal(err)
	}
	a.Close()
	<-done
	return frames, r
}

// sendOnly is a port to which nothing comes back.
type sendOnly struct{ port.Port }

func (p sendOnly) Info() port.Info {
	i := p.Port.Info()
	i.Receives = false
	return i
}

// TestLiveIsTheSame: by live frames a stream sends byte for byte what it sends over any port, and accounts for it alike.
func TestLiveIsTheSame(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	var in port.Port
	lab.B.Do(func() {
		ports, err := port.OpenXDP(port.Options{Interface: lab.B.Iface, Queues: 1})
		if err != nil {
			t.Error(err)
			return
		}
		in = ports[0]
	})
	if in == nil {
		t.FailNow()
	}
	defer in.Close()
	zero, err := Named("zero")
	if err != nil {
		t.Fatal(err)
	}
	zeros := func(c *Config) { c.Payload = zero }
	for _, c := range []Config{
		liveConfig(t, "write", 1000, nil),
		liveConfig(t, "write", 1000, func(c *Config) { c.Access = Ring }),
		liveConfig(t, "write", 1000, func(c *Config) { c.Access = Random }),
		liveConfig(t, "write", 2000, zeros),
		liveConfig(t, "write-imm", 5000, zeros),
		liveConfig(t, "write-imm", 10, nil),
		liveConfig(t, "write", 4097, func(c *Config) { c.Payload, c.Interleave = zero, true }),
		liveConfig(t, "send", 3000, zeros),
		liveConfig(t, "send-imm", 3000, func(c *Config) { c.Payload, c.Interleave = zero, true }),
		liveConfig(t, "send-inv", 100, nil),
		liveConfig(t, "read", 10000, func(c *Config) { c.Access = Ring }),
		liveConfig(t, "fetch-add", 0, func(c *Config) { c.Access = Random }),
		liveConfig(t, "write@uc", 300, func(c *Config) { c.Outer.VLANs = []uint16{0x6007} }),
		liveConfig(t, "send@ud", 300, func(c *Config) {
			c.Outer.Src, c.Outer.Dst = netip.MustParseAddr("fd00::1"), netip.MustParseAddr("fd00::2")
		}),
	} {
		want, first := byMemory(t, c)
		lab.A.Do(func() {
			s, err := New(c)
			if err != nil {
				t.Error(err)
				return
			}
			m, err := s.Messages()
			if err != nil {
				t.Errorf("%s: %v", c.Mix[0].Operation.Name, err)
				return
			}
			p, err := port.OpenLive(port.Options{Interface: lab.A.Iface}, m)
			if err != nil {
				t.Errorf("%s: %v", c.Mix[0].Operation.Name, err)
				return
			}
			defer p.Close()
			r, err := s.Run(context.Background(), []port.Port{p})
			if err != nil {
				t.Error(err)
				return
			}
			if r.Messages != first.Messages || r.Packets != first.Packets || r.Bytes != first.Bytes || r.Payload != first.Payload ||
				r.Cut != 0 || r.NotSent != 0 || r.Port.Sent != uint64(len(want)) {
				t.Errorf("%s: %+v, not %+v", c.Mix[0].Operation.Name, r, first)
			}
			for i := range r.QPs {
				if r.QPs[i] != first.QPs[i] {
					t.Errorf("QP %d: %+v, not %+v", i, r.QPs[i], first.QPs[i])
				}
			}
		})
		batch := make([]port.In, 64)
		for got := 0; got < len(want); {
			n, err := in.Receive(batch)
			if n == 0 {
				t.Fatalf("%s: %d of %d frames arrived, %v", c.Mix[0].Operation.Name, got, len(want), err)
			}
			for _, f := range batch[:n] {
				if string(f.Data) != string(want[got]) {
					t.Fatalf("%s: frame %d\n%x, not\n%x", c.Mix[0].Operation.Name, got, f.Data, want[got])
				}
				got++
			}
		}
	}
}

// TestLiveCannot: what live frames cannot be is said.
func TestLiveCannot(t *testing.T) {
	for what, c := range map[string]Config{
		"mix":    liveConfig(t, "write", 64, func(c *Config) { c.Mix = append(c.Mix, c.Mix[0]) }),
		"sizes":  liveConfig(t, "write", 64, func(c *Config) { c.Size, _ = ParseSizes("64-128") }),
		"window": liveConfig(t, "write", 64, func(c *Config) { c.Window = 16 }),
		"cas":    liveConfig(t, "cas", 0, nil),
		"ack":    liveConfig(t, "ack", 0, nil),
		"cnp":    liveConfig(t, "cnp", 0, nil),
		"middle": liveConfig(t, "write", 65536, nil),
		"last":   liveConfig(t, "write", 2000, nil),
	} {
		s, err := New(c)
		if err != nil {
			t.Fatal(what, err)
		}
		if _, err := s.Messages(); !errors.Is(err, ErrNotLive) {
			t.Errorf("%s: %v", what, err)
		} else {
			t.Log(err)
		}
	}
}

// generator is one that ends after some frames.
type generator struct {
	sendOnly
	left int
}

func (g *generator) Run(n int) (int, error) {
	n = min(n, g.left)
	if g.left -= n; g.left == 0 {
		return n, port.ErrGone
	}
	return n, nil
}

// TestLiveAccounts: of a stream that a generator could not finish, each QP has the part that was sent.
func TestLiveAccounts(t *testing.T) {
	zero, err := Named("zero")
	if err != nil {
		t.Fatal(err)
	}
	for _, interleave := range []bool{false, true} {
		c := liveConfig(t, "write", 3000, func(c *Config) { c.Payload, c.Interleave = zero, interleave }) // 3 packets: 1098, 1082, 1010 bytes
		s, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		a, b := port.Pair(port.MemoryOptions{})
		defer a.Close()
		defer b.Close()
		r, err := s.Run(context.Background(), []port.Port{&generator{sendOnly{a}, 3*7 + 2}})
		if !errors.Is(err, port.ErrGone) {
			t.Fatal(err)
		}
		if r.Packets != 23 || r.Asked != 5*40 || r.Asked != r.Messages+r.Cut+r.NotSent {
			t.Errorf("%+v", r)
		}
		var messages, psns uint64
		for _, q := range r.QPs {
			messages += q.Messages
			psns += q.PSNs
		}
		wantMessages, wantCut, wantBytes := uint64(7), uint64(1), uint64(8*1098+8*1082+7*1010)
		if interleave { // four or five frames of each: one message, and one or two frames more
			wantMessages, wantCut, wantBytes = 5, 5, 5*(1098+1082+1010)+5*1098+3*1082
		}
		if messages != wantMessages || r.Messages != wantMessages || r.Cut != wantCut || r.Bytes != wantBytes || psns != 23 {
			t.Errorf("interleave %v: %d, %d messages, %d cut, %d bytes, %d PSNs", interleave, messages, r.Messages, r.Cut, r.Bytes, psns)
		}
	}
}
