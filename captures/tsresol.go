package captures

import (
	"fmt"
	"math"
	"math/bits"
)

// Largest exponents of if_tsresol whose units per second fit 64 bits. Beyond
// them a 64-bit count of units spans less than two seconds in all: no clock is
// meant, so such an interface gets no times.
const (
	maxTenExponent = 19
	maxTwoExponent = 63
)

const nanosPerSecond = 1_000_000_000

// clock turns the time stamps of one interface into Unix nanoseconds. The zero
// value knows no times.
type clock struct {
	units  uint64 // per second; 0: no times
	offset int64  // seconds to add
	scale  uint64 // nanoseconds in a unit where that is whole and offset is 0, else 0
	limit  uint64 // largest time stamp that scale times does not overflow
}

// newClock reads an if_tsresol octet (draft-ietf-opsawg-pcapng, section 4.2):
// the top bit chooses the base, 10 or 2, the rest is the negative exponent. ok
// is false for exponents that no clock has; the clock then knows no times.
func newClock(tsresol byte, offset int64) (c clock, ok bool) {
	exp := uint(tsresol & 0x7f)
	c.offset = offset
	if tsresol&0x80 != 0 {
		if exp > maxTwoExponent {
			return clock{}, false
		}
		c.units = 1 << exp
	} else {
		if exp > maxTenExponent {
			return clock{}, false
		}
		c.units = 1
		for range exp {
			c.units *= 10
		}
	}
	if offset == 0 && c.units <= nanosPerSecond && nanosPerSecond%c.units == 0 {
		c.scale = nanosPerSecond / c.units
		c.limit = math.MaxInt64 / c.scale
	}
	return c, true
}

// resolutionText says what an if_tsresol octet means.
func resolutionText(tsresol byte) string {
	if tsresol&0x80 != 0 {
		return fmt.Sprintf("2^-%d s", tsresol&0x7f)
	}
	return fmt.Sprintf("10^-%d s", tsresol)
}

// nanos converts ts, rounding down to whole nanoseconds and saturating.
func (c *clock) nanos(ts uint64) int64 {
	if c.scale != 0 && ts <= c.limit {
		return int64(ts * c.scale)
	}
	return c.nanosSlow(ts)
}

// nanosSlow computes floor(ts*10^9/units) + offset*10^9 in 128 bits: the first
// term is below 2^94 and the second within ±2^93, so that nothing is lost.
func (c *clock) nanosSlow(ts uint64) int64 {
	if c.units == 0 {
		return 0
	}
	hi, lo := bits.Mul64(ts, nanosPerSecond)
	qhi, rem := hi/c.units, hi%c.units
	qlo, _ := bits.Div64(rem, lo, c.units)

	ohi, olo := bits.Mul64(magnitude(c.offset), nanosPerSecond)
	var carry uint64
	if c.offset >= 0 {
		qlo, carry = bits.Add64(qlo, olo, 0)
		qhi, _ = bits.Add64(qhi, ohi, carry)
	} else {
		qlo, carry = bits.Sub64(qlo, olo, 0)
		qhi, _ = bits.Sub64(qhi, ohi, carry)
	}
	switch top := int64(qhi); {
	case top > 0 || top == 0 && qlo > math.MaxInt64:
		return math.MaxInt64
	case top < -1 || top == -1 && int64(qlo) >= 0:
		return math.MinInt64
	}
	return int64(qlo)
}

// magnitude is |v|, right for the smallest integer too.
func magnitude(v int64) uint64 {
	if v < 0 {
		return -uint64(v)
	}
	return uint64(v)
}
