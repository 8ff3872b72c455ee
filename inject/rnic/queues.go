package rnic

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
)

// shared is what the devices of one RNIC have in common: addresses, memory, and the numbers of queue pairs. On the packet path it is
// only read.
type shared struct {
	opt    Options
	mtu    int
	gids   []dissect.Addr
	clock  func() int64
	queues []*Device

	qps     []atomic.Pointer[QP] // by the low bits of the QPN
	regions regions
	nextQPN atomic.Uint32

	// verbs is held by who changes any of it. It comes behind a device's lock.
	verbs  sync.Mutex
	live   int // queue pairs
	nextVA uint64
}

// MaxQueues is how many queues an RNIC can have: the memory of what devices hand each other grows with the square.
const MaxQueues = 64

// OpenQueues makes one RNIC of the queues of an interface, each of which is a port: a device for each, that a goroutine of its own
// drives. A queue pair lives on the device of its completion queues; what is made of a protection domain, memory regions and address
// handles, serves the queue pairs of all. What the interface brings in another queue than that of the queue pair's device is handed
// over. Management datagrams, and frames that are no RoCE v2, go to the first device's handlers.
func OpenQueues(ports []port.Port, o Options) ([]*Device, error) {
	if len(ports) < 1 || len(ports) > MaxQueues {
		return nil, fmt.Errorf("rnic: open a device: %d queues; it can have 1 … %d", len(ports), MaxQueues)
	}
	if len(o.Addrs) == 0 {
		return nil, errors.New("rnic: open a device: it needs an address at least")
	}
	if err := o.complete(ports); err != nil {
		return nil, err
	}
	s := &shared{opt: o, mtu: o.MTU, clock: o.Clock, qps: make([]atomic.Pointer[QP], roundUp(o.MaxQP)), nextVA: mrVABase}
	s.nextQPN.Store(o.FirstQPN)
	s.regions.counts = make([]uint8, 1, firstRegions) // no key is 0
	s.regions.grow(firstRegions)
	for _, a := range o.Addrs {
		s.gids = append(s.gids, dissect.AddrFrom(a))
	}
	for i, p := range ports {
		d := &Device{shared: s, queue: i, do: &right, port: p, touching: make([]*QP, 0, 2*receiveBatch)}
		d.waker, _ = p.(port.Waker)
		d.longest = p.Info().MaxFrame
		d.in = make([]port.In, receiveBatch, 2*receiveBatch)
		if len(ports) > 1 {
			d.in = d.in[:cap(d.in)]
			d.handed, d.roused = make([]handover, len(ports)), make([]bool, len(ports))
		}
		d.rx.dev = d
		d.out.init(p)
		if err := d.misbehave(o.Misbehave); err != nil {
			return nil, fmt.Errorf("rnic: open a device: %w", err)
		}
		s.queues = append(s.queues, d)
	}
	return s.queues, nil
}

// place is where a queue pair of a number stands, if it is there.
func (s *shared) place(qpn uint32) *atomic.Pointer[QP] { return &s.qps[qpn&uint32(len(s.qps)-1)] }

// find returns the queue pair of a number, whichever device it is on; nil where there is none.
func (s *shared) find(qpn uint32) *QP {
	if q := s.place(qpn).Load(); q != nil && q.qpn == qpn {
		return q
	}
	return nil
}

// number gives a queue pair the wished number, or the next free one. Numbers count through all 24 bits before one is used again, so
// that late packets to an old queue pair find no new one.
func (s *shared) number(q *QP, wish uint32) error {
	if s.live >= s.opt.MaxQP {
		return fmt.Errorf("rnic: create a queue pair: all %d are in use", s.opt.MaxQP)
	}
	if wish != 0 {
		if wish < 2 || wish > maxQPN {
			return fmt.Errorf("rnic: create a queue pair: QPN %#x; it must be 2 … %#x", wish, maxQPN)
		}
		if other := s.place(wish).Load(); other != nil {
			return fmt.Errorf("rnic: create a queue pair: QPN %#x is not free beside QPN %#x", wish, other.qpn)
		}
		q.qpn = wish
	} else {
		next := s.nextQPN.Load()
		for next < 2 || next > maxQPN || s.place(next).Load() != nil {
			if next++; next > maxQPN {
				next = 2
			}
		}
		q.qpn = next
		s.nextQPN.Store(next + 1)
	}
	s.place(q.qpn).Store(q)
	s.live++
	return nil
}
