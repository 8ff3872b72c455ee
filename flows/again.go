package flows

import (
	"github.com/rocescope/rocescope/dissect"
)

// verdict is what a packet with a PSN that was passed before turns out to be.
type verdict uint8

const (
	sentAgain verdict = iota // by its requester
	copied                   // by the network or the capture
	late                     // overtaken on the way
	unclear                  // sent again or copied: the wire does not tell
)

// again takes a request below the expected PSN: sent again, copied on the way,
// or late.
func (t *Tracker) again(c *conn, d Direction, p *dissect.Packet, m *Mark, id ipidVerdict) {
	h := &c.half[d]
	rec := &t.rare(c).recovery[d]
	x := t.rare(c)
	s := x.count(d)
	g := t.gapAt(c, d, p.PSN)
	missing := g != nil && !g.again
	if !missing && t.insideRead(c, d, p, m) {
		return
	}
	if (id == ipidSilent || id == ipidNew) && rec.filled && rec.next == p.PSN.Add(1) {
		// What filled the gap was not the answer to the NAK; this is.
		rec.filled = false
		s.LostBeforeTap--
		t.retract(findLostBeforeTap, c, d)
		s.Reordered++
		s.Duplicates++
		rec.late.add(p.PSN, h.next)
		h.flags |= halfResending
		m.Bits |= MarkRetransmission
		return
	}
	v, cause := t.judge(c, d, p, g != nil, id)
	overtaken := g != nil && g.again && v == sentAgain && t.soon(c, d, g, p)
	if g != nil && g.again {
		n, _ := t.span(c, d, p)
		if overtaken { // it was only late; or, where the run goes on so, what came before it was early
			if p.PSN == g.from {
				n = g.to.Sub(g.from)
			}
			s.LostBeforeTap -= min(s.LostBeforeTap, uint64(t.requestsIn(h, p.PSN, p.PSN.Add(n))))
		}
		t.fillGap(c, d, p.PSN)
		t.fillSpan(c, d, p.PSN, n)
	}
	v, cause = t.doubtCopy(c, d, p, v, cause, id)
	n, _ := t.span(c, d, p)
	if p.Op().Family == dissect.Read {
		rec.reads.add(p.PSN, p.PSN.Add(n))
	}
	begins := false // a run of resends, and is not in the midst of one
	switch v {
	case copied:
		s.Duplicates++
		s.NetworkDuplicates++
		m.Bits |= MarkDuplicate
		t.report(findNetworkDuplicate, c, d, p, m, uint64(p.PSN))
		if id == ipidSilent {
			rec.copyNext, rec.copied = p.PSN.Add(n), true
			h.flags |= halfCopied
		}
		return
	case unclear:
		s.Ambiguous++
		if missing {
			rec.late.add(p.PSN, h.next)
			break
		}
		m.Bits |= MarkUnclear
		s.Duplicates++
		rec.copyNext, rec.copied = p.PSN.Add(n), false
		h.flags |= halfCopied
		return
	case late:
		t.reordered(c, d, p, m, missing, g)
	case sentAgain:
		m.Bits |= MarkRetransmission
		if !missing {
			s.Duplicates++
		}
		s.RetransmittedPackets++
		s.RetransmittedBytes += uint64(p.WireLen)
		switch hole := p.PSN.Sub(rec.next); {
		case overtaken:
		case h.flags&halfResending == 0 || hole != 0 && !rec.sameRun(p):
			if cause < NumCauses {
				s.Retransmissions[cause]++
			} else {
				s.Ambiguous++
			}
			begins = true
			t.resendRun(c, d, p, m, cause)
		case hole > 0 && !asks(p):
			t.holeInRun(c, d, p)
		}
		if e := &x.recovery[d].episode; e.active {
			e.packets++
			e.bytes += uint64(p.WireLen)
		}
		if missing {
			s.LostBeforeTap++
		}
		rec.filled = begins && missing && cause == CauseNAK && n == 1 && id == ipidSilent
		rec.cause = cause
		if next := p.PSN.Add(n); !overtaken || h.flags&halfResending == 0 || next.After(rec.next) {
			rec.next = next
		}
		h.flags |= halfResending
	}
	if missing {
		t.fillsGap(c, d, p, m, n)
		if _, i := t.find(h, p.PSN); i != 0 && v == sentAgain {
			t.open[i].Resends++
		}
		t.endUnacknowledged(c, d)
		return
	}
	t.repeated(c, d, p, m, begins, cause)
}

