package stream

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// Every frame of a mixed run that leaves through an interface arrives once and in order, judged as one that went into a file:
// by tshark, by another computation of the ICRC, by flows. What counts is what the far end received. Live frames, which cannot
// be mixed, are compared operation by operation in TestLiveIsTheSame.
func TestEveryFrameOfAMixedRunArrives(t *testing.T) {
	tshark := testkit.FindTshark(t)
	open := map[string]func(port.Options) (port.Port, error){
		"xdp": func(o port.Options) (port.Port, error) {
			o.Queues = 1
			ports, err := port.OpenXDP(o)
			if err != nil {
				return nil, err
			}
			return ports[0], nil
		},
		"packet": func(o port.Options) (port.Port, error) { return port.OpenPacket(o) },
	}
	for i, c := range []struct {
		from, to string
		mtu      int
	}{
		{"xdp", "packet", 256},
		{"xdp", "xdp", 4096},
		{"xdp", "packet", 1024},
		{"packet", "xdp", 2048},
		{"packet", "packet", 4096},
		{"packet", "xdp", 512},
	} {
		layout := layouts[i%3] // the XDP program looks behind one tag
		t.Run(fmt.Sprintf("%s to %s, %s, MTU %d", c.from, c.to, layout.name, c.mtu), func(t *testing.T) {
			config := mixedConfig(t, layout.outer, c.mtu)
			s, err := New(config)
			if err != nil {
				t.Fatal(err)
			}
			lab := testkit.NewLab(t, testkit.LabOptions{})
			var out, in port.Port
			lab.B.Do(func() { in, err = open[c.to](port.Options{Interface: lab.B.Iface}) })
			if err != nil {
				t.Fatal(err)
			}
			defer in.Close()
			lab.A.Do(func() {
				out, err = open[c.from](port.Options{Interface: lab.A.Iface, MaxFrame: s.MaxFrame(), Slots: 64, SendOnly: true})
			})
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			arrived := make(chan []testkit.Frame)
			sent, cancel := context.WithCancel(context.Background())
			go func() { arrived <- receive(sent, in) }()
			r, err := s.Run(context.Background(), []port.Port{out})
			cancel()
			frames := <-arrived
			if err != nil {
				t.Fatal(err)
			}
			if r.Messages != 66*12 || r.Packets != r.Port.Sent || uint64(len(frames)) != r.Packets {
				t.Fatalf("%d messages, %d packets, %d sent, %d arrived", r.Messages, r.Packets, r.Port.Sent, len(frames))
			}
			judgeByTshark(t, tshark, config, testkit.WriteCapture(t, "in.pcapng", frames), frames)
			judgeByFlows(t, config, frames, r)
		})
	}
}

// receive copies what arrives, until all was sent and nothing more comes.
func receive(sent context.Context, p port.Port) (frames []testkit.Frame) {
	in := make([]port.In, 64)
	quiet := 0
	for quiet < 5 {
		n, err := p.Receive(in)
		if err != nil {
			return frames
		}
		for _, f := range in[:n] {
			frames = append(frames, testkit.Frame{Time: f.Time, Data: append([]byte(nil), f.Data...), WireLen: len(f.Data), Link: dissect.LinkEthernet})
		}
		if n > 0 {
			quiet = 0
			continue
		}
		if sent.Err() != nil {
			quiet++
		}
		if p.Wait(20*time.Millisecond) != nil {
			return frames
		}
	}
	return frames
}
