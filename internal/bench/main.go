//go:build unix

// Command bench measures what the project promises about speed and memory, side
// by side with what people use instead, and writes docs/performance.md. Run it
// by `make bench`.
//
// Machines that do this are shared and noisy. So all times are processor time,
// never the wall's; what is compared runs in turn, round by round, and the table
// shows the median of the rounds and the median of the rounds' ratios.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
)

// row is a line of the table.
type row struct {
	what  string
	ours  string
	other string // what it is compared with
	ratio string
	goal  string // "" = for information
	met   verdict
}

type verdict int

const (
	noGoal verdict = iota
	met
	missed
	notMeasured
)

func (v verdict) String() string { return [...]string{"–", "yes", "**no**", "not measured"}[v] }

func judge(ok bool) verdict {
	if ok {
		return met
	}
	return missed
}

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(*bench) ([]row, error)
}{
	{"decode", decoding},
	{"read", reading},
	{"icrc", invariantCRC},
	{"track", tracking},
	{"million", million},
	{"process", wholeProcess},
}

// bench is one run of the command.
type bench struct {
	binary  string
	dir     string
	packets int
	files   map[string]string
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == measureArg {
		if err := measure(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("binary", "./rocescope", "the built program")
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: decode, read, icrc, track, million, process")
	packets := flag.Int("packets", 400_000, "packets of a capture")
	dir := flag.String("dir", "", "`folder` for captures, some gigabytes; else a temporary one")
	profile := flag.String("cpuprofile", "", "write a processor profile of what runs in this process to this `file`")
	flag.Parse()
	if err := run(*binary, *out, *only, *dir, *profile, *packets); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(binary, out, only, dir, profile string, packets int) error {
	dir, err := os.MkdirTemp(dir, "rocescope-bench")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if profile != "" {
		f, err := os.Create(profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	b := &bench{binary: binary, dir: dir, packets: packets, files: map[string]string{}}
	var rows []row
	for _, p := range parts {
		if only != "" && !strings.Contains(","+only+",", ","+p.name+",") {
			continue
		}
		got, err := p.run(b)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		for _, r := range got {
			fmt.Fprintf(os.Stderr, "%-70s %-22s %-30s %-8s %-16s %v\n", r.what, r.ours, r.other, r.ratio, r.goal, r.met)
		}
		rows = append(rows, got...)
		runtime.GC()
	}
	text := page(rows)
	if out == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(out, text, 0o644)
}

// page is docs/performance.md.
func page(rows []row) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Performance\n\nWritten by `make bench`; change internal/bench, not the page.\n\n%s\n\n", machine())
	b.WriteString(method)
	b.WriteString("\n| measured | rocescope | compared with | ratio | goal | met |\n|---|---|---|---|---|---|\n")
	for _, r := range rows {
		goal := r.goal
		if goal == "" {
			goal = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %v |\n", r.what, r.ours, r.other, r.ratio, goal, r.met)
	}
	b.WriteString(readPath)
	return b.Bytes()
}
