// Package draw makes pictures of what connections did, out of characters: charts
// over time, PSNs over time, ladders, state machines, memory maps, histograms, hex
// dumps. Each takes plain data and draws onto a canvas, and keeps nothing. Where
// on the screen it stands, and which keys move it, belongs to package tui.
//
// Where there are more values than cells, the least and the greatest of those that
// share a cell are what is seen, never a mean: nothing that stands out is lost.
// What is presumed, and what is left out, is marked so.
package draw

import (
	"strconv"
	"time"
)

// Count prints a number in groups of three digits.
func Count(n uint64) string {
	s := strconv.FormatUint(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + " " + s[i:]
	}
	return s
}

// scales are prefixes for numbers with units.
var scales = []struct {
	from   float64
	prefix string
}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}, {1, ""}}

// Short prints a number with three digits and a prefix: 1.25 G, 980 k, 12.
func Short(v float64) string {
	sign := ""
	if v < 0 {
		sign, v = "-", -v
	}
	for i, s := range scales {
		if v < s.from*0.9995 {
			continue
		}
		v /= s.from
		if i > 0 && v >= 999.5 { // rounds up to the next prefix
			v, s = 1, scales[i-1]
		}
		text := digits(v)
		if s.prefix != "" {
			text += " " + s.prefix
		}
		return sign + text
	}
	if v == 0 {
		return "0"
	}
	return sign + strconv.FormatFloat(v, 'g', 2, 64)
}

// digits prints a number from 1 to 1000 with three digits, without zeros at the end.
func digits(v float64) string {
	places := 2
	switch {
	case v >= 99.95:
		places = 0
	case v >= 9.995:
		places = 1
	}
	s := strconv.FormatFloat(v, 'f', places, 64)
	for places > 0 && s[len(s)-1] == '0' {
		s, places = s[:len(s)-1], places-1
	}
	if s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

// Span prints a duration with three digits: 1.25 ms, 980 ns, 12 s.
func Span(d time.Duration) string {
	sign, v := "", float64(d)
	if v < 0 {
		sign, v = "-", -v
	}
	switch {
	case v == 0:
		return "0"
	case v < 999.5:
		return sign + digits(v) + " ns"
	case v < 999.5e3:
		return sign + digits(v/1e3) + " µs"
	case v < 999.5e6:
		return sign + digits(v/1e6) + " ms"
	case v < 600e9:
		return sign + digitsOf(v/1e9) + " s"
	}
	return sign + strconv.FormatFloat(v/60e9, 'f', 1, 64) + " min"
}

func digitsOf(v float64) string {
	if v < 1 {
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return digits(v)
}
