package flows

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// Finding the two sides of a connection whose set-up was not captured. A
// stream tells only where it goes. Streams that have no partner yet lie in the
// group of their two hosts, and each answer in one of them speaks for some of
// the streams of the other direction and against the others. A pair is made
// where one stream is left. While a partner is looked for, the packets of a
// stream are held for a while, so that tracking begins with both directions
// from the first packet on; behind that, only evidence is kept.

const (
	shortHold     = 128      // packets held of a stream that nothing can be partner of
	maxHold       = 1024     // packets held of one stream
	maxHeld       = 64 << 10 // packets held in all
	maxSeek       = 16 << 10 // packets of a stream in which its partner is looked for
	maxSeekers    = 4096     // streams without partner between two hosts that are compared
	wantAnswers   = 3        // that fit, before the capture ends
	fewAnswers    = 2        // that do when no more can come
	wantAgainst   = 4        // what rules a candidate out (see weight.against)
	atEndReason   = 2        // what does when no more can come
	fewConsidered = 8        // first answers of a stream that are all looked for
	wantOdd       = 6        // odd answers that rule a candidate out
	maxDoubts     = 4        // answers outside of what was sent that undo a pair
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
type group struct {
	lone   []*seeker
	going  [2]int // how many go to either host
	blocks map[uint32]*bucket
	oldest int // where room is made next
}

// partners is a tracker's state of looking for them.
type partners struct {
	seekers   map[uint32]*seeker // by slot: streams whose other side is looked for
	held      int                // packets held for want of the other side
	testimony int                // what is remembered of seekers
	compared  int                // steps of work that it took
}

type heldPacket = dissect.Packet

func (t *Tracker) groupOf(c *conn) *group { return t.groups[pairOf(c.end[0].addr, c.end[1].addr)] }

// seekPartner enters a new stream into its group.
func (t *Tracker) seekPartner(slot uint32, c *conn) {
	if t.replaying || t.testimony >= maxTestimony {
		return
	}
	k := pairOf(c.end[0].addr, c.end[1].addr)
	g := t.groups[k]
	if g == nil {
		g = &group{blocks: map[uint32]*bucket{}}
		t.groups[k] = g
	}
	if len(g.lone) >= maxSeekers { // the one that had its chance goes
		g.oldest++
		t.stopSeeking(g.lone[g.oldest%len(g.lone)].slot)
		t.groups[k] = g
	}
	s := &seeker{slot: slot, at: len(g.lone), nextTry: wantAnswers}
	if c.end[1].addr == k.b {
		s.side = 1
	}
	g.lone = append(g.lone, s)
	g.going[s.side]++
	if t.seekers == nil {
		t.seekers = map[uint32]*seeker{}
	}
	t.seekers[slot] = s
	c.flags |= connSeeking
	if t.held < maxHeld {
		c.flags |= connProvisional
	}
}

// stopSeeking leaves a stream without partner.
func (t *Tracker) stopSeeking(slot uint32) {
	if t.conn(slot).flags&connProvisional != 0 {
		t.giveUp(slot)
	}
	t.forget(slot)
}

// seeking takes a packet of a stream that has no partner yet, or one that is
// in doubt.
func (t *Tracker) seeking(ref streamRef, p *dissect.Packet, frame []byte, m *Mark, l *lookup) {
	c := t.conn(ref.slot())
	if c.flags&connDoubted != 0 {
		t.part(ref.slot())
		ref = t.newStream(p, l)
		c = t.conn(ref.slot())
	}
	t.track(c, ref.direction(), p, frame, m)
	slot := ref.slot()
	s := t.seekers[slot]
	if s == nil {
		return
	}
	if c.flags&connProvisional != 0 {
		t.hold(s, p)
	}
	s.packets++
	g := t.groupOf(c)
	switch p.Op().Role {
	case dissect.Request:
		t.noteRequest(g, s, c, p)
	case dissect.Response:
		t.noteAnswer(s, p)
		if !s.complete || s.count <= fewConsidered {
			t.consider(g, s, &s.answers[len(s.answers)-1])
		}
		if s.count >= s.nextTry {
			s.nextTry = s.count + s.count/2
			t.try(g, s)
		}
	}
	if t.seekers[slot] != s {
		return
	}
	limit := maxHold
	if g.going[s.side^1] == 0 {
		limit = shortHold
	}
	if c.flags&connProvisional != 0 && (len(s.hold) >= limit || t.held >= maxHeld) {
		t.lastTry(g, s)
	}
	if t.seekers[slot] == s && (s.packets >= maxSeek || t.testimony > maxTestimony) {
		t.stopSeeking(slot)
	}
}

// hold keeps a packet until it is known whose it is.
func (t *Tracker) hold(s *seeker, p *dissect.Packet) {
	s.hold = append(s.hold, *p)
	t.held++
}

// opposite reports whether two seekers go to each other's hosts.
func (t *Tracker) opposite(s, o *seeker) bool {
	return o != nil && o != s && o.side != s.side && t.conn(o.slot).transport == t.conn(s.slot).transport &&
		t.conn(o.slot).end[1].vlan == t.conn(s.slot).end[1].vlan
}

// try looks for the stream that a seeker answers to, and makes the pair where
// there is one.
func (t *Tracker) try(g *group, s *seeker) bool {
	t.consider(g, s, &s.answers[len(s.answers)-1])
	mate, w := t.choose(s, false)
	if mate == nil || t.contested(s, mate) {
		return false
	}
	t.pairSeekers(mate, s, w)
	return true
}

// lastTry looks once more for a partner of a stream of which no more packets
// can be held.
func (t *Tracker) lastTry(g *group, s *seeker) {
	if s.count > 0 && t.try(g, s) {
		return
	}
	for _, slot := range slices.Clone(s.suitors) {
		if o := t.seekers[slot]; o != nil && slices.Contains(o.candidates, s.slot) && t.try(g, o) && t.seekers[s.slot] != s {
			return
		}
	}
	t.giveUp(s.slot)
}

// choose returns the only candidate that a seeker's answers leave, if there is
// one. Those that are ruled out are dropped.
func (t *Tracker) choose(s *seeker, atEnd bool) (*seeker, weight) {
	var best *seeker
	var bestW weight
	weights := make([]weight, len(s.candidates))
	for i, slot := range s.candidates {
		o := t.seekers[slot]
		weights[i] = t.weigh(s, o)
		if w := weights[i]; best == nil || w.fit-4*w.against() > bestW.fit-4*bestW.against() {
			best, bestW = o, w
		}
	}
	if best == nil || !bestW.likely() {
		return nil, bestW
	}
	kept := s.candidates[:0]
	for i, slot := range s.candidates {
		if slot != best.slot && rulesOut(&bestW, &weights[i], atEnd) {
			t.dropSuitor(slot, s.slot)
			s.ruledOut++
			continue
		}
		kept = append(kept, slot)
	}
	s.candidates = kept
	enough := wantAnswers
	if atEnd {
		enough = fewAnswers
		if g := t.groupOf(t.conn(s.slot)); g.going == [2]int{1, 1} && bestW.against()+bestW.odd == 0 {
			enough = 1 // nobody else is left
		}
	}
	if len(kept) != 1 || !s.complete || bestW.fit < enough {
		return nil, bestW
	}
	return best, bestW
}

// rulesOut reports whether what speaks for one candidate rules another out.
func rulesOut(best, w *weight, atEnd bool) bool {
	reason := wantAgainst
	if atEnd {
		reason = atEndReason
	}
	if w.against()-best.against() >= reason && best.fit >= min(reason, wantAnswers) {
		return true
	}
	return w.odd-best.odd >= wantOdd && best.odd*8 <= best.fit
}

func (t *Tracker) dropSuitor(slot, suitor uint32) {
	if o := t.seekers[slot]; o != nil {
		if i := slices.Index(o.suitors, suitor); i >= 0 {
			o.suitors = slices.Delete(o.suitors, i, i+1)
		}
	}
}

// contested reports whether another stream, too, can only answer to o.
func (t *Tracker) contested(s, o *seeker) bool {
	for _, slot := range o.suitors {
		other := t.seekers[slot]
		if other == nil || other == s || len(other.candidates) != 1 || !other.complete {
			continue
		}
		if w := t.weigh(other, o); w.likely() {
			return true
		}
	}
	return false
}

// toldApart reports whether a pair rests on enough answers, or on few that fit
// nothing else: of another stream the capture may have missed what would make
// up for what speaks against it.
func (t *Tracker) toldApart(s, mate *seeker, w *weight) bool {
	if w.fit >= wantAnswers {
		return true
	}
	for _, of := range [2][2]*seeker{{s, mate}, {mate, s}} {
		for _, slot := range of[0].suitors {
			if other := t.seekers[slot]; other != nil && other != of[1] {
				if v := t.weigh(other, of[0]); v.fit > 0 {
					return false
				}
			}
		}
	}
	return true
}

// forget takes a stream out of its group and out of others' candidates.
func (t *Tracker) forget(slot uint32) {
	c := t.conn(slot)
	s := t.seekers[slot]
	c.flags &^= connSeeking
	if s == nil {
		return
	}
	g := t.groupOf(c)
	t.unlistBlocks(g, s)
	for _, o := range s.suitors {
		if x := t.seekers[o]; x != nil {
			if i := slices.Index(x.candidates, slot); i >= 0 {
				x.candidates = slices.Delete(x.candidates, i, i+1)
				x.taken++
			}
		}
	}
	for _, o := range s.candidates {
		t.dropSuitor(o, slot)
	}
	last := len(g.lone) - 1
	g.lone[s.at] = g.lone[last]
	g.lone[s.at].at = s.at
	g.lone[last] = nil
	g.lone = g.lone[:last]
	g.going[s.side]--
	t.testimony -= s.testimony()
	t.held -= len(s.hold)
	delete(t.seekers, slot)
	if len(g.lone) == 0 {
		delete(t.groups, pairOf(c.end[0].addr, c.end[1].addr))
	}
}

// takeHold empties a stream's held packets.
func (t *Tracker) takeHold(slot uint32) []heldPacket {
	s := t.seekers[slot]
	if s == nil {
		return nil
	}
	h := s.hold
	s.hold = nil
	t.held -= len(h)
	return h
}

// pairSeekers makes one connection of two streams by what their answers say.
// b answers a's requests.
func (t *Tracker) pairSeekers(a, b *seeker, w weight) {
	why := b.reasons(w)
	x, y := a.slot, b.slot
	if t.conn(x).flags&t.conn(y).flags&connProvisional != 0 {
		t.pair(x, y)
		for _, slot := range [2]uint32{x, y} { // one of the two is the connection now
			if c := t.conn(slot); c.flags&connLive != 0 && c.paired() {
				c.evidence = Inferred
				t.because(c, why)
			}
		}
		return
	}
	t.join(x, y, why)
}

// reasons says why a seeker's only candidate is its partner.
func (s *seeker) reasons(w weight) string {
	why := plural(w.fit, "answer fits a request", "answers fit requests") + " that the other side had sent by then"
	if n := w.near + w.far; n > 0 {
		why += fmt.Sprintf(", %s nothing that was captured", plural(n, "fits", "fit"))
	}
	switch {
	case s.ruledOut > 0 && s.taken > 0:
		why += fmt.Sprintf("; %s ruled out by them, and %s to others", plural(s.ruledOut, "other queue pair is", "other queue pairs are"), plural(s.taken, "belongs", "belong"))
	case s.ruledOut > 0:
		why += fmt.Sprintf("; %s ruled out by them", plural(s.ruledOut, "other queue pair is", "other queue pairs are"))
	case s.taken > 0:
		why += fmt.Sprintf("; %s to others", plural(s.taken, "queue pair that they fit, too, belongs", "queue pairs that they fit, too, belong"))
	default:
		why += "; no other queue pair between the two hosts comes near"
	}
	return why
}

// pair makes one connection of two streams and tracks what was held of them.
// a is the stream whose requests the other, b, answers.
func (t *Tracker) pair(a, b uint32) {
	ca, cb := t.conn(a), t.conn(b)
	// The side that asked first is called a.
	if first := &cb.half[AToB]; first.flags&halfRequests != 0 &&
		(ca.half[AToB].flags&halfRequests == 0 || first.reqFrame < ca.half[AToB].reqFrame) {
		a, b, ca, cb = b, a, cb, ca
	}
	held := append(t.takeHold(a), t.takeHold(b)...)
	t.forget(a)
	t.forget(b)
	slices.SortFunc(held, func(x, y heldPacket) int { return cmp.Compare(x.Number, y.Number) })
	ends := [2]endpoint{cb.end[1], ca.end[1]}
	id, firstNum := min(ca.id, cb.id), min(ca.firstNum, cb.firstNum)
	if t.opt.Sink.Turned != nil && len(held) > 0 {
		t.opt.Sink.Turned(cb.id, held[len(held)-1].Number)
	}
	if t.opt.Sink.Joined != nil {
		t.opt.Sink.Joined(max(ca.id, cb.id), id)
	}
	transport := ca.transport
	t.leave(b, AToB)
	t.release(b)
	t.reset(ca)
	*ca = conn{id: id, flags: connLive, transport: transport, end: ends, evidence: Inferred, firstNum: firstNum}
	t.enter(a, BToA)
	t.replay(ca, held)
}

// join makes one connection of two streams of which too much has passed to
// track it anew: a's record goes on with both directions, b's ends.
func (t *Tracker) join(a, b uint32, why string) {
	t.stopSeeking(a)
	t.stopSeeking(b)
	ca, cb := t.conn(a), t.conn(b)
	t.lendUpper(ca, cb)
	sender := cb.end[1].qpn
	t.close(b)
	cb.end[0].qpn, cb.evidence = ca.end[1].qpn, Inferred
	x := t.rare(cb)
	x.why, x.successor = why, ca.id
	ca.end[0].qpn, ca.evidence = sender, Inferred
	if x = t.extrasOf(ca); x != nil {
		x.why, x.candidates = "", nil
	}
	t.because(ca, why)
	t.enter(a, BToA)
}

// giveUp tracks a stream on its own: its other side cannot be told as yet.
func (t *Tracker) giveUp(slot uint32) {
	c := t.conn(slot)
	held := t.takeHold(slot)
	t.reset(c)
	*c = conn{id: c.id, flags: connLive | c.flags&connSeeking, transport: c.transport, end: c.end, firstNum: c.firstNum}
	t.nameCandidates(slot)
	t.replay(c, held)
}

// nameCandidates notes who a stream's unknown sender may be.
func (t *Tracker) nameCandidates(slot uint32) {
	c, s := t.conn(slot), t.seekers[slot]
	if s == nil || c.paired() {
		return
	}
	var names []QPName
	for _, list := range [2][]uint32{s.candidates, s.suitors} {
		for _, o := range list {
			if n := t.conn(o).end[1].name(); !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	if len(names) == 0 && !s.crowded {
		c.evidence = Unpaired
		return
	}
	c.evidence = Ambiguous
	x := t.rare(c)
	x.candidates = names
	x.why = fmt.Sprintf("what was answered may have been meant for %s", plural(len(names), "queue pair", "queue pairs"))
	if !s.complete && s.crowded {
		x.why = fmt.Sprintf("what was answered may have been meant for more than %d queue pairs", maxCandidates)
	}
}

// replay tracks held packets as if they came now.
func (t *Tracker) replay(c *conn, held []heldPacket) {
	t.replaying = true
	for i := range held {
		p := &held[i]
		d := AToB
		if p.Dst == c.end[0].addr && destination(p) == c.end[0].qpn && c.end[0] != c.end[1] {
			d = BToA
		}
		var m Mark
		if p.ECN() == 3 {
			m.Bits |= MarkCE
		}
		if !t.dropped(c, d, p) {
			t.track(c, d, p, nil, &m)
		}
	}
	t.replaying = false
}

// doubt notes that an answer of an inferred connection is to nothing that its
// other side sent. Several of them in a row undo the pair.
func (t *Tracker) doubt(c *conn) {
	if c.evidence != Inferred || c.flags&connClosed != 0 {
		return
	}
	if x := t.rare(c); x.doubts < maxDoubts {
		if x.doubts++; x.doubts == maxDoubts {
			c.flags |= connDoubted
		}
	}
}

// part undoes a pair: its record ends, and both streams look for a partner
// again.
func (t *Tracker) part(slot uint32) {
	c := t.conn(slot)
	t.close(slot)
	c.flags &^= connDoubted
	c.evidence = Ambiguous
	x := t.rare(c)
	x.why = fmt.Sprintf("taken for a pair at first (%s), but then %d answers in a row were to nothing that the other side had sent", t.whyOf(c), maxDoubts)
	x.candidates = []QPName{c.end[0].name(), c.end[1].name()}
}

// settlePairs pairs what the whole capture lets pair, and names the candidates
// of the rest.
func (t *Tracker) settlePairs() {
	for _, s := range t.seekers {
		g := t.groupOf(t.conn(s.slot))
		for i := max(0, len(s.answers)-fewConsidered); i < len(s.answers); i++ {
			t.consider(g, s, &s.answers[i])
		}
	}
	for round := range maxRounds {
		var all []*seeker
		for _, s := range t.seekers {
			if s.count > 0 && len(s.candidates) > 0 {
				all = append(all, s)
			}
		}
		slices.SortFunc(all, func(a, b *seeker) int { return cmp.Compare(t.conn(a.slot).id, t.conn(b.slot).id) })
		claims := map[*seeker]int{}
		mates := make([]*seeker, len(all))
		weights := make([]weight, len(all))
		for i, s := range all {
			if mates[i], weights[i] = t.choose(s, true); mates[i] != nil && t.toldApart(s, mates[i], &weights[i]) {
				claims[mates[i]]++
			} else {
				mates[i] = nil
			}
		}
		again := false
		for i, s := range all {
			mate := mates[i]
			if mate == nil || claims[mate] != 1 || t.seekers[s.slot] != s || t.seekers[mate.slot] != mate {
				continue
			}
			t.lateOf(stagePairs+round, t.conn(s.slot))
			t.pairSeekers(mate, s, weights[i])
			again = true
		}
		if !again {
			break
		}
	}
	rest := make([]uint32, 0, len(t.seekers))
	for slot := range t.seekers {
		rest = append(rest, slot)
	}
	slices.SortFunc(rest, func(a, b uint32) int { return cmp.Compare(t.conn(a).id, t.conn(b).id) })
	for _, slot := range rest {
		t.lateOf(stageRest, t.conn(slot))
		if t.conn(slot).flags&connProvisional != 0 {
			t.giveUp(slot)
		} else {
			t.nameCandidates(slot)
		}
	}
	for _, slot := range rest {
		t.forget(slot)
	}
}

// maxRounds bounds how often the streams that are left are compared anew
// because others have found their partner.
const maxRounds = 16
