package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// TestCaptureAddsUp stops the program while more packets come than its ring holds: what it counts as received and as lost is
// what the interface saw, on the table at the end and in the file.
func TestCaptureAddsUp(t *testing.T) {
	for _, engine := range []string{"packet", "xdp"} {
		for _, rings := range []string{"0", "1"} {
			if engine == "xdp" && rings != "0" {
				continue
			}
			t.Run(engine+" "+rings, func(t *testing.T) {
				lab := testkit.NewLab(t, testkit.LabOptions{Queues: 2})
				file := filepath.Join(t.TempDir(), "a.pcapng")
				p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--engine", engine, "--rings", rings, "-B", "1", "--live")
				sent := writes(6000)
				before := lab.B.Received()
				p.cmd.Process.Signal(syscall.SIGSTOP)
				p.stopped()
				lab.A.NewSender().Send(sent)
				saw := lab.B.Received() - before
				p.cmd.Process.Signal(syscall.SIGCONT)
				p.until(regexp.MustCompile(`[1-9][0-9,]* packets .* lost: ring [1-9].* connection`)) // on the line each second
				p.cmd.Process.Signal(os.Interrupt)
				p.expect(exitInterrupted)
				got := p.table()
				lost := got["lost: the kernel's ring was full"]
				if saw != uint64(len(sent)) || got["packets passed the filter"] != saw || lost == 0 || got["written"] != saw-lost {
					t.Errorf("%d sent, the interface saw %d, the table says\n%s", len(sent), saw, p.said.String())
				}
				src, err := captures.Open(file)
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				batch, n := make([]captures.Frame, 100), 0
				for err == nil {
					var got int
					got, err = src.ReadBatch(batch)
					n += got
				}
				st := src.Interfaces()[0].Stats
				if !errors.Is(err, io.EOF) || n != int(saw-lost) || st.Received != int64(saw) || st.OSDropped != int64(lost) || st.Dropped != int64(lost) || st.Delivered != int64(saw-lost) {
					t.Errorf("the file has %d packets and says %+v, %v", n, st, err)
				}
			})
		}
	}
}

// stopped waits until a process that was told to stop has done so.
func (p *process) stopped() {
	p.t.Helper()
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		if err != nil {
			p.t.Fatal(err)
		}
		if _, state, _ := strings.Cut(string(text), ") "); strings.HasPrefix(state, "T") {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// TestCaptureToSlowPipe writes to a pipe that nobody reads: what does not fit into the queue is lost and counted there, and
// the ring goes on being emptied.
func TestCaptureToSlowPipe(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &process{t: t}
	p.launch(lab.B, os.Args[0], w, "capture", "-i", lab.B.Iface, "-w", "-", "--queue", "1")
	w.Close()
	p.until(regexp.MustCompile("^Capturing on"))
	sent := writes(6000)
	lab.A.NewSender().Send(sent)
	// All are out of the ring, as the line each second says, while not one could be written but what the pipe holds.
	p.until(regexp.MustCompile(" " + report.Count(uint64(len(sent))) + " packets .* lost: ring 0, disk [1-9]"))
	file := filepath.Join(t.TempDir(), "out")
	out, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	copied := make(chan error)
	go func() {
		_, err := io.Copy(out, r)
		copied <- err
	}()
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	if err := <-copied; err != nil {
		t.Fatal(err)
	}
	got := p.table()
	lost := got["lost: the disk was too slow"]
	n, err := written(t, file, sent)
	if err != nil || n != int(got["written"]) || lost == 0 || n+int(lost) != len(sent) || got["lost: the kernel's ring was full"] != 0 {
		t.Errorf("%d packets came out of %d, %v; the table says\n%s", n, len(sent), err, p.said.String())
	}
}

// TestCaptureSecondOnQueue starts another capture by the engine xdp on the same interface, which is refused for its
// program, without waiting for its queue, and the first one goes on.
func TestCaptureSecondOnQueue(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	file := filepath.Join(t.TempDir(), "a.pcapng")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--engine", "xdp")
	second := launchIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", "/dev/null", "--engine", "xdp")
	second.expect(exitUnavailable)
	if says := second.said.String(); !strings.Contains(says, lab.B.Iface) || !strings.Contains(says, "in use") || !strings.Contains(says, "another XDP program is attached") {
		t.Errorf("the second one says\n%s", says)
	}
	sent := writes(300)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)
}

// TestCaptureDetachesWithoutPrivileges ends a capture in the ordinary way, when it has no capabilities any more: it reads its
// counters, detaches its program, and the kernel's stack gets RoCE again.
func TestCaptureDetachesWithoutPrivileges(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	binary := buildProgram(t)
	file := filepath.Join(t.TempDir(), "a.pcapng")
	p := startProgram(t, lab.B, binary, "capture", "-i", lab.B.Iface, "-w", file, "--engine", "xdp")
	p.checkCapabilities()
	if x := lab.B.Link().Attrs().Xdp; x == nil || !x.Attached {
		t.Errorf("no program is attached: %+v", x)
	}
	sent := writes(300)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)
	if got := p.table(); got["packets passed the filter"] != uint64(len(sent)) {
		t.Errorf("it counts %v", got)
	}
	if says := p.said.String(); strings.Contains(says, "engine xdp:") {
		t.Errorf("it could not detach:\n%s", says)
	}
	if x := lab.B.Link().Attrs().Xdp; x != nil && x.Attached {
		t.Errorf("a program is still attached: %+v", x)
	}
}

