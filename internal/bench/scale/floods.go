//go:build unix

package main

import (
	"encoding/binary"
	"fmt"
	"runtime"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// flood is traffic of somebody who wants tables to grow, or look-ups to be slow. alter makes the n-th packet of a healthy
// WRITE: what it changes leaves the ICRC wrong, which is not checked here.
type flood struct {
	name  string
	alter func(f frame, n uint64)
}

// frame is an Ethernet frame with IPv4, UDP and BTH.
type frame []byte

func (f frame) source(a uint32)      { binary.BigEndian.PutUint32(f[26:], a) }
func (f frame) destination(a uint32) { binary.BigEndian.PutUint32(f[30:], a) }
func (f frame) qpn(n uint32)         { dissect.BTH(f[42:]).SetDestQP(n & 0xFFFFFF) }

var allFloods = []flood{
	{"a scan of all QPNs of one host", func(f frame, n uint64) {
		f.destination(0x0C000000)
		f.qpn(uint32(n) + 2)
	}},
	{"every packet from and to other, invented hosts", func(f frame, n uint64) {
		f.source(0x0B000000 + uint32(n))
		f.destination(0x0C000000 + uint32(n)*7)
	}},
	{"QPNs that differ in their high bits only: one slot of a table that takes the low ones", func(f frame, n uint64) {
		f.qpn(uint32(n)<<12 | 2)
		f.destination(0x0C000000 + uint32(n>>12))
	}},
	{"addresses and QPNs whose sum is the same: one slot of a table that adds them", func(f frame, n uint64) {
		f.destination(0x0C000000 + uint32(n))
		f.qpn(0xFFFFFF - uint32(n)&0xFFFFFF)
	}},
}

// flooded is what became of a flood, and of the healthy connections that shared the tracker with it.
type flooded struct {
	feed                  *feed
	cost                  float64   // ns of a packet once the table is full
	memory                [2]uint64 // when the table is full, and with the flood three times as long
	live                  uint64
	healthy, healthyFound uint64 // messages of the healthy connections: sent, told of as done
}

// run sends n packets at a tracker with room for fewer connections, then 2n further ones, and after each 16 of them one packet
// of healthy connections.
func (fl *flood) run(n, room int) *flooded {
	const busy, share = 64, 16
	r := &flooded{feed: newFeed(flows.Options{MaxConnections: room})}
	g := traffic.New(traffic.Config{Connections: busy, Payload: 64, WritesOnly: true})
	one, at := traffic.New(traffic.Config{Connections: 1, Payload: 64, WritesOnly: true}).Next()
	shape := frame(append([]byte(nil), one...))
	empty := heap()
	r.feed.run(g.Establish, g.Opening()*busy)
	sent := 0
	num := uint64(0)
	next := func() ([]byte, int64) {
		at += 100
		if num++; num%(share+1) == 0 {
			sent++
			f, _ := g.Next()
			return f, at
		}
		fl.alter(shape, num-num/(share+1)-1)
		return shape, at
	}
	total := func(n int) int { return n + n/share }
	r.feed.run(next, total(n))
	r.memory[0] = heap() - empty
	const piece = 50_000
	var costs []float64
	for left := total(2 * n); left > 0; left -= piece {
		k := keep(next, min(piece, left))
		before := measure.Spent()
		r.feed.replay(k)
		costs = append(costs, float64(measure.Spent()-before)/float64(len(k.ends)))
	}
	r.cost = measure.Median(costs)
	r.memory[1] = heap() - empty
	runtime.KeepAlive(g)
	for ; sent%(g.Cycle()*busy) != 0; sent++ {
		f, _ := g.Next()
		r.feed.put(f, at)
	}
	r.feed.flush()
	opening, cycle := g.Messages()
	r.healthy = uint64(busy*opening + sent/g.Cycle()*cycle)
	r.feed.tracker.Finish()
	r.healthyFound = r.feed.done
	s := r.feed.tracker.Snapshot()
	r.live = uint64(len(s.Connections))
	return r
}

func floods(b *bench) ([]page.Row, error) {
	n, room := 1_000_000/b.shrink, 65_536/b.shrink
	var rows []page.Row
	var first float64
	for i := range allFloods {
		fl := &allFloods[i]
		r := fl.run(n, room)
		more := float64(r.memory[1])/float64(r.memory[0]) - 1
		rows = append(rows, page.Row{
			What:  fmt.Sprintf("flood, %s packets, room for %s connections: %s; processor time of a packet", count(3*n), count(room), fl.name),
			Ours:  fmt.Sprintf("%.0f ns", r.cost),
			Other: fmt.Sprintf("memory %s; with a third of the flood %s", megabytes(r.memory[1]), megabytes(r.memory[0])),
			Ratio: fmt.Sprintf("%+.1f %%", 100*more), Goal: "memory ≤ +10 %", Met: page.Judge(more <= 0.1),
		})
		if i == 0 {
			first = r.cost
		} else {
			rows = append(rows, page.Row{
				What: "… beside the scan", Ours: fmt.Sprintf("%.0f ns", r.cost), Other: fmt.Sprintf("%.0f ns", first),
				Ratio: fmt.Sprintf("%.2f×", r.cost/first), Goal: "≤ 2×", Met: page.Judge(r.cost <= 2*first),
			})
		}
		rows = append(rows, page.Row{
			What: "… messages of 64 healthy connections meanwhile", Ours: count(int(r.healthyFound)), Other: "sent: " + count(int(r.healthy)),
			Goal: "the same", Met: page.Judge(r.healthyFound == r.healthy),
		})
	}
	return rows, nil
}
