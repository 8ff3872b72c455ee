package flows

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLongestIdle compares with sorting all: few and many, equal times, ascending, descending.
func TestLongestIdle(t *testing.T) {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, seed))
	for round := range 400 {
		all := make([]idle, 1+rng.IntN(500))
		for i := range all {
			all[i].slot = uint32(i)
			switch round % 4 {
			case 0:
				all[i].last = int64(rng.IntN(3))
			case 1:
				all[i].last = rng.Int64()
			case 2:
				all[i].last = int64(i)
			case 3:
				all[i].last = int64(-i)
			}
		}
		n := rng.IntN(len(all) + 1)
		want := slices.Clone(all)
		slices.SortFunc(want, idle.compare)
		if got := longestIdle(all, n); !slices.Equal(got, want[:n]) {
			t.Fatalf("round %d: of %d the %d longest idle are %v, want %v", round, len(all), n, got, want[:n])
		}
	}
}
