// Agent is the first process of the laboratory's guest. It makes the machine ready (file systems, kernel modules,
// network, soft-RoCE device), then runs the programs that the laboratory asks for. It knows nothing of scenarios.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/lab/control"
)

func main() {
	if err := serve(); err != nil {
		fmt.Fprintln(os.Stderr, "agent:", err)
	}
	time.Sleep(100 * time.Millisecond) // the console is slow
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
}

func serve() error {
	if err := prepare(); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return err
	}
	a := &agent{out: json.NewEncoder(port), running: map[uint64]*exec.Cmd{}}
	a.say(control.Answer{Up: unix.ByteSliceToString(name.Release[:])})
	for in := bufio.NewScanner(port); in.Scan(); {
		var r control.Request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			return fmt.Errorf("a request that is none: %w", err)
		}
		switch {
		case r.Kill != 0:
			a.kill(r.Kill)
		case len(r.Run) > 0:
			go a.run(r)
		}
	}
	return nil // the laboratory hung up
}

type agent struct {
	mu      sync.Mutex
	out     *json.Encoder
	running map[uint64]*exec.Cmd
}

func (a *agent) say(what control.Answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	_ = a.out.Encode(what)
}

func (a *agent) kill(id uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if cmd := a.running[id]; cmd != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
}

// run is one program from its start to its end.
func (a *agent) run(r control.Request) {
	cmd := exec.Command(r.Run[0], r.Run[1:]...)
	cmd.Stdout = writer{a, r.ID}
	cmd.Stderr = cmd.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.WaitDelay = time.Second // a grandchild may hold the output open
	a.mu.Lock()
	err := cmd.Start()
	if err == nil {
		a.running[r.ID] = cmd
	}
	a.mu.Unlock()
	if err != nil {
		a.say(control.Answer{ID: r.ID, Done: true, Exit: 127, Err: err.Error()})
		return
	}
	_ = cmd.Wait()
	a.mu.Lock()
	delete(a.running, r.ID)
	a.mu.Unlock()
	exit := cmd.ProcessState.ExitCode()
	if w, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); ok && w.Signaled() {
		exit = 128 + int(w.Signal())
	}
	a.say(control.Answer{ID: r.ID, Done: true, Exit: exit})
}

// writer passes on what a program prints.
type writer struct {
	a  *agent
	id uint64
}

func (w writer) Write(b []byte) (int, error) {
	w.a.say(control.Answer{ID: w.id, Out: b})
	return len(b), nil
}

// openPort finds the serial port by its name; the kernel makes it at its leisure.
func openPort() (*os.File, error) {
	for range 500 {
		names, _ := filepath.Glob("/sys/class/virtio-ports/*/name")
		for _, n := range names {
			if b, _ := os.ReadFile(n); strings.TrimSpace(string(b)) == control.Port {
				return os.OpenFile("/dev/"+filepath.Base(filepath.Dir(n)), os.O_RDWR, 0)
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	return nil, fmt.Errorf("no serial port %s", control.Port)
}
