//go:build unix

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// inTurn runs each of the functions once a round, and returns what each spent
// in each round, per operation. A first round warms up and does not count.
func inTurn(rounds, operations int, run ...func() error) ([][]float64, error) {
	runtime.GC()
	ns := make([][]float64, len(run))
	for round := -1; round < rounds; round++ {
		for i, f := range run {
			before := measure.Spent()
			if err := f(); err != nil {
				return nil, err
			}
			if round >= 0 {
				ns[i] = append(ns[i], float64(measure.Spent()-before)/float64(operations))
			}
		}
	}
	return ns, nil
}

// each combines two series round by round.
func each(a, b []float64, f func(a, b float64) float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = f(a[i], b[i])
	}
	return out
}

func ratio(a, b float64) float64      { return a / b }
func difference(a, b float64) float64 { return a - b }

func nanos(v float64) string { return fmt.Sprintf("%.1f ns", v) }
func times(v float64) string { return fmt.Sprintf("%.2f×", v) }

// usage is what a process took.
type usage struct {
	cpu  time.Duration
	peak int64 // bytes resident at the highest, mapped files included
}

// child runs a program to its end and returns what it took. A copy of this
// program stands between: the kernel counts the memory of whoever starts a
// program as the program's own, and the copy has little.
func child(name string, args ...string) (u usage, err error) {
	self, err := os.Executable()
	if err != nil {
		return u, err
	}
	cmd := exec.Command(self, append([]string{measureArg, name}, args...)...)
	var complaint strings.Builder
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return u, fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(complaint.String()))
	}
	_, err = fmt.Sscan(string(out), &u.cpu, &u.peak)
	return u, err
}

// measureArg makes this program the copy that child needs.
const measureArg = "-measure"

// runMeasured is what the copy does: it runs a program, whose output goes where the
// kernel throws it away, and prints what that took.
func runMeasured(args []string) error {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return err
	}
	r, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if !ok {
		return errors.New("this system does not tell what a process took")
	}
	peak := r.Maxrss
	if runtime.GOOS != "darwin" {
		peak *= 1024
	}
	_, err := fmt.Println(int64(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()), peak)
	return err
}

// capture makes a file of traffic, or returns the one that was made before.
func (b *bench) capture(c traffic.Config, packets int) (string, error) {
	name := fmt.Sprintf("%d-%d-%d-%v-%d.pcapng", c.Connections, c.HostPairs, c.Payload, c.Random, packets)
	if path, ok := b.files[name]; ok {
		return path, nil
	}
	path := filepath.Join(b.dir, name)
	g := traffic.New(c)
	if err := g.WriteFile(path, packets, true); err != nil {
		return "", err
	}
	b.files[name] = path
	return path, nil
}

// discard removes a capture that is too large to be kept for others.
func (b *bench) discard(path string) error {
	delete(b.files, filepath.Base(path))
	return os.Remove(path)
}

// The traffic of most rows: 64 connections in turn, of WRITEs of 8 segments,
// READs of 4 responses and SENDs, or of messages of 64 bytes.
var (
	segments = traffic.Config{Connections: 64, HostPairs: 8, Payload: 1024}
	middling = traffic.Config{Connections: 64, HostPairs: 8, Payload: 256}
	small    = traffic.Config{Connections: 64, HostPairs: 8, Payload: 64}
)
