//go:build unix

package main

import (
	"fmt"
	"runtime"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// rig is the path of a packet from a file through a tracker, without the
// engine: a piece of it can run at a time.
type rig struct {
	src     captures.Source
	frames  []captures.Frame
	dec     dissect.Decoder
	batch   flows.Batch
	tracker *flows.Tracker // nil: decode only
	size    int            // packets that the tracker gets at a time
	number  uint64

	messages, findings int
	first              string // the name of a finding
}

func newRig(track bool) *rig {
	r := &rig{frames: make([]captures.Frame, 512), size: 512}
	r.batch = flows.Batch{Packets: make([]dissect.Packet, 512), Data: make([][]byte, 512), Marks: make([]flows.Mark, 512)}
	if track {
		r.tracker = flows.New(flows.Options{Series: true, Sink: flows.Sink{
			Message: func(*flows.Message) { r.messages++ },
			Finding: func(f *flows.Finding) { r.findings++; r.first = f.Check().Title },
		}})
	}
	return r
}

func (r *rig) open(path string) (err error) {
	r.src, err = captures.Open(path)
	return err
}

// run takes n packets of the file.
func (r *rig) run(n int) error {
	for n > 0 {
		got, err := r.src.ReadBatch(r.frames[:min(n, len(r.frames))])
		if err != nil {
			return err
		}
		n -= got
		for i := range r.frames[:got] {
			f := &r.frames[i]
			r.decode(i, f.Data, f.Time)
		}
		r.track(got)
	}
	return nil
}

func (r *rig) decode(i int, frame []byte, at int64) {
	r.number++
	p := &r.batch.Packets[i]
	p.Number, p.Time = r.number, at
	r.dec.Decode(dissect.LinkEthernet, frame, len(frame), p)
	r.batch.Data[i] = frame
}

func (r *rig) track(n int) {
	if r.tracker == nil {
		return
	}
	for lo := 0; lo < n; lo += r.size {
		hi := min(lo+r.size, n)
		r.tracker.Track(&flows.Batch{Packets: r.batch.Packets[lo:hi], Data: r.batch.Data[lo:hi], Marks: r.batch.Marks[lo:hi]})
	}
}

// feed gives the tracker packets that are in no file.
func (r *rig) feed(next func() ([]byte, int64), n int) {
	var buf []byte
	for n != 0 {
		i := 0
		buf = buf[:0]
		for ; i < len(r.frames) && n != 0; n-- {
			f, at := next()
			at0 := len(buf)
			buf = append(buf, f...)
			r.decode(i, buf[at0:], at)
			i++
		}
		r.track(i)
	}
}

// tracking is what following a connection costs, beside decoding.
func tracking(b *bench) ([]page.Row, error) {
	const rounds = 15
	packets := 4 * b.packets // young captures cost more: time series double their intervals often
	piece := packets / (rounds + 1)
	var rows []page.Row
	for _, mix := range []struct {
		name   string
		c      traffic.Config
		budget float64
	}{
		{"segments of 256 bytes, 64 connections", middling, 120},
		{"messages of one packet of 64 bytes, 64 connections", small, 0},
	} {
		file, err := b.capture(mix.c, packets)
		if err != nil {
			return nil, err
		}
		plain, full := newRig(false), newRig(true)
		for _, r := range []*rig{plain, full} {
			if err := r.open(file); err != nil {
				return nil, err
			}
			defer r.src.Close()
			if err := r.run(opening * mix.c.Connections); err != nil {
				return nil, err
			}
		}
		var before, after runtime.MemStats
		steps := 0
		ns, err := inTurn(rounds, piece, func() error { return plain.run(piece) }, func() error {
			if steps++; steps == 2 {
				runtime.ReadMemStats(&before)
			}
			return full.run(piece)
		})
		if err != nil {
			return nil, err
		}
		runtime.ReadMemStats(&after)
		if full.findings > 0 || full.messages == 0 {
			return nil, fmt.Errorf("%d findings, as %q, and %d messages in healthy traffic", full.findings, full.first, full.messages)
		}
		cost := measure.Median(each(ns[1], ns[0], difference))
		r := page.Row{
			What: "track, beside reading and decoding: " + mix.name, Ours: nanos(cost),
			Other: fmt.Sprintf("read and decode: %s; with tracking: %s", nanos(measure.Median(ns[0])), nanos(measure.Median(ns[1]))),
		}
		if mix.budget > 0 {
			r.Goal, r.Met = fmt.Sprintf("≤ %.0f ns", mix.budget), page.Judge(cost <= mix.budget)
		}
		rows = append(rows, r)
		allocs := float64(after.Mallocs-before.Mallocs) / float64(rounds*piece)
		rows = append(rows, page.Row{
			What: "allocations per packet, read, decode and track: " + mix.name, Ours: fmt.Sprintf("%.5f", allocs),
			Goal: "0", Met: page.Judge(allocs < 0.0005),
		})
	}
	return rows, nil
}

// opening is how many packets traffic of all three operations takes to make a connection known.
const opening = 6

// heap is how much memory is in use, in bytes.
func heap() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// million compares a million connections with a thousand, the next packet being
// any connection's.
func million(b *bench) ([]page.Row, error) {
	const rounds, piece = 15, 40_000
	sizes := [...]int{1000, 1_000_000}
	var rigs [len(sizes)]*rig
	for i, n := range sizes {
		c := traffic.Config{Connections: n, Payload: 256, Random: true}
		g := traffic.New(c)
		r := newRig(true)
		r.feed(g.Establish, opening*n)
		r.feed(g.Next, 8*n) // until as many messages are open as will be
		path := fmt.Sprintf("%s/random-%d.pcapng", b.dir, n)
		if err := g.WriteFile(path, 2*(rounds+1)*piece, false); err != nil {
			return nil, err
		}
		if err := r.open(path); err != nil {
			return nil, err
		}
		defer r.src.Close()
		rigs[i] = r
	}
	sized := func(r *rig, size int) func() error {
		return func() error { r.size = size; return r.run(piece) }
	}
	ns, err := inTurn(rounds, piece, sized(rigs[0], 512), sized(rigs[1], 512), sized(rigs[0], 1), sized(rigs[1], 1))
	if err != nil {
		return nil, err
	}
	for i, r := range rigs {
		if r.findings > 0 {
			return nil, fmt.Errorf("%d findings in healthy traffic of %d connections, as %q", r.findings, sizes[i], r.first)
		}
	}
	const many = 400_000
	idle := idleConnection(traffic.Config{Connections: many, Payload: 64, WritesOnly: true})
	three := idleConnection(traffic.Config{Connections: many, Payload: 64})
	batched, single := measure.Median(each(ns[1], ns[0], ratio)), measure.Median(each(ns[3], ns[2], ratio))
	return []page.Row{
		{
			What: "read, decode and track, any of 1 000 000 connections, in batches", Ours: nanos(measure.Median(ns[1])),
			Other: "1 000 connections: " + nanos(measure.Median(ns[0])), Ratio: times(batched), Goal: "≤ 2×", Met: page.Judge(batched <= 2),
		},
		{
			What: "the same, one packet at a time", Ours: nanos(measure.Median(ns[3])),
			Other: "1 000 connections: " + nanos(measure.Median(ns[2])), Ratio: times(single),
		},
		{
			What: "memory of an idle healthy connection, all in: index, both streams, counters", Ours: fmt.Sprintf("%.0f bytes", idle),
			Other: fmt.Sprintf("with the counters of two further operations: %.0f bytes", three),
			Goal:  "≤ 400 bytes", Met: page.Judge(idle <= 400),
		},
	}, nil
}

// idleConnection is how much memory a tracker takes for one more connection that has done what opens it, and rests. The first
// tenth is not counted, for it has histograms and details, which are bounded in number.
func idleConnection(c traffic.Config) float64 {
	g, r := traffic.New(c), newRig(true)
	first := c.Connections / 10
	r.feed(g.Establish, g.Opening()*first)
	before := heap()
	r.feed(g.Establish, g.Opening()*(c.Connections-first))
	each := float64(heap()-before) / float64(c.Connections-first)
	runtime.KeepAlive(r)
	return each
}