// doubtCopy takes back that a packet, or the one before it, is a copy made by the network, where that is not sure.
func (t *Tracker) doubtCopy(c *conn, d Direction, p *dissect.Packet, v verdict, cause Cause, id ipidVerdict) (verdict, Cause) {
	h := &c.half[d]
	rec := &t.rare(c).recovery[d]
	s := t.rare(c).count(d)
	if v == copied && id == ipidSilent && rec.unsure.has(p.PSN) {
		v = unclear
	}
	if v == copied && id == ipidSilent && h.flags&halfCopied != 0 && !rec.copied && p.PSN.After(rec.copyNext) {
		v = unclear // with the packet before it may have begun a resend, which arrives out of order
		rec.unsure.add(rec.copyNext, h.next)
	}
	copiedBefore := h.flags&halfCopied != 0 && p.PSN == rec.copyNext && id == ipidSilent
	h.flags &^= halfCopied
	if copiedBefore && (v == copied || v == unclear) { // two in a row are no lone copy
		if rec.copied {
			s.NetworkDuplicates--
			s.Ambiguous++
			t.retract(findNetworkDuplicate, c, d)
		}
		v, cause = unclear, NumCauses
		rec.unsure.add(p.PSN.Add(-1), h.next)
		if rec.nak.psn == p.PSN.Add(-1) && rec.nak.time != 0 { // the requester went back
			v, cause = sentAgain, CauseNAK
			s.Ambiguous--
			s.RetransmittedPackets++
			s.RetransmittedBytes += uint64(p.WireLen)
		}
	}
	return v, cause
}

// reordered counts a packet that others passed on the way, and takes back what its absence was taken for; g is its gap, if it was missing.
func (t *Tracker) reordered(c *conn, d Direction, p *dissect.Packet, m *Mark, missing bool, g *gap) {
	h := &c.half[d]
	rec := &t.rare(c).recovery[d]
	s := t.rare(c).count(d)
	rec.late.add(p.PSN, h.next)                      // a responder that does not reorder asks for what passed it, too
	if missing && g.naked && g.to == g.from.Add(1) { // the NAK was for want of what was on its way
		t.retract(findLostBeforeTap, c, d)
	}
	s.Reordered++
	if !missing { // its retransmission has overtaken it: it was not lost
		s.Duplicates++
		if s.LostBeforeTap > 0 {
			s.LostBeforeTap--
			t.retract(findLostBeforeTap, c, d)
		}
	}
	m.Bits |= MarkReordered
	t.report(findReordered, c, d, p, m, uint64(p.PSN), uint64(h.next.Sub(p.PSN)))
}

// fillsGap accounts for a request of n PSNs that the capture has not had before, in a gap.
func (t *Tracker) fillsGap(c *conn, d Direction, p *dissect.Packet, m *Mark, n int) {
	h := &c.half[d]
	rec := &t.rare(c).recovery[d]
	t.fillGap(c, d, p.PSN)
	i := t.place(c, d, p, m)
	f := &t.open[i]
	if p.Op().Family == dissect.Read {
		f.end = p.PSN.Add(n)
		t.fillSpan(c, d, p.PSN, n)
		rec.next = f.end
		f.Segments = 1
		h.depth++
	} else if f.needsAnswer() {
		h.depth++
	}
	t.sent(c, d, i, p, m)
	t.joinParts(c, d, i)
	if prev, _ := t.find(h, p.PSN); prev != 0 {
		t.joinParts(c, d, prev)
	}
}

