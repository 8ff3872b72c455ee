package main

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/testkit"
)

// oracleFields are what `show -T fields` must print as tshark does: of every packet, and of RoCE v2 packets.
var oracleFields = strings.Fields(`
	frame.number frame.len frame.cap_len eth.src eth.dst
	ip.src ip.dst ip.dsfield.dscp ip.dsfield.ecn ip.ttl ipv6.src ipv6.dst udp.srcport udp.dstport udp.length`)

var oracleInfiniBand = strings.Fields(`
	infiniband.bth.opcode infiniband.bth.se infiniband.bth.m infiniband.bth.padcnt infiniband.bth.tver infiniband.bth.p_key
	infiniband.bth.destqp infiniband.bth.a infiniband.bth.psn
	infiniband.deth.q_key infiniband.deth.srcqp
	infiniband.reth.va infiniband.reth.r_key infiniband.reth.dmalen
	infiniband.aeth.syndrome infiniband.aeth.msn
	infiniband.atomiceth.swapdt infiniband.atomiceth.cmpdt infiniband.atomicacketh.origremdt
	infiniband.immdt infiniband.ieth infiniband.invariant.crc`)

// oracleExceptions are where tshark 4.0 is wrong, or means something else. Each has to excuse something. None may excuse a
// whole RoCE v2 packet, unless tshark does not know its opcode.
var oracleExceptions = []*oracleException{
	{
		field: "infiniband.invariant.crc", only: func(row map[string]string) bool { return isCNP(row) },
		reason: "tshark does not know the opcodes of CNPs, and takes what follows the BTH, ICRC included, for their payload",
	},
	{
		field: "udp.*", only: func(row map[string]string) bool { return strings.Contains(row["frame.protocols"], "icmp") },
		reason: "in an ICMP error tshark also shows the ports of the packet that the error is about; the packet itself has none",
	},
	{
		field: "frame.number", only: func(row map[string]string) bool { return row["custom blocks"] != "" },
		reason: "tshark gives numbers to pcapng's custom blocks too, which hold no packet",
	},
}

type oracleException struct {
	field  string // pattern
	only   func(row map[string]string) bool
	reason string
	used   atomic.Int64
}

// tsharkArgs stop it from guessing. From the payload it takes SENDs and WRITEs for upper protocols, most often wrongly, and
// then shows no ICRC; and it takes what comes from UDP port 69 (a hardware RNIC chose it) for TFTP.
var tsharkArgs = strings.Fields(`
	--disable-heuristic rpcrdma_infiniband --disable-heuristic smb_direct_infiniband --disable-heuristic iser_infiniband
	--disable-heuristic lnet_ib --disable-heuristic sdp_infiniband --disable-heuristic smcr_infiniband --disable-heuristic fc_infiniband
	--disable-heuristic eth_over_ib --disable-heuristic mellanox_eoib --disable-protocol nvme-rdma --disable-protocol tftp`)

func TestShowEqualsTshark(t *testing.T) {
	ts := testkit.FindTshark(t)
	known := ts.KnownFields(t)
	columns := append(slices.Clone(oracleFields), oracleInfiniBand...) // frame.number first: compareWithTshark counts
	for _, name := range columns {
		if known[name] == "" {
			t.Errorf("tshark has no field %s", name)
		}
	}
	var files []string
	dir := t.TempDir()
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(dir, s.Capture.File)
		if err := os.WriteFile(file, data, 0o644); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	t.Run("samples", func(t *testing.T) { compareWithTshark(t, ts, columns, files) })
	t.Run("captures", func(t *testing.T) {
		files := testkit.Files(t, testkit.RXE(t), "*.pcap")
		files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(filepath.Base(f), "iwarp_") })
		files = append(files, testkit.Files(t, testkit.Public(t), "rocev2_*", "vector_*", "reader_*.pcap*")...)
		t.Cleanup(func() {
			for _, x := range oracleExceptions {
				if x.used.Load() == 0 && !t.Failed() {
					t.Errorf("nothing needs the exception for %s any more: %s", x.field, x.reason)
				}
			}
		})
		compareWithTshark(t, ts, columns, files)
	})
}

