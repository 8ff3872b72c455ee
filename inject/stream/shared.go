package stream

import (
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// shared is what the sender of a QP and who looks at its answers tell each other. PSNs are positions here: how many the QP
// sent before, since its first, so that they do not wrap.
type shared struct {
	// The sender's.
	next   atomic.Uint64 // position behind the last PSN that was sent
	stamps []stamp       // by PSN
	_      [32]byte
	// Of who looks at the answers.
	acked atomic.Uint64 // position behind the last PSN that was acknowledged
	order atomic.Uint64
	_     [48]byte
}

// stamp is when a PSN was sent: 24 bits of PSN, 40 bits of nanoseconds, which are 18 minutes.
type stamp struct{ v atomic.Uint64 }

const stampMask = 1<<40 - 1

func (s *shared) stamp(psn dissect.PSN, now int64) {
	s.stamps[int(psn)&(len(s.stamps)-1)].v.Store(uint64(psn)<<40 | uint64(now)&stampMask)
}

// since is how long ago a PSN was sent, if that is still known.
func (s *shared) since(psn dissect.PSN, now int64) (int64, bool) {
	v := s.stamps[int(psn)&(len(s.stamps)-1)].v.Load()
	if dissect.PSN(v>>40) != psn || v == 0 {
		return 0, false
	}
	d := int64(uint64(now)-v) & stampMask
	return d, d < 1<<39
}

// An order is what answers ask of the sender: to go back to a position, at once or after an RNR timer's time; or to stop.
const (
	orderGoBack = 1 << 62
	orderStop   = 2 << 62
	orderTimer  = 57 // five bits
	orderPos    = 1<<orderTimer - 1
)

func goBack(pos uint64, timer uint8, wait bool) uint64 {
	o := orderGoBack | pos&orderPos
	if wait {
		o |= uint64(timer) << orderTimer
	}
	return o
}

// delay is the RNR timer's time that an order to go back has, 0 where it has none. Code 0, the longest time, counts as none:
// it says 655 ms, which no responder means.
func delay(order uint64) time.Duration {
	if timer := uint8(order >> orderTimer & 0x1F); timer != 0 {
		return dissect.RNRTimer(timer)
	}
	return 0
}

// atLeast is the power of two, between least and most, that n QPs can have of total.
func atLeast(total, n, least, most int) int {
	each := least
	for each*2 <= most && each*2*n <= total {
		each *= 2
	}
	return each
}