// repeated notes at its message that a request was seen once more; begins says that a run of resends begins with it.
func (t *Tracker) repeated(c *conn, d Direction, p *dissect.Packet, m *Mark, begins bool, cause Cause) {
	h := &c.half[d]
	x := t.rare(c)
	rec := &x.recovery[d]
	_, i := t.find(h, p.PSN)
	if i == 0 { // settled before
		older := h.head != 0 && t.open[h.head].FirstPSN.Before(p.PSN) // that one, too, may be what it went back for
		asked := cause == CauseNAK && (p.PSN == rec.nak.psn || rec.late.has(p.PSN))
		if begins && p.Op().Family == dissect.Read && !rec.answers.has(p.PSN) && !rec.implied.has(p.PSN) && !older && !asked {
			rec.implied.add(p.PSN, h.next) // the answers behind it are dropped and asked for again, too
			x.count(d.Reverse()).LostBehindTap++
			t.report(findResponseLostBehind, c, d.Reverse(), p, m, uint64(p.PSN))
		}
		return
	}
	f := &t.open[i]
	if !f.psn.Before(p.PSN) {
		f.round++
		x.recovery[d].rounds = max(x.recovery[d].rounds, f.round)
	}
	f.psn = p.PSN
	f.Resends++
	f.LastSent, f.LastFrame = p.Time, p.Number
	f.WireBytes += uint64(p.WireLen)
	switch cause {
	case CauseTimeout:
		f.flags |= haveTimedOut
	case CauseRNR:
		f.flags |= haveRNR
	}
	m.Bits |= MarkMessage
	m.Message, m.Round = f.Index, f.round
	if f.Op == OpRead && p.Op().Family == dissect.Read {
		rec.next = f.end
		f.resumes++
		if begins { // what comes behind it in the run is asked for again for its sake
			t.resumeRead(c, d, f, p, m, cause)
		}
	}
}

// insideRead reports whether a request carries a PSN of a READ's answer and is
// no part of that READ: its requester has not counted the answer's packets.
func (t *Tracker) insideRead(c *conn, d Direction, p *dissect.Packet, m *Mark) bool {
	_, i := t.find(&c.half[d], p.PSN)
	if i == 0 {
		return false
	}
	f := &t.open[i]
	if f.Op != OpRead || p.PSN == f.FirstPSN || resumes(f, p) {
		return false
	}
	t.report(findReadSpan, c, d, p, m, uint64(f.end.Sub(f.FirstPSN)), uint64(f.FirstPSN), uint64(p.PSN))
	return true
}

// soon reports whether what fills a hole in a resend comes right behind it,
// unasked.
func (t *Tracker) soon(c *conn, d Direction, g *gap, p *dissect.Packet) bool {
	return t.rare(c).recovery[d].nak.time < g.time && p.Time-g.time < t.quick(c, d) && p.Number-g.frame <= maxOvertaken
}

// maxOvertaken is how many packets may overtake one of a resend.
const maxOvertaken = 8

// resumes reports whether a request inside a READ's span asks for a part of
// the same READ.
func resumes(f *inflight, p *dissect.Packet) bool {
	return p.Op().Family == dissect.Read && p.RKey == f.RKey && p.VA-f.VA < max(f.Bytes, 1)
}

