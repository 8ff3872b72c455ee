package stream

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// Clock is the time that a stream goes by.
type Clock interface {
	Now() int64 // nanoseconds since 1970, never less than before
	// Wait waits as long as it is told, or less.
	Wait(time.Duration)
}

// Virtual is a clock that nobody waits for: time passes by waiting, at once. A stream that is written to a file at a rate has
// the times of the rate.
type Virtual struct{ t atomic.Int64 }

// NewVirtual is a clock that begins at a time.
func NewVirtual(start int64) *Virtual {
	v := &Virtual{}
	v.t.Store(start)
	return v
}

// Now implements Clock.
func (v *Virtual) Now() int64 { return v.t.Load() }

// Wait implements Clock.
func (v *Virtual) Wait(d time.Duration) { v.t.Add(int64(d)) }

// systemClock is the machine's: where the program began by the wall, and from there on by the monotonic clock.
type systemClock struct{}

var began = time.Now()

func (systemClock) Now() int64 { return began.UnixNano() + int64(time.Since(began)) }

// Wait sleeps most of a long time and none of a short one.
func (systemClock) Wait(d time.Duration) {
	if d > spinBelow {
		time.Sleep(min(d-spinBelow, longestSleep))
		return
	}
	runtime.Gosched()
}

const (
	// spinBelow is how long before a burst is due one stops to sleep: a sleep may take so much longer than it should.
	spinBelow = 100 * time.Microsecond
	// nap is a wait that sleeps, but not for long.
	nap = spinBelow + 50*time.Microsecond
	// longestSleep is one after which it is noticed soon that the run is over.
	longestSleep = 50 * time.Millisecond
	// mostDebt is what a sender that was kept from sending makes up for, at most.
	mostDebt = 10 * time.Millisecond
	// paceQuantum is how far apart bursts are where nothing else is said.
	paceQuantum = 100 * time.Microsecond
)

// pacer says when the next burst is due. Each burst costs the time that its packets or bits have at the rate.
type pacer struct {
	perPacket float64 // nanoseconds
	perBit    float64
	due       float64 // nanoseconds since start
	start     int64

	share  float64 // of the stream's rate
	wishes *atomic.Pointer[wish]
	wish   *wish // the one in force
	paused bool
}

// wish is what was asked for while a stream runs.
type wish struct {
	rate   Rate
	paused bool
}

// pauseLook is how often a sender that pauses looks whether it is to go on.
const pauseLook = 5 * time.Millisecond

func newPacer(r Rate, share float64, start int64, wishes *atomic.Pointer[wish]) *pacer {
	p := &pacer{start: start, share: share, wishes: wishes}
	p.set(r)
	return p
}

func (p *pacer) set(r Rate) {
	p.perPacket, p.perBit = 0, 0
	if r.Packets > 0 {
		p.perPacket = 1e9 / (r.Packets * p.share)
	}
	if r.Bits > 0 {
		p.perBit = 1e9 / (r.Bits * p.share)
	}
}

// renew takes over what was asked for since the last time, and says whether that was anything.
func (p *pacer) renew(now int64) bool {
	w := p.wishes.Load()
	if w == p.wish {
		return false
	}
	p.wish, p.paused = w, w.paused
	p.set(w.rate)
	p.due = float64(now - p.start) // what was not sent by now is not made up for
	return true
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
	if p.paused {
		return pauseLook, false
	}
	if !p.paced() {
		return 0, true
	}
	late := float64(now-p.start) - p.due
	if late < 0 {
		return time.Duration(math.Ceil(-late)), false
	}
	if late > float64(mostDebt) {
		p.due += late - float64(mostDebt)
	}
	return 0, true
}

// spend takes note of a burst.
func (p *pacer) spend(packets int, bytes uint64) {
	p.due += p.perPacket*float64(packets) + p.perBit*8*float64(bytes)
}