// TestCaptureStaysInFolder plants links where the next files of a series will be, which lead out of the folder: a capture
// that is to overwrite files follows them no further than Landlock lets it.
func TestCaptureStaysInFolder(t *testing.T) {
	if landlockVersion() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	lab := testkit.NewLab(t, testkit.LabOptions{})
	binary := buildProgram(t)
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "precious")
	if err := os.WriteFile(outside, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := startProgram(t, lab.B, binary, "capture", "-i", lab.B.Iface, "-w", filepath.Join(dir, "a.pcapng"), "--force", "-b", "packets:1", "-c", "3")
	for second := range 60 {
		name := fmt.Sprintf("a_00002_%s.pcapng", time.Now().Add(time.Duration(second)*time.Second).Format("20060102150405"))
		if err := os.Symlink(outside, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	lab.A.NewSender().Send(writes(3))
	p.expect(exitFailed)
	if b, _ := os.ReadFile(outside); string(b) != "precious" {
		t.Errorf("the file outside is %q", b)
	}
	if says := p.said.String(); !strings.Contains(says, "permission denied") {
		t.Errorf("it says\n%s", says)
	}
}

// TestInterfaceWithoutVerb is `rocescope IFACE`: a file's name goes before an interface's.
func TestInterfaceWithoutVerb(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := writes(20)
	p := launchIn(t, lab.B, lab.B.Iface, "-a", "packets:50")
	sendUntil(t, lab, p, sent)
	p.expect(exitOK)
	if out := p.stdout.String(); !strings.Contains(out, lab.B.Iface+": 50 packets") {
		t.Errorf("it says\n%s", out)
	}
	p = launchIn(t, lab.B, "--color", "never", lab.B.Iface, "--json", "-a", "packets:5")
	sendUntil(t, lab, p, sent)
	p.expect(exitOK)
	if !strings.Contains(p.stdout.String(), `"rocescope.analysis/1"`) {
		t.Errorf("it says\n%s", p.stdout.String())
	}
	for word, says := range map[string]string{"anlyze": `did you mean "analyze"?`, "veth1": `did you mean the interface "veth0"?`, "veth1.pcap": "veth1.pcap: no such file"} {
		p := launchIn(t, lab.B, word)
		p.wait()
		if !strings.Contains(p.said.String(), says) {
			t.Errorf("%s: it says\n%s", word, p.said.String())
		}
	}
}
