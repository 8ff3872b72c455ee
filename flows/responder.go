package flows

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// response follows a packet of a responder. d is the packet's own direction:
// the requests that it answers went the other way.
func (t *Tracker) response(c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark, id ipidVerdict) {
	r := d.Reverse()
	h := &c.half[r]
	if h.flags&halfResponses == 0 {
		h.flags |= halfResponses
		h.respFrame = p.Number
		t.note(c, d, dissect.Response, p)
	}
	op := p.Op()
	if h.flags&halfRequests != 0 {
		m.Bits |= MarkPSN
		m.PSNOffset = uint32(p.PSN.Add(-int(h.first)))
	}
	if op.Has(dissect.LayerAETH) {
		t.countSyndrome(c, d, p, m)
	}
	if h.flags&halfRequests == 0 {
		if c.flags&connProvisional == 0 {
			t.stray(p)
		}
		return // its requests are not in the capture, or not known to be
	}
	if !p.PSN.Before(h.next) && h.flags&halfSpanOpen == 0 {
		t.ghost(c, r, p, m)
		return
	}
	if p.PSN.Before(h.first) {
		t.stray(p)
	}
	t.dispatch(c, r, p, m, id)
}

// dispatch acts on an answer whose request was seen.
func (t *Tracker) dispatch(c *conn, r Direction, p *dissect.Packet, m *Mark, id ipidVerdict) {
	switch p.Op().Family {
	case dissect.Acknowledge:
		switch p.Syndrome.Kind() {
		case dissect.KindACK:
			t.acknowledge(c, r, p.PSN, true, p, m)
			t.checkMSN(c, r, p, m)
		case dissect.KindRNR:
			t.acknowledge(c, r, p.PSN.Add(-1), false, p, m)
			t.rnr(c, r, p, m)
		case dissect.KindNAK:
			t.acknowledge(c, r, p.PSN.Add(-1), false, p, m)
			t.nak(c, r, p, m)
		}
	case dissect.AtomicAcknowledge:
		t.acknowledge(c, r, p.PSN.Add(-1), false, p, m)
		t.atomicAnswer(c, r, p, m)
	case dissect.Read:
		t.readResponse(c, r, p, m, id)
	}
}

// countSyndrome counts what the AETH says.
func (t *Tracker) countSyndrome(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	if p.Op().Family != dissect.Acknowledge {
		return
	}
	switch p.Syndrome.Kind() {
	case dissect.KindACK:
		if c.stream[d].acks++; c.stream[d].acks >= carryAt {
			t.rare(c).count(d).Acks += uint64(c.stream[d].acks)
			c.stream[d].acks = 0
		}
		if credits, ok := dissect.Credits(p.Syndrome.Value()); ok {
			x := t.rare(c)
			x.credits[d.Reverse()] = creditLimit{known: true, credits: credits, limit: p.MSN.Add(credits)}
		}
	case dissect.KindRNR:
		m.Bits |= MarkRNR
		t.rare(c).count(d).RNRNAKs++
		t.report(findRNR, c, d, p, m, uint64(p.PSN), uint64(p.Syndrome.Value()))
		if dissect.RNRTimer(p.Syndrome.Value()) > longRNR {
			t.report(findRNRLong, c, d, p, m, uint64(p.Syndrome.Value()))
		}
	case dissect.KindNAK:
		m.Bits |= MarkNAK
		if code := p.Syndrome.NAK(); code < dissect.NumNAKCodes {
			t.rare(c).count(d).NAKs[code]++
		} else {
			t.rare(c).count(d).ReservedSyndromes++
			t.report(findReservedSyndrome, c, d, p, m, uint64(p.Syndrome))
		}
	default:
		t.rare(c).count(d).ReservedSyndromes++
		t.report(findReservedSyndrome, c, d, p, m, uint64(p.Syndrome))
	}
}

