package suite

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// FuzzScenario reads scenarios and profiles: those that ship with the program, and what comes of them.
func FuzzScenario(f *testing.F) {
	files, err := filepath.Glob("conformance/10-*.yaml")
	if err != nil || len(files) == 0 {
		f.Fatalf("no scenarios: %v", err)
	}
	profiles, _ := filepath.Glob("profiles/*.yaml")
	for _, file := range append(files, profiles...) {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("cases:\n  - id: a\n    steps:\n      - send: {opcode: RC_SEND_ONLY, payload: 4294967295}\n"))
	f.Add([]byte("cases: [{id: '', steps: [{}]}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s, err := Parse("scenario.yaml", data); err == nil && len(s.Cases) == 0 {
			t.Error("a scenario without cases is none")
		}
		if p, err := ParseProfile("profile.yaml", data); err == nil && p.Name == "" {
			t.Error("a profile without a name is none")
		}
	})
}

// FuzzHookAnswer reads what a hook's program may print as an answer.
func FuzzHookAnswer(f *testing.F) {
	f.Add([]byte(`{"ok":true}`))
	f.Add([]byte(`{"unsupported":true,"error":"no"}`))
	f.Add([]byte(`{"qpn":4294967296}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, line []byte) {
		var a Answer
		if json.Unmarshal(line, &a) == nil {
			_ = a.err(&Command{Do: "read"})
		}
	})
}
