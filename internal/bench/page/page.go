//go:build unix

// Package page runs the parts of a benchmark and writes its page: what was measured, beside what it is compared with, the goal,
// and whether it is met. What is measured, and how, belongs to the commands below internal/bench.
package page

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
)

// Row is a line of the table.
type Row struct {
	What  string
	Ours  string
	Other string // what it is compared with
	Ratio string
	Goal  string // "" = for information
	Met   Verdict
}

// Verdict says whether a goal is met.
type Verdict int

// The verdicts.
const (
	NoGoal Verdict = iota
	Met
	Missed
	NotMeasured
)

func (v Verdict) String() string { return [...]string{"–", "yes", "**no**", "not measured"}[v] }

// Judge is the verdict on a goal.
func Judge(ok bool) Verdict {
	if ok {
		return Met
	}
	return Missed
}

// Part is a part of the table.
type Part struct {
	Name string
	Run  func() ([]Row, error)
}

// Page is what stands around the table.
type Page struct {
	Title   string
	Command string // that writes it
	Source  string // where it is to be changed
	Method  string // above the table
	Ours    string // the heading of what is measured
	Ratio   string // the heading of the ratios
	Reading string // below the table
}

// Options say which parts run, and where the results go.
type Options struct {
	Out     string // a file; else standard output
	Only    string // names of parts, comma-separated; else all
	Profile string // a file for a processor profile
}

// Write runs the parts and writes the page.
func (p *Page) Write(o Options, parts []Part) error {
	if o.Profile != "" {
		f, err := os.Create(o.Profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	var rows []Row
	for _, part := range parts {
		if o.Only != "" && !strings.Contains(","+o.Only+",", ","+part.Name+",") {
			continue
		}
		got, err := part.Run()
		if err != nil {
			return fmt.Errorf("%s: %w", part.Name, err)
		}
		for _, r := range got {
			fmt.Fprintf(os.Stderr, "%-80s %-24s %-44s %-24s %-10s %v\n", r.What, r.Ours, r.Other, r.Ratio, r.Goal, r.Met)
		}
		rows = append(rows, got...)
		runtime.GC()
	}
	text := p.text(rows)
	if o.Out == "" {
		_, err := os.Stdout.Write(text)
		return err
	}
	return os.WriteFile(o.Out, text, 0o644)
}

func (p *Page) text(rows []Row) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "# %s\n\nWritten by `%s`; change %s, not the page.\n\n%s\n\n", p.Title, p.Command, p.Source, machine())
	b.WriteString(p.Method)
	fmt.Fprintf(&b, "\n| measured | %s | compared with | %s | goal | met |\n|---|---|---|---|---|---|\n", p.Ours, p.Ratio)
	for _, r := range rows {
		goal := r.Goal
		if goal == "" {
			goal = "–"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %v |\n", r.What, r.Ours, r.Other, r.Ratio, goal, r.Met)
	}
	b.WriteString(p.Reading)
	return b.Bytes()
}