// acknowledge settles the SENDs and WRITEs up to and including a PSN. explicit
// is false where the PSN is implied by a NAK or a response.
func (t *Tracker) acknowledge(c *conn, r Direction, psn dissect.PSN, explicit bool, p *dissect.Packet, m *Mark) {
	h := &c.half[r]
	if psn.Before(h.acked) {
		return // an old ACK moves nothing
	}
	h.acked = psn.Add(1)
	h.flags |= halfAckSeen
	if x := t.extrasOf(c); x != nil {
		x.doubts = 0
		t.arrived(c, r, psn)
		for i := 0; i < len(x.gaps[r]); i++ {
			switch g := &x.gaps[r][i]; {
			case !psn.Before(g.to.Add(-1)):
				g.acked = true
			case !psn.Before(g.from): // a part of it
				rest := *g
				rest.from, g.to, g.acked = psn.Add(1), psn.Add(1), true
				x.gaps[r] = slices.Insert(x.gaps[r], i+1, rest)
			}
		}
		t.boundGaps(c, r)
	}
	var prev uint32
	for i := h.head; i != 0; {
		f := &t.open[i]
		next := f.next
		if f.FirstPSN.After(psn) {
			break
		}
		switch {
		case f.needsAnswer():
			f.flags |= haveAcked
			t.rare(c).recovery[r].implied.add(f.FirstPSN, h.next)
			prev = i
		case psn.Before(f.end.Add(-1)),
			f.flags&haveEnd == 0 && (next == 0 || psn.Before(t.open[next].FirstPSN.Add(-1))):
			prev = i // a part only
		default:
			f.Completed, f.AnswerFrame = p.Time, p.Number
			f.Coalesced = !explicit || f.end.Add(-1) != psn
			if explicit && !f.Coalesced && f.Resends == 0 {
				t.roundTrip(c, r, p.Time-f.LastSent)
			}
			t.settleMessage(c, r, prev, i, StatusSuccess, false)
		}
		i = next
	}
	t.recovered(c, r, p.Time)
}

// arrived takes back that a request was lost behind the tap, where an answer to
// it, or to one behind it, comes before it was sent again: it was overtaken
// there, and with it what had passed it is asked for again.
func (t *Tracker) arrived(c *conn, r Direction, psn dissect.PSN) {
	x := t.rare(c)
	nak := &x.recovery[r].nak
	if nak.kind != nakSequence || !nak.behind || psn.Before(nak.psn) {
		return
	}
	nak.behind = false
	x.recovery[r].late.add(nak.psn, c.half[r].next)
	x.count(r).LostBehindTap--
	t.retract(findLostBehindTap, c, r)
}

// nak acts on a NAK.
func (t *Tracker) nak(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[r]
	d := r.Reverse()
	code := p.Syndrome.NAK()
	if code == dissect.NAKSequence {
		t.sequenceNAK(c, r, p, m)
		return
	}
	status := StatusRemInvReq
	switch code {
	case dissect.NAKRemoteAccess:
		status = StatusRemAccess
	case dissect.NAKRemoteOperational:
		status = StatusRemOp
	case dissect.NAKInvalidRD:
		status = StatusRemInvRD
	case dissect.NAKInvalidRequest:
	default:
		return
	}
	if h.flags&halfDead != 0 {
		return // told again
	}
	h.flags |= halfDead
	prev, i := t.find(h, p.PSN)
	args := [4]uint64{uint64(p.PSN), 0, 0, 0}
	if i != 0 {
		f := &t.open[i]
		args[1], args[2], args[3] = f.VA, uint64(f.RKey), f.Bytes
		f.Completed, f.AnswerFrame = p.Time, p.Number
		t.settleMessage(c, r, prev, i, status, false)
	}
	t.report(nakFinding(code), c, d, p, m, args[:]...)
	t.step(c, r, StateError, p, "requester got a fatal NAK", false)
	t.step(c, d, StateError, p, "responder sent a fatal NAK", false)
}

// sequenceNAK acts on a NAK for a PSN sequence error: it says that a packet did
// not arrive, and this tap says whether it came past here.
func (t *Tracker) sequenceNAK(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[r]
	rec := &t.rare(c).recovery[r]
	repeated := rec.nak.kind == nakSequence && rec.nak.psn == p.PSN
	behindRNR := rec.nak.kind == nakRNR && !rec.nak.psn.After(p.PSN)
	if behindRNR {
		return // what was in flight behind a refused message: one episode
	}
	two := rec.nak.kind == nakSequence && !repeated
	rec.nak = lastNAK{psn: p.PSN, kind: nakSequence, two: two, time: p.Time, frame: p.Number}
	if repeated {
		return
	}
	if g := t.gapAt(c, r, p.PSN); g != nil {
		g.naked = true
		t.report(findLostBeforeTap, c, r, p, m, uint64(p.PSN), uint64(g.to.Sub(g.from)), g.frame)
		t.beginEpisode(c, r, findLostBeforeTap, r, g.time)
		return
	}
	sentAgain := !(rec.filled && p.PSN == rec.next) // what filled the gap may have been late, and nothing was sent again behind it
	if p.PSN.Before(h.next) && !rec.late.has(p.PSN) && sentAgain {
		rec.nak.behind = true
		t.rare(c).count(r).LostBehindTap++
		t.report(findLostBehindTap, c, r, p, m, uint64(p.PSN))
		t.beginEpisode(c, r, findLostBehindTap, r, p.Time)
	}
}

