package filter

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/internal/testkit"
)

// Every example of docs/filter.md compiles, and the mistake that it shows is
// reported as it shows it.
func TestDocumentedFilters(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(testkit.ModuleRoot(t), "docs", "filter.md"))
	if err != nil {
		t.Fatal(err)
	}
	examples, mistakes := 0, 0
	for i, block := range strings.Split(string(page), "```") {
		if i%2 == 0 {
			continue
		}
		kind, body, _ := strings.Cut(block, "\n")
		switch kind {
		case "filter":
			for src := range strings.Lines(body) {
				if _, err := Compile(src); err != nil {
					t.Errorf("%v\n%s", err, err.(*Error).Caret())
				}
				examples++
			}
		case "":
			src, _, _ := strings.Cut(body, "\n")
			_, err := Compile(src)
			e, ok := err.(*Error)
			if !ok {
				t.Errorf("%s: %v", src, err)
				continue
			}
			if got := e.Caret() + "\n" + e.Error() + "\n"; got != body {
				t.Errorf("docs/filter.md shows\n%s\nit is\n%s", body, got)
			}
			mistakes++
		default:
			t.Errorf("a block of kind %q", kind)
		}
	}
	if examples < 30 || mistakes == 0 {
		t.Errorf("only %d examples and %d mistakes were found", examples, mistakes)
	}
}
