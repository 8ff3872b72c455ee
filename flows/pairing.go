package flows

import (
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Finding the two sides of a connection whose set-up was not captured. A
// stream tells only where it goes. Streams that have no partner yet lie in the
// group of their two hosts; each answer in one of them eliminates those
// streams of the other direction that had not sent the PSN which it answers.
// While a partner is looked for, the packets of a stream are held, so that
// tracking begins with both directions from the first packet on.

const (
	maxHold     = 128      // packets held of one stream
	maxHeld     = 64 << 10 // packets held in all
	wantAnswers = 3        // that distinguish a candidate, before the capture ends
	maxSeekers  = 4096     // streams without partner between two hosts that are compared
)

// hostPair is an unordered pair of addresses.
type hostPair struct{ a, b dissect.Addr }

func pairOf(a, b dissect.Addr) hostPair {
	if b.Hi < a.Hi || b.Hi == a.Hi && b.Lo < a.Lo {
		a, b = b, a
	}
	return hostPair{a, b}
}

// group is the streams between two hosts that have no partner yet.
type group struct{ lone []uint32 }

type heldPacket = dissect.Packet

// seeker is what a stream without partner knows of the streams that may
// answer to it.
type seeker struct {
	built      bool
	candidates []uint32 // slots of streams whose requests this one may answer
	answers    int      // that named one of them
}

// seekPartner enters a new stream into its group.
func (t *Tracker) seekPartner(slot uint32, c *conn) {
	if t.held >= maxHeld || t.replaying {
		return
	}
	k := pairOf(c.end[0].addr, c.end[1].addr)
	g := t.groups[k]
	if g == nil {
		g = &group{}
		t.groups[k] = g
	}
	if len(g.lone) >= maxSeekers {
		return
	}
	g.lone = append(g.lone, slot)
	c.flags |= connProvisional
}

// hold keeps a packet of a stream that has no partner yet, and looks for one.
func (t *Tracker) hold(ref streamRef, p *dissect.Packet, frame []byte, m *Mark) {
	slot := ref.slot()
	c := t.conn(slot)
	t.track(c, ref.direction(), p, frame, m)
	x := t.rare(c)
	x.hold = append(x.hold, *p)
	t.held++
	if p.Op().Role == dissect.Response {
		t.consider(slot, c, p)
	}
	if c.flags&connProvisional != 0 && (len(x.hold) >= maxHold || t.held >= maxHeld) {
		if mate := t.onlyMate(slot); mate != noSlot {
			t.pair(mate, slot)
		} else {
			t.giveUp(slot)
		}
	}
}

const noSlot = ^uint32(0)

// window says how a PSN stands to the requests of a stream.
type window uint8

const (
	outside window = iota
	inside
	unknown // before what was captured
)

func (c *conn) sentPSN(p dissect.PSN) window {
	h := &c.half[AToB]
	if h.flags&halfRequests == 0 {
		return outside
	}
	switch from, to := p.Sub(h.first), p.Sub(h.next); {
	case from >= 0 && to < 0:
		return inside
	case from >= 0 && h.flags&halfSpanOpen != 0 && to < maxJump:
		return inside
	case from < 0 && from >= -maxHold:
		return unknown
	}
	return outside
}

// consider takes an answer as evidence for its stream's partner.
func (t *Tracker) consider(slot uint32, c *conn, p *dissect.Packet) {
	x := t.rare(c)
	s := &x.seek
	g := t.groups[pairOf(c.end[0].addr, c.end[1].addr)]
	if g == nil {
		return
	}
	if !s.built {
		for _, o := range g.lone {
			if other := t.conn(o); t.opposite(c, other) && other.sentPSN(p.PSN) == inside {
				s.candidates = append(s.candidates, o)
			}
		}
		s.built = len(s.candidates) > 0
	} else {
		s.candidates = slices.DeleteFunc(s.candidates, func(o uint32) bool {
			return !t.opposite(c, t.conn(o)) || t.conn(o).sentPSN(p.PSN) == outside
		})
		s.built = len(s.candidates) > 0
	}
	if !s.built {
		s.answers = 0
		return
	}
	s.answers++
	if s.answers >= wantAnswers && len(s.candidates) == 1 && !t.contested(g, slot, s.candidates[0]) {
		t.pair(s.candidates[0], slot)
	}
}

// opposite reports whether o is a stream without partner that goes the other
// way between the same hosts.
func (t *Tracker) opposite(c, o *conn) bool {
	return o.flags&(connLive|connProvisional) == connLive|connProvisional && o != c &&
		o.end[0].addr == c.end[1].addr && o.end[1].addr == c.end[0].addr && o.transport == c.transport
}

// contested reports whether another stream, too, can only answer to o.
func (t *Tracker) contested(g *group, slot, o uint32) bool {
	for _, other := range g.lone {
		if other == slot {
			continue
		}
		if x := t.extrasOf(t.conn(other)); x != nil && len(x.seek.candidates) == 1 && x.seek.candidates[0] == o {
			return true
		}
	}
	return false
}

// onlyMate returns the one stream that a stream can belong to: the one whose
// requests it answers, or the one that answers its requests.
func (t *Tracker) onlyMate(slot uint32) uint32 {
	c := t.conn(slot)
	g := t.groups[pairOf(c.end[0].addr, c.end[1].addr)]
	x := t.extrasOf(c)
	if g == nil || x == nil {
		return noSlot
	}
	if s := &x.seek; len(s.candidates) == 1 && !t.contested(g, slot, s.candidates[0]) {
		return s.candidates[0]
	}
	mate := noSlot
	for _, o := range g.lone {
		y := t.extrasOf(t.conn(o))
		if o == slot || y == nil || !slices.Contains(y.seek.candidates, slot) {
			continue
		}
		if mate != noSlot || len(y.seek.candidates) != 1 {
			return noSlot
		}
		mate = o
	}
	return mate
}

// forget takes a stream out of its group and out of others' candidates.
func (t *Tracker) forget(slot uint32) {
	c := t.conn(slot)
	k := pairOf(c.end[0].addr, c.end[1].addr)
	g := t.groups[k]
	if g == nil {
		return
	}
	g.lone = slices.DeleteFunc(g.lone, func(o uint32) bool { return o == slot })
	for _, o := range g.lone {
		if x := t.extrasOf(t.conn(o)); x != nil {
			x.seek.candidates = slices.DeleteFunc(x.seek.candidates, func(o uint32) bool { return o == slot })
		}
	}
	if len(g.lone) == 0 {
		delete(t.groups, k)
	}
}

// takeHold empties a stream's held packets.
func (t *Tracker) takeHold(c *conn) []heldPacket {
	x := t.extrasOf(c)
	if x == nil {
		return nil
	}
	h := x.hold
	x.hold = nil
	t.held -= len(h)
	return h
}

// pair makes one connection of two streams and tracks what was held of them.
// a is the stream whose requests the other, b, answers.
func (t *Tracker) pair(a, b uint32) {
	ca, cb := t.conn(a), t.conn(b)
	answers := 0
	if x := t.extrasOf(cb); x != nil {
		answers = x.seek.answers
	}
	// The side that asked first is called a.
	if first := &cb.half[AToB]; first.flags&halfRequests != 0 &&
		(ca.half[AToB].flags&halfRequests == 0 || first.reqFrame < ca.half[AToB].reqFrame) {
		a, b, ca, cb = b, a, cb, ca
	}
	t.forget(a)
	t.forget(b)
	held := append(t.takeHold(ca), t.takeHold(cb)...)
	slices.SortFunc(held, func(x, y heldPacket) int { return int(int64(x.Number) - int64(y.Number)) })
	ends := [2]endpoint{cb.end[1], ca.end[1]}
	id, firstNum := min(ca.id, cb.id), min(ca.firstNum, cb.firstNum)
	transport := ca.transport
	t.leave(b, AToB)
	t.release(b)
	t.reset(ca)
	*ca = conn{id: id, flags: connLive, transport: transport, end: ends, evidence: Inferred, firstNum: firstNum}
	t.rare(ca).why = fmt.Sprintf("its answers fit the PSNs of no other queue pair between the two hosts (%s)", plural(answers, "answer", "answers"))
	t.enter(a, BToA)
	t.replay(ca, held)
}

// giveUp tracks a stream on its own: its other side cannot be told.
func (t *Tracker) giveUp(slot uint32) {
	c := t.conn(slot)
	candidates := t.candidateNames(slot)
	t.forget(slot)
	held := t.takeHold(c)
	t.reset(c)
	*c = conn{id: c.id, flags: connLive, transport: c.transport, end: c.end, firstNum: c.firstNum}
	switch {
	case len(candidates) > 0:
		c.evidence = Ambiguous
		x := t.rare(c)
		x.why = fmt.Sprintf("several queue pairs had sent the PSNs that were answered (%d candidates)", len(candidates))
		x.candidates = candidates
	}
	t.replay(c, held)
}

// candidateNames lists the queue pairs that may be a stream's unknown sender.
func (t *Tracker) candidateNames(slot uint32) (names []QPName) {
	c := t.conn(slot)
	g := t.groups[pairOf(c.end[0].addr, c.end[1].addr)]
	if g == nil {
		return nil
	}
	add := func(o uint32) {
		if n := t.conn(o).end[1].name(); !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	if x := t.extrasOf(c); x != nil {
		for _, o := range x.seek.candidates {
			add(o)
		}
	}
	for _, o := range g.lone {
		if x := t.extrasOf(t.conn(o)); x != nil && slices.Contains(x.seek.candidates, slot) {
			add(o)
		}
	}
	return names
}

// replay tracks held packets as if they came now.
func (t *Tracker) replay(c *conn, held []heldPacket) {
	t.replaying = true
	for i := range held {
		p := &held[i]
		d := AToB
		if p.Dst == c.end[0].addr && p.DestQP == c.end[0].qpn && c.end[0] != c.end[1] {
			d = BToA
		}
		var m Mark
		if p.ECN() == 3 {
			m.Bits |= MarkCE
		}
		t.track(c, d, p, nil, &m)
	}
	t.replaying = false
}

// settlePairs pairs what the whole capture lets pair, and gives the rest up.
func (t *Tracker) settlePairs() {
	for again := true; again; {
		again = false
		for _, g := range t.groups {
			for _, slot := range g.lone {
				if mate := t.onlyMate(slot); mate != noSlot {
					a, b := mate, slot
					if x := t.extrasOf(t.conn(slot)); x == nil || !slices.Contains(x.seek.candidates, mate) {
						a, b = slot, mate
					}
					t.pair(a, b)
					again = true
					break
				}
			}
		}
	}
	var rest []uint32
	for _, g := range t.groups {
		rest = append(rest, g.lone...)
	}
	names := make(map[uint32][]QPName, len(rest))
	for _, slot := range rest {
		names[slot] = t.candidateNames(slot)
	}
	slices.SortFunc(rest, func(a, b uint32) int { return int(t.conn(a).id) - int(t.conn(b).id) })
	for _, slot := range rest {
		t.giveUp(slot)
		if c := t.conn(slot); len(names[slot]) > 0 {
			c.evidence = Ambiguous
			t.rare(c).candidates = names[slot]
		}
	}
}
