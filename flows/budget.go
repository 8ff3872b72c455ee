package flows

import (
	"fmt"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Budget is where a requester's time went, from its first request to the last
// packet that concerns it, each moment counted once. What the wire shows of a
// wait is its answer or its end; what it does not show is estimated, as said.
type Budget struct {
	Total       time.Duration
	Application time.Duration // nothing was outstanding: the requester had nothing to send
	InFlight    time.Duration // requests and answers were under way, and nothing below held them up
	RNR         time.Duration // the responder was not ready: from the RNR NAK to the resend
	Timeout     time.Duration // silence that ended in a resend
	Recovery    time.Duration // from a sequence NAK to the resend
	Credit      time.Duration // as many messages outstanding as the responder had granted by its last ACK
	ReadDepth   time.Duration // as many READs and atomics outstanding as agreed on
	Congestion  time.Duration // estimated: slower than its own fastest within a message, shortly behind a CNP
	Paused      time.Duration // estimated: requests were outstanding while a pause frame was in force for its priority
}

// waitKind is what a requester waits for.
type waitKind uint8

const (
	waitApplication waitKind = iota
	waitInFlight
	waitRNR
	waitTimeout
	waitRecovery
	waitCredit
	waitReadDepth
	waitCongestion
	waitPaused
	waitDead // it has failed: not counted
	numWaits
)

// budget is one requester's account.
type budget struct {
	last    int64 // time up to which all is accounted for; 0 = no request yet
	lastReq int64
	lastCNP int64
	least   int64 // shortest time between two packets of one message
	paused  int64 // time paused before last
	kind    waitKind
	inside  bool // the newest request was not the last of its message
	granted int16
	spent   [numWaits]int64
}

// Credit as in budget.granted: what the last ACK granted plus one, so that 0 is
// "never said".
const neverGranted = 0

// grantedBy is the credits that an answer grants.
func grantedBy(p *dissect.Packet) int16 {
	if p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindACK {
		if n, ok := dissect.Credits(p.Syndrome.Value()); ok {
			return int16(min(n, 0x7FFE)) + 1
		}
	}
	return neverGranted
}

// congestionMemory is how long behind a CNP a slow sender is taken for one that
// slows down for it: a card's rate rises again over some such periods.
const congestionMemory = 1_500_000

// spend accounts for the time up to a packet that concerns the requester of
// direction r.
func (t *Tracker) spend(c *conn, r Direction, x *extras, p *dissect.Packet, m *Mark) {
	b := &x.detail.budget[r]
	h := &c.half[r]
	if h.flags&halfRequests == 0 {
		return
	}
	if b.last == 0 {
		b.last = p.Time
		if t.pauses.seen {
			b.paused = t.pauses.pausedFor(&c.stream[r], p.Time)
		}
	} else if p.Time > b.last {
		short := b.spent[waitCredit]
		t.elapse(b, &c.stream[r], p.Time)
		if short = b.spent[waitCredit] - short; short > 0 && x.detail.series != nil {
			x.detail.series.waited(r, short)
		}
	}
	if m.Bits&MarkRequest != 0 {
		if m.Bits&MarkRetransmission != 0 && x.recovery[r].cause == CauseTimeout {
			b.move(waitInFlight, waitTimeout, p.Time-b.lastReq)
		}
		if b.inside && p.Time > b.lastReq && (b.least == 0 || p.Time-b.lastReq < b.least) {
			b.least = p.Time - b.lastReq
		}
		b.inside = !p.Op().Ends()
		b.lastReq = p.Time
	} else if p.Has(dissect.LayerAETH) && p.Syndrome.Kind() == dissect.KindACK {
		b.granted = grantedBy(p)
	}
	b.kind = t.waitsFor(h, r, x, b, p.Time)
}

// elapse adds the time since the last packet to what was waited for.
func (t *Tracker) elapse(b *budget, s *stream, now int64) {
	dt := now - b.last
	b.last = now
	if t.pauses.seen {
		paused := t.pauses.pausedFor(s, now)
		if n := min(paused-b.paused, dt); n > 0 && (b.kind == waitInFlight || b.kind == waitCongestion) {
			b.spent[waitPaused] += n
			dt -= n
		}
		b.paused = paused
	}
	if b.kind == waitCongestion {
		usual := min(dt, b.least)
		b.spent[waitInFlight] += usual
		dt -= usual
	}
	b.spent[b.kind] += dt
}

// move counts time for another kind.
func (b *budget) move(from, to waitKind, ns int64) {
	ns = min(max(ns, 0), b.spent[from])
	b.spent[from] -= ns
	b.spent[to] += ns
}

// waitsFor says what a requester waits for from now on.
func (t *Tracker) waitsFor(h *half, r Direction, x *extras, b *budget, now int64) waitKind {
	switch {
	case h.flags&halfDead != 0:
		return waitDead
	case h.openCount == 0:
		return waitApplication
	case x.recovery[r].nak.kind == nakRNR:
		return waitRNR
	case x.recovery[r].nak.kind == nakSequence:
		return waitRecovery
	case h.depth > 0 && int(h.depth) >= x.readLimit(r):
		return waitReadDepth
	case b.granted != neverGranted && int(h.openCount) >= int(b.granted)-1 && t.consumesReceive(h):
		return waitCredit
	case b.inside && b.lastCNP != 0 && now-b.lastCNP < congestionMemory && b.least > 0:
		return waitCongestion
	}
	return waitInFlight
}

// consumesReceive reports whether the newest message takes a receive at the
// responder: only such are held back by credits.
func (t *Tracker) consumesReceive(h *half) bool {
	return h.tail != 0 && (t.open[h.tail].Op == OpSend || t.open[h.tail].Flags&dissect.WithImm != 0)
}

// readLimit is how many READs and atomics a requester may have outstanding, as
// far as a handshake told; without, more than it can have.
func (x *extras) readLimit(r Direction) int {
	limit := 1 << 16
	if n := &x.neg[r]; n.Set && n.InitiatorDepth > 0 {
		limit = min(limit, n.InitiatorDepth)
	}
	if n := &x.neg[r.Reverse()]; n.Set && n.ResponderResources > 0 {
		limit = min(limit, n.ResponderResources)
	}
	return limit
}

func (b *budget) record() Budget {
	r := Budget{
		Application: duration(b.spent[waitApplication]), InFlight: duration(b.spent[waitInFlight]),
		RNR: duration(b.spent[waitRNR]), Timeout: duration(b.spent[waitTimeout]), Recovery: duration(b.spent[waitRecovery]),
		Credit: duration(b.spent[waitCredit]), ReadDepth: duration(b.spent[waitReadDepth]),
		Congestion: duration(b.spent[waitCongestion]), Paused: duration(b.spent[waitPaused]),
	}
	for k, ns := range b.spent {
		if waitKind(k) != waitDead {
			r.Total += duration(ns)
		}
	}
	return r
}

// leastJudged is the least time of which a half is worth a finding.
const leastJudged = int64(time.Millisecond)

// judgeTime says where connections lost most of their time.
func (t *Tracker) judgeTime(emit func(*Finding)) {
	if t.details == 0 {
		return
	}
	t.eachConn(func(c *conn) {
		if c.flags&connDetail == 0 {
			return
		}
		for r := AToB; r <= BToA; r++ {
			b := &t.extras[c.extras].detail.budget[r]
			total := int64(b.record().Total)
			for k := waitRNR; k <= waitPaused; k++ {
				if ns := b.spent[k]; ns >= leastJudged && ns*2 >= total {
					h := &c.half[r]
					emit(&Finding{ID: findWaiting, Conn: c.id, Direction: r, HasStream: true, Frame: h.reqFrame, Time: c.stream[r].firstSeen, Count: 1, Args: [4]uint64{uint64(k), uint64(ns), uint64(total)}})
				}
			}
		}
	})
}

var waitText = [numWaits]string{
	waitRNR:        "receives at the responder (RNR)",
	waitTimeout:    "answers that never came (time-outs)",
	waitRecovery:   "resends behind sequence NAKs",
	waitCredit:     "credits",
	waitReadDepth:  "one of the READs and atomics outstanding to be answered (READ depth)",
	waitCongestion: "its rate to rise again behind CNPs (estimated)",
	waitPaused:     "pause frames (estimated)",
}

var checkWaiting = Check{
	ID: "waiting", Severity: Note, Title: "Most of the time was spent waiting",
	Explain: "A requester with work to do spent at least half of its time waiting for one thing. That is what limits it, not the speed of the link.",
	Rule:    "(none: this is arithmetic over the packets' times)",
	Try:     "RNR: post more receives. Time-outs: find the loss. Credits: post more receives, or use larger messages. READ depth: agree on more (max_rd_atomic), or read more at a time. CNPs and pauses: find the congested port.",
	text: func(f *Finding) string {
		return fmt.Sprintf("%v of %v (%.0f %%) went into waiting for %s", roundDuration(int64(f.Args[1])), roundDuration(int64(f.Args[2])), 100*float64(f.Args[1])/float64(f.Args[2]), waitText[f.Args[0]])
	},
}
