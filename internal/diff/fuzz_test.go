package diff

import (
	"strings"
	"testing"
)

// FuzzReadLog: whatever an event log holds, a story of it can be read, and its size is bounded by the text's.
func FuzzReadLog(f *testing.F) {
	log := `{"type":"log","schema":"rocescope.events/1"}` + "\n"
	f.Add(log + `{"type":"connection","conn":1,"a":"10.0.0.1","b":"10.0.0.2","a_qpn":17,"transport":"RC"}` + "\n" + `{"type":"end"}` + "\n")
	f.Add(log + `{"type":"message","conn":1,"status":"success","latency_ns":-5,"first_psn":4294967295}` + "\n" + `{"type":"end"}` + "\n")
	f.Add(log + `{"type":"verdict","id":"psn_gap","count":18446744073709551615}` + "\n" + `{"type":"end"}` + "\n")
	f.Add(log + `{"type":"summary"}`)
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ReadLog(strings.NewReader(text))
		if err != nil {
			return
		}
		lines := strings.Count(text, "\n") + 1
		if n := len(s.Messages) + len(s.Findings); n > lines {
			t.Errorf("%d messages and findings in %d lines", n, lines)
		}
	})
}
