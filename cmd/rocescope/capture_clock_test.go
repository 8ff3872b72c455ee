package main

import (
	"bytes"
	"testing"
	"time"
)

// TestClockWatch lets the clock be set, the machine sleep, and both.
func TestClockWatch(t *testing.T) {
	const day = 24 * time.Hour
	at := clockReading{real: 20_000 * day, boot: day, awake: day - time.Hour}
	var w clockWatch
	step := func(real, boot, awake time.Duration) string {
		at.real, at.boot, at.awake = at.real+real, at.boot+boot, at.awake+awake
		var said bytes.Buffer
		w.look(&said, at)
		return said.String()
	}
	for _, c := range []struct {
		what              string
		real, boot, awake time.Duration
		want              string
	}{
		{"the first look", 0, 0, 0, ""},
		{"a second", time.Second, time.Second, time.Second, ""},
		{"a second, by a clock that is being slowed", time.Second - 500*time.Microsecond, time.Second, time.Second, ""},
		{"an hour forward", time.Hour + time.Second, time.Second, time.Second, "The clock was set forward by 1h0m0s: the times of packets leap there\n"},
		{"two hours back", -2*time.Hour + time.Second, time.Second, time.Second, "The clock was set back by 2h0m0s: the times of packets leap there\n"},
		{"sleep", 61 * time.Second, 61 * time.Second, time.Second, "The machine slept for 1m0s: nothing was captured meanwhile\n"},
		{"sleep, and a clock that was set behind it", 70 * time.Second, 61 * time.Second, time.Second, "The clock was set forward by 9s: the times of packets leap there\nThe machine slept for 1m0s: nothing was captured meanwhile\n"},
	} {
		if got := step(c.real, c.boot, c.awake); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
	if w.sets != 3 || w.by != -time.Hour+9*time.Second || w.sleeps != 2 || w.sleeping != 2*time.Minute {
		t.Errorf("in all: %+v", w)
	}
}

// TestReadClocks: the clocks of this machine go on together.
func TestReadClocks(t *testing.T) {
	before := readClocks()
	after := readClocks()
	if after.boot < before.boot || after.awake < before.awake || after.boot < after.awake || before.real <= 0 {
		t.Errorf("%+v, then %+v", before, after)
	}
}
