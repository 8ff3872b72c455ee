//go:build linux

package main

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// largeFrames compares frames of RoCE MTU 4096, which take two chunks, with the longest that fit into one.
func largeFrames(b *bench) ([]page.Row, error) {
	closer, err := pair(9000)
	if err != nil {
		return nil, err
	}
	defer closer()
	s, err := newSink()
	if err != nil {
		return nil, err
	}
	defer s.close()
	long := newFrame(dissect.OpRCWriteOnly, 4096, 0)
	const chunk, headers = 4096, 70 + 64
	all, err := inTurn(b.rounds, 50_000, inGo(s, long[:chunk]), inGo(s, long, chunk), inGo(s, long, headers))
	if err != nil {
		return nil, err
	}
	var rows []page.Row
	for i, layout := range []string{"4096 and the rest", "headers and 64 bytes, and the rest"} {
		by := ratios(all[1+i], all[0], result.rate)
		rows = append(rows, page.Row{
			What: fmt.Sprintf("frames of %d bytes (MTU 4096) over AF_XDP, two descriptors: %s", len(long), layout), Ours: millions(all[1+i]),
			Other: "4096 bytes, one descriptor: " + millions(all[0]), Ratio: by.String(), Goal: "≥ 0.65", Met: page.Judge(by.Median >= 0.65),
		})
	}
	return rows, nil
}
