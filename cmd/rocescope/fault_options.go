package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/internal/report"
)

// faultOptions are the rules that a command got.
type faultOptions struct {
	file  string
	rules []string
}

func (o *faultOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.file, "faults", "", "a YAML `file` with rules for what happens to packets")
	f.StringArrayVar(&o.rules, "fault", nil, "a `rule`: drop nth=3 when FILTER, or a fault's ID; may be given several times (rocescope faults)")
}

// read makes the set; nil where there are no rules. A seed that was given wins over the file's.
func (o *faultOptions) read(seed uint64, given bool) (*fault.Set, error) {
	if o.file == "" && len(o.rules) == 0 {
		return nil, nil
	}
	set := &fault.Set{Seed: seed}
	if o.file != "" {
		read, err := fault.ReadFile(o.file)
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
			return nil, errInput("%w", err)
		case err != nil:
			return nil, errUsage("%w", err)
		}
		set.Rules = read.Rules
		if !given {
			set.Seed = read.Seed
		}
	}
	for _, text := range o.rules {
		r, err := fault.Parse(text)
		if err != nil {
			return nil, errUsage("--%w", err)
		}
		set.Rules = append(set.Rules, r)
	}
	return set, nil
}

// faultCount is what a rule did, as JSON.
type faultCount struct {
	Name    string `json:"name"`
	Rule    string `json:"rule"`
	Way     string `json:"way"`
	Matched uint64 `json:"matched"`
	Struck  uint64 `json:"struck"`
	Failed  uint64 `json:"not_possible"`
}

func faultCounts(counts []fault.Count) (all []faultCount) {
	for _, c := range counts {
		all = append(all, faultCount{c.Rule.Name, c.Rule.Text, c.Way.String(), c.Matched, c.Struck, c.Failed})
	}
	return all
}

// faultWays are the ways of packets at one port, for people.
var faultWays = [2]string{"sent", "received"}

// faultLines are what the rules did, for people.
func faultLines(counts []fault.Count, ways [2]string) string {
	var b strings.Builder
	for _, c := range counts {
		fmt.Fprintf(&b, "%14s  of %s %s: %s", report.Count(c.Struck), report.Plural(c.Matched, "packet"), ways[c.Way], c.Rule.Text)
		if c.Failed > 0 {
			fmt.Fprintf(&b, " (%s did not have what it is about)", report.Count(c.Failed))
		}
		b.WriteString("\n")
	}
	return b.String()
}

// ruled are the lines of a host with rules, below the seed that their chance came from.
func ruled(set *fault.Set, counts []fault.Count) string {
	if set == nil {
		return ""
	}
	return fmt.Sprintf("rules, from seed %d\n", set.Seed) + faultLines(counts, faultWays)
}
