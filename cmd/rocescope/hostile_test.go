package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/suite"
	"github.com/rocescope/rocescope/internal/testkit"
)

// inProcess runs a command line within the test, with standard output going nowhere, and returns what it said.
func inProcess(t *testing.T, args ...string) (code ExitCode, said string) {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	return inProcessTo(t, null, args...)
}

func inProcessTo(t *testing.T, stdout *os.File, args ...string) (code ExitCode, said string) {
	t.Helper()
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	complaints, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer complaints.Close()
	code = run(context.Background(), args, null, stdout, complaints)
	text, err := os.ReadFile(complaints.Name())
	if err != nil {
		t.Fatal(err)
	}
	return code, string(text)
}

// TestHostileCaptures takes every public capture, those that are known to hurt among them, whole, cut, and with bits flipped,
// through all that reads captures: each ends with 0 or with 4 and a sentence, and nothing panics.
func TestHostileCaptures(t *testing.T) {
	const seed = 5
	rng := rand.New(rand.NewPCG(seed, seed))
	dir := t.TempDir()
	files := map[string][]byte{}
	for _, s := range samples.List()[:3] { // there are these where the public ones are not
		data, err := samples.Open(s.Name)
		if err != nil {
			t.Fatal(err)
		}
		files[s.Name] = data
	}
	if folder := os.Getenv("ROCESCOPE_CAPTURES"); folder != "" {
		found, err := filepath.Glob(filepath.Join(folder, "public", "*.[pe]*"))
		if err != nil || len(found) == 0 {
			t.Errorf("no public captures: %v", err)
		}
		for _, path := range found {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(path)] = data
		}
	}
	for name, whole := range files {
		if len(whole) > 40_000 { // the beginning has all kinds of packets, and more of them take long
			whole = whole[:40_000]
		}
		flipped := slices.Clone(whole)
		for i := 24; i < len(flipped); i += 1 + rng.IntN(400) {
			flipped[i] ^= 1 << rng.IntN(8)
		}
		for how, data := range map[string][]byte{"whole": whole, "cut": whole[:len(whole)*2/3], "bits flipped": flipped} {
			t.Run(name+" "+how, func(t *testing.T) {
				in := filepath.Join(dir, "in.cap")
				if err := os.WriteFile(in, data, 0o600); err != nil {
					t.Fatal(err)
				}
				for _, args := range [][]string{
					{"analyze", "--json", "--messages", in},
					{"show", "-V", "-x", in},
					{"diff", in, in},
					{"annotate", "--force", in, filepath.Join(dir, "out.pcapng")},
					{"export", in, "--to", "jsonl", "-"},
				} {
					code, said := inProcess(t, args...)
					if code != exitOK && code != exitInput || (code == exitInput) != strings.Contains(said, "rocescope: ") {
						t.Errorf("%s: exit code %d; it says\n%s", args[0], code, said)
					}
				}
			})
		}
	}
}

// memoryCap is by how much more a file of a kilobyte may allocate, all together, than an empty capture.
const memoryCap = 8 << 20

