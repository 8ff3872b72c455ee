//go:build linux

package main

import (
	"fmt"
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

// contestant does something once and returns its figure: a rate, or a time.
type contestant func() (float64, error)

// inTurn lets each contestant run once a round, in an order that turns about. A first round warms up and does not count.
func inTurn(rounds int, who ...contestant) ([][]float64, error) {
	all := make([][]float64, len(who))
	for round := -1; round < rounds; round++ {
		for k := range who {
			i := (k + round + 1) % len(who)
			v, err := who[i]()
			if err != nil {
				return nil, err
			}
			if round >= 0 {
				all[i] = append(all[i], v)
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

// ratios pairs two contestants' figures, round by round.
func ratios(a, b []float64) spread {
	var v []float64
	for i := range a {
		v = append(v, a[i]/b[i])
	}
	return spreadOf(v)
}
