package main

import (
	"errors"
	"os"
	"regexp"
	"strings"
	"testing"
)

func TestFill(t *testing.T) {
	echo := func(args ...string) ([]byte, error) { return []byte(strings.Join(args, "+") + "\n\n"), nil }
	got, err := fill([]byte("a\n<!-- output: rocescope demo --list -->\nold\n<!-- /output -->\nb\n<!-- output: rocescope -->\n<!-- /output -->\n"), echo)
	if err != nil {
		t.Fatal(err)
	}
	want := "a\n<!-- output: rocescope demo --list -->\n```\n$ rocescope demo --list\ndemo+--list\n```\n<!-- /output -->\nb\n" +
		"<!-- output: rocescope -->\n```\n$ rocescope\n\n```\n<!-- /output -->\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	again, err := fill(got, echo)
	if err != nil || string(again) != want {
		t.Errorf("filling twice changes the document: %v\n%s", err, again)
	}
}

func TestFillRefuses(t *testing.T) {
	echo := func(...string) ([]byte, error) { return nil, nil }
	if _, err := fill([]byte("<!-- output: rocescope demo -->\nno end\n"), echo); err == nil {
		t.Error("a block without an end was not noticed")
	}
	broken := func(...string) ([]byte, error) { return nil, errors.New("broken") }
	if _, err := fill([]byte("<!-- output: rocescope demo -->\n<!-- /output -->\n"), broken); err == nil {
		t.Error("a failing command was not noticed")
	}
}

// TestTargetsAreExplained: each target of the Makefile that `make help` lists is in CONTRIBUTING.md, with what it is for.
func TestTargetsAreExplained(t *testing.T) {
	read := func(name string) string {
		text, err := os.ReadFile("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	guide := read("CONTRIBUTING.md")
	targets := regexp.MustCompile(`(?m)^([a-z-]+):.*## `).FindAllStringSubmatch(read("Makefile"), -1)
	if len(targets) < 20 {
		t.Errorf("%d targets", len(targets))
	}
	for _, m := range targets {
		if !regexp.MustCompile("`(make )?" + m[1] + "`").MatchString(guide) {
			t.Errorf("make %s is not explained in CONTRIBUTING.md", m[1])
		}
	}
}

// TestGoalsOfPages: the cells of a row, and what is said of one that missed its goal.
func TestGoalsOfPages(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.Mkdir("docs", 0o755); err != nil {
		t.Fatal(err)
	}
	page := "| measured | rocescope | compared with | ratio | goal | met |\n|---|---|---|---|---|---|\n" +
		"| a | 1 s | b: 2 s | 2.0× | ≥ 1× | yes |\n| slow | 3 s |  |  | ≤ 1 s | **no** |\n| c | 1 |  |  | – | – |\n"
	if err := os.WriteFile("docs/performance.md", []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	p := proof{page: "performance.md", rows: "a|slow|c", why: "because"}
	lines, err := p.lines()
	want := []string{
		"[performance.md](performance.md): a | `make bench` | 1 s, 2.0× (b: 2 s); goal ≥ 1×: met",
		"[performance.md](performance.md): slow | `make bench` | 3 s; goal ≤ 1 s: **missed**: because",
	}
	if err != nil || strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("%q, %v", lines, err)
	}
	if _, err := (&proof{page: "performance.md", rows: "gone"}).lines(); err == nil {
		t.Error("a row that is gone is not missed")
	}
	if _, err := (&proof{tests: []string{"docs/TestGone"}}).lines(); err == nil {
		t.Error("a test that is gone is not missed")
	}
	if got := coverageIn([]byte("| ″ |  | `go test -cover ./flows` | 96.0 % of statements"), "./flows"); got != "96.0" {
		t.Errorf("coverage %q", got)
	}
}
