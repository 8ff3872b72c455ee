//go:build linux

package main

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

const (
	bulk      = 1 << 20 // bytes of a large message
	bulkDepth = 8
	bulkCount = 64
	small     = 128
)

// perSecond is how many of something a second of processor time has.
func perSecond(n int, f func() error) (float64, error) {
	began := measure.Spent()
	err := f()
	return float64(n) / (measure.Spent() - began).Seconds(), err
}

// goodput compares large messages with the open loop.
func goodput(rounds int) (rows []page.Row, err error) {
	l, err := newLink("goodput")
	if err != nil {
		return nil, err
	}
	defer l.close()
	for _, mtu := range []int{1024, 4096} {
		open, err := newOpenLoop(l.ports[0], l.ports[1], mtu)
		if err != nil {
			return nil, err
		}
		d, err := newDuo(l.ports[0], l.ports[1], mtu, 1, 2*bulkDepth)
		if err != nil {
			return nil, err
		}
		const bytes = bulkCount * bulk
		who := []contestant{func() (float64, error) { return perSecond(bytes, func() error { return open.carry(bytes / mtu) }) }}
		ops := []rnic.Op{rnic.OpWrite, rnic.OpRead, rnic.OpSend}
		for _, op := range ops {
			who = append(who, func() (float64, error) {
				return perSecond(bytes, func() error { return d.messages(op, bulk, bulkCount, bulkDepth, false) })
			})
		}
		all, err := inTurn(rounds, who...)
		if err != nil {
			return nil, err
		}
		d.close()
		for i, op := range ops {
			by := ratios(all[1+i], all[0])
			rows = append(rows, page.Row{
				What: fmt.Sprintf("%v of 1 MiB, MTU %d", op, mtu), Ours: gbits(all[1+i]), Other: "open loop, payload copied, full ICRC: " + gbits(all[0]),
				Ratio: by.String(), Goal: "≥ 0.80", Met: page.Judge(by.Median >= 0.80),
			})
		}
	}
	return rows, nil
}

func gbits(v []float64) string { return fmt.Sprintf("%.2f Gbit/CPU-s", measure.Of(v).Median*8/1e9) }

// latency compares small messages with a bare ping-pong of their frames.
func latency(rounds int) (rows []page.Row, err error) {
	l, err := newLink("latency")
	if err != nil {
		return nil, err
	}
	defer l.close()
	open, err := newOpenLoop(l.ports[0], l.ports[1], small)
	if err != nil {
		return nil, err
	}
	d, err := newDuo(l.ports[0], l.ports[1], 1024, 1, 4)
	if err != nil {
		return nil, err
	}
	defer d.close()
	const trips = 500
	for _, c := range []struct {
		op          rnic.Op
		there, back int
	}{
		{rnic.OpWrite, frameSize(dissect.OpRCWriteOnly, small), frameSize(dissect.OpRCAcknowledge, 0)},
		{rnic.OpRead, frameSize(dissect.OpRCReadRequest, 0), frameSize(dissect.OpRCReadResponseOnly, small)},
	} {
		all, err := inTurn(rounds,
			func() (float64, error) {
				times, err := open.pingPong(c.there, c.back, trips)
				return medianOf(times), err
			},
			func() (float64, error) {
				times := make([]float64, trips)
				for i := range times {
					began := time.Now()
					if err := d.messages(c.op, small, 1, 1, false); err != nil {
						return 0, err
					}
					times[i] = float64(time.Since(began).Nanoseconds())
				}
				return medianOf(times), nil
			})
		if err != nil {
			return nil, err
		}
		by := ratios(all[1], all[0])
		rows = append(rows, page.Row{
			What: fmt.Sprintf("%v of %d bytes, latency", c.op, small), Ours: micro(all[1]), Other: fmt.Sprintf("ping-pong of frames of %d and %d bytes: %s", c.there, c.back, micro(all[0])),
			Ratio: by.String(), Goal: "≤ 2", Met: page.Judge(by.Median <= 2),
		})
	}
	return rows, nil
}

func medianOf(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(v))[len(v)/2]
}

func micro(v []float64) string { return fmt.Sprintf("%.1f µs", measure.Of(v).Median/1e3) }

// lossy loses every so manieth frame that arrives.
type lossy struct {
	port.Port
	every, n, lost int
}

// Receive implements port.Port.
func (p *lossy) Receive(in []port.In) (int, error) {
	got, err := p.Port.Receive(in)
	kept := 0
	for _, f := range in[:got] {
		if p.n++; p.n%p.every == 0 {
			p.lost++
			continue
		}
		in[kept] = f
		kept++
	}
	return kept, err
}

// window is how many request packets of a queue pair are under way at most.
const window = 256

