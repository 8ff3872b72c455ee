package cells

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// meanings are the names of the meanings.
var meanings = [NumStyles]string{
	Plain: "plain", Faint: "faint", Title: "title", Border: "border", Focus: "focus", OK: "ok", Warn: "warn", Bad: "bad", Note: "note",
	Request: "request", Response: "response", Atomic: "atomic", Congestion: "congestion", Chart1: "chart1", Chart2: "chart2", Chart3: "chart3",
	Chart4: "chart4", Axis: "axis", Key: "key", Chip: "chip", Bar: "bar", Cursor: "cursor", Marked: "marked",
}

// Meanings are the names of all meanings.
func Meanings() []string { return slices.Clone(meanings[:]) }

// MeaningByName finds a meaning.
func MeaningByName(name string) (Style, bool) {
	i := slices.Index(meanings[:], name)
	return Style(max(i, 0)), i >= 0
}

// sixteen are the names of the colours that every terminal has.
var sixteen = []string{"black", "red", "green", "yellow", "blue", "magenta", "cyan", "white"}

// NewTheme makes a theme of looks as people write them, by meanings: "208 bold", "231 on 24". What is not in it looks as in the
// theme that "base" names, dark unless it does. The error comes with the meaning that it is about.
func NewTheme(name string, looks map[string]string) (t *Theme, meaning string, err error) {
	base := ThemeByName("dark")
	if b, ok := looks["base"]; ok {
		if base = ThemeByName(b); base == nil {
			return nil, "base", fmt.Errorf("there is no theme %q to be based on", b)
		}
	}
	t = &Theme{Name: name, Help: "your own, based on " + base.Name, Look: base.Look}
	for _, m := range slices.Sorted(maps.Keys(looks)) {
		if m == "base" {
			continue
		}
		s, ok := MeaningByName(m)
		if !ok {
			return nil, m, fmt.Errorf("%q is nothing that has a look; there are %s", m, strings.Join(meanings[:], ", "))
		}
		if t.Look[s], err = lookOf(looks[m]); err != nil {
			return nil, m, err
		}
	}
	return t, "", nil
}

func lookOf(text string) (Look, error) {
	l := Look{-1, -1, 0}
	to := &l.Fg
	for _, w := range strings.Fields(strings.ToLower(text)) {
		switch attr := map[string]Style{"bold": Bold, "underline": Underline, "reverse": Reverse}[w]; {
		case attr != 0:
			l.Attr |= attr
		case w == "on":
			to = &l.Bg
		case w == "default":
			*to = -1
		default:
			n, err := colorByName(w)
			if err != nil {
				return l, err
			}
			*to = n
		}
	}
	return l, nil
}

func colorByName(w string) (int, error) {
	name, bright := strings.CutPrefix(w, "bright-")
	if i := slices.Index(sixteen, name); i >= 0 {
		if bright {
			i += 8
		}
		return i, nil
	}
	n, err := strconv.Atoi(w)
	if err != nil || n < 0 || n > 255 {
		return 0, fmt.Errorf("%q is no colour: they are 0 to 255, %s, each also with bright- in front; \"on\" stands before the background, and bold, underline, reverse can be added", w, strings.Join(sixteen, ", "))
	}
	return n, nil
}
