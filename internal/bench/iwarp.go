package main

import (
	"fmt"
	"os/exec"
	"path/filepath"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// reassembly follows an iWARP connection whose FPDUs span segments, with the built program and with tshark.
func reassembly(b *bench) ([]page.Row, error) {
	file := filepath.Join(b.dir, "iwarp.pcapng")
	if err := traffic.WriteIWARP(file, b.packets/2); err != nil {
		return nil, err
	}
	var ours, theirs []float64
	_, missing := exec.LookPath("tshark")
	for round := range 3 {
		if missing == nil && round < 1 {
			u, err := child("tshark", "-n", "-r", file, "-T", "fields", "-e", "iwarp_ddp.stag")
			if err != nil {
				return nil, err
			}
			theirs = append(theirs, u.cpu.Seconds())
		}
		u, err := child(b.binary, "analyze", file)
		if err != nil {
			return nil, err
		}
		ours = append(ours, u.cpu.Seconds())
	}
	r := page.Row{What: fmt.Sprintf("`analyze`, %d packets of iWARP, CRC-32C checked", b.packets/2), Ours: fmt.Sprintf("%.3f s", measure.Median(ours)), Goal: "≥ 10×", Met: page.NotMeasured}
	if len(theirs) > 0 {
		by := measure.Median(theirs) / measure.Median(ours)
		r.Other, r.Ratio, r.Met = fmt.Sprintf("tshark -T fields -e iwarp_ddp.stag: %.2f s", measure.Median(theirs)), times(by), page.Judge(by >= 10)
	}
	return []page.Row{r}, nil
}
