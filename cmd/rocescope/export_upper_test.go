package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// Rows of messages say of upper protocols what analyze --messages says, of captures of Linux's own implementations.
func TestUpperInTables(t *testing.T) {
	type key struct {
		connection, index uint32
		direction         string
	}
	for _, name := range []string{"nvme", "nfs3", "nfs4", "iser"} {
		file := filepath.Join(testkit.ModuleRoot(t), "flows", "testdata", "upper", name+".pcapng")
		_, all := analyzeFile(t, file)
		want := map[key]report.MessageUpper{}
		for i := range all {
			if m := &all[i]; m.Upper != nil {
				want[key{m.Connection, m.Index, m.Stream}] = *m.Upper
			}
		}
		seen, answers := 0, 0
		for line := range bytes.Lines(runOK(t, "export", file, "--to", "jsonl", "--tables", "messages", "-")) {
			var r struct {
				Connection, Index uint32
				Direction         string
				Protocol          string  `json:"upper_protocol"`
				Kind              string  `json:"upper_kind"`
				Summary           string  `json:"upper_summary"`
				Request           *uint64 `json:"upper_request_frame"`
				Latency           *int64  `json:"upper_latency_ns"`
				Failed            bool    `json:"upper_failed"`
			}
			if err := json.Unmarshal(line, &r); err != nil {
				t.Fatal(err)
			}
			m, ok := want[key{r.Connection, r.Index, r.Direction}]
			if ok {
				seen++
			}
			if m.LatencyNS != nil {
				answers++
			}
			if r.Protocol != m.Protocol || r.Kind != m.Kind || r.Summary != m.Summary || value(r.Request) != value(m.RequestFrame) || value(r.Latency) != value(m.LatencyNS) ||
				(r.Latency == nil) != (m.LatencyNS == nil) || r.Failed != m.Failed {
				t.Errorf("%s: the row %s, the message %+v", name, line, m)
			}
		}
		if seen != len(want) || answers < 7 {
			t.Errorf("%s: %d rows of upper protocols, %d messages; %d answers", name, seen, len(want), answers)
		}
	}
}

// What a connection carries by the user's word is in the rows too.
func TestDecodeAsInTables(t *testing.T) {
	file := filepath.Join(testkit.ModuleRoot(t), "flows", "testdata", "upper", "nvme.pcapng")
	if rows := runOK(t, "export", file, "--to", "jsonl", "--tables", "messages", "-d", "port==4420,rpcrdma", "-"); bytes.Contains(rows, []byte(`"upper_protocol":"nvme"`)) || !bytes.Contains(rows, []byte(`"upper_protocol":"rpcrdma"`)) {
		t.Error("the user's word does not count")
	}
}
