package flows

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
)

func roundDuration(ns int64) time.Duration {
	d := time.Duration(ns)
	switch {
	case d > time.Second:
		return d.Round(time.Millisecond)
	case d > time.Millisecond:
		return d.Round(time.Microsecond)
	}
	return d
}

// dropped takes a packet of a connection that its receiver drops without a
// word, for its ICRC or its BTH: it moves nothing. It returns false for others.
func (t *Tracker) dropped(c *conn, d Direction, p *dissect.Packet) bool {
	id, arg, wrong := whyDropped(p)
	if wrong {
		if id == findBadICRC {
			t.rare(c).count(d).BadICRC++
		}
		t.reportAt(id, c, d, p.Number, p.Time, arg)
	}
	return wrong
}

func whyDropped(p *dissect.Packet) (id FindingID, arg uint64, wrong bool) {
	switch {
	case p.ICRC == dissect.ICRCInvalid:
		return findBadICRC, uint64(p.PSN), true
	case p.TVer() != 0:
		return findTVer, uint64(p.TVer()), true
	case p.Op().Family == dissect.Reserved:
		return findOpcode, uint64(p.Opcode), true
	}
	return 0, 0, false
}

// dropPacket takes a packet that its receiver drops. ref is its stream's, 0 where
// there is none; such a packet makes none.
func (t *Tracker) dropPacket(ref streamRef, p *dissect.Packet, m *Mark) {
	m.Bits |= MarkFinding
	if ref == 0 {
		t.share.name(p.Dst, destination(p))
		id, arg, _ := whyDropped(p)
		t.addFinding(&Finding{ID: id, Frame: p.Number, Time: p.Time, Count: 1, Args: [4]uint64{arg}, Where: p.Src.String() + " → " + p.Dst.String()})
		return
	}
	c := t.conn(ref.slot())
	m.Conn, m.Direction = c.id, ref.direction()
	t.dropped(c, ref.direction(), p)
	if s := t.seekers[ref.slot()]; s != nil && c.flags&connProvisional != 0 && len(s.hold) < maxHold-1 && t.held < maxHeld-1 {
		t.hold(s, p)
	}
}

// lengths checks pad and payload of a packet against its opcode and the path
// MTU.
func (t *Tracker) lengths(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	n, pad := p.PayloadLen(), int(p.PadCount)
	if len(p.Problems()) > 0 {
		for _, q := range p.Problems() {
			switch q.Code {
			case dissect.ProblemPad:
				t.report(findPad, c, d, p, m, uint64(p.BTHFlags>>12&3), uint64(n))
			case dissect.ProblemPayload:
				t.report(findPayloadLength, c, d, p, m, uint64(p.Opcode), uint64(n))
			}
		}
	}
	if (n+pad)&3 != 0 && p.Has(dissect.LayerICRC) {
		t.report(findPad, c, d, p, m, uint64(pad), uint64(n))
	}
	r := d
	if p.Op().Role == dissect.Response {
		r = d.Reverse()
	}
	mtu := c.half[r].mtuBytes()
	if mtu == 0 || n == mtu || r != d && t.tooSmall(c, r, p) {
		return
	}
	switch p.Op().Payload {
	case dissect.FullMTU:
		t.report(findPayloadMTU, c, d, p, m, uint64(n), uint64(mtu))
	case dissect.OneToMTU, dissect.UpToMTU:
		if n > mtu && c.transport != dissect.UD {
			t.report(findPayloadMTU, c, d, p, m, uint64(n), uint64(mtu))
		}
	}
}

// checkOrder checks whether a packet that no open message goes on with may
// stand where it does. before is the message in front of it, 0 without.
func (t *Tracker) checkOrder(c *conn, d Direction, p *dissect.Packet, m *Mark, before uint32) {
	h := &c.half[d]
	op := p.Op()
	if before != 0 {
		if f := &t.open[before]; f.end != p.PSN {
			return // packets between are missing
		} else if f.flags&(haveStart|haveHole|haveEnd) == haveStart {
			t.report(findOpcodeOrder, c, d, p, m, uint64(p.Opcode), uint64(h.prevOp), uint64(p.PSN))
			return
		}
	}
	if op.Starts() || p.PSN == h.first && h.flags&halfAnnounced == 0 || t.gapBefore(c, d, p.PSN) {
		return
	}
	if h.prevOp.Info().Ends() && h.flags&halfMidStart == 0 {
		t.report(findOpcodeOrder, c, d, p, m, uint64(p.Opcode), 256, uint64(p.PSN))
	}
}

