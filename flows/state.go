package flows

import (
	"cmp"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// maxSteps bounds the steps remembered of one queue pair.
const maxSteps = 16

// step notes that a packet proves a state of the queue pair that sends in
// direction d.
func (t *Tracker) step(c *conn, d Direction, s State, p *dissect.Packet, why string, presumed bool) {
	t.stepAt(c, d, s, p.Number, p.Time, why, presumed)
}

func (t *Tracker) stepAt(c *conn, d Direction, s State, frame uint64, at int64, why string, presumed bool) {
	x := t.rare(c)
	if steps := x.steps[d]; len(steps) < maxSteps && (len(steps) == 0 || steps[len(steps)-1].State != s) {
		x.steps[d] = append(steps, StateStep{State: s, Frame: frame, Time: at, Why: why, Presumed: presumed})
		t.tellStep(c, d, x.steps[d][len(steps)])
	}
}

// tellStep tells the sink of a step. What is held is told when it is known whose it is.
func (t *Tracker) tellStep(c *conn, end Direction, s StateStep) {
	if t.opt.Sink.Step == nil || c.flags&connProvisional != 0 {
		return
	}
	r := Connection{ID: c.id, Transport: c.transport, Evidence: c.evidence, FirstFrame: c.firstNum}
	for i, q := range [2]*QP{&r.A, &r.B} {
		if q.QPName = c.end[i].name(); c.end[i].qpn != noSource {
			q.Known = true
		} else {
			q.QPN = 0
		}
	}
	t.opt.Sink.Step(&r, end, s)
}

// handshakeSteps notes what the CM handshake proves: the active side is in
// INIT when it asks; who sends a REP is ready to receive, and Linux' passive
// side is in RTS before its REP leaves, which the wire does not show.
func (t *Tracker) handshakeSteps(c *conn, a *announcement) {
	t.stepAt(c, AToB, StateInit, a.Frame, a.Time, "CM handshake: its QP is created before the REQ", true)
	t.stepAt(c, BToA, StateRTR, a.Frame, a.Time, "CM REP: ready to receive", true)
}

func (t *Tracker) disconnectSteps(c *conn, e *handshakeEvent) {
	from := AToB
	if e.HasA && announcedKey(e.A) == announcedKey(c.end[1].name()) {
		from = BToA
	}
	if !e.FromA {
		from = from.Reverse()
	}
	why := "DREQ sent"
	if e.Kind == evDisconnected {
		why = "DREP sent"
	}
	t.stepAt(c, from, StateError, e.Frame, e.Time, why+": the connection is being taken down", true)
}

// What the first packets of a queue pair prove.
const (
	firstAnswer  = "sent its first answer: at least RTR"
	firstRequest = "sent its first request: RTS"
)

// firsts are the times of the first request and the first answer of a queue
// pair. Connections without extras go without: they have the frames.
type firsts struct {
	frame [2]uint64
	time  [2]int64
}

// note remembers when a queue pair sent its first packet of a role.
func (t *Tracker) note(c *conn, d Direction, role dissect.Role, p *dissect.Packet) {
	if s, why := StateRTS, firstRequest; role == dissect.Request || c.transport != dissect.UD {
		if role != dissect.Request {
			s, why = StateRTR, firstAnswer
		}
		t.tellStep(c, d, StateStep{State: s, Frame: p.Number, Time: p.Time, Why: why})
	}
	x := t.extrasOf(c)
	if x == nil {
		if t.histograms >= maxHistograms {
			return
		}
		x = t.rare(c)
	}
	i := role - dissect.Request
	x.firsts[d].frame[i], x.firsts[d].time[i] = p.Number, p.Time
}

// firstAt is the time of a first packet, 0 where it was not remembered.
func (t *Tracker) firstAt(c *conn, end int, frame uint64) int64 {
	if x := t.extrasOf(c); x != nil {
		for i, f := range x.firsts[end].frame {
			if f == frame {
				return x.firsts[end].time[i]
			}
		}
	}
	return 0
}

// history lists what proves the states of an end, in order of time.
func (t *Tracker) history(c *conn, end int) []StateStep {
	var steps []StateStep
	if x := t.extrasOf(c); x != nil {
		steps = append(steps, x.steps[end]...)
	}
	asks, answers := &c.half[end], &c.half[1-end]
	if answers.flags&halfResponses != 0 && c.transport != dissect.UD {
		steps = append(steps, StateStep{State: StateRTR, Frame: answers.respFrame, Time: t.firstAt(c, end, answers.respFrame), Why: firstAnswer})
	}
	if asks.flags&halfRequests != 0 {
		steps = append(steps, StateStep{State: StateRTS, Frame: asks.reqFrame, Time: t.firstAt(c, end, asks.reqFrame), Why: firstRequest})
	}
	slices.SortStableFunc(steps, func(a, b StateStep) int { return cmp.Compare(a.Frame, b.Frame) })
	// A weaker state behind a stronger one proves nothing new; proof of what was
	// presumed does.
	out := steps[:0]
	best := StateUnknown
	for _, s := range steps {
		if n := len(out); s.State > best || s.State == best && out[n-1].Presumed && !s.Presumed {
			best = s.State
			out = append(out, s)
		}
	}
	return out
}
