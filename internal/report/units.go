package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Count writes a number with its thousands apart: 1,234,567.
func Count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// Plural writes a number and what it counts: "1 packet", "2 packets".
func Plural(n uint64, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return Count(n) + " " + what + "s"
}

// Bytes writes an amount of data in the units of memory: 512 B, 1.0 KiB.
func Bytes(n uint64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	return scaled(float64(n), 1024, []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"})
}

// BitRate writes bits per second in the units of links: 9.41 Gbit/s.
func BitRate(bps float64) string {
	return scaled(bps, 1000, []string{"bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s", "Pbit/s"})
}

// scaled writes v with three digits or so, in the largest unit that leaves something before the point.
func scaled(v, step float64, units []string) string {
	i := 0
	for i < len(units)-1 && v >= step-0.5 {
		v /= step
		i++
	}
	switch {
	case i == 0:
		return fmt.Sprintf("%.0f %s", v, units[i])
	case step == 1024 || v >= 99.95:
		return trimmed(v, 1) + " " + units[i]
	}
	return trimmed(v, 2) + " " + units[i]
}

func trimmed(v float64, digits int) string {
	if v >= 99.95 {
		digits = 0
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

// Duration writes a length of time in one unit: 850 ns, 12.3 us, 4.10 ms, 1.20 s, 2m05s.
func Duration(d time.Duration) string {
	switch v := math.Abs(float64(d)); {
	case d < 0:
		return "-" + Duration(-d)
	case v < 1e3:
		return fmt.Sprintf("%d ns", d)
	case v < 999.5e3:
		return threeDigits(v/1e3) + " us"
	case v < 999.5e6:
		return threeDigits(v/1e6) + " ms"
	case v < 99.95e9:
		return threeDigits(v/1e9) + " s"
	}
	d = d.Round(time.Second)
	switch {
	case d < time.Hour:
		return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%d days", d/(24*time.Hour))
}

func threeDigits(v float64) string {
	switch {
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 0, 64)
}

// QPN writes a queue pair number as the tools of the field do.
func QPN(n uint32) string { return fmt.Sprintf("0x%06x", n) }

// PSN writes a packet sequence number as the tools of the field do.
func PSN(n uint32) string { return fmt.Sprintf("0x%06x", n) }
