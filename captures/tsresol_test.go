package captures

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// exactNanos is the same sum with numbers that have no limits.
func exactNanos(ts uint64, tsresol byte, offset int64) int64 {
	base := big.NewInt(10)
	if tsresol&0x80 != 0 {
		base = big.NewInt(2)
	}
	units := new(big.Int).Exp(base, big.NewInt(int64(tsresol&0x7f)), nil)
	v := new(big.Int).SetUint64(ts)
	v.Mul(v, big.NewInt(nanosPerSecond)).Div(v, units)
	v.Add(v, new(big.Int).Mul(big.NewInt(offset), big.NewInt(nanosPerSecond)))
	switch {
	case v.IsInt64():
		return v.Int64()
	case v.Sign() > 0:
		return math.MaxInt64
	}
	return math.MinInt64
}

func TestClockIsExact(t *testing.T) {
	edges := []int64{0, 1, -1, 1000, math.MaxInt64, math.MinInt64, math.MaxInt64 / nanosPerSecond, math.MinInt64/nanosPerSecond - 1}
	rapid.Check(t, func(t *rapid.T) {
		var tsresol byte
		if rapid.Bool().Draw(t, "power of two") {
			tsresol = 0x80 | byte(rapid.IntRange(0, maxTwoExponent).Draw(t, "exponent"))
		} else {
			tsresol = byte(rapid.IntRange(0, maxTenExponent).Draw(t, "exponent"))
		}
		offset := rapid.OneOf(rapid.SampledFrom(edges), rapid.Int64()).Draw(t, "offset")
		ts := rapid.OneOf(rapid.Uint64(), rapid.SampledFrom([]uint64{0, 1, math.MaxInt64, math.MaxInt64 + 1, math.MaxUint64})).Draw(t, "ts")
		clk, ok := newClock(tsresol, offset)
		if !ok {
			t.Fatalf("%s is refused", resolutionText(tsresol))
		}
		if got, want := clk.nanos(ts), exactNanos(ts, tsresol, offset); got != want {
			t.Fatalf("%d in units of %s plus %d s is %d ns, want %d", ts, resolutionText(tsresol), offset, got, want)
		}
	})
}

func TestEveryResolutionIsReadOrRefused(t *testing.T) {
	for raw := range 256 {
		clk, ok := newClock(byte(raw), 0)
		exp := raw & 0x7f
		sane := exp <= maxTenExponent || raw >= 0x80 && exp <= maxTwoExponent
		if ok != sane || ok != (clk.units != 0) {
			t.Errorf("%s: ok %v, %d units", resolutionText(byte(raw)), ok, clk.units)
		}
		if got := clk.nanos(math.MaxUint64); !ok && got != 0 {
			t.Errorf("%s is refused and gives the time %d", resolutionText(byte(raw)), got)
		}
	}
}
