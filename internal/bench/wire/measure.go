//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/rocescope/rocescope/internal/bench/measure"
)

// contestant sends, or receives, about as many packets as it is asked for. It says how many arrived, what that took, and what
// it allocated for it.
type contestant func(packets int) (result, error)

type result struct {
	arrived uint64
	cpu     time.Duration
	mallocs uint64
}

// loop measures f, which sends; arrived counts at the other end.
func loop(arrived func() (uint64, error), f func() error) (r result, err error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	from, err := arrived()
	if err != nil {
		return r, err
	}
	began := measure.Spent()
	err = f()
	r.cpu = measure.Spent() - began
	if err != nil {
		return r, err
	}
	to, err := arrived()
	runtime.ReadMemStats(&after)
	r.arrived, r.mallocs = to-from, after.Mallocs-before.Mallocs
	return r, err
}

// rate is packets that arrived for each second of processor time.
func (r result) rate() float64 { return float64(r.arrived) / r.cpu.Seconds() }

// cost is processor time for each packet that arrived, in nanoseconds.
func (r result) cost() float64 { return float64(r.cpu.Nanoseconds()) / float64(r.arrived) }

// inTurn lets each contestant run once a round, in an order that turns about. A first round warms up and does not count.
func inTurn(rounds, packets int, who ...contestant) ([][]result, error) {
	all := make([][]result, len(who))
	for round := -1; round < rounds; round++ {
		for k := range who {
			i := (k + round + 1) % len(who)
			n := packets
			if round < 0 {
				n = packets / 10
			}
			r, err := who[i](n)
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				all[i] = append(all[i], r)
			}
		}
	}
	return all, nil
}

// each computes something from every result.
func each(r []result, f func(result) float64) (v []float64) {
	for i := range r {
		v = append(v, f(r[i]))
	}
	return v
}

// ratios pairs two contestants' results, round by round.
func ratios(a, b []result, f func(result) float64) measure.Spread {
	var v []float64
	for i := range a {
		v = append(v, f(a[i])/f(b[i]))
	}
	return measure.Of(v)
}

func millions(r []result) string {
	return fmt.Sprintf("%.3f M/CPU-s", measure.Of(each(r, result.rate)).Median/1e6)
}

func nanoseconds(r []result) string {
	return fmt.Sprintf("%.0f ns", measure.Of(each(r, result.cost)).Median)
}

// mallocs is how many allocations each packet took, in the round that took most.
func mallocs(r []result) float64 {
	return slices.Max(each(r, func(r result) float64 { return float64(r.mallocs) / float64(r.arrived) }))
}
