package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestTranslationIsInStep compares what both languages have in common: the order of headings, commands and their output, and links.
func TestTranslationIsInStep(t *testing.T) {
	shape := func(name string) (all []string) {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		code := false
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, "```") {
				code = !code
			}
			switch {
			case code || strings.HasPrefix(line, "<!--"):
				all = append(all, line)
			case strings.HasPrefix(line, "#"):
				all = append(all, strings.Repeat("#", strings.Count(line, "#")))
			}
			for _, link := range regexp.MustCompile(`\]\(([^)]*)\)`).FindAllStringSubmatch(line, -1) {
				if !strings.HasPrefix(link[1], "README") {
					all = append(all, link[1])
				}
			}
		}
		return all
	}
	if diff := cmp.Diff(shape("README.md"), shape("README.zh-CN.md")); diff != "" {
		t.Errorf("README.zh-CN.md is not in step with README.md:\n%s", diff)
	}
}
