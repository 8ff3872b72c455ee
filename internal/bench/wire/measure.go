//go:build linux

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// spent is the processor time of this process so far, of all its threads. A virtual link's receiving half runs inside of the
// sender's system call, and is in it.
func spent() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

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
	began := spent()
	err = f()
	r.cpu = spent() - began
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

// spread is a median and the quartiles beside it.
type spread struct{ low, median, high float64 }

func spreadOf(v []float64) spread {
	s := slices.Sorted(slices.Values(v))
	at := func(share float64) float64 {
		x := share * float64(len(s)-1)
		i := int(x)
		return s[i] + (s[min(i+1, len(s)-1)]-s[i])*(x-float64(i))
	}
	return spread{at(0.25), at(0.5), at(0.75)}
}

func (s spread) String() string { return fmt.Sprintf("%.2f [%.2f–%.2f]", s.median, s.low, s.high) }

// each computes something from every result.
func each(r []result, f func(result) float64) (v []float64) {
	for i := range r {
		v = append(v, f(r[i]))
	}
	return v
}

// ratios pairs two contestants' results, round by round.
func ratios(a, b []result, f func(result) float64) spread {
	var v []float64
	for i := range a {
		v = append(v, f(a[i])/f(b[i]))
	}
	return spreadOf(v)
}

func millions(r []result) string {
	return fmt.Sprintf("%.3f M/CPU-s", spreadOf(each(r, result.rate)).median/1e6)
}

func nanoseconds(r []result) string {
	return fmt.Sprintf("%.0f ns", spreadOf(each(r, result.cost)).median)
}

// mallocs is how many allocations each packet took, in the round that took most.
func mallocs(r []result) float64 {
	return slices.Max(each(r, func(r result) float64 { return float64(r.mallocs) / float64(r.arrived) }))
}
