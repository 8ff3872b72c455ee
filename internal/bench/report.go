//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// htmlReport is what the report of a million packets costs: to make, to hand on, to open.
func htmlReport(b *bench) ([]page.Row, error) {
	const rounds, most = 5, 5_000_000
	file, err := b.capture(middling, 1_000_000)
	if err != nil {
		return nil, err
	}
	out := filepath.Join(b.dir, "report.html")
	var plain, made []float64
	for range rounds {
		u, err := child(b.binary, "analyze", file)
		if err != nil {
			return nil, err
		}
		plain = append(plain, u.cpu.Seconds())
		if u, err = child(b.binary, "analyze", file, "--html", out); err != nil {
			return nil, err
		}
		made = append(made, u.cpu.Seconds())
	}
	info, err := os.Stat(out)
	if err != nil {
		return nil, err
	}
	rows := []page.Row{
		{
			What: "`analyze --html`, a million packets of 64 connections", Ours: fmt.Sprintf("%.2f s", measure.Median(made)),
			Other: fmt.Sprintf("without --html: %.2f s", measure.Median(plain)), Ratio: times(measure.Median(each(made, plain, ratio))), Met: page.NoGoal,
		},
		{
			What: "the page that it writes", Ours: fmt.Sprintf("%.2f MB", float64(info.Size())/1e6),
			Goal: "≤ 5 MB", Met: page.Judge(info.Size() <= most),
		},
	}
	opening := page.Row{What: "opening such a page in Chromium: work of its thread until it is loaded", Met: page.NotMeasured}
	if whole, without, err := opened(); err == nil {
		opening.Ours, opening.Other = fmt.Sprintf("%.0f ms", whole), fmt.Sprintf("the same page without plots: %.0f ms", without)
		opening.Ratio, opening.Met = times(whole/without), page.NoGoal
	} else {
		fmt.Fprintln(os.Stderr, "bench: opening pages is not measured:", err)
	}
	return append(rows, opening), nil
}

var taskTime = regexp.MustCompile(`BenchmarkOpening/(plots|no-plots)\S*.*?([\d.]+) task-ms`)

// opened has the package's own benchmark open pages, for it knows how to drive a browser: milliseconds, with plots and without.
func opened() (whole, without float64, err error) {
	cmd := exec.Command("go", "test", "./internal/report/html", "-run", "^$", "-bench", "^BenchmarkOpening$", "-benchtime", "7x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return 0, 0, fmt.Errorf("%w: %s", err, out)
	}
	found := taskTime.FindAllSubmatch(out, -1)
	if len(found) != 2 {
		return 0, 0, fmt.Errorf("no figures: %s", out)
	}
	for i, to := range []*float64{&whole, &without} {
		if *to, err = strconv.ParseFloat(string(found[i][2]), 64); err != nil {
			return 0, 0, err
		}
	}
	return whole, without, nil
}
