package stream

import "math/bits"

// choice picks from a few things by weight, in constant time (Walker's alias method): each column is one thing up to a mark,
// and another above it.
type choice struct {
	mark  []uint64
	other []int32
}

// newChoice makes a choice of weights, of which at least one is not 0.
func newChoice(weights []float64) choice {
	n := len(weights)
	c := choice{make([]uint64, n), make([]int32, n)}
	sum := 0.0
	for _, w := range weights {
		sum += w
	}
	share := make([]float64, n)
	var under, over []int32
	for i, w := range weights {
		share[i] = w / sum * float64(n)
		if share[i] < 1 {
			under = append(under, int32(i))
		} else {
			over = append(over, int32(i))
		}
	}
	for len(under) > 0 && len(over) > 0 {
		u, o := under[len(under)-1], over[len(over)-1]
		under = under[:len(under)-1]
		c.mark[u], c.other[u] = uint64(share[u]*(1<<63))<<1, o
		if share[o] -= 1 - share[u]; share[o] < 1 {
			over = over[:len(over)-1]
			under = append(under, o)
		}
	}
	for _, i := range append(under, over...) { // whole columns, but for rounding
		c.mark[i], c.other[i] = 1<<64-1, i
	}
	return c
}

// pick returns the thing that a random number chooses.
func (c *choice) pick(r uint64) int {
	if len(c.mark) == 1 {
		return 0
	}
	i, rest := bits.Mul64(r, uint64(len(c.mark)))
	if rest <= c.mark[i] {
		return int(i)
	}
	return int(c.other[i])
}

// mix is a random number that is a function of another (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	return x ^ x>>31
}
