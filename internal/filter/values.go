package filter

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// parseUint reads a number as Wireshark does: 0x hexadecimal, 0b binary, 0 in
// front octal, else decimal. overflow tells numbers beyond 64 bits from what
// is no number.
func parseUint(s string) (v uint64, ok, overflow bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false, false
	}
	for i := range len(s) {
		if s[i] == '_' {
			return 0, false, false
		}
	}
	v, err := strconv.ParseUint(s, 0, 64)
	if err == nil {
		return v, true, false
	}
	ne, _ := err.(*strconv.NumError)
	return 0, false, ne != nil && ne.Err == strconv.ErrRange
}

// unit is a suffix of numbers.
type unit struct {
	suffix string
	factor uint64
}

// sizes are bytes, longest suffix first.
var sizes = []unit{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"TiB", 1 << 40},
	{"kB", 1e3},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"TB", 1e12},
	{"B", 1},
}

// parseSize reads a decimal number of bytes with a unit.
func parseSize(s string) (v uint64, ok bool) {
	for _, u := range sizes {
		if n, found := strings.CutSuffix(s, u.suffix); found {
			v, err := strconv.ParseUint(n, 10, 64)
			if err != nil || n[0] == '+' || v > ^uint64(0)/u.factor {
				return 0, false
			}
			return v * u.factor, true
		}
	}
	return 0, false
}

// durations are units of time in nanoseconds, longest suffix first where one
// ends another.
var durations = []unit{
	{"ns", 1}, {"us", 1e3}, {"µs", 1e3}, {"μs", 1e3}, {"ms", 1e6}, {"s", 1e9}, {"min", 60e9}, {"h", 3600e9}, {"", 1e9},
}

// parseDuration reads seconds, or a number with a unit of time, as
// nanoseconds.
func parseDuration(s string) (ns int64, ok bool) {
	s, negative := strings.CutPrefix(s, "-")
	for _, u := range durations {
		n, found := strings.CutSuffix(s, u.suffix)
		if !found {
			continue
		}
		whole, frac, dot := strings.Cut(n, ".")
		if !digitsOnly(whole) || dot && !digitsOnly(frac) {
			return 0, false
		}
		v, err := strconv.ParseUint(whole, 10, 63)
		if err != nil || v > (1<<63-1)/u.factor {
			return 0, false
		}
		v *= u.factor
		for i, f := 0, u.factor; i < len(frac) && f > 0; i++ {
			// Of units that are no power of ten the digits divide evenly far
			// enough: 60e9 and 3600e9 have nine zeros.
			f /= 10
			v += uint64(frac[i]-'0') * f
		}
		if v > 1<<63-1 {
			return 0, false
		}
		if negative {
			return -int64(v), true
		}
		return int64(v), true
	}
	return 0, false
}

func digitsOnly(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return s != ""
}

// timeLayouts are the ways in which a moment can be written; the fraction of a
// second may be left out. Without a zone it is local time, as in Wireshark.
var timeLayouts = []string{
	time.RFC3339Nano,
	"2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 MST",
	"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02",
	"Jan _2, 2006 15:04:05", "Jan _2, 2006",
}

// parseTime reads a moment: seconds since 1970, or a date and time.
func parseTime(s string) (ns int64, ok bool) {
	if ns, ok := parseDuration(s); ok {
		return ns, true
	}
	for _, layout := range timeLayouts {
		t, err := time.ParseInLocation(layout, s, time.Local)
		if err == nil && t.Year() > 1700 && t.Year() < 2250 { // what an int64 of nanoseconds holds
			return t.UnixNano(), true
		}
	}
	return 0, false
}

// parseMAC reads six bytes in pairs (02:00:…, 02-00-…) or threes of four
// digits (0200.0000.0001).
func parseMAC(s string) (v uint64, ok bool) {
	b, ok := parseHex(s)
	if !ok || len(b) != 6 || len(s) == 12 {
		return 0, false
	}
	return be(b), true
}

