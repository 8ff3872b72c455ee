package interop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/rocescope/rocescope/lab"
)

// ClockName is what the scene of Clock is called.
const ClockName = "a capture in the guest, whose clock is set and that sleeps meanwhile"

// clockRow is the conversation that goes on while the clock is set. It is long enough that both times it is under way. What Linux sends
// again because the guest was busy is not held against anybody, nor that a message which the clock leapt in seems to have stalled.
var clockRow = Row{
	Subject: "clock", Role: Server, Linux: "rping -c -a {us} -V -v -C 600", Says: "rdma-ping-599", Ours: rping(64, 600),
	Late: true, May: []string{"message_stalled"},
}

// afterSleep is the conversation behind the guest's sleep.
var afterSleep = Row{Subject: "clock", Role: Server, Linux: "rping -c -a {us} -V -v -C 5", Says: "rdma-ping-4", Ours: rping(64, 5)}

// Where the guest has what its capture writes, and which process that is.
const (
	guestCapture = "/tmp/clock.pcapng"
	guestEvents  = "/tmp/clock.jsonl"
	guestPID     = "/tmp/clock.pid" // its process
)

// Clock captures in the guest while soft-RoCE talks with rocescope's RNIC, sets the guest's clock an hour forward and later two back
// in the middle of it, and lets it sleep (suspend to RAM) for some seconds. The capture must say so and miss nothing, and no
// time in what is found may be absurd.
func (l *Lab) Clock() Result {
	began := time.Now()
	r := Result{Row: clockRow, Ran: true}
	if err := l.clock(&r); err != nil {
		r.Failed = err.Error()
	}
	r.Seconds = time.Since(began).Seconds()
	return r
}

func (l *Lab) clock(r *Result) error {
	before, err := l.counters("before")
	if err != nil {
		return err
	}
	capture, err := l.Guest.Start("sh", "-c", "echo $$ >"+guestPID+"; exec "+lab.GuestRocescope+" capture -i eth0 --engine packet -w "+guestCapture+" --events "+guestEvents)
	if err != nil {
		return err
	}
	defer capture.Kill()
	if err := waitUntil("the capture in the guest has begun", func() (bool, error) {
		select {
		case <-capture.Done():
			return false, fmt.Errorf("the capture in the guest ended: %s", capture.Output())
		default:
			return strings.Contains(capture.Output(), "Capturing on"), nil
		}
	}); err != nil {
		return err
	}
	talk := make(chan error, 1)
	go func() { talk <- l.play(r) }()
	if err := errors.Join(l.leaps(capture), <-talk); err != nil {
		return err
	}
	if err := l.sleep(capture); err != nil {
		return err
	}
	if err := l.play(&Result{Row: afterSleep}); err != nil {
		return fmt.Errorf("after the sleep: %w", err)
	}
	after, err := l.counters("after")
	if err != nil {
		return err
	}
	if _, err := l.Guest.Run(time.Minute, "sh", "-c", "kill -INT $(cat "+guestPID+")"); err != nil {
		return err
	}
	said, err := capture.Wait(patience)
	var exit *lab.ExitError
	if err != nil && !(errors.As(err, &exit) && exit.Code == 130) {
		return fmt.Errorf("the capture: %w: %s", err, said)
	}
	return errors.Join(l.judgeWords(said), l.judgeClock(r, before, after))
}

// leaps sets the guest's clock when the conversation is under way, and again when it has gone on for a while and the capture has noticed.
func (l *Lab) leaps(capture *lab.Program) error {
	start, err := l.received()
	if err != nil {
		return err
	}
	for i, by := range []time.Duration{time.Hour, -2 * time.Hour} {
		if err := waitUntil("the conversation goes on", func() (bool, error) {
			n, err := l.received()
			return n > start+int64(200*(i+1)), err
		}); err != nil {
			return err
		}
		if out, err := l.Guest.Run(time.Minute, "sh", "-c", fmt.Sprintf("busybox date -s @$(( $(busybox date +%%s) + %d ))", int(by.Seconds()))); err != nil {
			return fmt.Errorf("setting the guest's clock: %w: %s", err, out)
		}
		if err := waitUntil("the capture says that the clock was set", func() (bool, error) {
			return strings.Count(capture.Output(), "The clock was set") > i, nil
		}); err != nil {
			return err
		}
	}
	return nil
}

// received is how many packets the guest's device has got.
func (l *Lab) received() (int64, error) {
	out, err := l.Guest.Run(time.Minute, "cat", "/sys/class/infiniband/"+lab.Device+"/ports/1/hw_counters/rcvd_pkts")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(out), 10, 64)
}

