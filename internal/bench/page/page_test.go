//go:build unix

package page

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "page.md")
	p := Page{Title: "T", Command: "make t", Source: "internal/t", Method: "how\n", Ours: "we", Ratio: "ratio", Reading: "\nread\n"}
	err := p.Write(Options{Out: out, Only: "one"}, []Part{
		{"one", func() ([]Row, error) {
			return []Row{{What: "a", Ours: "1", Other: "2", Ratio: "0.5", Goal: "≥ 1", Met: Judge(false)}, {What: "b", Ours: "3"}}, nil
		}},
		{"two", func() ([]Row, error) { t.Error("runs"); return nil, nil }},
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	const table = "how\n\n| measured | we | compared with | ratio | goal | met |\n|---|---|---|---|---|---|\n" +
		"| a | 1 | 2 | 0.5 | ≥ 1 | **no** |\n| b | 3 |  |  | – | – |\n\nread\n"
	if err != nil || !strings.HasSuffix(string(text), table) || !strings.HasPrefix(string(text), "# T\n\nWritten by `make t`; change internal/t, not the page.\n\nMeasured on ") {
		t.Errorf("%v:\n%s", err, text)
	}
}
