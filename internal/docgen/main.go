// Command docgen brings the documentation up to date with the program: run it by `make docs`.
//
// In README.md, its translation and docs/*.md it replaces what stands between
//
//	<!-- output: rocescope demo -->
//	<!-- /output -->
//
// by what the built program prints for that command line, and it writes the pages of the tables. The pictures in docs/img are the
// program's own screen, run in a terminal (tmux) and drawn as SVG. The page of promises (docs/trust.md) is put together from the pages
// that the benchmarks write and from the names of tests; the picture and the tables of the architecture (docs/architecture.md) are made
// from package comments and imports.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// pages are whole documents that one command writes.
var pages = []struct {
	file string
	args []string
}{
	{"docs/opcodes.md", []string{"opcodes", "--markdown"}},
	{"docs/fields.md", []string{"fields", "--markdown"}},
	{"docs/findings.md", []string{"findings", "--markdown"}},
	{"docs/faults.md", []string{"faults", "--markdown"}},
	{"docs/tables.md", []string{"export", "--columns", "--markdown"}},
	{"docs/nics.md", []string{"doctor", "--nics"}},
	{"docs/keys.md", []string{"tui", "--markdown"}},
	{"docs/conformance.md", []string{"test", "--markdown"}},
}

func main() {
	binary := flag.String("binary", "./rocescope", "the built program")
	promised := flag.Bool("trust", false, "only the page of promises")
	built := flag.Bool("architecture", false, "only the page of the architecture, and its picture")
	coverage := flag.Bool("coverage", false, "measure the coverage on that page anew, which takes a minute")
	flag.Parse()
	run := func() error { return generate(*binary, *coverage) }
	if *promised {
		run = func() error { return writeTrust(*coverage) }
	}
	if *built {
		run = writeArchitecture
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func generate(binary string, coverage bool) error {
	path, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	run := func(args ...string) ([]byte, error) { return output(path, args) }

	for _, page := range pages {
		text, err := run(page.args...)
		if err != nil {
			return err
		}
		if err := write(page.file, text); err != nil {
			return err
		}
	}
	if err := drawPictures(path); err != nil {
		return err
	}
	if _, err := run("schema", "--write", "docs/schema"); err != nil {
		return err
	}
	if err := writeTrust(coverage); err != nil {
		return err
	}
	if err := writeArchitecture(); err != nil {
		return err
	}
	documents, err := filepath.Glob("docs/*.md")
	if err != nil {
		return err
	}
	for _, file := range append(documents, "README.md", "README.zh-CN.md") {
		before, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		after, err := fill(before, run)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		if err := write(file, after); err != nil {
			return err
		}
	}
	return nil
}

var block = regexp.MustCompile(`(?s)(<!-- output: rocescope ?([^\n]*?) -->\n).*?(<!-- /output -->)`)

// fill replaces the blocks of one document.
func fill(document []byte, run func(args ...string) ([]byte, error)) ([]byte, error) {
	if opened, closed := bytes.Count(document, []byte("<!-- output:")), len(block.FindAll(document, -1)); opened != closed {
		return nil, fmt.Errorf("%d output blocks begin, but %d are whole (each needs its own <!-- /output -->)", opened, closed)
	}
	var failed error
	filled := block.ReplaceAllFunc(document, func(old []byte) []byte {
		part := block.FindSubmatch(old)
		text, err := run(strings.Fields(string(part[2]))...)
		if err != nil {
			failed = errors.Join(failed, err)
			return old
		}
		return fmt.Appendf(nil, "%s```\n$ %s\n%s\n```\n%s", part[1],
			strings.TrimSpace("rocescope "+string(part[2])), bytes.TrimRight(text, " \n"), part[3])
	})
	return filled, failed
}

// output runs the program as a pipe would see it. A verdict (exit code 3) is an output like any other.
func output(binary string, args []string) ([]byte, error) {
	cmd := exec.Command(binary, args...)
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	text, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		err = nil
	}
	if err != nil {
		return nil, fmt.Errorf("rocescope %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(complaint.String()))
	}
	return text, nil
}

// write leaves a file alone that is right already.
func write(file string, text []byte) error {
	if old, err := os.ReadFile(file); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	fmt.Println("docgen: wrote", file)
	return os.WriteFile(file, text, 0o644)
}
