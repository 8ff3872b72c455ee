package html

import (
	"math"
	"strconv"
	"time"

	"github.com/rocescope/rocescope/internal/report"
)

// kind says what the numbers of an axis are, and so how they are written. The page's script knows the same ones by the same
// names.
type kind string

const (
	kindTime  kind = "time"  // nanoseconds since the capture's first packet
	kindPSN   kind = "psn"   // offsets from a first PSN
	kindRate  kind = "rate"  // bits per second
	kindBytes kind = "bytes" // bytes
	kindSpan  kind = "span"  // logarithms of nanoseconds
	kindCount kind = "count"
)

// axis maps values to whole numbers, for paths, and those to the page. A path's numbers are small enough for the browser,
// which draws with 24 bits, and exact enough to be read back as values.
type axis struct {
	kind   kind
	lo, hi float64 // values
	unit   float64 // of a path's numbers
	base   uint32  // kindPSN: the PSN of value 0
}

// finest is how many steps an axis has at most.
const finest = 1 << 23

func newAxis(k kind, lo, hi float64, base uint32) axis {
	if hi <= lo {
		hi = lo + 1
	}
	a := axis{kind: k, lo: lo, hi: hi, unit: 1, base: base}
	if steps := (hi - lo) / finest; steps > 1 {
		a.unit = math.Ceil(steps)
	}
	if k == kindSpan {
		a.unit = 1e-5
	}
	return a
}

// step is a value as a path's number.
func (a *axis) step(v float64) int64 { return int64(math.Round((v - a.lo) / a.unit)) }

// steps is the axis' length in a path's numbers.
func (a *axis) steps() float64 { return (a.hi - a.lo) / a.unit }

// data is what the script has to know of the axis.
func (a *axis) data() string {
	f := func(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
	return string(a.kind) + " " + f(a.lo) + " " + f(a.hi) + " " + f(a.unit) + " " + strconv.FormatUint(uint64(a.base), 10)
}

// ticks are round values of the axis, n or so, with their text.
func (a *axis) ticks(n int) (values []float64, texts []string) {
	add := func(v float64, text string) {
		values, texts = append(values, v), append(texts, text)
	}
	switch a.kind {
	case kindSpan:
		for e := math.Ceil(a.lo - 1e-9); e <= a.hi+1e-9; e++ {
			add(e, report.Duration(time.Duration(math.Round(math.Pow(10, e)))))
		}
		return values, texts
	case kindPSN:
		step := math.Max(1, math.Exp2(math.Ceil(math.Log2((a.hi-a.lo)/float64(n)))))
		base := float64(a.base)
		for v := math.Ceil((a.lo+base)/step) * step; v-base <= a.hi; v += step {
			add(v-base, report.PSN(uint32(int64(v))&0xFFFFFF))
		}
		return values, texts
	}
	unit := a.scale()
	step := niceStep((a.hi - a.lo) / unit.size / float64(n))
	digits := max(0, int(math.Ceil(-math.Log10(step)-1e-9)))
	for i := math.Ceil(a.lo/unit.size/step - 1e-9); i*step*unit.size <= a.hi*(1+1e-12); i++ {
		v := i * step
		text := strconv.FormatFloat(v, 'f', digits, 64)
		if v == 0 {
			text = "0"
		}
		add(v*unit.size, text+unit.name)
	}
	return values, texts
}

// unit is one that values are written in.
type unit struct {
	size float64
	name string
}

var units = map[kind][]unit{
	kindTime:  {{1, " ns"}, {1e3, " µs"}, {1e6, " ms"}, {1e9, " s"}},
	kindRate:  {{1, " bit/s"}, {1e3, " kbit/s"}, {1e6, " Mbit/s"}, {1e9, " Gbit/s"}},
	kindBytes: {{1, " B"}, {1 << 10, " KiB"}, {1 << 20, " MiB"}, {1 << 30, " GiB"}},
	kindCount: {{1, ""}},
}

// scale is the unit that suits the axis' far end.
func (a *axis) scale() unit {
	list := units[a.kind]
	best := list[0]
	for _, u := range list {
		if a.hi >= u.size {
			best = u
		}
	}
	return best
}

// niceStep is the least of 1, 2, 5, 10 … that is not below v.
func niceStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range [...]float64{1, 2, 5} {
		if v <= m*power*(1+1e-9) {
			return m * power
		}
	}
	return 10 * power
}
