package filter

import (
	"strings"

	"github.com/rocescope/rocescope/dissect"
)

// Completion is one way to go on.
type Completion struct {
	Start int    // Text replaces what was typed from here on
	Text  string // a field, an operator or a value
	Help  string // what it is, in a few words
}

// wanted is what can stand at a place of a filter.
type wanted uint8

const (
	wantField wanted = iota
	wantOperator
	wantValue
	wantJoin
	wantNothing
)

// Complete tells how the beginning of a filter may go on: the names of fields,
// the operators behind one, and the words of its values.
func Complete(prefix string) []Completion {
	if len(prefix) > maxSource {
		return nil
	}
	want, typed, start, sym := situation(prefix)
	switch want {
	case wantField:
		return completeField(typed, start)
	case wantOperator:
		return completeOperator(typed, start, sym)
	case wantValue:
		return completeValue(typed, start, sym)
	case wantJoin:
		return filterTexts(joins, typed, start)
	}
	return nil
}

// situation reads as far as tokens go and says what is wanted behind them: what
// of it is already typed, from where on, and for which field.
func situation(src string) (want wanted, typed string, start int, sym *symbol) {
	l := lexer{src: src}
	inSet := false
	for {
		at := l.at + len(src[l.at:]) - len(strings.TrimLeft(src[l.at:], " \t\r\n"))
		t, err := l.next()
		switch {
		case err != nil && at < len(src) && src[at] == '"':
			if want != wantValue {
				return wantNothing, "", at, sym
			}
			return want, src[at:], at, sym
		case err != nil:
			return wantNothing, "", at, sym
		case t.kind == tokEOF:
			return want, "", len(src), sym
		case t.end == len(src) && t.kind == tokWord:
			return want, t.text, t.pos, sym
		}
		_, kind := infix(t)
		switch {
		case t.kind == tokOpen:
			want = wantField
		case t.kind == tokSet, t.kind == tokComma && inSet, t.kind == tokRange:
			want, inSet = wantValue, true
		case t.kind == tokSetEnd:
			want, inSet = wantJoin, false
		case t.kind == tokComma:
			want = wantField
		case kind == nodeAnd || kind == nodeOr || kind == nodeXor:
			want, sym = wantField, nil
		case kind == nodeTest, t.text == "in":
			want = wantValue
		case kind == nodeMask:
			want = wantNothing
		case t.text == "not" || t.text == "!" || want == wantField && (t.text == "any" || t.text == "all"):
		case t.kind == tokWord && want == wantField:
			if s := lookup(t.text); s != nil {
				want, sym = wantOperator, s
			}
		case t.kind == tokSlice, t.kind == tokClose && sym != nil && want == wantOperator:
			want = wantOperator
		case inSet:
			want = wantNothing
		default:
			want = wantJoin
		}
	}
}

func completeField(typed string, start int) []Completion {
	var out []Completion
	low := strings.ToLower(typed)
	for _, s := range symbols().order {
		switch {
		case strings.HasPrefix(s.name, low):
			out = append(out, Completion{start, s.name, s.text})
		case low != "" && strings.HasPrefix(s.name, prefix+low):
			out = append(out, Completion{start, strings.TrimPrefix(s.name, prefix), s.text})
		}
	}
	return append(out, filterTexts(beginnings, typed, start)...)
}

var (
	beginnings = []Completion{{Text: "not", Help: "what follows does not hold"}, {Text: "len(", Help: "number of bytes"}, {Text: "count(", Help: "number of occurrences"}}
	joins      = []Completion{{Text: "and", Help: "both hold"}, {Text: "or", Help: "one holds"}, {Text: "xor", Help: "exactly one holds"}}
	equalities = []Completion{{Text: "==", Help: "equals"}, {Text: "!=", Help: "differs"}, {Text: "in {", Help: "is one of"}}
	orders     = []Completion{{Text: "<", Help: "is less"}, {Text: "<=", Help: "is at most"}, {Text: ">", Help: "is more"}, {Text: ">=", Help: "is at least"}}
	searches   = []Completion{{Text: "contains", Help: "holds the bytes or text"}, {Text: "matches", Help: "fits a regular expression"}}
	masks      = []Completion{{Text: "&", Help: "has one of the bits"}}
)

func filterTexts(list []Completion, typed string, start int) (out []Completion) {
	for _, c := range list {
		if strings.HasPrefix(c.Text, typed) {
			c.Start = start
			out = append(out, c)
		}
	}
	return out
}

func completeOperator(typed string, start int, s *symbol) []Completion {
	if s == nil {
		return nil
	}
	o := operand{sym: s, mask: maxUint}
	list := equalities
	if k := o.class(); k != classWord && s.kind != dissect.Bool || s.ranked() {
		list = append(list[:len(list):len(list)], orders...)
	}
	if k := o.class(); k == classBytes || k == classWord || s.kind == dissect.MAC {
		list = append(list[:len(list):len(list)], searches...)
	}
	if o.class() == classNumber && s.kind != dissect.Bool {
		list = append(list[:len(list):len(list)], masks...)
	}
	return filterTexts(append(list[:len(list):len(list)], joins...), typed, start)
}

// completeValue lists the words of a field's values; typed may begin with a
// quote.
func completeValue(typed string, start int, s *symbol) []Completion {
	if s == nil {
		return nil
	}
	if s.kind == dissect.Bool {
		return filterTexts([]Completion{{Text: "1", Help: "true"}, {Text: "0", Help: "false"}}, typed, start)
	}
	w := s.words()
	if w == nil {
		return nil
	}
	var out []Completion
	began := normal(strings.TrimPrefix(typed, `"`))
	for i, text := range quoteSpaced(w.names) {
		name := w.names[i]
		if strings.HasPrefix(normal(name), began) {
			out = append(out, Completion{start, text, s.wordHelp(name, w.values[normal(name)][0])})
		}
	}
	return out
}

// wordHelp says what a word of a field means.
func (s *symbol) wordHelp(name string, v uint64) string {
	switch {
	case s.name == opcodeField:
		return dissect.Opcode(v).String()
	case s.name == "finding.id":
		return findingTitle(v)
	case s.kind == dissect.Text:
		return ""
	}
	f := dissect.Field{Kind: s.kind, Width: uint16(max(s.width(), 8))}
	return string(f.AppendUint(nil, v))
}
