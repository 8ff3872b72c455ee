package events

import (
	"strings"
	"testing"
)

// FuzzRead: no log, cut, damaged or invented, makes reading it panic, and one that is cut is said to be.
func FuzzRead(f *testing.F) {
	whole := `{"type":"log","schema":"` + Schema + `"}
{"type":"connection","conn":1,"a":"10.0.0.1","b":"10.0.0.2"}
{"type":"message","conn":1,"operation":"WRITE","status":"success","first_psn":5,"bytes":64,"latency_ns":1000}
{"type":"end"}
`
	f.Add(whole)
	f.Add(whole[:len(whole)-16])
	f.Add(strings.ReplaceAll(whole, "64", "18446744073709551616"))
	f.Add(strings.ReplaceAll(whole, `"conn":1`, `"conn":-1`))
	f.Add("\n\n" + whole)
	f.Add(`{"type":"log"`)
	f.Fuzz(func(t *testing.T, text string) {
		var first, last string
		n := 0
		err := Read(strings.NewReader(text), func(e *Event) {
			if n++; n == 1 {
				first = e.Type
			}
			last = e.Type
		})
		if err == nil && (last != typeEnd || first != typeLog && n > 0 && !strings.HasPrefix(text, "\n")) {
			t.Errorf("a log from %q to %q is taken for whole", first, last)
		}
	})
}
