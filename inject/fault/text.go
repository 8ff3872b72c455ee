package fault

import (
	"fmt"
	"maps"
	"strings"
)

// split divides a text into words. Quotes keep a value together that has spaces.
func split(text string) (words []word, err error) {
	for rest := strings.TrimLeft(text, " \t\n"); rest != ""; rest = strings.TrimLeft(rest, " \t\n") {
		var w strings.Builder
		quote := byte(0)
		i := 0
		for ; i < len(rest); i++ {
			c := rest[i]
			switch {
			case quote != 0 && c == quote:
				quote = 0
			case quote == 0 && (c == '"' || c == '\''):
				quote = c
			case quote == 0 && (c == ' ' || c == '\t' || c == '\n'):
				goto end
			default:
				w.WriteByte(c)
			}
		}
	end:
		if quote != 0 {
			return nil, fmt.Errorf("%q: a quote is not closed", rest)
		}
		key, value, ok := strings.Cut(w.String(), "=")
		if !ok {
			key, value = "", key
		}
		words = append(words, word{key, value})
		rest = rest[i:]
	}
	return words, nil
}

// parts divides the words of several actions at each "then".
func parts(words []word) (all [][]word) {
	from := 0
	for i, w := range words {
		if w.key == "" && w.value == "then" {
			all = append(all, words[from:i])
			from = i + 1
		}
	}
	return append(all, words[from:])
}

// Parse reads a rule in words: ACTION [parameter=value ...] [then ACTION ...] [selector=value ...] [when FILTER]. Instead of the
// actions there may be the catalogue's name of a fault, behind which parameters replace the fault's own.
func Parse(text string) (*Rule, error) {
	d, err := parseDraft(text)
	if err != nil {
		return nil, fmt.Errorf("fault %q: %w", text, err)
	}
	r, err := d.compile()
	if err != nil {
		return nil, fmt.Errorf("fault %q: %w", text, err)
	}
	return r, nil
}

func parseDraft(text string) (*draft, error) {
	d := &draft{selected: map[string]string{}}
	head := text
	if at := whenAt(text); at >= 0 {
		head, d.when = text[:at], strings.TrimSpace(text[at+len("when"):])
		if d.when == "" {
			return nil, wrong("when", "behind when there should be a filter")
		}
	}
	words, err := split(head)
	if err != nil {
		return nil, err
	}
	var do []word
	for _, w := range words {
		if w.key == "" || byName(selectors, w.key) < 0 {
			do = append(do, w)
			continue
		}
		if _, twice := d.selected[w.key]; twice {
			return nil, wrong(w.key, "%s= is there twice", w.key)
		}
		d.selected[w.key] = w.value
	}
	if len(do) == 0 {
		return nil, wrong("do", "it has no action: there are %s", strings.Join(actionNames(), ", "))
	}
	if f := Find(do[0].value); do[0].key == "" && f != nil {
		return d.of(f, do[1:])
	}
	d.do = joined(do)
	return d, nil
}

// whenAt is where the word "when" stands outside of quotes; -1 without one.
func whenAt(text string) int {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quote != 0:
			if c == quote {
				quote = 0
			}
		case c == '"' || c == '\'':
			quote = c
		case strings.HasPrefix(text[i:], "when") && (i == 0 || text[i-1] == ' ') && (i+4 == len(text) || text[i+4] == ' '):
			return i
		}
	}
	return -1
}

func joined(words []word) string {
	all := make([]string, len(words))
	for i, w := range words {
		all[i] = quoted(w.value)
		if w.key != "" {
			all[i] = w.key + "=" + quoted(w.value)
		}
	}
	return strings.Join(all, " ")
}

// of makes the draft that of a fault of the catalogue: what the draft says itself comes in place of what the fault has, and its
// filter beside the fault's.
func (d *draft) of(f *Fault, own []word) (*draft, error) {
	if f.Rule == "" {
		return nil, wrong("fault", "%s is no rule: %s", f.ID, f.Otherwise)
	}
	base, err := parseDraft(f.Rule)
	if err != nil {
		return nil, err
	}
	words, err := split(base.do)
	if err != nil {
		return nil, err
	}
	for _, w := range own {
		found := false
		for i := range words {
			if words[i].key == w.key && w.key != "" {
				words[i].value, found = w.value, true
			}
		}
		if !found {
			return nil, wrong("fault", "%s has no parameter %s; it is: %s", f.ID, joined([]word{w}), f.Rule)
		}
	}
	for key := range d.selected { // those that say which packets are struck go together
		if exclusive(key) {
			for _, k := range []string{"nth", "every", "probability", "count"} {
				delete(base.selected, k)
			}
		}
	}
	maps.Copy(base.selected, d.selected)
	base.do, base.fault = joined(words), f.ID
	switch {
	case base.when != "" && d.when != "":
		base.when = "(" + base.when + ") && (" + d.when + ")"
	case d.when != "":
		base.when = d.when
	}
	return base, nil
}

func exclusive(key string) bool {
	return key == "nth" || key == "every" || key == "probability"
}
