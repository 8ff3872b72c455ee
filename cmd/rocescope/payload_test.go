package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReportsHoldNoPayload looks for what rping sends, its words and their bytes in hexadecimal and base64, in everything that is told of
// a capture of it, and finds it where it is asked for.
func TestReportsHoldNoPayload(t *testing.T) {
	const sample = "../../captures/samples/cm_rping_ipv6.pcap"
	secret := []byte("rdma-ping-")
	holds := func(b []byte) bool {
		lower := bytes.ToLower(b)
		return bytes.Contains(b, secret) || bytes.Contains(lower, []byte(hex.EncodeToString(secret))) || bytes.Contains(b, []byte(base64.StdEncoding.EncodeToString(secret[:9])))
	}
	if raw, err := os.ReadFile(sample); err != nil || !holds(raw) {
		t.Fatalf("the sample has no such payload: %v", err)
	}
	dir := t.TempDir()
	for _, line := range []string{
		"analyze {sample}",
		"analyze {sample} -v",
		"analyze {sample} --json",
		"analyze {sample} --messages",
		"analyze {sample} --shadow",
		"analyze {sample} --html {dir}/report.html --events {dir}/events.jsonl",
		"diff {sample} {sample} --html {dir}/diff.html",
		"diff {sample} {sample} --json",
		"export {sample} --to csv {dir}/csv",
		"export {sample} --to jsonl {dir}/rows.jsonl",
		"export {sample} --to parquet {dir}/parquet",
		"show {sample}",
	} {
		line = strings.NewReplacer("{sample}", sample, "{dir}", dir).Replace(line)
		if out := runOK(t, strings.Fields(line)...); holds(out) {
			t.Errorf("rocescope %s prints payload", line)
		}
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files++
		content, err := os.ReadFile(path)
		if holds(content) {
			t.Errorf("%s holds payload", path)
		}
		return err
	})
	if err != nil || files < 10 {
		t.Errorf("%d files, %v", files, err)
	}
	if out := runOK(t, "show", sample, "-T", "fields", "-e", "infiniband.payload"); !holds(out) {
		t.Error("payload that is asked for is not shown")
	}
}
