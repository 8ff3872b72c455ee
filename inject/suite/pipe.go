package suite

import (
	"context"
	"fmt"
	"time"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// Piped is a simulated core behind a pipe (port.Pipe), whose time is the simulation's. Its hook tells its numbers.
type Piped struct {
	// Open makes the pipe; each case has a simulation of its own. device may be nil where Hook is given.
	Open     func(ctx context.Context) (p *port.Pipe, device Device, err error)
	Title    string
	Patience time.Duration // of simulated time, for an answer; 0 = 10 ms
}

// Name implements Target.
func (t *Piped) Name() string { return t.Title }

func (t *Piped) open(ctx context.Context, c *Case, seed uint64) (*link, error) {
	p, device, err := t.Open(ctx)
	if err != nil {
		return nil, err
	}
	l, err := newLink(p, c, seed, ourMAC, ourAddrs, 4096)
	if err != nil {
		return nil, fmt.Errorf("%w (the pipe: %v)", err, p.Close())
	}
	l.device, l.anew, l.driven = device, true, true
	l.patient = t.Patience
	if l.patient == 0 {
		l.patient = 10 * time.Millisecond
	}
	l.quiet = l.patient / 4
	l.pass = func(until int64) error {
		for {
			busy, err := l.dev.Step()
			if err != nil {
				return err
			}
			now := p.Now()
			switch {
			case l.tap.waiting() > 0 || now >= until:
				return nil
			case busy:
				until = max(until, now)
				if err := p.Wait(time.Microsecond); err != nil {
					return err
				}
				continue
			}
			wait := until - now
			if at, ok := l.dev.Next(); ok {
				wait = min(wait, max(at-now, 1))
			}
			if err := p.Wait(time.Duration(wait)); err != nil {
				return err
			}
		}
	}
	l.connect = func(i int) (*pair, error) { return l.byHook(c, i, seed) }
	l.close = func() error {
		err := p.Close()
		if device != nil {
			_ = device.Close()
		}
		return err
	}
	return l, nil
}

// SimulatedRNIC is our own RNIC as a core in a simulation: something to try pipes and hooks with, and a model of what a core's test
// bench has to do. Serve its pipe by port.ServePipe, and its hook by ServeHook.
type SimulatedRNIC struct {
	now  int64
	near *port.Memory
	dev  *rnic.Device
	in   []port.In
	next int
	got  int
	Hook *RNIC
}

// NewSimulatedRNIC makes one.
func NewSimulatedRNIC(seed uint64, misbehave ...string) (*SimulatedRNIC, error) {
	s := &SimulatedRNIC{in: make([]port.In, 64)}
	clock := func() int64 { return s.now }
	near, far := port.Pair(port.MemoryOptions{Slots: 256, MaxFrame: 9216, Clock: clock})
	s.near = near
	var err error
	s.dev, err = rnic.Open(far, rnic.Options{MAC: deviceMAC, Addrs: deviceAddrs, Clock: clock, MTU: 4096, MaxQP: 2048, FirstQPN: 0x40, Misbehave: misbehave})
	if err != nil {
		return nil, err
	}
	answerPings(s.dev)
	s.Hook, err = NewRNIC(s.dev, seed, nil, nil)
	return s, err
}

// Feed implements port.Core.
func (s *SimulatedRNIC) Feed(frame []byte, time int64) {
	s.now = max(s.now, time)
	var slot [1]uint32
	if s.near.Take(slot[:]) == 0 {
		return // as a core does that has no room
	}
	n := copy(s.near.Room(slot[0]), frame)
	_ = s.near.Send([]port.Out{{Slot: slot[0], Len: int32(n)}}) // the far end is open
}

// stepTime is how far the simulation goes at a time, nanoseconds.
const stepTime = 200

// Run implements port.Core.
func (s *SimulatedRNIC) Run(until int64) (reached, idle int64) {
	for {
		busy, err := s.dev.Step()
		if err != nil {
			return until, 0
		}
		if s.got, err = s.near.Receive(s.in); err != nil || s.got > 0 {
			s.next = 0
			return s.now, 0
		}
		if s.now >= until {
			return s.now, 0
		}
		step := until
		if busy {
			step = s.now + stepTime
		} else if at, ok := s.dev.Next(); ok {
			step = max(at, s.now+1)
		}
		s.now = min(until, step)
	}
}

// Sent implements port.Core.
func (s *SimulatedRNIC) Sent() (frame []byte, time int64) {
	if s.next >= s.got {
		return nil, 0
	}
	f := s.in[s.next]
	s.next++
	return f.Data, f.Time
}
