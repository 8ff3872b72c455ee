//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// pairing is a host that asks and one that serves, on interfaces of two queues.
type pairing struct {
	link  *link
	hosts [2]*peer.Host
	wall  []float64 // messages per second of each run
}

const (
	pairQueues = 2
	pairQPs    = 8
	pairTime   = 400 * time.Millisecond
)

// newPairing makes one with so many threads at each end. With crossed, every packet comes in the queue of the other thread.
func newPairing(name string, threads int, crossed bool) (*pairing, error) {
	l, err := newQueues(name, port.Options{Queues: pairQueues, Slots: 2048, All: true})
	if err != nil {
		return nil, err
	}
	p := &pairing{link: l}
	if crossed {
		slices.Reverse(l.queues[1])
	}
	for i, ports := range l.queues {
		o := peer.Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{p.addr(i)}, Threads: threads}
		if p.hosts[i], err = peer.NewQueues(ports, o); err != nil {
			return nil, errors.Join(err, p.close())
		}
		l.queues[i] = nil // they are the host's
	}
	r, err := load.NewResponder(p.hosts[1], load.Serving{Region: 64 << 10})
	if err == nil {
		_, err = p.hosts[1].Listen(context.Background(), peer.Listening{Accept: r.Accept})
	}
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return p, nil
}

func (p *pairing) addr(end int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(end + 1)}) }

func (p *pairing) close() error {
	var errs []error
	for _, h := range p.hosts {
		if h != nil {
			errs = append(errs, h.Close())
		}
	}
	return errors.Join(append(errs, p.link.close())...)
}

// writes carries WRITEs of a size for a while, and returns how many there were for each second of processor time.
func (p *pairing) writes(size, mtu int) contestant {
	return func() (float64, error) {
		before := measure.Spent()
		res, err := load.Measure(context.Background(), p.hosts[0],
			load.Plan{Op: rnic.OpWrite, Transport: dissect.RC, Size: size, QPs: pairQPs, Depth: 64, Duration: pairTime},
			peer.Request{
				Way: peer.ByCM, Peer: netip.AddrPortFrom(p.addr(1), connect.PerftestPort),
				Local: connect.Parameters{MTU: mtu, AckTimeout: 20},
			})
		if err != nil {
			return 0, err
		}
		p.wall = append(p.wall, res.MessageRate())
		return float64(res.Messages) / (measure.Spent() - before).Seconds(), nil
	}
}

// threads compares one thread that gathers an interface's queues with one for each.
func threads(rounds int) (rows []page.Row, err error) {
	for _, c := range []struct {
		what      string
		size, mtu int
	}{
		{"WRITEs of 128 bytes on 8 QPs", small, 1024},
		{"WRITEs of 64 KiB on 8 QPs, MTU 4096", 64 << 10, 4096},
	} {
		var all []*pairing
		var who []contestant
		for i, threads := range []int{1, pairQueues, pairQueues} {
			p, err := newPairing(fmt.Sprintf("t%d", i), threads, i == 2)
			if err != nil {
				return nil, err
			}
			defer p.close()
			all, who = append(all, p), append(who, p.writes(c.size, c.mtu))
		}
		got, err := inTurn(rounds, who...)
		if err != nil {
			return nil, err
		}
		figure := func(i int) string {
			return fmt.Sprintf("%s, %.0f k/s", perCPU(got[i]), measure.Of(all[i].wall).Median/1e3)
		}
		for i, what := range []string{1: "a thread for each of two queues", 2: "the same, every packet in the other queue"} {
			if what == "" {
				continue
			}
			rows = append(rows, page.Row{
				What: c.what + ", " + what, Ours: figure(i), Other: "one thread for both queues: " + figure(0), Ratio: ratios(got[i], got[0]).String(), Goal: "—",
			})
		}
		for _, p := range all {
			if err := p.close(); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}
