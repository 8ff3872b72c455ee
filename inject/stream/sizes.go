package stream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// MaxMessage is the longest message (IBA 9.7.1: 2^31 bytes).
const MaxMessage = 1 << 31

// maxSizes is how many sizes an operation has at most: each has its templates. Of a wider range they are spread evenly, both
// ends among them.
const maxSizes = 1024

// Sizes are the lengths of messages in bytes: one, a range of which each length is as likely, or several with weights.
type Sizes struct {
	values  []uint32
	weights []float64 // nil: all the same
}

// Size is one size.
func Size(n uint32) Sizes { return Sizes{values: []uint32{n}} }

// ParseSizes reads "4096", "64K", "64-4096" (a range), "64-4096/64" (in steps), "64=7,1K=2,64K=1" (weights).
func ParseSizes(text string) (Sizes, error) {
	var s Sizes
	parts := strings.Split(text, ",")
	for _, part := range parts {
		size, weight, weighted := strings.Cut(part, "=")
		w := 1.0
		if weighted {
			var err error
			if w, err = strconv.ParseFloat(weight, 64); err != nil || !(w > 0) || w > 1e9 {
				return s, fmt.Errorf("%q is no weight: a number above 0", weight)
			}
		}
		values, err := parseRange(size)
		if err != nil {
			return s, err
		}
		for _, v := range values {
			s.values = append(s.values, v)
			s.weights = append(s.weights, w/float64(len(values)))
		}
	}
	if len(s.values) > 2*maxSizes {
		return s, fmt.Errorf("%d sizes are too many: at most %d, or one range", len(s.values), 2*maxSizes)
	}
	return s, nil
}

func parseRange(text string) ([]uint32, error) {
	low, high, ranged := strings.Cut(text, "-")
	lo, err := ParseBytes(low, MaxMessage)
	if err != nil || !ranged {
		return []uint32{uint32(lo)}, err
	}
	high, by, stepped := strings.Cut(high, "/")
	hi, err := ParseBytes(high, MaxMessage)
	if err != nil {
		return nil, err
	}
	step := uint64(1)
	if stepped {
		if step, err = ParseBytes(by, MaxMessage); err != nil {
			return nil, err
		}
	}
	if hi < lo || step == 0 {
		return nil, fmt.Errorf("%q is no range: it goes from the smaller to the larger, in steps above 0", text)
	}
	n := (hi-lo)/step + 1
	var values []uint32
	for i := range min(n, maxSizes) {
		at := i
		if n > maxSizes {
			at = i * (n - 1) / (maxSizes - 1)
		}
		values = append(values, uint32(lo+at*step))
	}
	return values, nil
}

var byteUnits = map[byte]uint64{'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}

// ParseBytes reads a number of bytes: "4096", "64K", "1M", "0x1000".
func ParseBytes(text string, most uint64) (uint64, error) {
	digits, unit := strings.ToLower(strings.TrimSpace(text)), uint64(1)
	if n := len(digits); n > 1 && !strings.HasPrefix(digits, "0x") {
		if u, ok := byteUnits[digits[n-1]]; ok {
			digits, unit = digits[:n-1], u
		}
	}
	v, err := strconv.ParseUint(digits, 0, 64)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is no number of bytes: 4096, 64K and 1M are", text)
	case v > most/unit:
		return 0, fmt.Errorf("%s is too large: at most %d bytes", text, most)
	}
	return v * unit, nil
}

// Most is the largest size.
func (s *Sizes) Most() uint32 {
	most := uint32(0)
	for _, v := range s.values {
		most = max(most, v)
	}
	return most
}

// atMost cuts what is longer.
func (s *Sizes) atMost(n uint32) Sizes {
	cut := Sizes{slices.Clone(s.values), s.weights}
	for i, v := range cut.values {
		cut.values[i] = min(v, n)
	}
	return cut
}

func (s *Sizes) choice() choice {
	if s.weights != nil {
		return newChoice(s.weights)
	}
	same := make([]float64, len(s.values))
	for i := range same {
		same[i] = 1
	}
	return newChoice(same)
}
