package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// sampleFile writes a sample where it can be opened.
func sampleFile(t *testing.T, name string) string {
	t.Helper()
	data, err := samples.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".pcap")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// selected is what a filter leaves of a sample, and the messages that it takes.
func selected(t *testing.T, sample, text string) (all, left *flows.Snapshot, taken []flows.Message) {
	t.Helper()
	f, err := filter.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	chosen := newSelection()
	var pending []flows.Message
	take := func() {
		for i := range pending {
			if chosen.takes(&pending[i]) {
				taken = append(taken, pending[i])
			}
		}
		pending = nil
	}
	o := engine.Options{CheckICRC: true, Track: true, Filter: f}
	o.Tracker.Sink = flows.Sink{Finding: chosen.finding, Message: func(m *flows.Message) { pending = append(pending, *m) }}
	o.Sinks = []engine.Sink{chosen, engine.SinkFunc(func(*engine.Batch) error { take(); return nil })}
	src, err := captures.Open(sampleFile(t, sample))
	if err != nil {
		t.Fatal(err)
	}
	got, err := engine.New(o).Run(t.Context(), src)
	if err != nil {
		t.Fatal(err)
	}
	take()
	return got.Snapshot, chosen.of(got.Snapshot), taken
}

func TestSelectionOfEverythingLeavesEverything(t *testing.T) {
	for _, s := range samples.List() {
		t.Run(s.Name, func(t *testing.T) {
			all, left, taken := selected(t, s.Name, "frame.number > 0")
			if left.Packets != all.Packets || left.Opcodes != all.Opcodes || left.ICRC != all.ICRC ||
				left.Protocols.RoCEv2 != all.Protocols.RoCEv2 || left.Protocols.CM != all.Protocols.CM || left.Protocols.CNP != all.Protocols.CNP {
				t.Errorf("counts differ:\n%+v\n%+v", left.Protocols, all.Protocols)
			}
			if len(left.Connections) != len(all.Connections) || len(left.Findings) != len(all.Findings) {
				t.Errorf("%d of %d connections and %d of %d findings are left", len(left.Connections), len(all.Connections), len(left.Findings), len(all.Findings))
			}
			n := 0
			for i := range all.Connections {
				for d := range all.Connections[i].Streams {
					for _, m := range all.Connections[i].Streams[d].Messages {
						n += int(m.Count)
					}
				}
			}
			if len(taken) != n {
				t.Errorf("%d of %d messages are left", len(taken), n)
			}
		})
	}
}

func TestSelectionOfNothingLeavesNothing(t *testing.T) {
	_, left, taken := selected(t, "lost_write_recovered", "frame.number == 0")
	if left.Packets != 0 || len(left.Connections)+len(left.Findings)+len(taken) != 0 {
		t.Errorf("%d packets, %d connections, %d findings, %d messages", left.Packets, len(left.Connections), len(left.Findings), len(taken))
	}
}

func TestSelectionByConnectionAndPacket(t *testing.T) {
	// The queue pairs of this sample were told each other's numbers in a way that we do not read: their packets are held
	// until it is clear which belong together.
	const qpn = 0x69
	all, left, taken := selected(t, "memory_window_revoked", "infiniband.bth.destqp == 0x69 and infiniband.bth.opcode == RC_SEND_ONLY_WITH_INVALIDATE")
	if left.Packets != 1 || left.Opcodes[dissect.OpRCSendOnlyInv] != 1 {
		t.Errorf("%d packets selected, of which %d SENDs with invalidate", left.Packets, left.Opcodes[dissect.OpRCSendOnlyInv])
	}
	if len(left.Connections) != 1 || left.Connections[0].A.QPN != qpn {
		t.Fatalf("%d connections are left", len(left.Connections))
	}
	for i := range all.Connections {
		if all.Connections[i].ID == left.Connections[0].ID && all.Connections[i].Streams[0].Packets != left.Connections[0].Streams[0].Packets {
			t.Error("a connection that is left must be whole")
		}
	}
	if len(left.Findings) != 0 {
		t.Errorf("the refusal is no SEND: %+v", left.Findings)
	}
	if len(taken) != 1 || taken[0].Op != flows.OpSend {
		t.Errorf("messages: %+v", taken)
	}

	_, left, _ = selected(t, "memory_window_revoked", "flow.nak")
	if len(left.Findings) != 2 || len(left.Connections) != 2 {
		t.Errorf("two NAKs name %d findings on %d connections", len(left.Findings), len(left.Connections))
	}
}

