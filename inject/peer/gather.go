package peer

import (
	"errors"
	"time"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
)

// gathered is some of an interface's queues as one port: what arrives in any of them is received, and all is sent through the first.
type gathered struct {
	port.Port
	all  []port.Port
	next int
}

// gather makes of an interface's queues as many ports as there may be threads; 0 = 1.
func gather(queues []port.Port, threads int) []port.Port {
	n := min(max(threads, 1), len(queues), rnic.MaxQueues)
	ports := make([]port.Port, n)
	for i := range ports {
		var all []port.Port
		for k := i; k < len(queues); k += n {
			all = append(all, queues[k])
		}
		if ports[i] = all[0]; len(all) > 1 {
			ports[i] = &gathered{Port: all[0], all: all}
		}
	}
	return ports
}

// closePorts closes the ports of all threads.
func (h *Host) closePorts() error {
	var errs []error
	for _, t := range h.threads {
		errs = append(errs, t.port.Close())
	}
	return errors.Join(errs...)
}

// turn is how long one queue is waited for where another may have something.
const turn = 100 * time.Microsecond

// Receive implements port.Port. Frames are borrowed from one queue at a time.
func (g *gathered) Receive(in []port.In) (int, error) {
	for range g.all {
		p := g.all[g.next]
		g.next = (g.next + 1) % len(g.all)
		if n, err := p.Receive(in); n > 0 || err != nil {
			return n, err
		}
	}
	return 0, nil
}

// Wait implements port.Port.
func (g *gathered) Wait(timeout time.Duration) error { return g.all[g.next].Wait(min(timeout, turn)) }

// Stats implements port.Port.
func (g *gathered) Stats() port.Stats {
	s := g.Port.Stats()
	for _, p := range g.all[1:] {
		s.Add(p.Stats())
	}
	return s
}

// Close implements port.Port.
func (g *gathered) Close() error {
	var errs []error
	for _, p := range g.all {
		errs = append(errs, p.Close())
	}
	return errors.Join(errs...)
}
