//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
)

// wholeProcess runs the built program against tshark on the same file.
func wholeProcess(b *bench) ([]row, error) {
	const rounds = 3
	file, err := b.capture(segments, b.packets)
	if err != nil {
		return nil, err
	}
	var theirs, with, without []float64
	var peak int64
	_, lookErr := exec.LookPath("tshark")
	for range rounds {
		if lookErr == nil {
			u, err := child("tshark", "-r", file, "-T", "fields", "-e", "infiniband.bth.psn")
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, u.cpu.Seconds())
		}
		u, err := child(b.binary, "analyze", file)
		if err != nil {
			return nil, err
		}
		with, peak = append(with, u.cpu.Seconds()), max(peak, u.peak)
		if u, err = child(b.binary, "analyze", "--no-icrc", file); err != nil {
			return nil, err
		}
		without = append(without, u.cpu.Seconds())
	}
	compare := func(what, goal string, ours []float64, least float64) row {
		r := row{what: what, ours: fmt.Sprintf("%.3f s", median(ours)), goal: goal, met: notMeasured}
		if lookErr == nil {
			by := median(each(theirs, ours, ratio))
			r.other = fmt.Sprintf("tshark -T fields -e infiniband.bth.psn: %.2f s", median(theirs))
			r.ratio, r.met = times(by), judge(by >= least)
		}
		return r
	}
	size := fmt.Sprintf("%d packets of up to 1098 bytes", b.packets)
	rows := []row{
		compare("`analyze`, "+size, "≥ 40×", with, 40),
		compare("`analyze --no-icrc`, the same file", "≥ 60×", without, 60),
	}

	large, err := b.capture(segments, 10*b.packets)
	if err != nil {
		return nil, err
	}
	u, err := child(b.binary, "analyze", large)
	if err != nil {
		return nil, err
	}
	// It is gigabytes large, and nothing else reads it.
	if err := os.Remove(large); err != nil {
		return nil, err
	}
	by := float64(u.peak) / float64(peak)
	return append(rows, row{
		what: "peak memory of `analyze`, mapped pages included, ten times the file", ours: fmt.Sprintf("%.1f MB", float64(u.peak)/1e6),
		other: fmt.Sprintf("once the file: %.1f MB", float64(peak)/1e6), ratio: times(by),
		goal: "< 100 MB, flat", met: judge(u.peak < 100e6 && peak < 100e6 && by < 1.5),
	}), nil
}
