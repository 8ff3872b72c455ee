//go:build linux

package main

import "github.com/rocescope/rocescope/internal/bench/measure"

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

// ratios pairs two contestants' figures, round by round.
func ratios(a, b []float64) measure.Spread {
	var v []float64
	for i := range a {
		v = append(v, a[i]/b[i])
	}
	return measure.Of(v)
}
