package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/rocescope/rocescope/captures/samples"
)

// TestExportParquet exports a capture and reads the files with the library, and with DuckDB where node has it: counts and sums
// are those of the analysis.
func TestExportParquet(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "lossy.pcap")
	data, err := samples.Open("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	want, _ := sumsOf(t, file)
	store := filepath.Join(dir, "store")
	runOK(t, "export", file, "--to", "parquet", store)

	type stream struct {
		Packets       uint64 `parquet:"packets"`
		Bytes         uint64 `parquet:"bytes"`
		Payload       uint64 `parquet:"payload_bytes"`
		Messages      uint64 `parquet:"messages"`
		Retransmitted uint64 `parquet:"retransmitted_packets"`
	}
	var got stream
	for _, s := range readParquet[stream](t, store, "streams") {
		got.Packets += s.Packets
		got.Bytes += s.Bytes
		got.Payload += s.Payload
		got.Messages += s.Messages
		got.Retransmitted += s.Retransmitted
	}
	if (got != stream{want.packets, want.bytes, want.payload, want.messages, want.retransmitted}) {
		t.Errorf("streams add up to %+v, analyze says %+v", got, want)
	}
	type message struct {
		Bytes  uint64 `parquet:"bytes"`
		Failed bool   `parquet:"failed"`
	}
	rows, bytes := readParquet[message](t, store, "messages"), uint64(0)
	for _, m := range rows {
		bytes += m.Bytes
	}
	if uint64(len(rows)) != want.messages || bytes != want.messageBytes {
		t.Errorf("%d messages of %d bytes, analyze says %d of %d", len(rows), bytes, want.messages, want.messageBytes)
	}

	t.Run("DuckDB", func(t *testing.T) {
		query := fmt.Sprintf("SELECT (SELECT count(*) FROM read_parquet('%[1]s/messages/**/*.parquet', hive_partitioning=true)) m, "+
			"(SELECT sum(bytes)::UBIGINT FROM read_parquet('%[1]s/messages/**/*.parquet')) b, "+
			"(SELECT sum(packets)::UBIGINT FROM read_parquet('%[1]s/streams/**/*.parquet')) p, "+
			"(SELECT sum(count)::UBIGINT FROM read_parquet('%[1]s/findings/**/*.parquet')) f, "+
			"(SELECT typeof(first_seen) FROM read_parquet('%[1]s/messages/**/*.parquet') LIMIT 1) t", store)
		var rows []map[string]string
		if err := json.Unmarshal(duckDB(t, query), &rows); err != nil {
			t.Fatal(err)
		}
		have := fmt.Sprint(rows[0]["m"], rows[0]["b"], rows[0]["p"], rows[0]["f"])
		if say := fmt.Sprint(fmt.Sprint(want.messages), fmt.Sprint(want.messageBytes), fmt.Sprint(want.packets), fmt.Sprint(want.found)); have != say {
			t.Errorf("DuckDB reads %v, analyze says %+v", rows, want)
		}
		if !strings.HasPrefix(rows[0]["t"], "TIMESTAMP") {
			t.Errorf("a time is %s", rows[0]["t"])
		}
	})
}

func readParquet[T any](t *testing.T, store, table string) (all []T) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, table, "hour=*", "qp=*", "*.parquet"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files of %s: %v", table, err)
	}
	for _, f := range files {
		rows, err := parquet.ReadFile[T](f)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, rows...)
	}
	return all
}

// duckDB asks DuckDB, by its module for node; all values come as text.
func duckDB(t *testing.T, query string) []byte {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("needs node, with the module @duckdb/node-api (npm install -g @duckdb/node-api)")
	}
	script := `let d; try { d = require('@duckdb/node-api') } catch { process.exit(77) }
d.DuckDBInstance.create(':memory:').then(i => i.connect()).then(c => c.runAndReadAll(process.argv[1]))
 .then(r => console.log(JSON.stringify(r.getRowObjectsJson()))).catch(e => { console.error(e); process.exit(1) })`
	cmd := exec.Command(node, "-e", script, query)
	cmd.Env = os.Environ()
	if os.Getenv("NODE_PATH") == "" {
		if root, err := exec.Command("npm", "root", "-g").Output(); err == nil {
			cmd.Env = append(cmd.Env, "NODE_PATH="+strings.TrimSpace(string(root)))
		}
	}
	out, err := cmd.Output()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("needs node's module @duckdb/node-api (npm install -g @duckdb/node-api)")
	}
	if err != nil {
		t.Fatalf("DuckDB: %v", err)
	}
	return out
}
