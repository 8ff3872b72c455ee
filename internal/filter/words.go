package filter

import (
	"strings"
	"sync"
	"unicode"

	"github.com/rocescope/rocescope/dissect"
)

// maxWord bounds the values of which a field's words are collected.
const maxWord = 512

// words are the names of a field's values.
type words struct {
	names  []string            // as the tables write them, each once, in the order of the values
	values map[string][]uint64 // by normalised name
	heads  map[string][]string // normalised names by what stands before their ':'
}

// normal is how words are compared: small letters, one space for whatever
// separates.
func normal(s string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return r == '_' || r == '-' || unicode.IsSpace(r)
	}), " ")
}

func (w *words) add(name string, v uint64) {
	key := normal(name)
	if key == "" || strings.HasPrefix(key, "unknown") { // what Values says of numbers that cannot be
		return
	}
	if w.values[key] == nil {
		w.names = append(w.names, name)
		if head, _, ok := strings.Cut(key, ":"); ok {
			w.heads[head] = append(w.heads[head], key)
		}
	}
	w.values[key] = append(w.values[key], v)
}

// opcodeWords has the tokens of all opcodes and, as synonyms, their names.
var opcodeWords = sync.OnceValue(func() *words {
	w := newWords()
	for _, o := range dissect.Opcodes() {
		if o.Defined() {
			w.add(o.Token, uint64(o.Code))
		}
	}
	return w
})

func newWords() *words { return &words{values: map[string][]uint64{}, heads: map[string][]string{}} }

// words are the names of the field's values; nil if it has none.
func (s *symbol) words() *words {
	s.once.Do(func() { s.worded = s.collectWords() })
	return s.worded
}

func (s *symbol) collectWords() *words {
	if s.name == opcodeField {
		return opcodeWords()
	}
	f := s.values()
	if f == nil {
		return nil
	}
	if isNumber(f(0)) && isNumber(f(3)) { // another way to write the number is not a name
		return nil
	}
	w := newWords()
	if s.name == "infiniband.mad.attribute" { // class and attribute packed into one number
		for v := uint64(0); v < 256<<8; v++ {
			w.add(f(v>>8<<16|v&0xFF), v>>8<<16|v&0xFF)
		}
		return w
	}
	most := uint64(maxWord - 1)
	if s.kind != dissect.Text {
		most = min(most, s.max())
	}
	for v := uint64(0); v <= most; v++ {
		w.add(f(v), v)
	}
	if bits := s.width(); bits > 9 && bits <= 16 && s.kind != dissect.Text {
		for v := most + 1; v <= s.max(); v++ { // EtherTypes
			w.add(f(v), v)
		}
	}
	return w
}

func isNumber(s string) bool {
	_, ok, _ := parseUint(s)
	return ok
}

// find returns the values that a word means: the name itself, all names that
// have it before their colon, or the one name that it begins. Otherwise names
// tells which it may be.
func (w *words) find(word string) (values []uint64, names []string) {
	key := normal(word)
	if v := w.values[key]; v != nil {
		return v, nil
	}
	if h := w.heads[key]; h != nil { // "NAK" means every "NAK: …"
		for _, n := range h {
			values = append(values, w.values[n]...)
		}
		return values, nil
	}
	var found []string
	if len(key) >= 2 && !isNumber(key) {
		for _, n := range w.names {
			if strings.HasPrefix(normal(n), key) {
				found = append(found, n)
			}
		}
	}
	if len(found) == 1 {
		return w.values[normal(found[0])], nil
	}
	return nil, found
}
