package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/testkit"
)

// giverUp is the name by which the test binary is a process that gives up system calls, and tries them.
const giverUp = "gives-up-calls"

func init() {
	programs[giverUp] = triesCalls
	programs[reader] = triesFiles
}

// reader is the name by which the test binary is a process that reads a file offline: its arguments are a file to read, one that it
// was not told of, a place for an output, and one elsewhere.
const reader = "reads-files"

func triesFiles() {
	ownProcess = true
	named, other, out, elsewhere := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	newInput([]string{named}).onlyRead(out)
	for _, path := range []string{named, other} {
		_, err := os.ReadFile(path)
		fmt.Println("read", err == nil, errors.Is(err, os.ErrPermission))
	}
	for _, path := range []string{out, elsewhere} {
		err := os.WriteFile(path, []byte("x"), 0o600)
		fmt.Println("write", err == nil, errors.Is(err, os.ErrPermission))
	}
}

// TestReadersStayWithinReach: who reads a file offline can open that one, make its output, and nothing else.
func TestReadersStayWithinReach(t *testing.T) {
	if landlockVersion() == 0 {
		t.Skip("this kernel has no Landlock")
	}
	if testkit.RaceEnabled {
		t.Skip("the race detector brings threads that Go does not know")
	}
	in, out, elsewhere := t.TempDir(), t.TempDir(), t.TempDir()
	named, other := filepath.Join(in, "named"), filepath.Join(in, "other")
	for _, path := range []string{named, other} {
		if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(os.Args[0])
	cmd.Args = []string{reader, named, other, filepath.Join(out, "new"), filepath.Join(elsewhere, "new")}
	got, err := cmd.CombinedOutput()
	const want = "read true false\nread false true\nwrite true false\nwrite false true\n"
	if err != nil || string(got) != want {
		t.Errorf("%v\n%s", err, got)
	}
}

// triesCalls gives up system calls, makes each of them with nonsense, on this thread and on one that was there before, and prints
// what came of it.
func triesCalls() {
	live := len(os.Args) > 1 && os.Args[1] == "live"
	ownProcess = true
	begin, done := make(chan bool), make(chan bool)
	try := func(thread string) {
		for _, d := range deniedCalls {
			_, _, errno := unix.RawSyscall6(uintptr(d.call), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), ^uintptr(0), 0)
			fmt.Println(thread, d.name, errno == unix.EPERM)
		}
	}
	go func() {
		runtime.LockOSThread()
		begin <- true
		<-begin
		try("other")
		close(done)
	}()
	<-begin
	if err := denyCalls(live); err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
	begin <- true
	<-done
	try("own")
	if _, err := os.ReadDir("."); err != nil {
		fmt.Println("failed:", err)
	}
	err := exec.Command("/bin/true").Run()
	fmt.Println("program", err != nil && strings.Contains(err.Error(), "operation not permitted"))
}

// TestDeniedCalls holds each row of the table to what the kernel does, in a process of its own.
func TestDeniedCalls(t *testing.T) {
	if code, err := deniedProgram(false); err != nil || code == nil {
		t.Skipf("%s: no filter for this processor (%v)", runtime.GOARCH, err)
	}
	if _, err := os.Stat("/proc/sys/kernel/seccomp/actions_avail"); err != nil {
		t.Skip("this kernel has no seccomp")
	}
	for _, live := range []bool{false, true} {
		cmd := exec.Command(os.Args[0])
		cmd.Args = []string{giverUp, map[bool]string{true: "live", false: "offline"}[live]}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		said := map[string]bool{}
		for _, line := range strings.Split(string(out), "\n") {
			said[line] = true
		}
		for _, thread := range []string{"own", "other"} {
			for _, d := range deniedCalls {
				if line := fmt.Sprintf("%s %s true", thread, d.name); (d.live || !live) && !said[line] {
					t.Errorf("live %v: %s, thread %s: not refused\n%s", live, d.name, thread, out)
				}
			}
		}
		if strings.Contains(string(out), "failed") || !said["program true"] {
			t.Errorf("live %v:\n%s", live, out)
		}
		if live && said["own socket true"] {
			t.Error("sockets are refused to who uses them")
		}
	}
}

// TestHaveSeccomp: what doctor says of this kernel is what it does.
func TestHaveSeccomp(t *testing.T) {
	code, err := deniedProgram(false)
	_, serr := os.Stat("/proc/sys/kernel/seccomp/actions_avail")
	if got, want := haveSeccomp(), err == nil && code != nil && serr == nil; got != want {
		t.Errorf("seccomp %v, want %v (%v, %v)", got, want, err, serr)
	}
}
