package main

import (
	"bytes"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/rocescope/rocescope/internal/engine"
)

// fieldStyle is how columns are printed: tshark's -E options.
type fieldStyle struct {
	header     bool
	bom        bool
	separator  string
	quote      byte   // 0 = none
	occurrence byte   // 'a' all, 'f' first, 'l' last
	aggregator string // between the occurrences of one field
	csv        bool   // quote where needed, as RFC 4180 wants it
}

// fieldStyleKeys are the -E options.
var fieldStyleKeys = []string{"header", "separator", "occurrence", "aggregator", "quote", "bom", "escape"}

func newFieldStyle(format string, options []string) (*fieldStyle, error) {
	s := &fieldStyle{separator: "\t", occurrence: 'a', aggregator: ","}
	if format == "csv" {
		s.header, s.separator, s.aggregator, s.csv = true, ",", ";", true
	}
	for _, o := range splitFieldStyle(options) {
		key, value, ok := strings.Cut(o, "=")
		if !ok {
			return nil, errUsage("-E takes name=value, not %q; the names are %s", o, strings.Join(fieldStyleKeys, ", "))
		}
		var err error
		switch key {
		case "header":
			s.header, err = yesNo(o, value)
		case "bom":
			s.bom, err = yesNo(o, value)
		case "escape":
			_, err = yesNo(o, value) // no value of ours has anything to escape
		case "separator":
			s.separator, err = oneCharacter(o, value)
		case "aggregator":
			s.aggregator, err = oneCharacter(o, value)
		case "occurrence":
			if value != "a" && value != "f" && value != "l" {
				err = errUsage("-E %s: it is a (all), f (the first) or l (the last)", o)
			} else {
				s.occurrence = value[0]
			}
		case "quote":
			switch value {
			case "d":
				s.quote = '"'
			case "s":
				s.quote = '\''
			case "n":
				s.quote = 0
			default:
				err = errUsage("-E %s: it is d (double), s (single) or n (none)", o)
			}
		default:
			if near := nearest(key, fieldStyleKeys); near != "" {
				return nil, errUsage("-E has no option %q; did you mean %q?", key, near)
			}
			return nil, errUsage("-E has no option %q; there are %s", key, strings.Join(fieldStyleKeys, ", "))
		}
		if err != nil {
			return nil, err
		}
	}
	return s, nil
}

// nextStyle is a comma behind which another option begins: values may be commas themselves.
var nextStyle = regexp.MustCompile(`,[a-z]+=`)

// splitFieldStyle takes apart what stands together: "header=y,separator=,,quote=d".
func splitFieldStyle(options []string) (single []string) {
	for _, o := range options {
		for {
			at := nextStyle.FindStringIndex(o)
			if at == nil {
				break
			}
			single = append(single, o[:at[0]])
			o = o[at[0]+1:]
		}
		single = append(single, o)
	}
	return single
}

func yesNo(option, value string) (bool, error) {
	if value != "y" && value != "n" {
		return false, errUsage("-E %s: it is y or n", option)
	}
	return value == "y", nil
}

func oneCharacter(option, value string) (string, error) {
	switch value {
	case "/t":
		return "\t", nil
	case "/s":
		return " ", nil
	}
	if utf8.RuneCountInString(value) != 1 {
		return "", errUsage("-E %s: it is one character, or /t for a tab or /s for a space", option)
	}
	return value, nil
}

// fieldsPrinter is -T fields and -T csv with columns.
type fieldsPrinter struct {
	columns []column
	style   *fieldStyle
}

func (f *fieldsPrinter) begin(dst []byte) []byte {
	if f.style.bom {
		dst = append(dst, "\ufeff"...)
	}
	if !f.style.header {
		return dst
	}
	for i := range f.columns {
		if i > 0 {
			dst = append(dst, f.style.separator...)
		}
		dst = append(dst, f.columns[i].name...)
	}
	return append(dst, '\n')
}

func (f *fieldsPrinter) end(dst []byte) []byte { return dst }

func (f *fieldsPrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	for k := range f.columns {
		if k > 0 {
			dst = append(dst, f.style.separator...)
		}
		start := len(dst)
		if f.style.quote != 0 {
			dst = append(dst, f.style.quote)
		}
		before := len(dst)
		dst = f.style.values(dst, &f.columns[k], b, i)
		switch {
		case len(dst) == before: // what is not there is not quoted either
			dst = dst[:start]
		case f.style.quote != 0:
			dst = append(dst, f.style.quote)
		case f.style.csv:
			dst = quoteCSV(dst, before, f.style.separator)
		}
	}
	return append(dst, '\n')
}

// values appends the occurrences of a field that are asked for.
func (s *fieldStyle) values(dst []byte, c *column, b *engine.Batch, i int) []byte {
	before := len(dst)
	for n := 0; ; n++ {
		mark := len(dst)
		if n > 0 && s.occurrence == 'a' {
			dst = append(dst, s.aggregator...)
		}
		at := len(dst)
		out, ok := c.append(dst, b, i, n)
		if !ok {
			return dst[:mark]
		}
		dst = out
		switch {
		case s.occurrence == 'f':
			return dst
		case s.occurrence == 'l':
			dst = append(dst[:before], dst[at:]...)
		}
	}
}

// quoteCSV quotes the value that begins at dst[at:] where it has to be.
func quoteCSV(dst []byte, at int, separator string) []byte {
	value := dst[at:]
	if !bytes.ContainsAny(value, "\"\r\n") && !bytes.ContainsAny(value, separator) {
		return dst
	}
	from := len(dst)
	for range bytes.Count(value, []byte{'"'}) + 2 {
		dst = append(dst, '"')
	}
	to := len(dst) - 1 // where the closing quote is
	for from > at {
		from--
		to--
		if dst[to] = dst[from]; dst[to] == '"' {
			to--
			dst[to] = '"'
		}
	}
	dst[at] = '"'
	return dst
}