func TestBitset(t *testing.T) {
	var b bitset
	for _, n := range []uint64{0, 1, 63, 64, 1000} {
		if b.has(n) {
			t.Errorf("%d is in an empty set", n)
		}
	}
	b.set(64)
	b.set(1000)
	for n, want := range map[uint64]bool{0: false, 63: false, 64: true, 65: false, 999: false, 1000: true, 5000: false} {
		if b.has(n) != want {
			t.Errorf("%d: %v", n, !want)
		}
	}
}

// A pipe that does not end, and Ctrl-C: what came by then is reported.
func TestInterruptedAnalysisReports(t *testing.T) {
	data, err := samples.Open(samples.Default)
	if err != nil {
		t.Fatal(err)
	}
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skipf("mkfifo: %v", err)
	}
	release := make(chan struct{})
	written := make(chan error, 1)
	go func() {
		w, err := os.OpenFile(pipe, os.O_WRONLY, 0)
		if err != nil {
			written <- err
			return
		}
		defer w.Close()
		_, err = w.Write(data) // ends when the reader has taken all but what fits into the pipe
		written <- err
		<-release
	}()
	go func() {
		if <-written == nil {
			time.Sleep(100 * time.Millisecond)
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}
	}()
	out, errs, code := runLine(t, "analyze", "--json", pipe)
	close(release)
	if code != exitInterrupted {
		t.Errorf("exit code %d: %s", code, errs)
	}
	var d report.Document
	if err := json.Unmarshal(out, &d); err != nil {
		t.Fatalf("%v in %q", err, out)
	}
	if !d.Capture.Interrupted || d.Capture.Packets == 0 || len(d.Connections) != 1 {
		t.Errorf("interrupted %v, %d packets, %d connections", d.Capture.Interrupted, d.Capture.Packets, len(d.Connections))
	}
	if !strings.Contains(string(errs), "interrupted") {
		t.Errorf("standard error: %q", errs)
	}
}

// What a user reads of each sample, at the width of a pipe.
func TestTextOfSamples(t *testing.T) {
	for _, s := range samples.List() {
		t.Run(s.Name, func(t *testing.T) {
			testkit.Golden(t, "samples/"+s.Name+".txt", runOK(t, "analyze", sampleFile(t, s.Name)))
		})
	}
}

func TestJSONOfSamples(t *testing.T) {
	for _, name := range []string{samples.Default, "cm_rping_ipv6", "ud_pingpong"} {
		t.Run(name, func(t *testing.T) {
			file := sampleFile(t, name)
			got := runOK(t, "analyze", "--json", file)
			testkit.Golden(t, "samples/"+name+".json", bytes.ReplaceAll(got, []byte(filepath.Dir(file)+"/"), nil))
		})
	}
}

func TestJSONIsTheSameEachTime(t *testing.T) {
	for _, s := range samples.List() {
		file := sampleFile(t, s.Name)
		first, second := runOK(t, "analyze", "--json", file), runOK(t, "analyze", "--json", file)
		if !bytes.Equal(first, second) {
			t.Errorf("%s: two runs differ", s.Name)
		}
	}
}

func TestFailOnJudges(t *testing.T) {
	d := &report.Document{Findings: []report.Finding{{Severity: "warning"}, {Severity: "note"}, {Severity: "warning"}}}
	for level, want := range map[string]string{
		"note":    "3 findings of severity note or graver (--fail-on note)",
		"warning": "2 findings of severity warning or graver (--fail-on warning)",
		"error":   "",
	} {
		var f failOn
		if err := f.Set(level); err != nil {
			t.Fatal(err)
		}
		err := f.judge(d)
		switch {
		case want == "" && err != nil || want != "" && err == nil:
			t.Errorf("--fail-on %s: %v", level, err)
		case err != nil && (err.Error() != want || exitCode(err) != exitJudged):
			t.Errorf("--fail-on %s: %v, exit code %d", level, err, exitCode(err))
		}
	}
	var unset failOn
	if err := unset.judge(d); err != nil {
		t.Errorf("nobody asked for a verdict: %v", err)
	}
	if err := unset.Set("worse"); err == nil {
		t.Error("a severity that there is not")
	}
}