// sleep suspends the guest to RAM until its clock of the board wakes it.
func (l *Lab) sleep(capture *lab.Program) error {
	const script = "echo 0 > /sys/class/rtc/rtc0/wakealarm; echo +8 > /sys/class/rtc/rtc0/wakealarm; echo mem > /sys/power/state"
	if out, err := l.Guest.Run(patience, "sh", "-c", script); err != nil {
		return fmt.Errorf("the guest does not sleep: %w: %s", err, out)
	}
	return waitUntil("the capture says that the guest slept", func() (bool, error) {
		return strings.Contains(capture.Output(), "slept"), nil
	})
}

// waitUntil asks again and again. That it takes too long is a mistake somewhere, not a slow machine.
func waitUntil(what string, is func() (bool, error)) error {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if ok, err := is(); ok || err != nil {
			return err
		}
	}
	return fmt.Errorf("waited %v until %s", patience, what)
}

// clockWords are what the capture must say, each of them. Between a look at the guest's clock and setting it some seconds may go by.
var clockWords = []string{
	`(?m)^The clock was set forward by (59m5|1h0m)\d(\.\d)?s:`,
	`(?m)^The clock was set back by (1h59m5|2h0m)\d(\.\d)?s:`,
	`(?m)^The machine slept for \d`,
	`times the clock was set, in all back by `,
	`times the machine slept, in all for `,
	`(?m)^ +0 +lost: the kernel's ring was full`,
	`(?m)^ +0 +lost: the disk was too slow`,
}

func (l *Lab) judgeWords(said string) (wrong error) {
	for _, w := range clockWords {
		if !regexp.MustCompile(w).MatchString(said) {
			wrong = errors.Join(wrong, fmt.Errorf("the capture does not say %q", w))
		}
	}
	if wrong != nil {
		return fmt.Errorf("%w; it says:\n%s", wrong, said)
	}
	return nil
}

// judgeClock holds the file to the guest's counters, the times in it to how the clock was set, and what is told of it to reason.
func (l *Lab) judgeClock(r *Result, before, after string) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	caught, err := l.Guest.Run(patience, "cat", guestCapture)
	if err != nil {
		return err
	}
	file := filepath.Join(l.folder, "clock.pcapng")
	if err := os.WriteFile(file, []byte(caught), 0o644); err != nil {
		return err
	}
	text, err := l.command(ctx, "analyze", "--json", file, "--counters", before+","+after, "--counters-host", lab.Peer.IP4.Addr().String())
	if err != nil {
		return err
	}
	times, err := l.command(ctx, "show", "-T", "fields", "-e", "frame.time_epoch", file)
	if err != nil {
		return err
	}
	events, err := l.Guest.Run(patience, "cat", guestEvents)
	if err != nil {
		return err
	}
	return errors.Join(judge(r, []byte(text)), judgeTimes(times), judgeSpans("analyze", text), judgeSpans("the events", events))
}

// judgeTimes finds the two leaps of the clock in the packets' times.
func judgeTimes(times string) error {
	var last float64
	var leaps []string
	for i, line := range strings.Fields(times) {
		at, err := strconv.ParseFloat(line, 64)
		if err != nil {
			return fmt.Errorf("a packet's time: %w", err)
		}
		if by := at - last; i > 0 && (by > 1800 || by < -1800) {
			leaps = append(leaps, fmt.Sprintf("%+.0f h", by/3600))
		}
		last = at
	}
	if got := strings.Join(leaps, ", "); got != "+1 h, -2 h" {
		return fmt.Errorf("the packets' times leap by %q, and the clock was set by +1 h and -2 h", got)
	}
	return nil
}

// judgeSpans reads JSON, in one or many documents, for spans of time: none may be negative, and no median longer than the whole scene
// (one message in each direction may have the leap forward in it, which no file tells from an hour).
func judgeSpans(what, text string) (wrong error) {
	in := json.NewDecoder(strings.NewReader(text))
	for in.More() {
		var v any
		if err := in.Decode(&v); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		eachSpan("", v, func(name string, ns float64) {
			if ns < 0 || strings.HasSuffix(name, ".p50") && time.Duration(ns) > 10*time.Minute {
				wrong = errors.Join(wrong, fmt.Errorf("%s: %s is %v", what, name, time.Duration(ns)))
			}
		})
	}
	return wrong
}

// spanName is the end of the names of members that are spans of time, or their least, median or greatest.
var spanName = regexp.MustCompile(`(latency|rtt|wait|duration|interval|took|timeout_min|timeout_max)_ns(\.(min|p50|p99|max))?$`)

func eachSpan(name string, v any, do func(name string, ns float64)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			eachSpan(strings.TrimPrefix(name+"."+k, "."), x, do)
		}
	case []any:
		for _, x := range v {
			eachSpan(name, x, do)
		}
	case float64:
		if spanName.MatchString(name) {
			do(name, v)
		}
	}
}