// be reads a big-endian number of up to eight bytes.
func be(b []byte) (v uint64) {
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

// parseHex reads bytes in hexadecimal: pairs of digits with ":", "-" or "."
// between them (single digits may stand alone), groups of four with ".", or an
// even number of digits without anything; 0x may stand in front.
func parseHex(s string) (b []byte, ok bool) {
	if rest, found := strings.CutPrefix(s, "0x"); found {
		b, err := hex.DecodeString(rest)
		return b, err == nil && len(b) > 0
	}
	i := strings.IndexAny(s, ":-.")
	if i < 0 {
		if len(s) == 1 {
			s = "0" + s
		}
		b, err := hex.DecodeString(s)
		return b, err == nil && len(b) > 0
	}
	sep := s[i : i+1]
	for _, part := range strings.Split(s, sep) {
		if len(part) == 1 {
			part = "0" + part
		}
		if len(part) != 2 && (len(part) != 4 || sep != ".") {
			return nil, false
		}
		if b, ok = appendHex(b, part); !ok {
			return nil, false
		}
	}
	return b, true
}

func appendHex(b []byte, s string) ([]byte, bool) {
	c, err := hex.DecodeString(s)
	return append(b, c...), err == nil
}

// parseIP reads an address, or a network, of one family: the first and the
// last address that are meant.
func parseIP(s string, six bool) (lo, hi dissect.Addr, ok bool) {
	bits := 32
	if six {
		bits = 128
	}
	n, slash := s, strings.IndexByte(s, '/')
	if slash >= 0 {
		l, err := strconv.ParseUint(s[slash+1:], 10, 8)
		if err != nil || int(l) > bits {
			return lo, hi, false
		}
		n, bits = s[:slash], int(l)
	}
	a, err := netip.ParseAddr(n)
	if err != nil || a.Is4() == six || a.Zone() != "" {
		return lo, hi, false
	}
	if !six {
		b := a.As4()
		host := uint64(1)<<(32-bits) - 1
		v := be(b[:])
		return dissect.Addr{Lo: v &^ host}, dissect.Addr{Lo: v | host}, true
	}
	b := a.As16()
	host := dissect.Addr{Hi: ^uint64(0), Lo: ^uint64(0)}
	switch {
	case bits > 64:
		host.Hi, host.Lo = 0, 1<<(128-bits)-1
	case bits == 64:
		host.Hi = 0
	default:
		host.Hi = 1<<(64-bits) - 1
		if bits == 0 {
			host.Hi = ^uint64(0)
		}
	}
	v := dissect.Addr{Hi: be(b[:8]), Lo: be(b[8:])}
	return dissect.Addr{Hi: v.Hi &^ host.Hi, Lo: v.Lo &^ host.Lo}, dissect.Addr{Hi: v.Hi | host.Hi, Lo: v.Lo | host.Lo}, true
}

// sliceRange is one part of a slice: n bytes at an offset, from the end where
// the offset is negative; n < 0 means up to the end.
type sliceRange struct{ at, n int }

// parseSlice reads what stands between the brackets of a slice.
func parseSlice(s string) (parts []sliceRange, ok bool) {
	for _, part := range strings.Split(s, ",") {
		part = strings.TrimSpace(part)
		lo, hi, colon := strings.Cut(part, ":")
		r := sliceRange{0, 1}
		switch {
		case colon && lo == "" && hi == "":
			return nil, false
		case colon:
			if lo != "" {
				if r.at, ok = sliceNumber(lo); !ok {
					return nil, false
				}
			}
			r.n = -1
			if hi != "" {
				if r.n, ok = sliceNumber(hi); !ok || r.n <= 0 {
					return nil, false
				}
			}
		default:
			if i := strings.IndexByte(part[min(1, len(part)):], '-'); i >= 0 { // not a sign
				last := 0
				r.at, ok = sliceNumber(part[:i+1])
				if last, _ = sliceNumber(part[i+2:]); !ok || last < r.at || r.at < 0 {
					return nil, false
				}
				r.n = last - r.at + 1
			} else if r.at, ok = sliceNumber(part); !ok {
				return nil, false
			}
		}
		if r.at < 0 && r.n > -r.at {
			return nil, false
		}
		parts = append(parts, r)
	}
	return parts, len(parts) <= maxSliceParts
}

// maxSliceParts bounds the ranges of a slice.
const maxSliceParts = 32

func sliceNumber(s string) (v int, ok bool) {
	s = strings.TrimSpace(s)
	v, err := strconv.Atoi(s)
	return v, err == nil && v > -1<<20 && v < 1<<20 && !strings.HasPrefix(s, "+")
}
