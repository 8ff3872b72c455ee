//go:build linux

// Command screen measures what a person waits for: the first screen of a large
// capture, a jump to any place in it, a filter, and what it costs in memory and
// processor time to have the screen open; beside tshark and termshark on the same
// file. It writes docs/performance-tui.md. Run it by `make bench-tui`.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(*bench) ([]page.Row, error)
}{
	{"index", indexing},
	{"screen", firstScreens},
	{"cost", costs},
	{"live", lives},
}

// bench is one run of the command.
type bench struct {
	binary  string
	file    string
	packets int
}

func main() {
	binary := flag.String("binary", "./rocescope", "the built program")
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: index, screen, cost, live")
	packets := flag.Int("packets", 5_000_000, "packets of the capture")
	dir := flag.String("dir", "", "`folder` for the capture, some gigabytes; else a temporary one")
	keep := flag.String("file", "", "use this capture, and keep it; it is made if it is not there")
	flag.Parse()
	if err := run(*binary, *out, *only, *dir, *keep, *packets); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(binary, out, only, dir, keep string, packets int) error {
	binary, err := filepath.Abs(binary)
	if err != nil {
		return err
	}
	b := &bench{binary: binary, file: keep, packets: packets}
	if keep == "" {
		dir, err := os.MkdirTemp(dir, "rocescope-bench")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		b.file = filepath.Join(dir, "big.pcapng")
	}
	if _, err := os.Stat(b.file); err != nil && only != "live" {
		g := traffic.New(traffic.Config{Connections: 64, HostPairs: 8, Payload: 1024})
		if err := g.WriteFile(b.file, packets, true); err != nil {
			return err
		}
	}
	var all []page.Part
	for _, p := range parts {
		all = append(all, page.Part{Name: p.name, Run: func() ([]page.Row, error) { return p.run(b) }})
	}
	return whole.Write(page.Options{Out: out, Only: only}, all)
}

func median(v []float64) float64 { return quantile(v, 0.5) }

func quantile(v []float64, q float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[min(int(q*float64(len(s))), len(s)-1)]
}