// loss compares a wire that loses with one that does not.
func loss(rounds int) (rows []page.Row, err error) {
	l, err := newLink("loss")
	if err != nil {
		return nil, err
	}
	defer l.close()
	const bytes, mtu, never = bulkCount * bulk, 1024, math.MaxInt
	ends := [2]*lossy{{Port: l.ports[0], every: never}, {Port: l.ports[1], every: never}}
	d, err := newDuo(ends[0], ends[1], mtu, 1, 2*bulkDepth)
	if err != nil {
		return nil, err
	}
	defer d.close()
	for _, op := range []rnic.Op{rnic.OpWrite, rnic.OpSend, rnic.OpRead} {
		var again, frames, needed []float64
		run := func(every int) (float64, error) {
			for _, e := range ends {
				e.every, e.n, e.lost = every, 0, 0
			}
			before := d.devs[0].Counters().TxFrames + d.devs[1].Counters().TxFrames
			v, err := perSecond(bytes, func() error { return d.messages(op, bulk, bulkCount, bulkDepth, true) })
			n := float64(d.devs[0].Counters().TxFrames + d.devs[1].Counters().TxFrames - before)
			if every == never {
				needed = append(needed, n)
			} else {
				frames = append(frames, n)
				again = append(again, float64(ends[0].lost+ends[1].lost))
			}
			return v, err
		}
		all, err := inTurn(rounds, func() (float64, error) { return run(never) }, func() (float64, error) { return run(100) })
		if err != nil {
			return nil, err
		}
		var each, share []float64
		for i := range all[0] {
			each = append(each, max(0, frames[i+1]-needed[i+1])/again[i+1])      // the first round was for warming up
			share = append(share, all[1][i]/(all[0][i]*needed[i+1]/frames[i+1])) // what is left when frames sent again are taken out
		}
		by, per := measure.Of(share), measure.Of(each)
		rows = append(rows, page.Row{
			What: fmt.Sprintf("%v of 1 MiB, MTU %d, 1 %% lost both ways", op, mtu), Ours: gbits(all[1]),
			Other: fmt.Sprintf("nothing lost: %s; %.0f packets again for each lost, of %d that may be under way", gbits(all[0]), per.Median, window),
			Ratio: by.String(), Goal: fmt.Sprintf("≥ 0.8, ≤ %d again", window), Met: page.Judge(by.Median >= 0.8 && per.Median <= window),
		})
	}
	return rows, nil
}

// frameSize is the length of a frame of an opcode.
func frameSize(op dissect.Opcode, payload int) int {
	return 14 + 20 + 8 + op.Info().Len + payload + dissect.ICRCSize
}

// manyQPs compares small messages posted to 10,000 queue pairs in turn with those on one. Either each queue pair has some waiting, as
// the one has, so that one acknowledgement answers many; or one is under way on each, and each takes an acknowledgement of its own: then the
// link carries twice the frames, and what it makes of that is the comparison.
func manyQPs(rounds int) (rows []page.Row, err error) {
	const many, count, depth, waiting = 10_000, 40_000, 256, 8
	var duos []*duo
	var open *openLoop
	for _, n := range []int{1, many} {
		l, err := newLink(fmt.Sprintf("qps%d", n))
		if err != nil {
			return nil, err
		}
		defer l.close()
		d, err := newDuo(l.ports[0], l.ports[1], 1024, n, max(4*waiting, depth/n))
		if err != nil {
			return nil, err
		}
		duos = append(duos, d)
		if open, err = newOpenLoop(l.ports[0], l.ports[1], small); err != nil {
			return nil, err
		}
	}
	writes := func(d *duo, count, depth int) contestant {
		return func() (float64, error) {
			return perSecond(count, func() error { return d.messages(rnic.OpWrite, small, count, depth, false) })
		}
	}
	bare := func() (float64, error) {
		return perSecond(count, func() error {
			for left := count; left > 0; left -= len(open.slots) {
				if err := open.swap(frameSize(dissect.OpRCWriteOnly, small), frameSize(dissect.OpRCAcknowledge, 0), min(left, len(open.slots))); err != nil {
					return err
				}
			}
			return nil
		})
	}
	got, err := inTurn(rounds, writes(duos[0], count, depth), writes(duos[1], 3*waiting*many, waiting*many), writes(duos[1], count, depth), bare)
	if err != nil {
		return nil, err
	}
	one, full, single := got[0], got[1], got[2]
	by := ratios(full, one)
	rows = append(rows, page.Row{
		What: fmt.Sprintf("WRITEs of %d bytes posted to 10,000 QPs in turn, %d waiting on each", small, waiting), Ours: perCPU(full), Other: "on one QP: " + perCPU(one),
		Ratio: by.String(), Goal: "≥ 0.7", Met: page.Judge(by.Median >= 0.7),
	})
	by = ratios(single, one)
	rows = append(rows, page.Row{
		What: fmt.Sprintf("WRITEs of %d bytes on 10,000 QPs in turn, one under way on each, each acknowledged by itself", small), Ours: perCPU(single),
		Other: fmt.Sprintf("on one QP, acknowledged together: %s; the link with these frames, one there and one back for each, and no protocol: %s", perCPU(one), perCPU(got[3])),
		Ratio: by.String(), Goal: "≥ 0.7", Met: page.Judge(by.Median >= 0.7),
	})
	return rows, nil
}

func perCPU(v []float64) string { return fmt.Sprintf("%.0f k/CPU-s", measure.Of(v).Median/1e3) }
