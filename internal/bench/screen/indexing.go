//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/index"
)

func millis(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
func seconds(d time.Duration) string {
	return fmt.Sprintf("%.2f s", d.Seconds())
}

// rows is how many packets a screen shows.
const rows = 50

// indexing is what the index does, without a screen.
func indexing(b *bench) ([]page.Row, error) {
	ctx := context.Background()
	open := func(context.Context) (captures.Source, error) { return captures.Open(b.file) }
	eo := engine.Options{Workers: 1, CheckICRC: true, Track: true}
	eo.Tracker.Series = true

	// The engine alone, and with the index, in turn; who begins takes turns, too.
	var alone, with, ratios []float64
	var x *index.Index
	var first time.Duration
	track := func() error {
		src, err := open(ctx)
		if err != nil {
			return err
		}
		before := measure.Spent()
		_, err = engine.New(eo).Run(ctx, src)
		alone = append(alone, (measure.Spent() - before).Seconds())
		return err
	}
	both := func() (err error) {
		if x != nil {
			if err := x.Close(); err != nil {
				return err
			}
		}
		before, began := measure.Spent(), time.Now()
		if x, err = index.Open(ctx, index.Options{Open: open, Again: true, Engine: eo}); err != nil {
			return err
		}
		r := x.NewReader()
		for x.Last() < rows {
			time.Sleep(100 * time.Microsecond)
		}
		if got, err := r.Window(1, rows, nil); err != nil || len(got) != rows {
			return fmt.Errorf("the first packets: %d, %w", len(got), err)
		}
		first = time.Since(began)
		_, err = x.Result()
		with = append(with, (measure.Spent() - before).Seconds())
		return err
	}
	for i := range 6 {
		turn := []func() error{track, both}
		if i%2 == 1 {
			slices.Reverse(turn)
		}
		for _, run := range turn {
			if err := run(); err != nil {
				return nil, err
			}
		}
		ratios = append(ratios, with[i]/alone[i])
	}
	defer x.Close()
	n := float64(x.Last())
	p := x.Progress()
	perPacket := float64(p.Entries) / n

	places, err := jumps(x)
	if err != nil {
		return nil, err
	}
	by := median(ratios)
	out := []page.Row{
		{What: "the first 50 packets, decoded, with marks", Ours: millis(first), Goal: "< 1 s", Met: page.Judge(first < time.Second)},
		{
			What: fmt.Sprintf("processor time to track and index %.1f million packets, ICRCs checked", n/1e6), Ours: fmt.Sprintf("%.2f s", median(with)),
			Other: fmt.Sprintf("tracking alone: %.2f s", median(alone)), Ratio: fmt.Sprintf("%.2f×", by), Goal: "≤ 1.15×", Met: page.Judge(by <= 1.15),
		},
		{What: "memory of the index, each packet", Ours: fmt.Sprintf("%.1f bytes", perPacket), Goal: "≤ 16", Met: page.Judge(perPacket <= 16)},
		{
			What: "a screen of 50 packets anywhere: read and decoded", Ours: fmt.Sprintf("median %s, 99 %% %s", millis(time.Duration(median(places))), millis(time.Duration(quantile(places, 0.99)))),
			Goal: "< 16 ms", Met: page.Judge(quantile(places, 0.99) < 16e6),
		},
	}
	for _, text := range []string{"flow.retransmission", "flow.id == 7", "infiniband.bth.opcode == RC_RDMA_READ_REQUEST", "ip.addr == 10.0.0.1 and infiniband.bth.psn > 1000"} {
		f, err := filter.Compile(text)
		if err != nil {
			return nil, err
		}
		before, began := measure.Spent(), time.Now()
		v, err := x.Filter(ctx, f)
		if err != nil {
			return nil, err
		}
		<-v.Done()
		if ok, err := v.State(); !ok {
			return nil, err
		}
		out = append(out, page.Row{
			What: "filter of the whole capture: `" + text + "`", Ours: seconds(time.Since(began)) + ", processor time " + seconds(measure.Spent()-before),
			Other: fmt.Sprintf("%d packets", v.Len()),
		})
		v.Close()
	}
	return out, nil
}

// jumps is how long screens at random places take, in nanoseconds.
func jumps(x *index.Index) (ns []float64, err error) {
	r := x.NewReader()
	random := rand.New(rand.NewPCG(1, 2))
	var got []index.Row
	for range 2000 {
		from := 1 + random.Uint64N(x.Last()-rows)
		began := time.Now()
		if got, err = r.Window(from, rows, got); err != nil || len(got) != rows || got[0].Number != from {
			return nil, fmt.Errorf("packets from %d: %d, %w", from, len(got), err)
		}
		ns = append(ns, float64(time.Since(began)))
	}
	return ns, nil
}
