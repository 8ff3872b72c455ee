package interop

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/lab"
)

// Lab is a guest and what is needed to run rows against it.
type Lab struct {
	Guest     *lab.Guest
	Image     *lab.Image
	rocescope string // the program
	folder    string // of captures and readings
}

// Open boots the guest. rocescope is the program that captures, analyzes, and plays some of the parts.
func Open(image *lab.Image, rocescope string) (*Lab, error) {
	path, err := exec.LookPath(rocescope)
	if err != nil {
		return nil, fmt.Errorf("%w: make build makes it", err)
	}
	l := &Lab{Image: image, rocescope: path}
	if l.folder, err = os.MkdirTemp(image.Scratch(), "rows-"); err != nil {
		return nil, err
	}
	if l.Guest, err = lab.BootAt(image, lab.Seat{Rocescope: path}); err != nil {
		os.RemoveAll(l.folder)
		return nil, err
	}
	return l, nil
}

// Close ends the guest. Captures of failed rows stay where keep says.
func (l *Lab) Close() {
	l.Guest.Close()
	os.RemoveAll(l.folder)
}

// capture writes what passes the tap to a file, until stop is called.
func (l *Lab) capture(file string) (stop func() error, err error) {
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.Command(l.rocescope, "capture", "-i", lab.TapName, "-w", file, "-q")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	// The file has its head as soon as the socket is open.
	for range 1000 {
		if info, err := os.Stat(file); err == nil && info.Size() > 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	return func() error {
		_ = cmd.Process.Signal(os.Interrupt)
		if err := cmd.Wait(); err != nil && cmd.ProcessState.ExitCode() != 130 {
			return fmt.Errorf("rocescope capture: %w: %s", err, bytes.TrimSpace(said.Bytes()))
		}
		return nil
	}, nil
}

// counters reads the guest's, as analyze --counters takes them, into a file.
func (l *Lab) counters(name string) (string, error) {
	text, err := l.Guest.Run(time.Minute, "sh", "-c", "grep -H . /sys/class/infiniband/*/ports/*/hw_counters/*")
	if err != nil {
		return "", err
	}
	file := filepath.Join(l.folder, name)
	return file, os.WriteFile(file, []byte(text), 0o644)
}

// command runs rocescope with arguments to its end.
func (l *Lab) command(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, l.rocescope, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("rocescope %s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return string(out), err
}

// commands runs command lines in the guest, up to the first that fails. No shell has a hand in it: that of the guest has tc
// and ip of its own.
func (l *Lab) commands(lines ...string) error {
	for _, line := range lines {
		if out, err := l.Guest.Run(time.Minute, strings.Fields(line)...); err != nil {
			return fmt.Errorf("%w: %s: %s", err, line, strings.TrimSpace(out))
		}
	}
	return nil
}

// wire sets up netem for UDP, and the returned function takes it away. TCP, over which programs find each other, is spared.
func (l *Lab) wire(w Wire) (undo func() error, err error) {
	const udp = "u32 match ip protocol 17 0xff"
	var lines []string
	if w.Out != "" {
		lines = append(lines,
			"tc qdisc add dev eth0 root handle 1: prio bands 4",
			"tc qdisc add dev eth0 parent 1:4 handle 40: netem "+w.Out,
			"tc filter add dev eth0 parent 1: protocol ip "+udp+" flowid 1:4")
	}
	if w.In != "" {
		lines = append(lines,
			"ip link set ifb0 up",
			"tc qdisc add dev ifb0 root netem "+w.In,
			"tc qdisc add dev eth0 ingress",
			"tc filter add dev eth0 parent ffff: protocol ip "+udp+" action mirred egress redirect dev ifb0")
	}
	undo = func() error {
		var lines []string
		if w.Out != "" {
			lines = append(lines, "tc qdisc del dev eth0 root")
		}
		if w.In != "" {
			lines = append(lines, "tc qdisc del dev eth0 ingress", "tc qdisc del dev ifb0 root", "ip link set ifb0 down")
		}
		return l.commands(lines...)
	}
	return undo, l.commands(lines...)
}

// firstWords is how long a program may take to say that it listens: Python compiles its library anew.
const firstWords = 5 * time.Minute

// listens waits until a server in the guest can be connected to.
func (l *Lab) listens(where string, server *lab.Program) error {
	if where == "says" {
		late := time.After(firstWords)
		for !strings.Contains(server.Output(), "listening") {
			select {
			case <-server.Done():
				return errors.New("the server in the guest ended before it listened")
			case <-late:
				return fmt.Errorf("the server in the guest does not say in %v that it listens", firstWords)
			case <-time.After(100 * time.Millisecond):
			}
		}
		return nil
	}
	test := map[string]string{
		"tcp": fmt.Sprintf("ss -Hltn sport = %d | grep -q LISTEN", socketPort),
		"cm":  "rdma resource show cm_id | grep -q LISTEN",
	}[where]
	_, err := l.Guest.Run(2*patience, "sh", "-c", "i=0; until "+test+"; do i=$((i+1)); [ $i -lt 200 ] || exit 1; sleep 0.3; done")
	if err != nil {
		return fmt.Errorf("the server in the guest does not listen: %w", err)
	}
	return nil
}