// compareWithTshark compares files; those that are alike go to tshark as one.
func compareWithTshark(t *testing.T, ts *testkit.Tshark, columns, files []string) {
	asked := append(slices.Clone(columns), "frame.protocols")
	sem := make(chan struct{}, 2)
	for _, j := range testkit.Join(t, files) {
		t.Run(filepath.Base(j.Parts[0].File), func(t *testing.T) {
			t.Parallel()
			sem <- struct{}{}
			defer func() { <-sem }()
			rows, err := ts.Query(testkit.TsharkQuery{File: j.File, Fields: asked, Args: tsharkArgs})
			if len(j.Parts) == 1 {
				compareFile(t, columns, asked, j.Parts[0].File, rows, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			total := 0
			for _, part := range j.Parts {
				total += part.Packets
			}
			if len(rows) != total {
				t.Fatalf("tshark has %d packets of %d", len(rows), total)
			}
			at := 0
			for _, part := range j.Parts {
				t.Run(filepath.Base(part.File), func(t *testing.T) {
					some := rows[at : at+part.Packets]
					for i, row := range some {
						if row[0] != strconv.Itoa(at+i+1) {
							t.Fatalf("tshark numbers packet %d %s", at+i+1, row[0])
						}
						row[0] = strconv.Itoa(i + 1)
					}
					compareFile(t, columns, asked, part.File, some, nil)
				})
				at += part.Packets
			}
		})
	}
}

// compareFile compares a file with what tshark said of it.
func compareFile(t *testing.T, columns, asked []string, file string, want [][]string, terr error) {
	packets := len(want)
	want = slices.DeleteFunc(want, func(row []string) bool { return row[len(columns)] == "data" && strings.HasSuffix(file, ".pcapng") })
	custom := ""
	if len(want) < packets {
		custom = "there are some"
	}
	args := []string{"show", "-T", "fields", "-E", "occurrence=f", "-r", file}
	for _, c := range columns {
		args = append(args, "-e", c)
	}
	out, errs, code := runCommand(t, args...)
	if terr == nil && code != exitOK {
		t.Errorf("exit code %d, though tshark reads the file to its end: %s", code, errs)
	}
	if terr != nil && code != exitInput {
		t.Errorf("exit code %d, but tshark says %v", code, terr)
	}
	var got [][]string
	for line := range strings.Lines(out) {
		got = append(got, strings.Split(strings.TrimSuffix(line, "\n"), "\t"))
	}
	if terr != nil && len(got) > len(want) { // tshark gave up; we went on behind the damage
		got = got[:len(want)]
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, tshark has %d", len(got), len(want))
	}
	wrong := 0
	for i := range min(len(got), len(want)) {
		row := map[string]string{"custom blocks": custom}
		for k, name := range asked {
			row[name] = want[i][k]
		}
		rocev2 := row["udp.dstport"] == "4791"
		for k, name := range columns {
			if got[i][k] == want[i][k] || k >= len(oracleFields) && !rocev2 || excused(name, row) {
				continue
			}
			if wrong++; wrong <= 10 {
				t.Errorf("packet %d: %s is %q, in tshark %q", i+1, name, got[i][k], want[i][k])
			}
		}
	}
	if wrong > 10 {
		t.Errorf("%d differences in all", wrong)
	}
}

func excused(field string, row map[string]string) bool {
	if row["udp.dstport"] == "4791" && row["frame.len"] == row["frame.cap_len"] && !isCNP(row) {
		return false
	}
	for _, x := range oracleExceptions {
		if ok, _ := path.Match(x.field, field); ok && x.only(row) {
			x.used.Add(1)
			return true
		}
	}
	return false
}

func isCNP(row map[string]string) bool {
	return row["infiniband.bth.opcode"] == "128" || row["infiniband.bth.opcode"] == "129"
}

// runCommand runs a command line in this process, with what it prints and its exit code.
func runCommand(t testing.TB, args ...string) (stdout, stderr string, code ExitCode) {
	t.Helper()
	dir := t.TempDir()
	open := func(name string) *os.File {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	out, errs := open("stdout"), open("stderr")
	defer out.Close()
	defer errs.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	code = run(context.Background(), args, null, out, errs)
	return read(t, out), read(t, errs), code
}

func mustRead(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t testing.TB, f *os.File) string {
	t.Helper()
	text, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
