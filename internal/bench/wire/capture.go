//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/xsk"
)

// ringFrames is how many frames may wait for the capture.
const ringFrames = 16384

const ucWriteOnly dissect.Opcode = 0x2A

// capture is one that runs, by the engine xdp at the far end.
type capture struct {
	live *captures.Live
	seen atomic.Uint64 // frames that went through the pipeline
	done chan error
}

func newCapture(track bool) (*capture, error) {
	live, err := captures.OpenLive(captures.LiveOptions{Interface: far, Engine: captures.EngineXDP, Ring: ringFrames * 4096})
	if err != nil {
		return nil, err
	}
	c := &capture{live: live, done: make(chan error, 1)}
	p := engine.New(engine.Options{
		Workers: 1, Track: track, Tracker: flows.Options{},
		Sinks: []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error {
			c.seen.Add(uint64(len(b.Packets)))
			return nil
		})},
	})
	go func() {
		_, err := p.Run(context.Background(), live)
		c.done <- err
	}()
	return c, nil
}

func (c *capture) arrived() (uint64, error) { return c.seen.Load(), nil }

// close ends it, and says how many frames it lost.
func (c *capture) close() (lost uint64, err error) {
	c.live.Stop()
	err = <-c.done
	s := c.live.Stats()
	return s.RingDropped + s.CardDropped, err
}

// capturing measures what the capture takes, and whether it loses anything.
func capturing(b *bench) ([]page.Row, error) {
	closer, err := pair(1500)
	if err != nil {
		return nil, err
	}
	defer closer()
	var rows []page.Row
	for _, f := range []func(*bench) ([]page.Row, error){capturingCost, capturingAll} {
		got, err := f(b)
		if err != nil {
			return nil, err
		}
		rows = append(rows, got...)
	}
	return rows, nil
}

// capturingCost compares what a packet costs from end to end: made and sent as a live frame, received in the driver, and
// either dropped there, or captured and decoded, and tracked as well.
func capturingCost(b *bench) ([]page.Row, error) {
	var rows []page.Row
	for _, c := range []struct {
		what    string
		opcode  dissect.Opcode
		payload int
	}{
		{"UC WRITEs of 64 bytes", ucWriteOnly, 64},
		{"UC WRITEs of 1024 bytes", ucWriteOnly, 1024},
		{"RC WRITEs of 1024 bytes that nobody acknowledges", dissect.OpRCWriteOnly, 1024},
	} {
		all, err := inTurn(min(b.rounds, 9), 400_000, dropped(c.opcode, c.payload), lossless(captured(c.opcode, c.payload, false)),
			lossless(captured(c.opcode, c.payload, true)), lossless(received(c.opcode, c.payload)))
		if err != nil {
			return nil, err
		}
		bare := "sent, and dropped by a bare XDP_DROP: " + nanoseconds(all[0])
		what := c.what + ", sent as live frames"
		for i, of := range []struct {
			what string
			goal float64
		}{{"captured over `xdp` and decoded", 2.8}, {"captured over `xdp`, decoded and tracked", 3.8}} {
			by := ratios(all[1+i], all[0], result.cost)
			most := mallocs(all[1+i])
			rows = append(rows, page.Row{
				What: what + ", " + of.what, Ours: nanoseconds(all[1+i]), Other: bare, Ratio: by.String(),
				Goal: fmt.Sprintf("≤ %.1f", of.goal), Met: page.Judge(by.Median <= of.goal),
			}, page.Row{
				What: "allocations per packet, at most, of the same", Ours: fmt.Sprintf("%.5f", most), Goal: "0", Met: page.Judge(most < 0.01),
			})
		}
		rows = append(rows, page.Row{
			What: what + ", received by a loop on an AF_XDP socket that does nothing else: the kernel's part", Ours: nanoseconds(all[3]),
			Other: bare, Ratio: ratios(all[3], all[0], result.cost).String(),
		})
	}
	return rows, nil
}

// dropped has a bare XDP_DROP receive live frames.
func dropped(opcode dissect.Opcode, payload int) contestant {
	return func(packets int) (r result, err error) {
		s, err := newSink()
		if err != nil {
			return r, err
		}
		defer s.close()
		return inPieces(opcode, payload, packets, s.arrived)
	}
}

// errLost says that a receiver did not get all frames.
var errLost = errors.New("frames were lost")

// lossless repeats what lost frames, which costs less and would flatter: a busy machine may keep a receiver away for longer
// than its ring lasts.
func lossless(c contestant) contestant {
	return func(packets int) (r result, err error) {
		for range 5 {
			if r, err = c(packets); !errors.Is(err, errLost) {
				break
			}
		}
		return r, err
	}
}

// captured has the capture receive them.
func captured(opcode dissect.Opcode, payload int, track bool) contestant {
	return func(packets int) (r result, err error) {
		c, err := newCapture(track)
		if err != nil {
			return r, err
		}
		r, err = inPieces(opcode, payload, packets, c.arrived)
		lost, closing := c.close()
		switch {
		case err != nil:
			return r, err
		case closing != nil:
			return r, closing
		case lost > 0 || r.arrived != uint64(packets):
			return r, fmt.Errorf("%w: of %d frames %d arrived and %d did not", errLost, packets, r.arrived, lost)
		}
		return r, nil
	}
}

