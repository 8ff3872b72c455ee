package convert

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// timeColumn is where a table's times are, and their unit as a power of ten seconds.
type timeColumn struct {
	at  int // -1: there is none, and the clock's period counts
	exp int
}

// unitOf finds the unit of times in the name of their column: "Time [ns]", "time(s)".
var unitOf = regexp.MustCompile(`[\[(](s|ms|us|µs|ns|ps|fs)[\])]`)

var unitExponents = map[string]int{"s": 0, "ms": -3, "us": -6, "µs": -6, "ns": -9, "ps": -12, "fs": -15}

// clockOf finds out where times come from.
func (o *Stream) clockOf(names []string) (timeColumn, error) {
	at := slices.IndexFunc(names, func(n string) bool {
		if o.Time != "" {
			return n == o.Time
		}
		n = strings.ToLower(n)
		return n == "time" || strings.HasPrefix(n, "time ") || strings.HasPrefix(n, "time[") || strings.HasPrefix(n, "time(")
	})
	switch {
	case o.Time != "" && at < 0:
		return timeColumn{}, fmt.Errorf("no column is named %q, which is to hold the time (there are %s)", o.Time, list(names))
	case o.Period > 0 && o.Time == "":
		return timeColumn{at: -1}, nil
	case at < 0:
		return timeColumn{}, fmt.Errorf("no column has the time; say how long a clock cycle is with --clock, for instance 322.265625MHz or 3.1ns")
	}
	t := timeColumn{at: at}
	if m := unitOf.FindStringSubmatch(names[at]); m != nil {
		t.exp = unitExponents[m[1]]
	}
	return t, nil
}

// time is the time of a line in nanoseconds.
func (t *csvTable) time(cycle uint64) (int64, error) {
	if t.clock.at < 0 {
		ns, ok := nanoseconds(cycle, t.o.Period)
		if !ok {
			return 0, t.errorf("its time is beyond what captures can hold")
		}
		return ns, nil
	}
	if t.clock.at >= len(t.cells) {
		return 0, t.errorf("it has %d columns, so that the time is missing, which is column %d", len(t.cells), t.clock.at+1)
	}
	ns, ok := decimalTime(string(t.cells[t.clock.at]), t.clock.exp+9)
	if !ok {
		return 0, t.errorf("column %d, %s: %q is no time", t.clock.at+1, t.names[t.clock.at], t.cells[t.clock.at])
	}
	return ns, nil
}

// decimalTime is a decimal number times a power of ten, rounded toward zero and without the rounding of floating point.
func decimalTime(s string, exp int) (int64, bool) {
	neg := strings.HasPrefix(s, "-")
	s = strings.TrimLeft(s, "+-")
	if mantissa, e, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		var n int
		if _, err := fmt.Sscanf(e, "%d", &n); err != nil || n < -99 || n > 99 {
			return 0, false
		}
		s, exp = mantissa, exp+n
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := whole + fraction
	exp -= len(fraction)
	if digits == "" {
		return 0, false
	}
	v, after := int64(0), len(digits)+exp // digits that count
	for i := range max(after, len(digits)) {
		d := int64(0)
		if i < len(digits) {
			if digits[i] < '0' || digits[i] > '9' {
				return 0, false
			}
			d = int64(digits[i] - '0')
		}
		if i >= after {
			continue
		}
		if v > (1<<63-1-d)/10 {
			return 0, false
		}
		v = v*10 + d
	}
	if neg {
		v = -v
	}
	return v, true
}