// checkLength checks a message that was seen whole against its RETH.
func (t *Tracker) checkLength(c *conn, d Direction, f *inflight, p *dissect.Packet, m *Mark) {
	if f.Op != OpWrite || f.flags&(haveStart|haveHole) != haveStart || f.Seen == f.Bytes {
		return
	}
	if f.end.Sub(f.FirstPSN) != int(f.Segments) {
		return
	}
	t.report(findMessageLength, c, d, p, m, f.Bytes, f.Seen, uint64(f.FirstPSN))
}

// checkDepth checks the READs and atomics outstanding against what the
// responder agreed to.
func (t *Tracker) checkDepth(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	x := t.extrasOf(c)
	if x == nil || !x.neg[d.Reverse()].Set {
		return
	}
	if limit := x.neg[d.Reverse()].ResponderResources; limit > 0 && int(c.half[d].depth) > limit {
		t.report(findReadDepth, c, d, p, m, uint64(c.half[d].depth), uint64(limit))
	}
}

// rnrSlack is what a requester may be short of the RNR timer without a
// finding: timers are coarse, and one stack's table has 61.41 ms for 61.44.
const rnrSlack = 100_000

// checkRNRWait compares the wait behind an RNR NAK with its timer.
func (t *Tracker) checkRNRWait(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	rec := &t.rare(c).recovery[d]
	asked := int64(dissect.RNRTimer(rec.nak.timer))
	if rec.nak.two {
		return // it may be the sequence NAK that it answers
	}
	if waited := p.Time - rec.nak.time; waited+rnrSlack < asked {
		t.report(findRNREarly, c, d, p, m, uint64(max(waited, 0)), uint64(asked))
	}
}

// atomicAnswer is one answer to an atomic, kept to compare a replay with.
type atomicAnswer struct {
	psn  dissect.PSN
	orig uint64
}

// maxAnswers is how many atomic answers are kept of a requester.
const maxAnswers = 32

// compareAtomic compares an answer with an earlier one to the same request.
func (t *Tracker) compareAtomic(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	x := t.rare(c)
	for _, a := range x.origs[r] {
		if a.psn == p.PSN {
			if a.orig != p.Orig {
				t.report(findAtomicReplay, c, r.Reverse(), p, m, uint64(p.PSN), a.orig, p.Orig)
			}
			return
		}
	}
	if len(x.origs[r]) >= maxAnswers {
		copy(x.origs[r], x.origs[r][1:])
		x.origs[r] = x.origs[r][:maxAnswers-1]
	}
	x.origs[r] = append(x.origs[r], atomicAnswer{p.PSN, p.Orig})
}

// longRNR is the wait above which an RNR NAK is a finding of its own.
const longRNR = 10 * time.Millisecond

// checkMSN compares the responder's MSN with the messages that it completed.
// It does so only where nothing is open, so that an answer that covers some
// messages and not others cannot mislead.
func (t *Tracker) checkMSN(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[r]
	if h.openCount != 0 || p.PSN.Add(1) != h.next {
		return
	}
	if h.flags&halfMSN != 0 && t.clean(c, r) {
		if got, want := p.MSN.Sub(h.msn), int(h.index-h.msnIndex); got != want {
			t.report(findMSN, c, r.Reverse(), p, m, uint64(uint32(got)), uint64(want), uint64(p.PSN))
		}
	}
	h.flags |= halfMSN
	h.msn, h.msnIndex = p.MSN, h.index
}

// clean reports whether a requester's messages are all known whole: no request
// is missing, none was refused.
func (t *Tracker) clean(c *conn, r Direction) bool {
	if c.half[r].flags&(halfDead|halfMidStart) != 0 {
		return false
	}
	x := t.extrasOf(c)
	return x == nil || len(x.gaps[r]) == 0 && (x.counters[r] == nil || x.counters[r].CaptureLost == 0)
}
