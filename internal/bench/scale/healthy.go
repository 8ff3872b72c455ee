//go:build unix

package main

import (
	"fmt"
	"runtime"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// mix is what the connections of the cost rows do.
func mix(connections int) traffic.Config {
	return traffic.Config{Connections: connections, Payload: 256, Random: true}
}

// flatCost is what a packet costs by how many connections there are, the next packet being any connection's.
func flatCost(b *bench) ([]page.Row, error) {
	const rounds, piece = 9, 40_000
	sizes := []int{1_000, 10_000, 100_000, 1_000_000}
	feeds, gens := make([]*feed, len(sizes)), make([]*traffic.Generator, len(sizes))
	for i, n := range sizes {
		n = max(n/b.shrink, 10)
		sizes[i] = n
		g, f := traffic.New(mix(n)), newFeed(flows.Options{Series: true})
		f.dec.CheckICRC = true
		f.run(g.Establish, g.Opening()*n)
		f.run(g.Next, 8*n) // until as many messages are open as will be
		feeds[i], gens[i] = f, g
	}
	cost := make([][]float64, len(sizes))
	for round := -1; round < rounds; round++ {
		for i, f := range feeds {
			k := keep(gens[i].Next, piece)
			before := measure.Spent()
			f.replay(k)
			if round >= 0 {
				cost[i] = append(cost[i], float64(measure.Spent()-before)/piece)
			}
		}
	}
	var rows []page.Row
	for i, f := range feeds {
		if f.findings > 0 {
			return nil, fmt.Errorf("%d findings in healthy traffic of %d connections, as %q", f.findings, sizes[i], f.first)
		}
		r := page.Row{
			What: "processor time of a packet, ICRC checked, any of " + count(sizes[i]) + " connections", Ours: fmt.Sprintf("%.0f ns", measure.Median(cost[i])),
		}
		if i > 0 {
			var ratios []float64
			for j := range cost[i] {
				ratios = append(ratios, cost[i][j]/cost[0][j])
			}
			times := measure.Median(ratios)
			r.Other, r.Ratio = count(sizes[0])+" connections", fmt.Sprintf("%.2f×", times)
			r.Goal, r.Met = "≤ 2×", page.Judge(times <= 2)
		}
		rows = append(rows, r)
	}
	last := len(sizes) - 1
	b.packetCost = measure.Median(cost[last])
	_, messages := gens[last].Messages()
	b.perMessage = float64(gens[last].Cycle()) / float64(messages)
	runtime.KeepAlive(feeds)
	return rows, nil
}

// manyMessages is a hundred million messages of a million connections, each of which is counted.
func manyMessages(b *bench) ([]page.Row, error) {
	const cycles = 12
	connections := 1_000_000 / b.shrink
	before := heap()
	r, err := countMessages(connections, cycles)
	if err != nil {
		return nil, err
	}
	f := r.feed
	rows := []page.Row{{
		What:  fmt.Sprintf("%s connections, %s packets: messages told of", count(connections), count(int(f.packets))),
		Ours:  count(int(f.messages)),
		Other: "sent: " + count(int(r.messages)), Goal: "the same", Met: page.Judge(f.messages == r.messages),
	}}
	for _, c := range []struct {
		what      string
		got, want uint64
	}{
		{"… messages by the counters of the connections", r.counted, r.messages},
		{"… packets by them", r.byStreams, f.packets},
		{"… bytes of payload by them", r.payload, r.sentPayload},
	} {
		rows = append(rows, page.Row{What: c.what, Ours: count(int(c.got)), Other: "sent: " + count(int(c.want)), Goal: "the same", Met: page.Judge(c.got == c.want)})
	}
	rows = append(rows,
		page.Row{What: "… findings, though nothing was wrong", Ours: count(int(f.findings)), Goal: "0", Met: page.Judge(f.findings == 0)},
		page.Row{What: "… memory at the end, with the room for 8 messages that all connections had open at once", Ours: megabytes(r.heap - before), Met: page.NoGoal},
		page.Row{What: "… processor time, making the packets included", Ours: fmt.Sprintf("%.0f s", r.cpu.Seconds()), Met: page.NoGoal})
	return rows, nil
}

// idleMemory is what a connection takes that has done what opens it, and rests. The first tenth is not counted, for it has
// histograms and details, which are bounded in number.
func idleMemory(b *bench) ([]page.Row, error) {
	n := 1_000_000 / b.shrink
	each := func(c traffic.Config) (float64, error) {
		c.Connections, c.Payload = n, 64
		g, f := traffic.New(c), newFeed(flows.Options{})
		f.run(g.Establish, g.Opening()*(n/10))
		before := heap()
		f.run(g.Establish, g.Opening()*(n-n/10))
		bytes := float64(heap()-before) / float64(n-n/10)
		if f.findings > 0 {
			return 0, fmt.Errorf("%d findings in healthy traffic, as %q", f.findings, f.first)
		}
		runtime.KeepAlive(f)
		return bytes, nil
	}
	one, err := each(traffic.Config{WritesOnly: true})
	if err != nil {
		return nil, err
	}
	three, err := each(traffic.Config{})
	if err != nil {
		return nil, err
	}
	b.idle = three
	return []page.Row{{
		What: "memory of an idle connection, one of " + count(n) + ": index, both streams, counters", Ours: fmt.Sprintf("%.0f bytes", one),
		Other: fmt.Sprintf("with the counters of two further operations: %.0f bytes", three), Goal: "≤ 400 bytes", Met: page.Judge(one <= 400),
	}}, nil
}
