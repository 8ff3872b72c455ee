package main

import (
	"bufio"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestDamagedCaptures is about files that other people made to break readers: one sentence each, and the packets in front.
func TestDamagedCaptures(t *testing.T) {
	dir := testkit.Public(t)
	seen := map[string]bool{}
	for _, c := range []struct {
		file    string
		code    ExitCode
		packets int
		says    string // on standard error, or in the line of a packet
	}{
		{"malf_libpcap_linktype-reserved-field-not-zero.pcap", exitInput, 0, `not supported: link type field 0x00300000 has reserved bits set`},
		{"malf_libpcap_pcap-invalid-version-1.pcap", exitInput, 0, `not supported: pcap version 1\.4, only 2\.x is known`},
		{"malf_libpcap_pcapng-invalid-vers-1.pcapng", exitInput, 0, `not supported: pcapng section of version 0\.1, only 1\.x is known`},
		{"malf_libpcap_shb-option-too-long.pcapng", exitInput, 0, `damaged: Section Header Block: option 12336 .*is longer than its block`},
		{"malf_ndpi_fuzz-2021-10-13.pcap", exitInput, 1, `record 2 at offset 0xed: cut off`},
		{"malf_ndpi_ossfuzz_seed_fake_traces_4.pcapng", exitOK, 2, ``},
		{"malf_tcpdump_ipv6-bad-version.pcap", exitOK, 4, `\[bad IP version\]`},
		{"reader_gopacket_be-test901.pcapng", exitInput, 2, `not supported: pcapng section of version 2\.0`},
		{"reader_trex_dns-0-ex.erf", exitInput, 0, `not a capture file`},
	} {
		seen[c.file] = true
		out, errs, code := runCommand(t, "show", filepath.Join(dir, c.file))
		if code != c.code {
			t.Errorf("%s: exit code %d, want %d", c.file, code, c.code)
		}
		if n := strings.Count(out, "\n"); n != c.packets {
			t.Errorf("%s: %d packets, want %d", c.file, n, c.packets)
		}
		if sentences := strings.Count(errs, "\n"); sentences != map[bool]int{true: 0, false: 1}[code == exitOK] {
			t.Errorf("%s: %d lines on standard error:\n%s", c.file, sentences, errs)
		}
		if !regexp.MustCompile(c.says).MatchString(out + errs) {
			t.Errorf("%s: nothing says %q:\n%s%s", c.file, c.says, out, errs)
		}
	}
	for _, file := range testkit.Files(t, dir, "malf_*") {
		if !seen[filepath.Base(file)] {
			t.Errorf("nothing is expected of %s", file)
		}
	}
}

// fifo is a named pipe that a command reads like a capture that is still going on.
func fifo(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "live.pcap")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skipf("no named pipes here: %v", err)
	}
	return path
}

// running is a command in this process, which can be interrupted.
type running struct {
	stdout *bufio.Reader
	stderr *os.File
	done   chan ExitCode
}

func start(t *testing.T, args ...string) *running {
	t.Helper()
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { reader.Close(); errs.Close() })
	r := &running{bufio.NewReader(reader), errs, make(chan ExitCode, 1)}
	go func() {
		r.done <- run(t.Context(), args, os.Stdin, writer, errs)
		writer.Close()
	}()
	return r
}

func (r *running) interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

func (r *running) wait(t *testing.T) ExitCode {
	t.Helper()
	select {
	case code := <-r.done:
		return code
	case <-time.After(30 * time.Second):
		t.Fatal("the command goes on")
		return 0
	}
}

// feed writes a bundled capture into a named pipe and keeps the pipe open.
func feed(t *testing.T, path, sample string) {
	t.Helper()
	data, err := samples.Open(sample)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(data); err != nil {
		t.Fatal(err)
	}
}

func TestShowOfAPipeIsPromptAndCanBeInterrupted(t *testing.T) {
	path := fifo(t)
	r := start(t, "show", path)
	feed(t, path, "atomics")
	for i := range 28 { // they come although the pipe stays open
		if line, err := r.stdout.ReadString('\n'); err != nil {
			t.Fatalf("line %d: %q, %v", i+1, line, err)
		}
	}
	r.interrupt(t)
	if code := r.wait(t); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if errs := read(t, r.stderr); errs != "rocescope: interrupted\n" {
		t.Errorf("standard error: %q", errs)
	}
}

