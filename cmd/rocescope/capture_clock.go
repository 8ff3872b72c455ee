package main

import (
	"fmt"
	"io"
	"time"
)

// clockReading is what the host's clocks say at one moment.
type clockReading struct {
	real  time.Duration // the time of day, since 1970
	boot  time.Duration // goes on while the machine sleeps, and is never set
	awake time.Duration // stands still while the machine sleeps
}

// clockWatch notices in between what happens to the times of packets and to the capture: that the clock is set, and that the
// machine slept.
type clockWatch struct {
	last     clockReading
	sets     uint64        // times that the clock was set
	by       time.Duration // in all
	sleeps   uint64
	sleeping time.Duration // in all
}

// clockWorthSaying is how far a clock has to leap: what disciplines it moves it by much less in a second.
const clockWorthSaying = 100 * time.Millisecond

// look compares the clocks with those of the last look, and says what happened since.
func (w *clockWatch) look(out io.Writer, now clockReading) {
	last := w.last
	if w.last = now; last == (clockReading{}) {
		return
	}
	past := now.boot - last.boot
	if by := now.real - last.real - past; by.Abs() >= clockWorthSaying {
		w.sets++
		w.by += by
		fmt.Fprintf(out, "The clock was set %s: the times of packets leap there\n", leap(by))
	}
	if slept := past - (now.awake - last.awake); slept >= clockWorthSaying {
		w.sleeps++
		w.sleeping += slept
		fmt.Fprintf(out, "The machine slept for %s: nothing was captured meanwhile\n", roundly(slept))
	}
}

// leap says which way a clock was set, and how far.
func leap(by time.Duration) string {
	if by < 0 {
		return "back by " + roundly(-by)
	}
	return "forward by " + roundly(by)
}

// roundly is a time to the tenth of a second, which is as exact as two clocks can be compared from outside.
func roundly(d time.Duration) string { return d.Round(100 * time.Millisecond).String() }