// judge tells a retransmission from a copy and from a late packet, and a
// retransmission's cause.
func (t *Tracker) judge(c *conn, d Direction, p *dissect.Packet, missing bool, id ipidVerdict) (verdict, Cause) {
	h := &c.half[d]
	rec := &t.rare(c).recovery[d]
	if c.transport == dissect.UC { // nobody sends again
		if missing {
			return late, 0
		}
		return copied, 0
	}
	switch id {
	case ipidCopy:
		return copied, 0
	case ipidLate:
		return late, 0
	}
	age := p.Time - h.lastReq // at least so long ago it was sent
	half := t.quick(c, d)
	quick := age < half
	// What answers a resend, or a NAK, may make its requester go back once more.
	calm := !within(p.Time, rec.ended, settling*half) && (p.PSN.Before(rec.nak.psn) || !within(p.Time, rec.nak.time, settling*half))
	switch {
	case h.flags&halfResending != 0 && rec.sameRun(p):
		return sentAgain, rec.cause
	case c.evidence == Unpaired || c.evidence == Ambiguous:
		return sentAgain, NumCauses // its answers are not known: nothing says why
	case rec.nak.kind == nakSequence:
		return sentAgain, CauseNAK
	case rec.nak.kind == nakRNR && !p.PSN.After(rec.nak.psn):
		return sentAgain, CauseRNR
	case t.impliedNAK(h, rec, p.PSN):
		if age < leastTimeout {
			return sentAgain, NumCauses
		}
		return sentAgain, CauseTimeout
	case h.flags&halfAckSeen != 0 && p.PSN.Before(h.acked) && !t.unanswered(h, p.PSN):
		switch {
		case id == ipidSilent && quick && calm && !t.mayRetry(h, p):
			return copied, 0
		case id == ipidSilent && age < lateLimit:
			return unclear, 0
		}
		return sentAgain, CauseSpurious
	case id == ipidSilent && quick && calm && missing:
		return late, 0
	case id == ipidSilent && quick && calm && !t.mayRetry(h, p):
		return copied, 0
	case id == ipidSilent && age < lateLimit:
		return unclear, 0
	case age < leastTimeout:
		return sentAgain, NumCauses
	case quick && t.rare(c).count(d).Reordered > 0:
		return sentAgain, NumCauses // on a path that reorders, nothing says why
	}
	return sentAgain, CauseTimeout
}

// sameRun reports whether a packet goes on with the running resend: the next
// PSN, or one a little further on where the packets between were lost. A NAK
// that came meanwhile makes its requester go back, not forth.
func (rec *recovery) sameRun(p *dissect.Packet) bool {
	hole := p.PSN.Sub(rec.next)
	return hole == 0 || hole > 0 && hole <= maxHole && (rec.nak.kind == nakNone || rec.nak.psn.Before(rec.next))
}

// holeInRun notes that a part of a resend is missing in its turn.
func (t *Tracker) holeInRun(c *conn, d Direction, p *dissect.Packet) {
	x := t.rare(c)
	from := x.recovery[d].next
	if acked := c.half[d].acked; from.Before(acked) { // acknowledged in the meantime, so skipped
		from = acked
	}
	if !from.Before(p.PSN) {
		return
	}
	x.count(d).LostBeforeTap += uint64(t.requestsIn(&c.half[d], from, p.PSN))
	if len(x.gaps[d]) < maxGaps {
		x.gaps[d] = append(x.gaps[d], gap{from: from, to: p.PSN, time: p.Time, frame: p.Number, again: true})
	}
}

// requestsIn is how many packets the requests with PSNs from one up to another
// are: that of a READ stands for all PSNs of its answer.
func (t *Tracker) requestsIn(h *half, from, to dissect.PSN) int {
	n := to.Sub(from)
	for i := h.head; i != 0 && t.open[i].FirstPSN.Before(to); i = t.open[i].next {
		f := &t.open[i]
		if f.Op != OpRead || !f.end.After(from) {
			continue
		}
		first, end := f.FirstPSN, f.end
		if first.Before(from) {
			first = from
		}
		if end.After(to) {
			end = to
		}
		n -= max(end.Sub(first)-1, 0)
	}
	return n
}

// endRun ends a resend, for the requester goes on with what is new. What lies
// between and was neither sent again nor acknowledged was lost.
func (t *Tracker) endRun(c *conn, d Direction, p *dissect.Packet) {
	h := &c.half[d]
	if h.flags&halfResending == 0 {
		return
	}
	h.flags &^= halfResending
	rec := &t.extras[c.extras].recovery[d]
	rec.ended = h.lastReq
	if h.acked.After(rec.nak.psn) {
		rec.nak.kind = nakNone
	}
	if rec.filled || rec.cause >= CauseSpurious && rec.reads.has(rec.next.Add(-1)) { // of one packet, which may only have been late; of a READ alone
		return
	}
	if hole := p.PSN.Sub(rec.next); hole > 0 && hole <= maxHole && !rec.next.Before(h.acked) && !asks(p) {
		t.holeInRun(c, d, p)
	}
}