func TestInterruptedJSONIsWhole(t *testing.T) {
	path := fifo(t)
	r := start(t, "show", "-T", "json", "-e", "frame.number", path)
	feed(t, path, "atomics")
	r.stdout.ReadString('\n')
	r.stdout.ReadString('\n')
	r.interrupt(t)
	rest, _ := io.ReadAll(r.stdout)
	if code := r.wait(t); code != exitInterrupted || !strings.HasSuffix(string(rest), "]}}}\n]\n") {
		t.Errorf("exit code %d, ends in %q", code, rest[max(0, len(rest)-40):])
	}
}

func TestAnalyzeOfAPipeReportsWhatWasThere(t *testing.T) {
	path := fifo(t)
	r := start(t, "analyze", path)
	feed(t, path, "lost_write_recovered")
	time.Sleep(200 * time.Millisecond) // what is still in the pipe
	r.interrupt(t)
	out, _ := io.ReadAll(r.stdout)
	if code := r.wait(t); code != exitInterrupted || !strings.Contains(string(out), " packets in ") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
}

func TestInterruptedBeforeThereIsAnything(t *testing.T) {
	path := fifo(t)
	r := start(t, "show", path)
	time.Sleep(100 * time.Millisecond)
	r.interrupt(t)
	if code := r.wait(t); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	feed(t, path, "atomics") // lets the goroutine go that waits for a writer
}

func TestShowIntoHead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "x.pcap")
	data, err := samples.Open("lost_write_recovered")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	reader.Close()
	code := run(t.Context(), []string{"show", "-V", file}, os.Stdin, writer, errs)
	if text := read(t, errs); code != exitOK || text != "" {
		t.Errorf("exit code %d, standard error %q", code, text)
	}
}

func TestQuoteCSV(t *testing.T) {
	for value, want := range map[string]string{
		"": "", "plain": "plain", "a,b": `"a,b"`, `say "no"`: `"say ""no"""`, `"`: `""""`, "two\nlines": "\"two\nlines\"",
	} {
		if got := string(quoteCSV([]byte("x,"+value), 2, ",")); got != "x,"+want {
			t.Errorf("%q becomes %q, want %q", value, got, "x,"+want)
		}
	}
}

// TestPrintersDoNotAllocate is about what prints a line per packet; the tree and JSON are for people with time.
func TestPrintersDoNotAllocate(t *testing.T) {
	testkit.SkipUnderRace(t)
	file := filepath.Join(t.TempDir(), "x.pcap")
	for _, sample := range []string{"atomics", "cm_rping_ipv6", "lost_write_recovered"} {
		data, err := samples.Open(sample)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		for _, o := range []showOptions{
			{format: "text", time: "r"},
			{format: "text", time: "ud", hex: true},
			{format: "fields", time: "r", columns: append(oracleFields, oracleInfiniBand...)},
			{format: "fields", time: "r", columns: []string{"ip.addr", "flow.retransmission", "infiniband.payload"}},
			{format: "csv", time: "r"},
			{format: "jsonl", time: "r", columns: []string{"frame.number", "eth.src", "bth.psn"}},
		} {
			out, _, err := newPrinter(&app{color: colorAlways, stdout: &output{}}, &o)
			if err != nil {
				t.Fatal(err)
			}
			src, err := captures.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 0, 1<<20)
			sink := engine.SinkFunc(func(b *engine.Batch) error {
				allocs := testing.AllocsPerRun(3, func() {
					buf = buf[:0]
					for i := range b.Packets {
						if buf = out.packet(buf, b, i); len(buf) > 1<<19 {
							buf = buf[:0]
						}
					}
				})
				if allocs > 0 {
					t.Errorf("%s, %+v: %v allocations for %d packets", sample, o, allocs, len(b.Packets))
				}
				return nil
			})
			if _, err := engine.New(engine.Options{Track: true, Sinks: []engine.Sink{sink}}).Run(t.Context(), src); err != nil {
				t.Fatal(err)
			}
		}
	}
}