func (t *Tracker) rnr(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	rec := &t.rare(c).recovery[r]
	rec.nak = lastNAK{
		psn: p.PSN, kind: nakRNR, timer: p.Syndrome.Value(), time: p.Time, frame: p.Number, two: rec.nak.kind == nakSequence,
	}
}

// atomicAnswer settles an atomic.
func (t *Tracker) atomicAnswer(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[r]
	if !p.PSN.Before(h.acked) {
		h.acked = p.PSN.Add(1)
		h.flags |= halfAckSeen
	}
	t.compareAtomic(c, r, p, m)
	t.arrived(c, r, p.PSN)
	prev, i := t.find(h, p.PSN)
	if i == 0 {
		return // a replay of an answer that came already
	}
	t.passesOver(c, r, prev)
	f := &t.open[i]
	m.Bits |= MarkMessage
	m.Message = f.Index
	f.Orig, f.HasOrig = p.Orig, true
	f.Completed, f.AnswerFrame = p.Time, p.Number
	f.WireBytes += uint64(p.WireLen)
	t.roundTrip(c, r, p.Time-f.LastSent)
	t.settleMessage(c, r, prev, i, StatusSuccess, false)
	t.recovered(c, r, p.Time)
}

// passesOver notes that an answer came although the one to the oldest open
// message is missing, where there is any before it: the requester drops it, and
// asks again from there on.
func (t *Tracker) passesOver(c *conn, r Direction, before uint32) {
	h := &c.half[r]
	if before != 0 && t.open[h.head].needsAnswer() {
		t.rare(c).recovery[r].implied.add(t.open[h.head].FirstPSN, h.next)
	}
}

// findRead returns the open message that an answer belongs to, and the one
// before it: the one that holds its PSN, or the newest READ while its span is
// not known.
func (t *Tracker) findRead(h *half, p dissect.PSN) (prev, i uint32) {
	if prev, i = t.find(h, p); i != 0 || h.flags&halfSpanOpen == 0 || h.tail == 0 {
		return prev, i
	}
	if f := &t.open[h.tail]; f.Op != OpRead || f.FirstPSN.After(p) {
		return 0, 0
	}
	for prev, i = 0, h.head; i != h.tail; i = t.open[i].next {
		prev = i
	}
	return prev, i
}

// readResponse takes one packet of a READ's answer (also that of FLUSH and
// ATOMIC WRITE).
func (t *Tracker) readResponse(c *conn, r Direction, p *dissect.Packet, m *Mark, id ipidVerdict) {
	h := &c.half[r]
	d := r.Reverse()
	op := p.Op()
	t.learnMTU(c, r, p)
	if t.extrasOf(c) != nil {
		t.arrived(c, r, p.PSN)
	}
	_, i := t.findRead(h, p.PSN)
	if i == 0 {
		if t.gapAt(c, r, p.PSN) == nil { // else its request was never seen
			t.repeatedResponse(c, d, p, m, id)
		}
		return
	}
	if !t.open[i].needsAnswer() {
		return
	}
	t.acknowledge(c, r, t.open[i].FirstPSN.Add(-1), false, p, m)
	prev, i := t.findRead(h, p.PSN) // the list has changed, but the READ is still in it
	t.passesOver(c, r, prev)
	f := &t.open[i]
	if h.flags&halfSpanOpen != 0 && i == h.tail && h.mtuBytes() != 0 {
		n := int((f.Bytes + uint64(h.mtuBytes()) - 1) / uint64(h.mtuBytes()))
		f.end = f.FirstPSN.Add(max(n, 1))
		if h.next.Before(f.end) {
			h.next = f.end
		}
		h.flags &^= halfSpanOpen
	}
	m.Bits |= MarkMessage
	m.Message, m.Round = f.Index, f.resumes
	if f.respNext == f.FirstPSN && f.respMax == f.FirstPSN && f.Resends == 0 {
		t.roundTrip(c, r, p.Time-f.LastSent)
	}
	switch diff := p.PSN.Sub(f.respMax); {
	case diff == 0:
		if f.Resends == 0 && p.PSN.Before(h.acked) && id != ipidNew { // answers to later requests have overtaken it
			t.lateAnswer(c, d, p, m, p.PSN.Add(1))
		}
		if f.missing == 0 {
			f.respNext = p.PSN.Add(1)
		}
		f.respMax = p.PSN.Add(1)
		f.Seen += uint64(p.PayloadLen())
	case diff > 0:
		m.Bits |= MarkAfterGap
		t.rare(c).count(d).OutOfOrder++
		f.missing += uint32(diff)
		t.rare(c).recovery[r].implied.add(f.FirstPSN, h.next)
		f.respMax = p.PSN.Add(1)
		f.Seen += uint64(p.PayloadLen())
		t.report(findResponseGap, c, d, p, m, uint64(diff), uint64(p.PSN.Add(-diff)))
	case f.missing > 0 && p.PSN == f.respNext:
		if f.resumes > 0 && id != ipidLate {
			m.Bits |= MarkRetransmission
			t.rare(c).count(d).RetransmittedPackets++
		} else {
			t.lateAnswer(c, d, p, m, f.respMax)
		}
		f.missing--
		f.toldLost = min(f.toldLost, f.missing)
		f.respNext = p.PSN.Add(1)
		f.Seen += uint64(p.PayloadLen())
		if f.missing == 0 {
			f.respNext = f.respMax
		}
	default:
		t.repeatedResponse(c, d, p, m, id)
		if f.missing > 0 && f.resumes > 0 && !p.PSN.Before(f.respNext) {
			f.respNext = p.PSN.Add(1)
			f.missing--
			if f.missing == 0 {
				f.respNext = f.respMax
			}
		}
	}
	f.WireBytes += uint64(p.WireLen)
	f.AnswerFrame = p.Number
	if op.Ends() && f.end == p.PSN.Add(1) && !p.PSN.Before(h.acked) {
		h.acked = p.PSN.Add(1)
		h.flags |= halfAckSeen
	}
	if f.missing == 0 && f.respMax == f.end {
		f.Completed = p.Time
		t.settleMessage(c, r, prev, i, StatusSuccess, false)
		t.recovered(c, r, p.Time)
	}
}

