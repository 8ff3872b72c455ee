package fault

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// word is a part of a rule's text: a name, or key=value.
type word struct{ key, value string }

// args are an action's parameters as they were written. The first error sticks.
type args struct {
	action *Action
	values map[string]string
	fields []word
	err    error
}

func (a *args) fail(format string, v ...any) {
	if a.err == nil {
		a.err = fmt.Errorf(a.action.Name+": "+format, v...)
	}
}

// text is a parameter's value or its default; ok is false where it has neither.
func (a *args) text(name string) (value string, ok bool) {
	if v, given := a.values[name]; given {
		return v, true
	}
	d := a.action.Params[byName(a.action.Params, name)].Default
	return d, d != ""
}

func (a *args) given(name string) bool {
	_, ok := a.values[name]
	return ok
}

// number is a parameter that must be from least to most; missing gives -1.
func (a *args) number(name string, least, most int) int {
	text, ok := a.text(name)
	if !ok {
		return -1
	}
	v, err := strconv.ParseInt(text, 0, 64)
	if err != nil || v < int64(least) || v > int64(most) {
		a.fail("%s=%s cannot be; it is a number from %d to %d", name, text, least, most)
		return least
	}
	return int(v)
}

// need is number, for a parameter without which the action means nothing.
func (a *args) need(name string, least, most int) int {
	if _, ok := a.text(name); !ok {
		a.fail("%s= is missing: %s", name, a.action.Params[byName(a.action.Params, name)].What)
		return least
	}
	return a.number(name, least, most)
}

// time is a parameter in nanoseconds; missing gives 0.
func (a *args) time(name string) int64 {
	text, ok := a.text(name)
	if !ok {
		return 0
	}
	d, err := parseTime(text)
	if err != nil || d <= 0 {
		a.fail("%s=%s cannot be; it is a time above 0 with its unit: 50us, 3ms, 1s", name, text)
	}
	return int64(d)
}

// parseTime reads a duration; a number alone is seconds.
func parseTime(text string) (time.Duration, error) {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		if s < 0 || s > 1e9 || math.IsNaN(s) {
			return 0, strconv.ErrRange
		}
		return time.Duration(s * float64(time.Second)), nil
	}
	return time.ParseDuration(text)
}

// choice is a parameter that is one of some words, by its index.
func (a *args) choice(name string, words ...string) int {
	text, _ := a.text(name)
	for i, w := range words {
		if strings.EqualFold(w, text) {
			return i
		}
	}
	a.fail("%s=%s cannot be; there are %s", name, text, strings.Join(words, ", "))
	return 0
}

// seals reports whether the ICRC is to be computed anew.
func (a *args) seals() bool { return a.choice("icrc", "stale", "ok") == 1 }

// hex is a parameter of hexadecimal digits.
func (a *args) hex(name string) []byte {
	text, ok := a.text(name)
	if !ok {
		return nil
	}
	b, err := hex.DecodeString(strings.NewReplacer(":", "", " ", "").Replace(strings.TrimPrefix(text, "0x")))
	if err != nil {
		a.fail("%s= is no even number of hexadecimal digits", name)
	}
	return b
}
