//go:build linux

// Command wire measures what the project promises about sending and capturing, over pairs of virtual interfaces in a network
// namespace of its own, and writes docs/performance-wire.md. Run it as root by `make bench-wire`.
//
// Frames are counted where they arrive, never where they were handed over. All times are processor time of the loop: machines
// that do this are shared and noisy. What is compared runs in turn, round by round; the table shows the median of the rounds
// and, of the rounds' ratios, the median and the quartiles.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(*bench) ([]page.Row, error)
}{
	{"xdp", overXDP},
	{"live", liveFrames},
	{"large", largeFrames},
	{"icrc", patching},
	{"capture", capturing},
	{"faults", withFaults},
}

// bench is one run of the command.
type bench struct {
	dir    string
	rounds int
	txonly string // the sender in C; empty where there is no compiler
}

// insideArg says that this is the copy that runs within the namespace.
const insideArg = "-inside"

func main() {
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: xdp, live, large, icrc, capture, faults")
	profile := flag.String("cpuprofile", "", "write a processor profile to this `file`")
	rounds := flag.Int("rounds", 21, "rounds of each comparison")
	inside := flag.Bool(insideArg[1:], false, "run in this network namespace, which should have nothing else in it")
	flag.Parse()
	var err error
	if *inside {
		err = run(*out, *only, *profile, *rounds)
	} else {
		err = measure.EnterNamespace(insideArg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-wire:", err)
		os.Exit(1)
	}
}

func run(out, only, profile string, rounds int) error {
	dir, err := os.MkdirTemp("", "rocescope-bench-wire")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: rounds}
	if err := b.compile(); err != nil {
		return err
	}
	var all []page.Part
	for _, p := range parts {
		all = append(all, page.Part{Name: p.name, Run: func() ([]page.Row, error) { return p.run(b) }})
	}
	return whole.Write(page.Options{Out: out, Only: only, Profile: profile}, all)
}
