//go:build unix

// Command scale measures whether what the tracker costs stays the same when there is very much: a million connections, a
// hundred million messages, a day, floods that are meant to fill or to slow its tables. It writes docs/scale.md, with what one
// probe carries by these figures. Run it by `make bench-scale`.
//
// Packets are made in memory by internal/bench/traffic and given to decoder and tracker as the engine would, so that no link
// and no disk is in the figures. Each part also counts: a figure of a tracker that lost count would be worth nothing.
package main

import (
	"flag"
	"fmt"
	"os"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// bench is one run of the command, and what later parts need of earlier ones.
type bench struct {
	shrink int // everything is so many times smaller, for trials

	packetCost float64 // ns, ICRC included, any of a million connections
	perMessage float64 // packets, in the mix of that row
	idle       float64 // bytes of a resting connection
}

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(*bench) ([]page.Row, error)
}{
	{"flat", flatCost},
	{"messages", manyMessages},
	{"idle", idleMemory},
	{"soak", soak},
	{"floods", floods},
}

func main() {
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: flat, messages, idle, soak, floods")
	shrink := flag.Int("shrink", 1, "make everything so many times smaller: a trial, not for the page")
	flag.Parse()
	b := &bench{shrink: max(*shrink, 1)}
	var all []page.Part
	for _, p := range parts {
		all = append(all, page.Part{Name: p.name, Run: func() ([]page.Row, error) { return p.run(b) }})
	}
	all = append(all, page.Part{Name: "probe", Run: func() ([]page.Row, error) {
		if b.packetCost > 0 && b.idle > 0 {
			whole.Reading = b.probes()
		}
		return nil, nil
	}})
	if err := whole.Write(page.Options{Out: *out, Only: onlyWithProbe(*only)}, all); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// onlyWithProbe keeps the last part, which has no rows of its own, in a choice.
func onlyWithProbe(only string) string {
	if only == "" {
		return ""
	}
	return only + ",probe"
}
