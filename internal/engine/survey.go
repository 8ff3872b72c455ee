package engine

import (
	"cmp"
	"errors"
	"io"
	"math/bits"
	"slices"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

const (
	// bucketBits is of the numbers by which pairs of addresses are dealt out: enough for some hundred busy ones not to fall together.
	bucketBits = 12
	numBuckets = 1 << bucketBits

	surveyFrames = 64 << 10 // looked at in front of a pass
	fewFrames    = 16 << 10 // of a capture that is read before anything is gained
)

// dealing says which worker follows what is between two addresses.
type dealing struct {
	workers int
	owners  [numBuckets]uint8
}

// mostWorkers is what fits into a dealing.
const mostWorkers = everybody

func (d *dealing) owner(a, b dissect.Addr) int { return int(d.owners[bucketOf(a, b)]) }

// bucketOf is the same in both directions.
func bucketOf(a, b dissect.Addr) int {
	const odd = 0x9E3779B97F4A7C15
	spread := func(x dissect.Addr) uint64 {
		h := (x.Lo ^ bits.RotateLeft64(x.Hi, 32)) * odd
		return h ^ h>>32
	}
	return int((spread(a) + spread(b)) * odd >> (64 - bucketBits))
}

// survey looks at the beginning of the capture, and deals its pairs of addresses out so that all workers have about as much to do.
// It returns nil where that cannot be, or is not worth while.
func (p *Pipeline) survey(workers int) *dealing {
	src, err := p.o.Reopen()
	if err != nil {
		return nil // whoever reads next says so
	}
	defer src.Close()
	var load [numBuckets]int
	frames := make([]captures.Frame, BatchSize)
	plain, all := 0, 0
	for all < surveyFrames {
		n, err := src.ReadBatch(frames)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = captures.Guard(func() error {
				for i := range frames[:n] {
					if a, b, ok := dissect.Between(frames[i].Link, frames[i].Data); ok {
						load[bucketOf(a, b)]++
						plain++
					}
				}
				return nil
			})
		}
		if err != nil {
			return nil
		}
		all += n
	}
	if all < fewFrames || plain*2 < all {
		return nil
	}
	d := deal(&load, workers)
	if heaviest := slices.Max(d.loads(&load)); heaviest*workers*3 > plain*4 {
		return nil // the busiest would have a third too much
	}
	return d
}

// deal gives the busiest bucket that is left to the worker with the least to do, again and again.
func deal(load *[numBuckets]int, workers int) *dealing {
	d := &dealing{workers: workers}
	order := make([]int, numBuckets)
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(load[b], load[a]) })
	sums := make([]int, workers)
	for i, bucket := range order {
		w := i % workers // of those that were not seen
		if load[bucket] > 0 {
			w = slices.Index(sums, slices.Min(sums))
		}
		d.owners[bucket] = uint8(w)
		sums[w] += load[bucket]
	}
	return d
}

// loads is how much each worker has to do.
func (d *dealing) loads(load *[numBuckets]int) []int {
	sums := make([]int, d.workers)
	for bucket, n := range load {
		sums[d.owners[bucket]] += n
	}
	return sums
}
