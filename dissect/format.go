package dissect

import (
	"encoding/hex"
	"net/netip"
	"strconv"
	"unicode/utf8"
)

const hexDigits = "0123456789abcdef"

// AppendText appends the field's value as tshark's -T fields prints it. ok is
// false, and dst unchanged, where the frame does not have it.
func (f *Field) AppendText(dst []byte, p *Packet, frame []byte) (out []byte, ok bool) {
	switch f.Kind {
	case MAC, IPv4Addr, IPv6Addr, Bytes, String:
		raw, ok := f.Raw(p, frame)
		if !ok {
			return dst, false
		}
		return f.appendRaw(dst, raw), true
	}
	v, ok := f.Uint(p, frame)
	if !ok {
		return dst, false
	}
	return f.AppendUint(dst, v), true
}

func (f *Field) appendRaw(dst, raw []byte) []byte {
	switch f.Kind {
	case MAC:
		for i, c := range raw {
			if i > 0 {
				dst = append(dst, ':')
			}
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	case IPv4Addr, IPv6Addr:
		a, _ := netip.AddrFromSlice(raw)
		dst = a.AppendTo(dst)
	case String:
		dst = appendString(dst, raw)
	default:
		dst = hex.AppendEncode(dst, raw)
	}
	return dst
}

// appendString appends text of the wire so that a terminal can have it: what is
// no printable character, and the backslash, are escaped as in Go.
func appendString(dst, raw []byte) []byte {
	for len(raw) > 0 {
		r, n := utf8.DecodeRune(raw)
		switch {
		case r == utf8.RuneError && n == 1:
			dst = append(dst, '\\', 'x', hexDigits[raw[0]>>4], hexDigits[raw[0]&15])
		case r == '"':
			dst = append(dst, '"')
		default:
			quoted := strconv.AppendQuoteRune(dst, r) // 'r'
			copy(quoted[len(dst):], quoted[len(dst)+1:len(quoted)-1])
			dst = quoted[:len(quoted)-2]
		}
		raw = raw[n:]
	}
	return dst
}

// AppendUint appends a value of one of the numeric kinds as tshark prints it.
func (f *Field) AppendUint(dst []byte, v uint64) []byte {
	switch f.Kind {
	case Hex:
		digits := int(f.Digits)
		if digits == 0 {
			digits = int(f.Width+7) / 8 * 2
		}
		dst = append(dst, '0', 'x')
		for i := digits - 1; i >= 0; i-- {
			dst = append(dst, hexDigits[v>>(4*uint(i))&15])
		}
		return dst
	case Epoch, Interval:
		return appendSeconds(dst, int64(v))
	case Text:
		if f.Values != nil {
			return append(dst, f.Values(v)...)
		}
	}
	return strconv.AppendUint(dst, v, 10)
}

// appendSeconds prints nanoseconds as seconds with nine decimals.
func appendSeconds(dst []byte, ns int64) []byte {
	u := uint64(ns)
	if ns < 0 {
		dst, u = append(dst, '-'), -u
	}
	dst = strconv.AppendUint(dst, u/1e9, 10)
	dst = append(dst, '.')
	frac := u % 1e9
	for d := uint64(1e8); d > 0; d /= 10 {
		dst = append(dst, '0'+byte(frac/d%10))
	}
	return dst
}

// Meaning returns what the field's value in a frame means in words, "" where
// the number says it all.
func (f *Field) Meaning(p *Packet, frame []byte) string {
	if f.Values == nil || f.Kind == Text {
		return ""
	}
	v, ok := f.Uint(p, frame)
	if !ok {
		return ""
	}
	return f.Values(v)
}
