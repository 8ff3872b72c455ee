package testkit

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
)

func TestSplitRows(t *testing.T) {
	for _, c := range []struct {
		out     string
		columns int
		want    [][]string
	}{
		{"", 1, nil},
		{"\n", 1, [][]string{{""}}},
		{"a\n\nb\n", 1, [][]string{{"a"}, {""}, {"b"}}},
		{"a\t\t\n\tb\tc\n", 3, [][]string{{"a", "", ""}, {"", "b", "c"}}},
	} {
		got, err := splitRows(c.out, c.columns)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: got %q, %v", c.out, got, err)
		}
	}
	if _, err := splitRows("a\tb\n", 3); err == nil {
		t.Error("a row with a column too few was taken")
	}
}

func TestTsharkOnSamples(t *testing.T) {
	ts := FindTshark(t)
	for _, name := range []string{"lost_write_recovered", "cm_rping_ipv6", "rule_breaker"} {
		s, err := samples.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), s.Capture.File)
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		rows := ts.Fields(t, file, "frame.number", "infiniband.bth.opcode", "infiniband.invariant.crc")
		roce := 0
		for _, row := range rows {
			if row[1] != "" {
				roce++
			}
		}
		if len(rows) != s.Capture.Packets || roce != s.Capture.RoCEv2Packets {
			t.Errorf("%s: tshark sees %d packets, %d of them RoCE v2; the ground truth says %d and %d",
				s.Name, len(rows), roce, s.Capture.Packets, s.Capture.RoCEv2Packets)
		}
	}
	if kind := ts.KnownFields(t)["infiniband.bth.psn"]; kind != "FT_UINT24" {
		t.Errorf("infiniband.bth.psn has type %q", kind)
	}
	rows, err := ts.Query(TsharkQuery{File: filepath.Join(t.TempDir(), "absent.pcap"), Fields: []string{"frame.number"}})
	if err == nil || rows != nil {
		t.Errorf("a missing file gives rows %q and error %v", rows, err)
	}
}

// TestManifests reads both manifests with every key known, and checks the files against them.
func TestManifests(t *testing.T) {
	var rxe Manifest
	strict(t, filepath.Join(RXE(t), "MANIFEST.json"), &rxe)
	var onDisk []string
	for _, e := range rxe.Captures {
		onDisk = append(onDisk, filepath.Join(RXE(t), e.File))
		if info, err := os.Stat(filepath.Join(RXE(t), e.File)); err != nil || info.Size() != e.Bytes {
			t.Errorf("%s: %v", e.File, err)
		}
	}
	slices.Sort(onDisk)
	if files := Files(t, RXE(t), "*.pcap"); !slices.Equal(files, onDisk) {
		t.Errorf("the folder holds %d captures, the manifest %d", len(files), len(onDisk))
	}
	wrap := rxe.Entry(t, "tool_psn_wrap.pcap")
	if q := wrap.Client.QueuePairs(); len(q) != 1 || q[0].PSN != 0xfffff0 || q[0].QPN != 0x2a || q[0].VA != 0x7fd5ef1d5000 {
		t.Errorf("QPs of the client: %+v", q)
	}
	if q := rxe.Entry(t, "write_bw_rc_q4.pcap").Server.QueuePairs(); len(q) != 4 || q[0].RKey == 0 {
		t.Errorf("QPs of the server: %+v", q)
	}
	if q := rxe.Entry(t, "pingpong_srq.pcap").Client.QueuePairs(); len(q) != 3 {
		t.Errorf("QPs of the client: %+v", q)
	}

	var pairs PairManifest
	strict(t, filepath.Join(TwoTap(t), "MANIFEST.json"), &pairs)
	for _, p := range pairs.Pairs {
		struck := 0
		for _, n := range p.Faults.Struck {
			struck += n
		}
		if struck != len(p.Faults.Log) {
			t.Errorf("%s: %d frames struck, %d in the log", p.Pair, struck, len(p.Faults.Log))
		}
		if p.ObservedCounts(t, 0).Packets == 0 {
			t.Errorf("%s: nothing observed at tap a", p.Pair)
		}
	}
}

// TestSamplesAreTheirScenarios ties the ground truth that we ship to the one it was taken from.
func TestSamplesAreTheirScenarios(t *testing.T) {
	rxe := RXEManifest(t)
	for _, s := range samples.List() {
		e := rxe.Entry(t, s.Scenario+".pcap")
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != e.SHA256 {
			t.Errorf("%s is not %s", s.Name, e.File)
		}
		if s.Capture.Packets != e.Observed.Packets || s.Capture.RoCEv2Packets != e.Observed.RoCEv2 || s.Capture.ICRCWrong != e.Observed.ICRCBad {
			t.Errorf("%s: %+v, but %d packets, %d RoCE v2, %d wrong ICRCs", s.Name, s.Capture, e.Observed.Packets, e.Observed.RoCEv2, e.Observed.ICRCBad)
		}
		for _, side := range []struct {
			ours   samples.Side
			theirs Machine
		}{{s.Sides.Client, e.Client}, {s.Sides.Server, e.Server}} {
			var commands []string
			for _, run := range side.theirs.Runs {
				commands = append(commands, run.Command)
			}
			if !slices.Equal(side.ours.Commands, commands) {
				t.Errorf("%s: commands %q, want %q", s.Name, side.ours.Commands, commands)
			}
			if want := e.CountersDelta[side.theirs.Name]; want != nil && !reflect.DeepEqual(side.ours.CountersDelta, want) {
				t.Errorf("%s: counters %v, want %v", s.Name, side.ours.CountersDelta, want)
			}
			for i, q := range side.theirs.QueuePairs() {
				if got := side.ours.QueuePairs[i]; uint32(got.QPN) != q.QPN || uint32(got.PSN) != q.PSN {
					t.Errorf("%s: QP %d is %+v, want %+v", s.Name, i, got, q)
				}
			}
		}
	}
}

func strict(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}
