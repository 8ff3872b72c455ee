//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"

	"github.com/rocescope/rocescope/internal/bench/page"
)

// places are where rows of messages go, by the name of the benchmark of package sink.
var places = []struct{ name, what string }{
	{"rows", "tracked, and made into rows that nobody takes"},
	{"jsonl", "from rows to JSON lines"},
	{"csv", "from rows to CSV"},
	{"parquet", "from rows to Parquet, 16 files at a time, zstd"},
	{"clickhouse", "from rows to ClickHouse, over loopback"},
}

var ingested = regexp.MustCompile(`(?m)^BenchmarkIngest/(\w+)\S*.*?([\d.e+]+) messages/cpu-s\s+([\d.e+]+) messages/s(?:\s+([\d.e+]+) messages/server-cpu-s)?`)

// ingest is how many messages the places for rows take, beside how many the tracker finds.
func ingest(*bench) ([]page.Row, error) {
	cmd := exec.Command("go", "test", "./internal/sink", "-run", "^$", "-bench", "^BenchmarkIngest$", "-benchtime", "7x")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	type figures struct{ ours, clock, server float64 }
	of := map[string]figures{}
	for _, m := range ingested.FindAllStringSubmatch(string(out), -1) {
		var f figures
		for i, to := range []*float64{&f.ours, &f.clock, &f.server} {
			if m[i+2] == "" {
				continue
			}
			if *to, err = strconv.ParseFloat(m[i+2], 64); err != nil {
				return nil, err
			}
		}
		of[m[1]] = f
	}
	tracked := of["track"]
	if tracked.ours == 0 {
		return nil, fmt.Errorf("no figures: %s", out)
	}
	var rows []page.Row
	for _, p := range places {
		row := page.Row{What: "messages of one packet of 64 bytes, " + p.what + ", a second of processor time", Goal: "≥ tracking", Met: page.NotMeasured}
		if f, ok := of[p.name]; ok {
			least := f.ours
			row.Ours, row.Other = millions(f.ours), "read, decoded and tracked: "+millions(tracked.ours)
			if f.server > 0 {
				row.Ours += fmt.Sprintf(" of ours; %s of the server's", millions(f.server))
				least = min(least, f.server)
			}
			row.Ratio, row.Met = times(least/tracked.ours), page.Judge(least >= tracked.ours)
		} else {
			fmt.Fprintln(os.Stderr, "bench: not measured:", p.name)
		}
		rows = append(rows, row)
	}
	return rows, nil
}

func millions(v float64) string { return fmt.Sprintf("%.2f M", v/1e6) }
