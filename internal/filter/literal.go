package filter

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// This file checks constants against the fields that they are compared with.

// single checks a constant that has to be one value, or one network.
func (c *checker) single(o *operand, n *node) (span, *Error) {
	vs, err := c.number(o, n)
	if err != nil {
		return span{}, err
	}
	return vs[0], nil
}

// number checks a constant for an operand that is held as a number. A word can
// be the name of several.
func (c *checker) number(o *operand, n *node) ([]span, *Error) {
	if !isLiteral(n) {
		return nil, errorAt(n, "", "a constant is needed here")
	}
	one := func(v uint64) []span { return []span{{v, v}} }
	if o.fn != noFunction {
		v, err := c.plain(o, n, maxUint)
		return one(v), err
	}
	switch o.sym.kind {
	case dissect.MAC:
		if v, ok := parseMAC(n.text); ok && n.kind != nodeChar {
			return one(v), nil
		}
		return nil, errorAt(n, "six bytes, as in 02:00:00:00:00:01", "%s is not a MAC address", quote(n.text))
	case dissect.IPv4Addr:
		if lo, hi, ok := parseIP(n.text, false); ok {
			return []span{{lo.Lo, hi.Lo}}, nil
		}
		return nil, errorAt(n, "as in 10.0.0.1 or 10.0.0.0/8", "%s is not an IPv4 address or network", quote(n.text))
	case dissect.Interval:
		if ns, ok := parseDuration(n.text); ok {
			return one(uint64(ns) ^ signBit), nil
		}
		return nil, errorAt(n, "seconds as in 1.5, or with a unit as in 50us, 3ms, 1s", "%s is not a duration", quote(n.text))
	case dissect.Epoch:
		if ns, ok := parseTime(n.text); ok {
			return one(uint64(ns) ^ signBit), nil
		}
		return nil, errorAt(n, `seconds since 1970, or as in "2026-01-31 12:00:00"`, "%s is not a time", quote(n.text))
	case dissect.Bool:
		return c.boolean(o, n)
	case dissect.Text:
		return c.word(o, n)
	}
	if n.kind != nodeString {
		v, isNum, overflow := parseUint(n.text)
		if n.kind == nodeChar {
			v, isNum, overflow = uint64(n.text[0]), true, false
		}
		if isNum || overflow || n.kind == nodeWord && (strings.HasPrefix(n.text, "-") || startsNumber(n.text)) {
			if !isNum && !overflow {
				if vs := c.tryWord(o, n); vs != nil {
					return vs, nil
				}
			}
			if isNum && v <= o.sym.max() {
				return one(v), nil
			}
			v, err := c.plain(o, n, o.sym.max())
			return one(v), err
		}
	}
	return c.word(o, n)
}

// startsNumber reports whether a word is meant as a number.
func startsNumber(s string) bool { return s != "" && s[0] >= '0' && s[0] <= '9' }

// plain checks a number without names.
func (c *checker) plain(o *operand, n *node, most uint64) (uint64, *Error) {
	v, ok, overflow := parseUint(n.text)
	if !ok {
		if v, ok = parseSize(n.text); !ok && n.kind == nodeChar {
			v, ok = uint64(n.text[0]), true
		}
	}
	switch {
	case n.kind == nodeString, !ok && !overflow && !strings.HasPrefix(n.text, "-"):
		hint := ""
		if s := strings.TrimLeft(n.text, "0"); digitsOnly(n.text) && s != "" {
			hint = fmt.Sprintf("a number that begins with 0 is octal; did you mean %s?", s)
		}
		return 0, errorAt(n, hint, "%s is not a number", quote(n.text))
	case !ok && !overflow && digitsOnly(n.text[1:]):
		return 0, errorAt(n, "the smallest value is 0", "%s does not fit %s", n.text, o.name)
	case !ok && !overflow:
		return 0, errorAt(n, "", "%s is not a number", quote(n.text))
	case overflow || v > most:
		return 0, errorAt(n, largest(o.sym, most), "%s does not fit %s", n.text, o.name)
	}
	return v, nil
}

func largest(s *symbol, most uint64) string {
	if s.kind == dissect.Hex || most == maxUint {
		return fmt.Sprintf("the largest value is 0x%x", most)
	}
	return fmt.Sprintf("the largest value is %d", most)
}

