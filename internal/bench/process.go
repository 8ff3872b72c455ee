//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// contest is a capture analysed by the built program and read by what people use instead, run after run in turn. All are
// processor seconds; those of a program that is not installed are none.
type contest struct {
	with, without             []float64 // ours, with ICRCs and without
	tshark, tcpdump, capinfos []float64
	peak                      int64 // bytes of our memory
}

// others are the programs to compare with, and how each reads a whole file.
var others = []struct {
	name    string
	args    func(file string) []string
	seconds func(*contest) *[]float64
}{
	{"tshark", func(f string) []string { return []string{"-r", f, "-T", "fields", "-e", "infiniband.bth.psn"} }, func(c *contest) *[]float64 { return &c.tshark }},
	{"tcpdump", func(f string) []string { return []string{"-r", f, "-w", os.DevNull} }, func(c *contest) *[]float64 { return &c.tcpdump }},
	{"capinfos", func(f string) []string { return []string{f} }, func(c *contest) *[]float64 { return &c.capinfos }},
}

func (b *bench) contest(file string, rounds, theirRounds int) (*contest, error) {
	c := &contest{}
	for round := range rounds {
		for _, o := range others {
			if _, missing := exec.LookPath(o.name); missing != nil || round >= theirRounds {
				continue
			}
			u, err := child(o.name, o.args(file)...)
			if err != nil {
				return nil, err
			}
			*o.seconds(c) = append(*o.seconds(c), u.cpu.Seconds())
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

// faster is a row that says how many times tshark's time one of ours goes into; least 0 is no goal.
func (c *contest) faster(what string, ours []float64, least float64) page.Row {
	r := page.Row{What: what, Ours: seconds(ours), Met: page.NotMeasured}
	if least > 0 {
		r.Goal = fmt.Sprintf("≥ %.0f×", least)
	}
	if len(c.tshark) > 0 {
		by := measure.Median(c.tshark) / measure.Median(ours)
		r.Other, r.Ratio, r.Met = "tshark -T fields -e infiniband.bth.psn: "+seconds(c.tshark), times(by), page.NoGoal
		if least > 0 {
			r.Met = page.Judge(by >= least)
		}
	}
	return r
}

// dearer is a row that says how many times another program's time, which does less, one of ours takes; most 0 is no goal.
func dearer(what string, ours []float64, other string, theirs []float64, most float64) page.Row {
	r := page.Row{What: what, Ours: seconds(ours), Met: page.NotMeasured}
	if most > 0 {
		r.Goal = fmt.Sprintf("≤ %.0f×", most)
	}
	if len(theirs) > 0 {
		by := measure.Median(ours) / measure.Median(theirs)
		r.Other, r.Ratio, r.Met = other+": "+seconds(theirs), times(by), page.NoGoal
		if most > 0 {
			r.Met = page.Judge(by <= most)
		}
	}
	return r
}

func seconds(v []float64) string { return fmt.Sprintf("%.3f s", measure.Median(v)) }

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
	large, err := b.contest(path, 5, 1)
	if err != nil {
		return nil, err
	}
	by := float64(large.peak) / float64(small.peak)
	return []page.Row{
		small.faster(fmt.Sprintf("`analyze`, %d packets of up to 1098 bytes", b.packets), small.with, 0),
		small.faster("`analyze --no-icrc`, the same file", small.without, 0),
		large.faster(fmt.Sprintf("`analyze`, %d packets", 10*b.packets), large.with, 60),
		large.faster("`analyze --no-icrc`, the same file", large.without, 85),
		dearer("the same again", large.without, "tcpdump -r FILE -w /dev/null", large.tcpdump, 3),
		dearer("the same again", large.without, "capinfos FILE", large.capinfos, 0),
		{
			What: "peak memory of `analyze`, mapped pages included, ten times the file", Ours: fmt.Sprintf("%.1f MB", float64(large.peak)/1e6),
			Other: fmt.Sprintf("once the file: %.1f MB", float64(small.peak)/1e6), Ratio: times(by),
			Goal: "< 100 MB, flat", Met: page.Judge(large.peak < 100e6 && small.peak < 100e6 && by < 1.5),
		},
	}, nil
}
