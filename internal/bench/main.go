//go:build unix

// Command bench measures what the project promises about speed and memory, side
// by side with what people use instead, and writes docs/performance.md. Run it
// by `make bench`.
//
// Machines that do this are shared and noisy. So all times are processor time,
// but where a row says that it is the clock's; what is compared runs in turn, round by round, and the table
// shows the median of the rounds and the median of the rounds' ratios.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(*bench) ([]page.Row, error)
}{
	{"decode", decoding},
	{"read", reading},
	{"icrc", invariantCRC},
	{"track", tracking},
	{"million", million},
	{"process", wholeProcess},
	{"cores", twoCores},
	{"first", firstResult},
	{"iwarp", reassembly},
	{"report", htmlReport},
	{"ingest", ingest},
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
		if err := runMeasured(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	binary := flag.String("binary", "./rocescope", "the built program")
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: decode, read, icrc, track, million, process, cores, first, iwarp, report, ingest")
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
	b := &bench{binary: binary, dir: dir, packets: packets, files: map[string]string{}}
	var all []page.Part
	for _, p := range parts {
		all = append(all, page.Part{Name: p.name, Run: func() ([]page.Row, error) { return p.run(b) }})
	}
	return whole.Write(page.Options{Out: out, Only: only, Profile: profile}, all)
}
