package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/internal/report"
)

// progressFrom is the size from which an input is worth a progress bar; a smaller one is read before it could be seen.
const progressFrom = 64 << 20

const progressInterval = 100 * time.Millisecond

// startProgress draws a bar with rate and time left on standard error while an input is read, if standard error is a
// terminal and the input is large. position is asked from another goroutine how far the reading is; a total of 0 or
// less means unknown (a pipe). The returned function takes the bar away again; call it before printing results.
func (a *app) startProgress(position func() (done, total int64)) (stop func()) {
	if !isTerminal(a.stderr) {
		return func() {}
	}
	quit, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(progressInterval)
		defer tick.Stop()
		begin, bar := time.Now(), a.newLine()
		for {
			select {
			case <-quit:
				bar.clear()
				return
			case <-tick.C:
				done, total := position()
				if max(done, total) < progressFrom {
					continue
				}
				bar.show(progressLine(done, total, time.Since(begin)))
			}
		}
	}()
	stopped := false
	return func() {
		if !stopped {
			stopped = true
			close(quit)
			<-gone
		}
	}
}

// progressLine is the bar at one moment.
func progressLine(done, total int64, elapsed time.Duration) string {
	rate := float64(done) / max(elapsed.Seconds(), 1e-3)
	if total <= 0 {
		return fmt.Sprintf("%s read, %s/s", report.Bytes(uint64(done)), report.Bytes(uint64(rate)))
	}
	const width = 24
	share := min(max(float64(done)/float64(total), 0), 1)
	full := int(share * width)
	left := "?"
	if done > 0 {
		left = (time.Duration(float64(total-done)/rate*1e9) * time.Nanosecond).Round(time.Second).String()
	}
	return fmt.Sprintf("[%s%s] %3.0f%%  %s of %s, %s/s, %s left",
		strings.Repeat("#", full), strings.Repeat(".", width-full), share*100,
		report.Bytes(uint64(done)), report.Bytes(uint64(total)), report.Bytes(uint64(rate)), left)
}
