package stream

import (
	"runtime"
	"time"
)

// clock is the time that a stream goes by.
type clock interface {
	now() int64 // nanoseconds since 1970, which never goes back
	sleep(time.Duration)
}

// systemClock is the machine's: where the run began by the wall, and from there on by the monotonic clock.
type systemClock struct{}

var began = time.Now()

func (systemClock) now() int64            { return began.UnixNano() + int64(time.Since(began)) }
func (systemClock) sleep(d time.Duration) { time.Sleep(d) }

const (
	// spinBelow is how long before a burst is due one stops to sleep: a sleep may take so much longer than it should.
	spinBelow = 100 * time.Microsecond
	// mostDebt is what a sender that was kept from sending makes up for, at most.
	mostDebt = 10 * time.Millisecond
	// paceQuantum is how far apart bursts are where nothing else is said.
	paceQuantum = 100 * time.Microsecond
)

// pacer says when the next burst is due. Each burst costs the time that its packets or bits have at the rate.
type pacer struct {
	clock     clock
	perPacket float64 // nanoseconds
	perBit    float64
	due       float64 // nanoseconds since start
	start     int64
}

func newPacer(c clock, r Rate, start int64) *pacer {
	p := &pacer{clock: c, start: start}
	if r.Packets > 0 {
		p.perPacket = 1e9 / r.Packets
	}
	if r.Bits > 0 {
		p.perBit = 1e9 / r.Bits
	}
	return p
}

// paced reports whether there is a rate.
func (p *pacer) paced() bool { return p.perPacket > 0 || p.perBit > 0 }

// burst is how many packets of a mean length have the quantum's time, at most most.
func (p *pacer) burst(bytes float64, most int) int {
	if !p.paced() {
		return most
	}
	n := float64(paceQuantum) / (p.perPacket + p.perBit*8*bytes)
	return int(max(1, min(n, float64(most))))
}

// ready reports whether a burst is due at a time; if not, for how long it is not.
func (p *pacer) ready(now int64) (wait time.Duration, ok bool) {
	if !p.paced() {
		return 0, true
	}
	late := float64(now-p.start) - p.due
	if late < 0 {
		return time.Duration(-late), false
	}
	if late > float64(mostDebt) {
		p.due += late - float64(mostDebt)
	}
	return 0, true
}

// wait waits some of the time until a burst is due.
func (p *pacer) wait(d time.Duration) {
	switch {
	case d > 50*time.Millisecond: // not so long that nobody notices that the run is over
		p.clock.sleep(50 * time.Millisecond)
	case d > spinBelow:
		p.clock.sleep(d - spinBelow)
	default:
		runtime.Gosched()
	}
}

// spend takes note of a burst.
func (p *pacer) spend(packets int, bytes uint64) {
	p.due += p.perPacket*float64(packets) + p.perBit*8*float64(bytes)
}
