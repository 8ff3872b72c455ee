package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/bench/traffic"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/testkit"
)

// faultRounds is how often programs are killed: a few times, or as often as ROCESCOPE_FAULT_ROUNDS says (make faults).
func faultRounds(t *testing.T, few int) int {
	t.Helper()
	text := os.Getenv("ROCESCOPE_FAULT_ROUNDS")
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ROCESCOPE_FAULT_ROUNDS: %v", err)
	}
	return n
}

// TestExportKilled kills an export at some moment: of JSON lines at most the last one is not whole, and Parquet files that have their
// name are whole. Exported again, all is there.
func TestExportKilled(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "big.pcapng")
	g := traffic.New(traffic.Config{Connections: 64, HostPairs: 8, Payload: 64})
	if err := g.WriteFile(file, 60_000, true); err != nil {
		t.Fatal(err)
	}
	whole := time.Duration(0)
	for round := range faultRounds(t, 4) + 2 { // the first two run to their end, and show how long that takes
		kind := []string{"jsonl", "parquet"}[round%2]
		store := filepath.Join(dir, fmt.Sprint("store", round))
		if err := os.Mkdir(store, 0o700); err != nil {
			t.Fatal(err)
		}
		to := store // a folder of Parquet files, or a file within it
		if kind == "jsonl" {
			to = filepath.Join(store, "all.jsonl")
		}
		cmd := exec.Command(os.Args[0])
		cmd.Args = []string{"rocescope", "export", file, "--to", kind, to}
		began := time.Now()
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		if round >= 2 {
			time.Sleep(whole * time.Duration(round%13+1) / 15)
			cmd.Process.Kill()
		}
		err := cmd.Wait()
		if round < 2 {
			if err != nil {
				t.Fatal(err)
			}
			whole = max(whole, time.Since(began))
		}
		lines, files := checkStore(t, store)
		if round < 2 && lines+files == 0 {
			t.Errorf("%s: nothing was exported", kind)
		}
		os.RemoveAll(store)
	}
}

// checkStore reads all that an export left, and counts lines of JSON and Parquet files.
func checkStore(t *testing.T, store string) (lines, files int) {
	t.Helper()
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if filepath.Ext(path) == ".parquet" {
			files++
			if f, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data))); err != nil || f.NumRows() == 0 {
				t.Errorf("%s is not whole: %v", path, err)
			}
			return nil
		}
		if filepath.Ext(path) != ".jsonl" {
			return nil
		}
		all := bytes.SplitAfter(data, []byte("\n"))
		for i, line := range all {
			if len(line) == 0 || i == len(all)-1 {
				continue // what the kill cut
			}
			if lines++; !json.Valid(line) {
				t.Errorf("%s: line %d is %q", path, i+1, line)
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return lines, files
}

// smallDisk mounts a disk of so many bytes for the test.
func smallDisk(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mount a small disk: %v", err)
	}
	t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestFullDisk lets each command that writes a file run out of room: exit code 1 and one sentence that says so.
func TestFullDisk(t *testing.T) {
	elsewhere := t.TempDir()
	file := filepath.Join(elsewhere, "big.pcapng")
	g := traffic.New(traffic.Config{Connections: 64, HostPairs: 8, Payload: 64})
	if err := g.WriteFile(file, 20_000, true); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"annotate FILE DISK/out.pcapng", "annotate --privacy FILE DISK/out.pcapng", "convert FILE DISK/out.pcap", "analyze FILE --html DISK/out.html",
		"analyze FILE --events DISK/out.jsonl", "diff FILE FILE --html DISK/out.html", "export FILE --to jsonl DISK/store", "export FILE --to csv DISK/store",
		"export FILE --to parquet DISK/store", "inject write -s 4096 -n 500 --src 10.9.0.1 --dst 10.9.0.2 -w DISK/out.pcapng",
	} {
		t.Run(line, func(t *testing.T) {
			disk := smallDisk(t, "16k")
			args := strings.Fields(strings.NewReplacer("FILE", file, "DISK", disk).Replace(line))
			var said strings.Builder
			cmd := exec.Command(os.Args[0]) // a process of its own: inject gives its privileges away
			cmd.Args, cmd.Stderr = append([]string{"rocescope"}, args...), &said
			_ = cmd.Run() // its exit code says more
			if code := ExitCode(cmd.ProcessState.ExitCode()); code != exitFailed || strings.Count(said.String(), "no space left on device") != 1 {
				t.Errorf("exit code %d; it says\n%s", code, said.String())
			}
		})
	}
}

// TestReadFails reads a file whose reads fail: exit code 4 and a sentence that says what.
func TestReadFails(t *testing.T) {
	for _, command := range []string{"analyze", "show", "annotate", "export"} {
		args := []string{command, "/proc/self/mem"} // may be opened, and its first page is not there to be read
		switch command {
		case "annotate":
			args = append(args, filepath.Join(t.TempDir(), "out.pcapng"))
		case "export":
			args = append(args, "--to", "jsonl", "-")
		}
		code, said := inProcess(t, args...)
		if code != exitInput || strings.Count(said, "input/output error") != 1 || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: exit code %d; it says\n%s", command, code, said)
		}
	}
}

// TestCaptureThroughFlaps takes the interface down and up again while it is captured from: what came before and after is in the
// file.
func TestCaptureThroughFlaps(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	file := filepath.Join(t.TempDir(), "a.pcapng")
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file, "--live")
	sent := writes(300)
	sender := lab.A.NewSender()
	for flap := range 3 {
		sender.Send(sent)
		p.until(regexp.MustCompile(" " + report.Count(uint64((flap+1)*len(sent))) + " packets "))
		lab.B.SetUp(false)
		lab.B.SetUp(true)
		for lab.A.Link().Attrs().OperState != netlink.OperUp {
			time.Sleep(time.Millisecond)
		}
	}
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	n, err := written(t, file, sent)
	if err != nil || n != 3*len(sent) {
		t.Errorf("%d packets of %d, %v; it says\n%s", n, 3*len(sent), err, p.said.String())
	}
}

// TestTerminalGone sends what a process gets whose terminal is closed: a capture ends as by Ctrl-C, its file whole. Under nohup it goes
// on.
func TestTerminalGone(t *testing.T) {
	lab := testkit.NewLab(t, testkit.LabOptions{})
	sent := writes(300)
	file := filepath.Join(t.TempDir(), "a.pcapng")
	taken := make(chan os.Signal, 1)
	signal.Notify(taken, syscall.SIGHUP) // if these tests run under nohup, the capture would, too
	defer signal.Stop(taken)
	p := startIn(t, lab.B, "capture", "-i", lab.B.Iface, "-w", file)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)

	file = filepath.Join(t.TempDir(), "b.pcapng")
	script := filepath.Join(t.TempDir(), "nohup.sh")
	if err := os.WriteFile(script, []byte("#!/bin/bash\ntrap '' HUP\nexec -a rocescope "+os.Args[0]+" \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p = startProgram(t, lab.B, script, "capture", "-i", lab.B.Iface, "-w", file)
	p.cmd.Process.Signal(syscall.SIGHUP)
	lab.A.NewSender().Send(sent)
	p.cmd.Process.Signal(os.Interrupt)
	p.expect(exitInterrupted)
	checkWritten(t, file, sent)
}