// asks reports whether a request is one that is answered with data: going back
// over such requests skips those that were answered.
func asks(p *dissect.Packet) bool {
	f := p.Op().Family
	return f != dissect.Send && f != dissect.Write
}

// maxHole is how many packets of a resend may be missing before it is taken
// for another one.
const maxHole = 64

// unanswered reports whether the PSN is of a READ or atomic that still waits
// for its answer.
func (t *Tracker) unanswered(h *half, p dissect.PSN) bool {
	_, i := t.find(h, p)
	return i != 0 && t.open[i].needsAnswer()
}

// mayRetry reports whether a request is a READ that was answered, if only in
// part: its requester may have missed some of that, and ask again at once.
func (t *Tracker) mayRetry(h *half, p *dissect.Packet) bool {
	if p.Op().Family != dissect.Read {
		return false
	}
	_, i := t.find(h, p.PSN)
	return i == 0 || t.open[i].respMax != t.open[i].FirstPSN || p.PSN != t.open[i].FirstPSN
}

// impliedNAK reports whether the PSN is of a READ or atomic whose answer was
// missing when one behind it came, or behind it: its requester asks again at
// once (IBA 9.7.5.2.8), and drops the answers behind.
func (t *Tracker) impliedNAK(h *half, rec *recovery, p dissect.PSN) bool {
	if rec.implied.has(p) {
		return true
	}
	_, i := t.find(h, p)
	return i != 0 && t.open[i].needsAnswer() && t.open[i].missing > 0
}

// leastTimeout is the shortest time in which a requester can give up waiting:
// 4.096 µs × 2^n with n of at least 1 (IBA 9.7.6.1.3).
const leastTimeout = 8_192

// lateLimit is how long a packet may be on its way that later ones have passed;
// what comes behind it was sent again.
const lateLimit = 500_000

// defaultQuick is taken for half a round trip where none was measured.
const defaultQuick = 50_000

// settling is for how many halves of a round trip behind a resend its answers
// still arrive, on either side of the tap.
const settling = 8

// within reports whether something happened, if it did, not longer ago than that.
func within(now, then, long int64) bool { return then != 0 && now-then < long }

// quick is a time in which no requester sends again: half of the shortest
// round trip seen.
func (t *Tracker) quick(c *conn, d Direction) int64 {
	if x := t.extrasOf(c); x != nil && x.lat[d] != nil && x.lat[d].rtt > 0 {
		return x.lat[d].rtt / 2
	}
	return defaultQuick
}

// resendRun takes the first packet of a run that is sent again: it says where
// the loss was, and ends the NAK that it answers.
func (t *Tracker) resendRun(c *conn, d Direction, p *dissect.Packet, m *Mark, cause Cause) {
	rec := &t.rare(c).recovery[d]
	switch cause {
	case CauseRNR:
		t.rare(c).count(d.Reverse()).RNRWait += duration(p.Time - rec.nak.time)
		t.checkRNRWait(c, d, p, m)
		rec.nak.kind = nakNone
		t.report(findRetransmission, c, d, p, m, uint64(cause), uint64(p.PSN))
	case CauseNAK:
		if rec.nak.psn == p.PSN {
			t.turnRound(c, d, p.Time-rec.nak.time)
		}
		if rec.nak.two && rec.nak.psn != p.PSN {
			rec.nak.two = false // its requester goes back for either
		} else {
			rec.nak.kind = nakNone
		}
		t.report(findRetransmission, c, d, p, m, uint64(cause), uint64(p.PSN))
	case CauseTimeout:
		t.report(findTimeout, c, d, p, m, uint64(p.PSN), uint64(p.Time-c.half[d].lastReq))
		t.beginEpisode(c, d, findTimeout, d, c.half[d].lastReq)
		t.rare(c).recovery[d].timeouts.add(p.Time - c.half[d].lastReq)
	case CauseSpurious:
		if p.Op().Family != dissect.Read { // a READ has findings of its own
			t.report(findSpurious, c, d, p, m, uint64(p.PSN))
		}
	}
}
