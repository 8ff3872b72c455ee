//go:build unix

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
	"github.com/rocescope/rocescope/internal/bench/traffic"
)

// wall runs programs at once, to their ends, and returns how long that took: where cores share the work, processor time says nothing.
func wall(programs ...*exec.Cmd) (float64, error) {
	began := time.Now()
	for _, cmd := range programs {
		if err := cmd.Start(); err != nil {
			return 0, err
		}
	}
	var err error
	for _, cmd := range programs {
		err = errors.Join(err, cmd.Wait())
	}
	return time.Since(began).Seconds(), err
}

// twoCores says what a second core brings to one file, and, as what this machine has to give at most, to two files at once.
func twoCores(b *bench) ([]page.Row, error) {
	single := traffic.Config{Connections: 1, HostPairs: 1, Payload: 1024}
	many := traffic.Config{Connections: 64, HostPairs: 64, Payload: 1024}
	var rows []page.Row
	for _, c := range []struct {
		what   string
		config traffic.Config
		args   []string
	}{
		{"`analyze --workers 2`, a single pair of hosts", single, nil},
		{"`analyze --workers 2 --no-icrc`, 64 pairs of hosts", many, []string{"--no-icrc"}},
	} {
		const rounds = 7
		file, err := b.capture(c.config, 12*b.packets) // so many that starting a program does not count
		if err != nil {
			return nil, err
		}
		analyze := func(more ...string) *exec.Cmd {
			return exec.Command(b.binary, append(append([]string{"analyze", file}, c.args...), more...)...)
		}
		var one, two, both []float64
		for range rounds {
			for _, run := range []struct {
				programs []*exec.Cmd
				times    *[]float64
			}{
				{[]*exec.Cmd{analyze()}, &one},
				{[]*exec.Cmd{analyze("--workers", "2")}, &two},
				{[]*exec.Cmd{analyze(), analyze()}, &both},
			} {
				took, err := wall(run.programs...)
				if err != nil {
					return nil, err
				}
				*run.times = append(*run.times, took)
			}
		}
		if err := b.discard(file); err != nil {
			return nil, err
		}
		by := measure.Median(each(one, two, ratio))
		rows = append(rows,
			page.Row{
				What: c.what + ", the clock's time", Ours: seconds(two), Other: "one worker: " + seconds(one), Ratio: times(by), Goal: "≥ 1.7×", Met: page.Judge(by >= 1.7),
			},
			page.Row{
				What: "two such programs at once, one worker each, by file: what two processors have to give here", Ours: fmt.Sprintf("%.3f s", measure.Median(both)/2),
				Other: "one after the other: " + seconds(one), Ratio: times(2 * measure.Median(each(one, both, ratio))), Met: page.NoGoal,
			})
	}
	return rows, nil
}

// firstResult is how soon something of a file of ten gigabytes is seen; docs/performance-tui.md has the same of the screen.
func firstResult(b *bench) ([]page.Row, error) {
	const size, rounds, most = 10_000_000_000, 5, 1.0
	file := filepath.Join(b.dir, "large.pcapng")
	part, err := b.capture(segments, 10*b.packets)
	if err != nil {
		return nil, err
	}
	if err := repeat(file, part, size); err != nil {
		return nil, err
	}
	defer os.Remove(file)
	var took []float64
	for range rounds {
		t, err := firstLine(b.binary, "show", file)
		if err != nil {
			return nil, err
		}
		took = append(took, t)
	}
	return []page.Row{{
		What: "the first line of `show` of a file of 10 GB, the clock's time", Ours: seconds(took), Goal: "≤ 1 s", Met: page.Judge(measure.Median(took) <= most),
	}}, nil
}

// repeat makes a file of the sections of another one, over and over.
func repeat(path, of string, size int64) error {
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	for n := int64(0); n < size && err == nil; {
		var in *os.File
		if in, err = os.Open(of); err != nil {
			break
		}
		var m int64
		m, err = io.Copy(out, in)
		n += m
		in.Close()
	}
	return errors.Join(err, out.Close())
}

// firstLine is how long it takes until a command has printed a line of its result, from its start.
func firstLine(binary, command, file string) (float64, error) {
	cmd := exec.Command(binary, command, file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	took := time.Since(began).Seconds()
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return took, err
}