// received has a loop receive them that does nothing else.
func received(opcode dissect.Opcode, payload int) contestant {
	return func(packets int) (r result, err error) {
		p, err := xsk.LoadProgram(xsk.ProgramOptions{})
		if err != nil {
			return r, err
		}
		defer p.Close()
		a, err := p.Attach(far, xsk.AttachNative)
		if err != nil {
			return r, err
		}
		defer a.Close()
		u, err := xsk.NewUMEM(xsk.UMEMOptions{Chunks: ringFrames, ChunkSize: 2048})
		if err != nil {
			return r, err
		}
		defer u.Close()
		rx, err := xsk.Open(xsk.Options{Interface: far, UMEM: u, RX: ringFrames, Mode: xsk.Copy})
		if err != nil {
			return r, err
		}
		defer rx.Close()
		if err := p.Register(rx); err != nil {
			return r, err
		}
		var seen, sum atomic.Uint64
		var over atomic.Bool
		done := make(chan error)
		go func() {
			batch := make([]xsk.Packet, 512)
			for n := 1; !over.Load(); {
				if n == 0 {
					if _, err := rx.Wait(100 * time.Millisecond); err != nil {
						done <- err
						return
					}
				}
				n = rx.Receive(batch)
				looked := uint64(0)
				for _, p := range batch[:n] {
					looked += uint64(rx.Bytes(p)[0])
				}
				sum.Add(looked)
				rx.Release()
				seen.Add(uint64(n))
			}
			done <- nil
		}()
		r, err = inPieces(opcode, payload, packets, func() (uint64, error) { return seen.Load(), nil })
		over.Store(true)
		return r, errors.Join(err, <-done)
	}
}

// warmUp is how many frames inPieces sends before it measures.
const warmUp = 2 * ringFrames

// inPieces sends live frames in pieces that fit into the receiver's ring, each when the one before has arrived: what a packet
// costs is to be measured, not who waits for whom.
func inPieces(opcode dissect.Opcode, payload, packets int, arrived func() (uint64, error)) (r result, err error) {
	g, err := uniqueLive(opcode, payload)
	if err != nil {
		return r, err
	}
	defer g.Close()
	pieces := func(packets int) error {
		from, err := arrived()
		for sent := 0; sent < packets && err == nil; {
			n := min(packets-sent, ringFrames-384)
			if err = runLive(g, n); err != nil {
				return err
			}
			sent += n
			err = await(arrived, from+uint64(sent))
		}
		return err
	}
	// Once around the ring, so that each page of it was touched.
	if err := pieces(warmUp); err != nil {
		return r, err
	}
	return loop(arrived, func() error { return pieces(packets) })
}

// await waits until so many have arrived.
func await(arrived func() (uint64, error), want uint64) error {
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		n, err := arrived()
		switch {
		case err != nil || n >= want:
			return err
		case time.Now().After(end):
			return fmt.Errorf("%w: %d of %d arrived", errLost, n, want)
		}
	}
}

// capturingAll injects over AF_XDP as fast as that goes, and looks for what the capture lost.
func capturingAll(*bench) ([]page.Row, error) {
	const packets, runs = 640_000, 3
	var rows []page.Row
	for _, size := range []int{64, 1024} {
		var got, lost, dropped uint64
		var took time.Duration
		for range runs {
			began := time.Now()
			g, l, d, err := capturingOnce(size, packets)
			if err != nil {
				return nil, err
			}
			got, lost, dropped, took = got+g, lost+l, dropped+d, took+time.Since(began)
		}
		sent := uint64(packets*runs) - dropped
		rows = append(rows, page.Row{
			What:  fmt.Sprintf("captured over `xdp` with tracking, ring %d, while `inject` sends WRITEs of %d bytes over AF_XDP as fast as it can", ringFrames, size),
			Ours:  fmt.Sprintf("%d of %d, at %.0f k/s", got, sent, float64(sent)/took.Seconds()/1e3),
			Other: fmt.Sprintf("lost by the capture: %d; dropped by the link before it: %d", lost, dropped),
			Goal:  "none lost", Met: page.Judge(lost == 0 && got == sent),
		})
	}
	return rows, nil
}

func capturingOnce(size, packets int) (got, lost, dropped uint64, err error) {
	c, err := newCapture(true)
	if err != nil {
		return 0, 0, 0, err
	}
	i, err := newInjector("write", size, 1024, packets)
	if err == nil {
		dropped, err = i.run()
		i.close()
	}
	time.Sleep(50 * time.Millisecond) // what was sent last is in the ring by then, and comes out when it is closed
	lost, closing := c.close()
	if err == nil {
		err = closing
	}
	return c.seen.Load(), lost, dropped, err
}
