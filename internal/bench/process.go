//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// contest is a capture analysed by the built program and exported by tshark, run after run in turn.
type contest struct {
	theirs        []float64 // processor seconds; empty without tshark
	with, without []float64 // ours, with ICRCs and without
	peak          int64     // bytes of memory
}

func (b *bench) contest(file string, rounds, theirRounds int) (*contest, error) {
	c := &contest{}
	_, missing := exec.LookPath("tshark")
	for round := range rounds {
		if missing == nil && round < theirRounds {
			u, err := child("tshark", "-r", file, "-T", "fields", "-e", "infiniband.bth.psn")
			if err != nil {
				return nil, err
			}
			c.theirs = append(c.theirs, u.cpu.Seconds())
		}
		u, err := child(b.binary, "analyze", file)
		if err != nil {
			return nil, err
		}
		c.with, c.peak = append(c.with, u.cpu.Seconds()), max(c.peak, u.peak)
		if u, err = child(b.binary, "analyze", "--no-icrc", file); err != nil {
			return nil, err
		}
		c.without = append(c.without, u.cpu.Seconds())
	}
	return c, nil
}

// row compares one of ours with theirs; least 0 is no goal.
func (c *contest) row(what string, ours []float64, least float64) page.Row {
	r := page.Row{What: what, Ours: fmt.Sprintf("%.3f s", median(ours)), Met: page.NotMeasured}
	if least > 0 {
		r.Goal = fmt.Sprintf("≥ %.0f×", least)
	}
	if len(c.theirs) > 0 {
		by := median(c.theirs) / median(ours)
		r.Other = fmt.Sprintf("tshark -T fields -e infiniband.bth.psn: %.2f s", median(c.theirs))
		r.Ratio, r.Met = times(by), page.NoGoal
		if least > 0 {
			r.Met = page.Judge(by >= least)
		}
	}
	return r
}

// wholeProcess runs the built program against tshark on the same files: one in which starting the program counts, and one ten
// times as large.
func wholeProcess(b *bench) ([]page.Row, error) {
	file, err := b.capture(segments, b.packets)
	if err != nil {
		return nil, err
	}
	small, err := b.contest(file, 5, 3)
	if err != nil {
		return nil, err
	}
	path, err := b.capture(segments, 10*b.packets)
	if err != nil {
		return nil, err
	}
	large, err := b.contest(path, 3, 1)
	if err != nil {
		return nil, err
	}
	// It is gigabytes large, and nothing else reads it.
	if err := os.Remove(path); err != nil {
		return nil, err
	}
	by := float64(large.peak) / float64(small.peak)
	return []page.Row{
		small.row(fmt.Sprintf("`analyze`, %d packets of up to 1098 bytes", b.packets), small.with, 40),
		small.row("`analyze --no-icrc`, the same file", small.without, 0),
		large.row(fmt.Sprintf("`analyze`, %d packets", 10*b.packets), large.with, 40),
		large.row("`analyze --no-icrc`, the same file", large.without, 60),
		{
			What: "peak memory of `analyze`, mapped pages included, ten times the file", Ours: fmt.Sprintf("%.1f MB", float64(large.peak)/1e6),
			Other: fmt.Sprintf("once the file: %.1f MB", float64(small.peak)/1e6), Ratio: times(by),
			Goal: "< 100 MB, flat", Met: page.Judge(large.peak < 100e6 && small.peak < 100e6 && by < 1.5),
		},
	}, nil
}
