package main

import (
	"github.com/rocescope/rocescope/inject/fault"
)

// addFaults puts the rules around the ports, if there are any.
func (i *injection) addFaults() error {
	if i.o.rules == nil {
		return nil
	}
	for k, p := range i.ports {
		w, err := fault.Wrap(p, i.o.rules)
		if err != nil {
			return errUsage("%w", err)
		}
		i.ports[k], i.faulty = w, append(i.faulty, w)
	}
	return nil
}

// faultCounts is what the rules did, over all ports.
func (i *injection) faultCounts() (sum []fault.Count) {
	for k, p := range i.faulty {
		for n, c := range p.Counts() {
			if k == 0 {
				sum = append(sum, c)
				continue
			}
			sum[n].Matched += c.Matched
			sum[n].Struck += c.Struck
			sum[n].Failed += c.Failed
		}
	}
	return sum
}
