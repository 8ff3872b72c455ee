package stream

import (
	"context"
	"io"
	"math"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// core is a simulated responder that acknowledges what asks for it, a microsecond later.
type core struct {
	outer   dissect.Outer
	crafter dissect.Crafter
	dec     dissect.Decoder
	due     []coreFrame
	ready   []coreFrame
	msn     map[uint32]uint32
}

type coreFrame struct {
	data []byte
	at   int64
}

func (c *core) Feed(frame []byte, at int64) {
	var p dissect.Packet
	c.dec.Decode(dissect.LinkEthernet, frame, len(frame), &p)
	if !p.AckReq {
		return
	}
	c.msn[p.DestQP]++
	f := c.outer.AppendTo(nil)
	n := len(f)
	f = dissect.AppendTransport(f, dissect.OpRCAcknowledge)
	h := dissect.BTH(f[n:])
	h.SetDestQP(p.DestQP - 0x100)
	h.SetPSN(p.PSN)
	ack := dissect.AETH(h[12:])
	ack.SetSyndrome(dissect.NoCreditInfo)
	ack.SetMSN(dissect.MSN(c.msn[p.DestQP]))
	if f, err := c.crafter.Seal(&c.outer, f); err == nil {
		c.due = append(c.due, coreFrame{f, at + 1000})
	}
}

func (c *core) Run(until int64) (reached, idle int64) {
	if len(c.due) == 0 {
		return until, math.MaxInt64
	}
	if c.due[0].at > until {
		return until, c.due[0].at
	}
	at := c.due[0].at
	c.ready, c.due = append(c.ready, c.due[0]), c.due[1:]
	return at, at
}

func (c *core) Sent() ([]byte, int64) {
	if len(c.ready) == 0 {
		return nil, 0
	}
	f := c.ready[0]
	c.ready = c.ready[1:]
	return f.data, f.at
}

// pipeClock is a simulation's: time passes while answers are waited for.
type pipeClock struct{ p *port.Pipe }

func (c pipeClock) Now() int64         { return c.p.Now() }
func (c pipeClock) Wait(time.Duration) {}

// A stream goes to a simulated core in the simulation's time, in which its latencies are.
func TestASimulatedCoreAnswers(t *testing.T) {
	fromCore, toUs := io.Pipe()
	fromUs, toCore := io.Pipe()
	c := loop(t, func(c *Config) {
		c.LocalQPN, c.DestQPN, c.Window, c.Turns, c.Rate = Steps(0x100, 1), Steps(0x200, 1), 32, true, Rate{Bits: 10e9}
	})
	c.Mix = c.Mix[:5]
	sim := &core{outer: dissect.Outer{Src: c.Outer.Dst, Dst: c.Outer.Src}, msn: map[uint32]uint32{}}
	done := make(chan error, 1)
	go func() { done <- port.ServePipe(fromUs, toUs, 4096, sim) }()
	p := port.NewPipe(fromCore, toCore, port.Options{})
	c.Clock = pipeClock{p}
	s, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.Run(context.Background(), []port.Port{p})
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	if r.Latency.Count != 200 || r.Latency.Min < 1000 {
		t.Errorf("%+v", r.Latency)
	}
	p.Close()
	toCore.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
