package stream

import (
	"fmt"
	"strconv"
	"strings"
)

// Rate is how fast to send: packets or bits per second, 0 both for as fast as can be. Bits are those of frames without FCS,
// preamble and gap, as a capture has them.
type Rate struct{ Packets, Bits float64 }

var rateUnits = map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12}

// ParseRate reads "10G", "10Gbps", "2.5gbit/s" (bits per second) and "1000pps", "1.5Mpps" (packets per second).
func ParseRate(text string) (Rate, error) {
	word := strings.ToLower(strings.TrimSpace(text))
	number, packets := word, false
	for _, unit := range []string{"pps", "bps", "bit/s", "b/s", "bit"} {
		if n, ok := strings.CutSuffix(word, unit); ok {
			number, packets = n, unit == "pps"
			break
		}
	}
	factor := 1.0
	if n := len(number); n > 0 && rateUnits[number[n-1]] > 0 {
		number, factor = number[:n-1], rateUnits[number[n-1]]
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || !(v > 0) || v*factor > 1e15 {
		return Rate{}, fmt.Errorf("%q is no rate: 10G (bits per second) and 1Mpps (packets per second) are", text)
	}
	if packets {
		return Rate{Packets: v * factor}, nil
	}
	return Rate{Bits: v * factor}, nil
}