// repeatedResponse counts an answer that was seen before. A responder sends it
// again only when it is asked again.
func (t *Tracker) repeatedResponse(c *conn, d Direction, p *dissect.Packet, m *Mark, id ipidVerdict) {
	s := t.rare(c).count(d)
	if id == ipidSilent && !t.rare(c).recovery[d.Reverse()].reads.has(p.PSN) {
		if p.Time-c.stream[d].lastSeen >= t.quick(c, d.Reverse()) {
			m.Bits |= MarkUnclear
			s.Ambiguous++
			return
		}
		id = ipidCopy
	}
	switch id {
	case ipidCopy:
		s.NetworkDuplicates++
		m.Bits |= MarkDuplicate
		return
	case ipidLate: // its retransmission has overtaken it
		t.lateAnswer(c, d, p, m, p.PSN.Add(1))
		return
	}
	s.RetransmittedPackets++
	s.RetransmittedBytes += uint64(p.WireLen)
	m.Bits |= MarkRetransmission
}

// lateAnswer takes a READ response that others, those before to, have overtaken:
// its requester may ask for them again although nothing is lost.
func (t *Tracker) lateAnswer(c *conn, d Direction, p *dissect.Packet, m *Mark, to dissect.PSN) {
	x := t.rare(c)
	m.Bits |= MarkReordered
	x.count(d).Reordered++
	x.recovery[d.Reverse()].answers.add(p.PSN, to)
}

// resumeRead takes a READ request inside the span of one that is not answered
// in full: the same message, asking for the rest.
func (t *Tracker) resumeRead(c *conn, d Direction, f *inflight, p *dissect.Packet, m *Mark, cause Cause) {
	s := t.rare(c).count(d.Reverse())
	switch rec := &t.rare(c).recovery[d]; {
	case cause == CauseNAK && (p.PSN == rec.nak.psn || rec.late.has(p.PSN)): // it was the request that was missed
	case f.missing > f.toldLost:
		s.LostBeforeTap += uint64(f.missing - f.toldLost)
		t.report(findResponseLost, c, d.Reverse(), p, m, uint64(f.missing-f.toldLost), uint64(f.respNext))
		t.beginEpisode(c, d, findResponseLost, d.Reverse(), p.Time)
		f.toldLost = f.missing
	case f.missing > 0:
	case p.PSN.Before(f.respMax) && (rec.answers.has(p.PSN) || rec.implied.has(p.PSN)): // it came late, or before its turn
	case p.PSN.Before(f.respMax):
		s.LostBehindTap++
		t.report(findResponseLostBehind, c, d.Reverse(), p, m, uint64(p.PSN))
	case f.respMax != f.FirstPSN: // the first part came, so the request had arrived
		n := uint64(f.end.Sub(f.respMax))
		s.LostBeforeTap += n
		t.report(findResponseLost, c, d.Reverse(), p, m, n, uint64(f.respMax))
	case cause == CauseTimeout:
		s.Ambiguous++ // the request or its answer: this tap does not show which
	}
}
