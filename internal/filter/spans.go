package filter

import (
	"bytes"
	"math/bits"
	"sort"

	"github.com/rocescope/rocescope/dissect"
)

// span is an interval of numbers, both ends included.
type span struct{ lo, hi uint64 }

const maxUint = ^uint64(0)

// spans is a set of numbers: intervals in order that neither overlap nor
// touch. Signed values are held with their sign bit turned over, so that their
// order is that of the unsigned.
type spans []span

const signBit = 1 << 63

func makeSpans(s []span) spans {
	sort.Slice(s, func(i, j int) bool { return s[i].lo < s[j].lo })
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && (out[n-1].hi == maxUint || x.lo <= out[n-1].hi+1) {
			out[n-1].hi = max(out[n-1].hi, x.hi)
			continue
		}
		out = append(out, x)
	}
	return out
}

// complement is all numbers that are not in the set.
func (s spans) complement() spans {
	out := make(spans, 0, len(s)+1)
	next, done := uint64(0), false
	for _, x := range s {
		if x.lo > next {
			out = append(out, span{next, x.lo - 1})
		}
		if x.hi == maxUint {
			done = true
			break
		}
		next = x.hi + 1
	}
	if !done {
		out = append(out, span{next, maxUint})
	}
	return out
}

func (s spans) has(v uint64) bool {
	i, j := 0, len(s)
	for i < j { // the last interval that begins at or before v
		if h := (i + j) / 2; s[h].lo <= v {
			i = h + 1
		} else {
			j = h
		}
	}
	return i > 0 && v <= s[i-1].hi
}

// compare is the set of v with v OP x, where x is an interval: one number, or
// a network that all addresses in it are equal to.
func compare(o op, x span) spans {
	switch o {
	case opNe, opAnyNe:
		return spans{x}.complement()
	case opLt:
		if x.lo == 0 {
			return nil
		}
		return spans{{0, x.lo - 1}}
	case opLe:
		return spans{{0, x.hi}}
	case opGt:
		if x.hi == maxUint {
			return nil
		}
		return spans{{x.hi + 1, maxUint}}
	case opGe:
		return spans{{x.lo, maxUint}}
	}
	return spans{x}
}

// addrSpan and addrSpans are the same for 128 bits.
type addrSpan struct{ lo, hi dissect.Addr }

type addrSpans []addrSpan

var (
	minAddr = dissect.Addr{}
	maxAddr = dissect.Addr{Hi: maxUint, Lo: maxUint}
)

func less(a, b dissect.Addr) bool { return a.Hi < b.Hi || a.Hi == b.Hi && a.Lo < b.Lo }

func stepAddr(a dissect.Addr, by int64) dissect.Addr {
	if by > 0 {
		lo, carry := bits.Add64(a.Lo, 1, 0)
		return dissect.Addr{Hi: a.Hi + carry, Lo: lo}
	}
	lo, borrow := bits.Sub64(a.Lo, 1, 0)
	return dissect.Addr{Hi: a.Hi - borrow, Lo: lo}
}

func makeAddrSpans(s []addrSpan) addrSpans {
	sort.Slice(s, func(i, j int) bool { return less(s[i].lo, s[j].lo) })
	out := s[:0]
	for _, x := range s {
		if n := len(out); n > 0 && !less(out[n-1].hi, x.lo) {
			if less(out[n-1].hi, x.hi) {
				out[n-1].hi = x.hi
			}
			continue
		}
		out = append(out, x)
	}
	return out
}

func (s addrSpans) complement() (out addrSpans) {
	next := minAddr
	for _, x := range s {
		if less(next, x.lo) {
			out = append(out, addrSpan{next, stepAddr(x.lo, -1)})
		}
		if x.hi == maxAddr {
			return out
		}
		next = stepAddr(x.hi, 1)
	}
	return append(out, addrSpan{next, maxAddr})
}

func (s addrSpans) has(a dissect.Addr) bool {
	i, j := 0, len(s)
	for i < j {
		if h := (i + j) / 2; less(a, s[h].lo) {
			j = h
		} else {
			i = h + 1
		}
	}
	return i > 0 && !less(s[i-1].hi, a)
}

func compareAddr(o op, x addrSpan) addrSpans {
	switch o {
	case opNe, opAnyNe:
		return addrSpans{x}.complement()
	case opLt:
		if x.lo == minAddr {
			return nil
		}
		return addrSpans{{minAddr, stepAddr(x.lo, -1)}}
	case opLe:
		return addrSpans{{minAddr, x.hi}}
	case opGt:
		if x.hi == maxAddr {
			return nil
		}
		return addrSpans{{stepAddr(x.hi, 1), maxAddr}}
	case opGe:
		return addrSpans{{x.lo, maxAddr}}
	}
	return addrSpans{x}
}

// byteRange is a range of byte strings in a set.
type byteRange struct{ lo, hi []byte }

// byteSet is a set of byte strings and ranges of them.
type byteSet struct {
	single map[string]bool
	ranges []byteRange
}

func (s *byteSet) has(b []byte) bool {
	if s.single[string(b)] {
		return true
	}
	for i := range s.ranges {
		if bytes.Compare(b, s.ranges[i].lo) >= 0 && bytes.Compare(b, s.ranges[i].hi) <= 0 {
			return true
		}
	}
	return false
}