func (c *checker) boolean(o *operand, n *node) ([]span, *Error) {
	switch strings.ToLower(n.text) {
	case "1", "true":
		return []span{{1, 1}}, nil
	case "0", "false":
		return []span{{0, 0}}, nil
	}
	return nil, errorAt(n, "write 1, 0, true or false", "%s is not a boolean", quote(n.text))
}

// tryWord looks a constant up among the names of the field's values.
func (c *checker) tryWord(o *operand, n *node) []span {
	w := o.sym.words()
	if w == nil {
		return nil
	}
	values, _ := w.find(n.text)
	return wordSpans(values)
}

func wordSpans(values []uint64) (out []span) {
	for _, v := range values {
		out = append(out, span{v, v})
	}
	return out
}

// word checks a constant that is a name of one of the field's values.
func (c *checker) word(o *operand, n *node) ([]span, *Error) {
	w := o.sym.words()
	if w == nil || n.kind == nodeChar {
		if n.kind == nodeString {
			return nil, errorAt(n, "numbers stand without quotes", "%s is %s, not a string", o.name, o.what())
		}
		return nil, c.noValue(n, "", "%s is not a number")
	}
	values, began := w.find(n.text)
	if values != nil {
		return wordSpans(values), nil
	}
	msg := "%s is no value of %s"
	if len(began) > 1 {
		msg = "%s is not clear as a value of %s"
	}
	return nil, errorAt(n, w.suggest(n.text, began), msg, quote(n.text), o.name)
}

// noValue says that a word is no value, or no field where it looks like one.
func (c *checker) noValue(n *node, hint, format string) *Error {
	switch {
	case n.kind != nodeWord:
	case lookup(n.text) != nil:
		return errorAt(n, "", "%s is a field: constants are needed here", n.text)
	case strings.Contains(n.text, ".") && !startsNumber(n.text):
		if better := suggestField(n.text); strings.HasPrefix(better, "did") {
			return errorAt(n, better, "unknown field %s", quote(n.text))
		}
	}
	return errorAt(n, hint, format, quote(n.text))
}

// addr checks an IPv6 address or network.
func (c *checker) addr(n *node) (addrSpan, *Error) {
	if isLiteral(n) {
		if lo, hi, ok := parseIP(n.text, true); ok {
			return addrSpan{lo, hi}, nil
		}
	}
	return addrSpan{}, errorAt(n, "as in fe80::1 or fe80::/10", "%s is not an IPv6 address or network", quote(n.text))
}

// bytes checks a byte string; width > 0 asks for that many bytes.
func (c *checker) bytes(o *operand, n *node, width int) ([]byte, *Error) {
	if !isLiteral(n) {
		return nil, errorAt(n, "", "a constant is needed here")
	}
	b, ok := []byte(n.text), true
	if n.kind == nodeWord {
		b, ok = parseHex(n.text)
	}
	switch {
	case !ok && n.kind == nodeWord:
		return nil, c.noValue(n, `as in de:ad, 0xdead or "text"`, "%s is not a byte string")
	case len(b) == 0:
		return nil, errorAt(n, "", "the byte string is empty")
	case width > 0 && len(b) != width:
		return nil, errorAt(n, "", "this is %s and never equals %s, which is %s", plural(len(b), "byte"), sourceOf(o), plural(width, "byte"))
	}
	return b, nil
}

// sourceOf writes an operand as it would stand in a filter.
func sourceOf(o *operand) string {
	if o.n.kind == nodeSlice {
		return o.name + "[" + o.n.text + "]"
	}
	return o.name
}

// rawByte finds \x80 … \xff in a regular expression: they would mean
// characters there, not bytes.
var rawByte = regexp.MustCompile(`\\x[89a-fA-F][0-9a-fA-F]`)

func compileRegexp(n *node) (*regexp.Regexp, *Error) {
	text := strings.ReplaceAll(n.raw, `\"`, `"`)
	if rawByte.MatchString(text) {
		return nil, errorAt(n, "bytes are found by contains or a slice", "a regular expression is for text and has no bytes above 0x7f")
	}
	re, err := regexp.Compile("(?i)" + text)
	if err != nil {
		msg := strings.TrimPrefix(err.Error(), "error parsing regexp: ")
		msg = strings.Replace(msg, "`(?i)", "`", 1)
		return nil, errorAt(n, "", "this is not a regular expression: %s", visibleText(msg))
	}
	return re, nil
}

func visibleText(s string) string { return string(visible(s)) }

// containsFold is strings.Contains without regard to case.
func containsFold(s, part string) bool {
	return strings.Contains(strings.ToLower(s), strings.ToLower(part))
}
