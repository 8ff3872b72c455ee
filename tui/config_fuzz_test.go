package tui

import "testing"

// FuzzConfig reads settings.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{"tui:\n  theme: dark\n  fps: 10\n", "tui:\n  keys:\n    quit: q\n", "tui: {fps: -99999999999}", "tui: &a [*a]", "other: 1", ""} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if c, err := ParseConfig("config.yaml", data, ""); err == nil {
			_ = c
		}
	})
}
