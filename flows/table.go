package flows

import (
	"cmp"
	"math/rand/v2"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// reset drops what a connection holds outside of its record.
func (t *Tracker) reset(c *conn) {
	for r := range c.half {
		h := &c.half[r]
		for h.head != 0 {
			t.drop(h, 0, h.head)
		}
		t.dropOthers(h)
	}
	t.dropExtras(c)
}

// release frees a connection's slot. Its streams have left the index.
func (t *Tracker) release(slot uint32) {
	c := t.conn(slot)
	t.reset(c)
	c.flags = 0
	t.free = append(t.free, slot)
	t.live--
}

// close ends a connection whose queue pairs go on to another one: it stays in
// the table, but takes no more packets.
func (t *Tracker) close(slot uint32) {
	c := t.conn(slot)
	if c.flags&connClosed != 0 {
		return
	}
	if c.flags&connProvisional != 0 {
		t.giveUp(slot)
	}
	t.unlist(slot, c)
	c.flags |= connClosed
	t.settle(c)
}

// unlist takes the streams that a connection has in the index out of it.
func (t *Tracker) unlist(slot uint32, c *conn) {
	if c.flags&connSeeking != 0 {
		t.forget(slot)
	}
	if c.flags&connClosed != 0 {
		return
	}
	t.leave(slot, AToB)
	if c.transport != dissect.UD && c.end[0].qpn != noSource {
		t.leave(slot, BToA)
	}
}

// evict makes room: the longest idle 16th of all connections go, each with its
// final record first. So many at a time, because finding them takes a look at all:
// in a flood of strangers that is what a packet costs.
func (t *Tracker) evict() {
	all := make([]idle, 0, t.live)
	for n, chunk := range t.slab {
		for i := range chunk {
			if c := &chunk[i]; c.flags&connLive != 0 {
				all = append(all, idle{c.lastSeen(), uint32(n<<chunkBits + i)})
			}
		}
	}
	for _, e := range longestIdle(all, min(len(all), max(len(all)/16, t.live-t.opt.MaxConnections)+1)) {
		c := t.conn(e.slot)
		if c.flags&connProvisional != 0 {
			t.giveUp(e.slot) // there is no time left to find out whose it is
		}
		if c.flags&connLive == 0 {
			continue // what it held showed that it belongs to another one
		}
		t.settle(c)
		t.evicted++
		if t.opt.Sink.Connection != nil {
			record := t.record(c)
			t.opt.Sink.Connection(&record)
		}
		t.unlist(e.slot, c)
		t.release(e.slot)
	}
}

// idle is a connection, and when it was heard of last.
type idle struct {
	last int64
	slot uint32
}

func (a idle) compare(b idle) int {
	return cmp.Or(cmp.Compare(a.last, b.last), cmp.Compare(a.slot, b.slot))
}

// longestIdle returns the n longest idle ones, in order. Only those are sorted:
// halves that lie to one side of them are left alone. The pivots are random, lest
// somebody choose times that make this slow.
func longestIdle(all []idle, n int) []idle {
	lo, hi := 0, len(all)
	for hi-lo > 32 && n < hi {
		pivot := all[lo+rand.IntN(hi-lo)]
		i, j := lo, hi-1
		for i <= j {
			switch {
			case all[i].compare(pivot) < 0:
				i++
			case all[j].compare(pivot) > 0:
				j--
			default:
				all[i], all[j] = all[j], all[i]
				i, j = i+1, j-1
			}
		}
		// all[lo:j+1] are at most the pivot, all[i:hi] at least.
		switch {
		case n <= j+1:
			hi = j + 1
		case n >= i:
			lo = i
		default:
			lo, hi = n, n
		}
	}
	slices.SortFunc(all[:hi], idle.compare)
	return all[:n]
}

func (c *conn) lastSeen() int64 {
	return max(c.stream[0].lastSeen, c.stream[1].lastSeen)
}

// firstSeen is the time of a connection's first packet, or of the handshake
// that announced it where none came.
func (t *Tracker) firstSeen(c *conn) int64 {
	a, b := &c.stream[0], &c.stream[1]
	switch {
	case a.flags&b.flags&streamSeen != 0:
		return min(a.firstSeen, b.firstSeen)
	case a.flags&streamSeen != 0:
		return a.firstSeen
	case b.flags&streamSeen != 0:
		return b.firstSeen
	}
	if x := t.extrasOf(c); x != nil {
		return x.announced
	}
	return 0
}

// settle ends what a connection still has open.
func (t *Tracker) settle(c *conn) {
	t.settleChecks(c)
	t.settleHalf(c, AToB)
	t.settleHalf(c, BToA)
}

// settleHalf ends a requester's open messages and missing packets by what is
// known.
func (t *Tracker) settleHalf(c *conn, d Direction) {
	h := &c.half[d]
	if x := t.extrasOf(c); x != nil {
		if x.recovery[d].episode.active {
			t.endEpisode(c, d, 0)
		}
		if g := x.ghosts[d]; g != nil && g.active {
			t.countGhost(c, d, g)
		}
		for i := range x.gaps[d] {
			t.settleGap(c, d, &x.gaps[d][i])
		}
		x.gaps[d] = x.gaps[d][:0]
	}
	exhausted := t.exhausted(c, d)
	for h.head != 0 {
		f := &t.open[h.head]
		status, presumed := StatusOpen, false
		switch {
		case c.transport == dissect.UC || c.transport == dissect.UD:
			status = StatusSent
			if f.flags&haveEnd == 0 {
				status = StatusIncomplete
			}
		case exhausted != StatusOpen:
			status, presumed = exhausted, true
			exhausted = StatusFlushed
		case h.flags&halfDead != 0:
			status, presumed = StatusFlushed, true
		}
		t.settleMessage(c, d, 0, h.head, status, presumed)
	}
}

// exhausted presumes that a requester has given up: its oldest message was
// sent again and again, then nothing more came although the capture went on
// for longer than several of the intervals between.
func (t *Tracker) exhausted(c *conn, d Direction) Status {
	h := &c.half[d]
	x := t.extrasOf(c)
	if h.head == 0 || x == nil || h.flags&halfDead != 0 {
		return StatusOpen
	}
	f := &t.open[h.head]
	switch {
	case f.flags&haveTimedOut != 0 && f.round > 0:
		interval := (f.LastSent - f.FirstSeen) / int64(f.round)
		agreed := x.neg[d].RetryCount
		used := x.neg[d].Set && agreed > 0 && agreed < 7 && int(f.round) >= agreed && t.now-h.lastReq > interval-interval/8 // timers are coarse
		if interval > 0 && (used || t.now-h.lastReq > 4*interval) {
			h.flags |= halfDead
			t.reportAt(findRetryExhausted, c, d, f.LastFrame, f.LastSent, uint64(f.FirstPSN), uint64(f.round), uint64(interval))
			t.stepAt(c, d, StateError, f.LastFrame, f.LastSent, "retries, then silence", true)
			return StatusRetryExc
		}
	case f.flags&haveRNR != 0 && x.recovery[d].nak.kind == nakRNR:
		if wait := int64(dissect.RNRTimer(x.recovery[d].nak.timer)); t.now-x.recovery[d].nak.time > 4*wait && wait > 0 {
			h.flags |= halfDead
			t.reportAt(findRNRExhausted, c, d, f.LastFrame, f.LastSent, uint64(f.FirstPSN), uint64(f.round)+1, 0)
			t.stepAt(c, d, StateError, f.LastFrame, f.LastSent, "RNR retries, then silence", true)
			return StatusRNRRetry
		}
	}
	return StatusOpen
}