// TestMemoryCap reads small files that claim to be large.
func TestMemoryCap(t *testing.T) {
	testkit.SkipUnderRace(t)
	le := binary.LittleEndian
	u32 := func(all ...uint32) (b []byte) {
		for _, v := range all {
			b = le.AppendUint32(b, v)
		}
		return b
	}
	section := u32(0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0xFFFFFFFF, 0xFFFFFFFF, 28)
	iface := u32(1, 20, 1, 0x7FFFFFFF, 20) // a snap length of 2³¹-1
	pcap := func(snap uint32, rest ...byte) []byte {
		return append(u32(0xA1B2C3D4, 0x00040002, 0, 0, snap, 1), rest...)
	}
	pad := make([]byte, 900)
	gzipped := func(n int) []byte {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.CopyN(z, zeros{}, int64(n)); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	spent := func(f func()) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		f()
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	empty := write("empty.pcap", pcap(65535))
	for name, data := range map[string][]byte{
		"a block of 4 GB":                          slices.Concat(section, iface, u32(6, 0xFFFFFFFC, 0, 0, 0, 60, 60), pad),
		"a packet of 4 GB":                         slices.Concat(section, iface, u32(6, 1000, 0, 0, 0, 0xFFFFFFFF, 0xFFFFFFFF), pad),
		"an option of 64 KiB":                      slices.Concat(section, u32(1, 920, 1, 0, 0xFFFF0002), pad, u32(920)),
		"a section of 2^63":                        slices.Concat(u32(0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0xFFFFFFFF, 0x7FFFFFFF, 28), iface, pad),
		"a name resolution block of 2 GB":          slices.Concat(section, u32(4, 0x7FFFFFFC), pad),
		"many interfaces":                          slices.Concat(section, bytes.Repeat(iface, 48)),
		"a pcap with a snap length of 2³¹":         pcap(1<<31, pad...),
		"a pcap record of 2 GB":                    pcap(65535, append(u32(0, 0, 0x7FFFFFFF, 0x7FFFFFFF), pad...)...),
		"a pcap record of 4 GB, of a snap of 4 GB": pcap(0xFFFFFFFF, append(u32(0, 0, 0xFFFFFFFF, 0xFFFFFFFF), pad...)...),
		"a gzip bomb":                              gzipped(1 << 20),
		"a gzip bomb behind a header":              slices.Concat(gzipped(0), gzipped(1<<20)),
		"a zstd frame with a window of 2 GB":       append([]byte{0x28, 0xB5, 0x2F, 0xFD, 0x00, 0xA8, 0x4B, 0x00, 0x00, 'x'}, pad...),
	} {
		path := write("small.cap", data)
		for _, args := range [][]string{{"analyze"}, {"show"}} {
			line := func(file string) []string { return append(slices.Clone(args), file) }
			inProcess(t, line(empty)...) // what is made once
			least := spent(func() { inProcess(t, line(empty)...) })
			var code ExitCode
			var said string
			if n := spent(func() { code, said = inProcess(t, line(path)...) }); n > least+memoryCap {
				t.Errorf("%s: %s allocates %d bytes for a file of %d, of an empty one %d", name, args[0], n, len(data), least)
			}
			if code != exitOK && code != exitInput {
				t.Errorf("%s: exit code %d; it says\n%s", name, code, said)
			}
		}
	}
	deep := strings.Repeat("[", 900)
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\n" +
		"e: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\nrules: [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n"
	vcd := "$timescale 1ps $end\n$scope module tb $end\n$var wire 4294967295 ! tdata $end\n$var wire 1 \" clk $end\n$var wire 1 # tvalid $end\n$upscope $end\n$enddefinitions $end\n#0\nb1 !\n1\"\n1#\n#1\n0\"\n"
	for name, do := range map[string]func(){
		"an event log of brackets": func() {
			log := write("deep.jsonl", []byte(`{"type":"log","schema":"rocescope.events/1","x":`+deep))
			if code, said := inProcess(t, "diff", log, log); code == exitOK {
				t.Errorf("an event log of brackets is taken for one:\n%s", said)
			}
		},
		"counters of brackets": func() { inProcess(t, "analyze", empty, "--counters", write("counters.json", []byte(deep))) },
		"a VCD with a bus of 4 Gbit": func() {
			inProcess(t, "convert", "--force", write("wide.vcd", []byte(vcd)), filepath.Join(dir, "out.pcapng"))
		},
		"a CSV of one long number": func() {
			csv := write("long.csv", []byte("time,tdata,tvalid,tlast\n0,0x"+strings.Repeat("f", 900)+",1,1\n"))
			inProcess(t, "convert", "--force", csv, filepath.Join(dir, "out.pcapng"))
		},
		"rules that name each other": func() {
			if _, err := fault.ParseFile("bomb.yaml", []byte(bomb)); err == nil {
				t.Error("rules that name each other a million times are taken for rules")
			}
		},
		"a scenario of names": func() {
			if _, err := suite.Parse("bomb.yaml", []byte(strings.ReplaceAll(bomb, "rules", "cases"))); err == nil {
				t.Error("cases that name each other a million times are taken for cases")
			}
		},
		"a filter of parentheses": func() {
			inProcess(t, "show", empty, "-Y", strings.Repeat("(", 1000)+"ip"+strings.Repeat(")", 1000))
		},
	} {
		do()
		if n := spent(do); n > 2*memoryCap {
			t.Errorf("%s allocates %d bytes", name, n)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestReaderOfOutputGone runs each command that prints, with a standard output that nobody reads: the end is quiet, with 0.
func TestReaderOfOutputGone(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.pcap")
	data, err := samples.Open("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"analyze FILE", "analyze --json FILE", "analyze --messages FILE", "analyze --json --messages FILE",
		"show FILE", "show -V FILE", "show -x FILE", "show -T json FILE", "show -T jsonl FILE", "show -T csv -e ip.src FILE", "show -Y infiniband FILE",
		"diff FILE FILE", "diff --json FILE FILE", "export FILE --to jsonl -", "export FILE --to csv --tables messages -", "export --columns",
		"demo", "demo --list", "fields", "fields --json", "opcodes", "findings", "findings --json", "faults", "faults --json", "schema", "schema analysis",
		"version", "completion bash", "completion zsh", "help", "help exit-codes", "analyze --help", "test --list", "serve --misbehave list", "doctor",
	} {
		t.Run(line, func(t *testing.T) {
			args := strings.Fields(strings.ReplaceAll(line, "FILE", file))
			if code, said := inProcess(t, args...); code != exitOK {
				if code == exitUnavailable || strings.HasPrefix(line, "doctor") {
					t.Skipf("exit code %d here: %s", code, said)
				}
				t.Fatalf("exit code %d even with a reader; it says\n%s", code, said)
			}
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			defer w.Close()
			if code, said := inProcessTo(t, w, args...); code != exitOK || said != "" {
				t.Errorf("exit code %d, and it says\n%s", code, said)
			}
		})
	}
}
