package filter

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// tokenKind is what a token is.
type tokenKind uint8

const (
	tokEOF    tokenKind = iota
	tokWord             // a field, a keyword or a literal: infiniband.bth.psn, and, 02:00:00:00:00:01, 10.0.0.0/8
	tokString           // "…" or r"…"
	tokChar             // '…'
	tokOp               // an operator in symbols
	tokOpen             // (
	tokClose            // )
	tokSet              // {
	tokSetEnd           // }
	tokComma
	tokRange // ..
	tokSlice // […], text is what stands between
)

// token is a piece of the source. text is what it means (a string without its
// quotes and escapes), raw what a string has between its quotes.
type token struct {
	kind      tokenKind
	pos, end  int
	text, raw string
	bad       int // where a string has an unknown escape; 0 = it has none
}

// The operators in symbols, longest first.
var operators = []string{"!==", "===", "!=", "==", "~=", "<=", ">=", "&&", "||", "^^", "<", ">", "&", "!", "~"}

// singles are tokens of one character that is in no symbol.
var singles = map[byte]tokenKind{'(': tokOpen, ')': tokClose, '{': tokSet, '}': tokSetEnd, ',': tokComma}

// lexer cuts a source into tokens.
type lexer struct {
	src string
	at  int
}

func (l *lexer) next() (token, *Error) {
	for l.at < len(l.src) && strings.IndexByte(" \t\r\n", l.src[l.at]) >= 0 {
		l.at++
	}
	pos := l.at
	if pos == len(l.src) {
		return token{kind: tokEOF, pos: pos, end: pos}, nil
	}
	switch c := l.src[pos]; {
	case singles[c] != 0:
		return l.take(singles[c], 1), nil
	case strings.HasPrefix(l.src[pos:], ".."):
		return l.take(tokRange, 2), nil
	case c == '[':
		return l.slice()
	case c == '"':
		return l.quoted(tokString, 0)
	case c == '\'':
		return l.quoted(tokChar, 0)
	case (c == 'r' || c == 'R') && strings.HasPrefix(l.src[pos+1:], `"`):
		return l.quoted(tokString, 1)
	}
	for _, s := range operators {
		if strings.HasPrefix(l.src[pos:], s) {
			return l.take(tokOp, len(s)), nil
		}
	}
	n := wordLen(l.src[pos:])
	if n == 0 {
		return token{}, l.unexpected()
	}
	return l.take(tokWord, n), nil
}

func (l *lexer) take(k tokenKind, n int) token {
	t := token{kind: k, pos: l.at, end: l.at + n, text: l.src[l.at : l.at+n]}
	t.raw = t.text
	l.at += n
	return t
}

// wordLen is the length of the word at the start of s. Words hold what names,
// numbers, addresses and byte strings are made of; two dots end them.
func wordLen(s string) int {
	for i, r := range s {
		switch {
		case r == '.' && strings.HasPrefix(s[i:], ".."):
			return i
		case r == '.' || r == ':' || r == '/' || r == '-' || r == '_':
		case r == utf8.RuneError || !unicode.IsLetter(r) && !unicode.IsDigit(r):
			return i
		}
	}
	return len(s)
}

// hints for what people type and this language does not have.
var symbolHints = map[byte]string{
	'=': "equality is written ==",
	'|': "write || or the word or",
	'^': "write ^^ or the word xor",
	'+': "there is no arithmetic in filters",
	'*': "there is no arithmetic in filters",
	'%': "there is no arithmetic in filters",
	']': "a slice begins with [",
	'#': "occurrences of a field cannot be chosen by number",
	'$': "there are no macros in filters",
}

func (l *lexer) unexpected() *Error {
	r, n := utf8.DecodeRuneInString(l.src[l.at:])
	msg := quote(string(r)) + " does not belong here"
	if r == utf8.RuneError {
		msg = "the filter is not valid UTF-8 here"
	}
	return &Error{Pos: l.at, End: l.at + n, Msg: msg, Hint: symbolHints[l.src[l.at]]}
}

// slice takes all up to the closing bracket; what stands between is parsed
// later, for "0-2" and "0:3" would be words here.
func (l *lexer) slice() (token, *Error) {
	n := strings.IndexByte(l.src[l.at:], ']')
	if n < 0 {
		return token{}, &Error{Pos: l.at, End: l.at + 1, Msg: "this [ is never closed"}
	}
	t := l.take(tokSlice, n+1)
	t.text = t.text[1:n]
	return t, nil
}

// quoted takes a string or character, whose quote stands skip bytes further.
// With skip it is a raw one: backslashes stand for themselves.
func (l *lexer) quoted(k tokenKind, skip int) (token, *Error) {
	pos := l.at
	quote := l.src[pos+skip]
	i := pos + skip + 1
	for ; i < len(l.src) && l.src[i] != quote; i++ {
		if l.src[i] == '\\' && (skip == 0 || i+1 < len(l.src) && l.src[i+1] == quote) {
			i++
		}
	}
	if i >= len(l.src) {
		return token{}, &Error{Pos: pos, End: len(l.src), Msg: "this string is never closed"}
	}
	t := l.take(k, i+1-pos)
	t.raw = l.src[pos+skip+1 : i]
	t.text = strings.ReplaceAll(t.raw, `\`+string(quote), string(quote))
	if skip == 0 {
		text, at, ok := unescape(t.raw)
		if !ok { // in a regular expression it may be known
			t.bad = pos + 1 + at
		}
		t.text = text
	}
	if k == tokChar && t.bad == 0 && len(t.text) != 1 {
		return token{}, &Error{Pos: pos, End: i + 1, Msg: "a character in single quotes is one byte", Hint: `strings stand in double quotes: "…"`}
	}
	return t, nil
}

var escapes = map[byte]byte{'"': '"', '\'': '\'', '\\': '\\', '?': '?', 'a': '\a', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t', 'v': '\v'}

// unescape replaces the escapes of a string. at is where an unknown one stands.
func unescape(s string) (text string, at int, ok bool) {
	if strings.IndexByte(s, '\\') < 0 {
		return s, 0, true
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			b = append(b, s[i])
			continue
		}
		rest := s[i+1:]
		if rest == "" {
			return "", i, false
		}
		if c, known := escapes[rest[0]]; known {
			b = append(b, c)
			i++
			continue
		}
		digits, base := 0, 8
		switch {
		case rest[0] == 'x':
			base, i, rest = 16, i+1, rest[1:]
			digits = digitsIn(rest, 2, 16)
		default:
			digits = digitsIn(rest, 3, 8)
		}
		v, err := strconv.ParseUint(rest[:digits], base, 8)
		if err != nil {
			return "", i, false
		}
		b = append(b, byte(v))
		i += digits
	}
	return string(b), 0, true
}

// digitsIn counts the digits of a base at the start of s, up to most.
func digitsIn(s string, most, base int) (n int) {
	for n < most && n < len(s) {
		if _, err := strconv.ParseUint(s[n:n+1], base, 8); err != nil {
			break
		}
		n++
	}
	return n
}
