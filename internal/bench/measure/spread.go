package measure

import (
	"fmt"
	"slices"
)

// Median is the middle of values, or between the two that share it.
func Median(v []float64) float64 { return Of(v).Median }

// Spread is a median and the quartiles beside it.
type Spread struct{ Low, Median, High float64 }

// Of is the spread of values, of which there is one at the least.
func Of(v []float64) Spread {
	s := slices.Sorted(slices.Values(v))
	at := func(share float64) float64 {
		x := share * float64(len(s)-1)
		i := int(x)
		return s[i] + (s[min(i+1, len(s)-1)]-s[i])*(x-float64(i))
	}
	return Spread{at(0.25), at(0.5), at(0.75)}
}

func (s Spread) String() string { return fmt.Sprintf("%.2f [%.2f–%.2f]", s.Median, s.Low, s.High) }
