package flows

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
)

// maxJump is the greatest gap of PSNs that is taken for missing packets; what
// lies further away begins a new sequence.
const maxJump = 1 << 16

// request follows a packet of a requester: where it stands in the sequence of
// PSNs, and which message it is of.
func (t *Tracker) request(c *conn, d Direction, p *dissect.Packet, frame []byte, m *Mark, id ipidVerdict) {
	h := &c.half[d]
	if h.flags&halfRequests == 0 {
		t.firstRequest(c, d, p, m)
	}
	if c.transport == dissect.UD {
		t.datagram(c, d, p, m)
		return
	}
	m.Bits |= MarkPSN
	m.PSNOffset = uint32(p.PSN.Add(-int(h.first)))
	diff := p.PSN.Sub(h.next)
	if h.flags&halfSpanOpen != 0 && diff != 0 {
		diff = t.closeSpan(c, d, p, diff)
	}
	t.learnMTU(c, d, p)
	if diff >= 0 {
		h.flags &^= halfCopied
	}
	if answer := c.stream[d.Reverse()].lastSeen; h.openCount == 0 && answer > h.lastReq {
		t.turnRound(c, d, p.Time-answer)
	}
	switch {
	case diff == 0:
		t.endRun(c, d, p)
		t.inOrder(c, d, p, m)
	case diff > 0 && diff <= maxJump:
		t.openGap(c, d, h.next, p, m)
		h.flags &^= halfResending
		t.inOrder(c, d, p, m)
	case diff < 0 && diff >= -maxJump:
		t.again(c, d, p, m, id)
	default:
		t.jump(c, d, p, m, diff)
	}
	h.lastReq = p.Time
}

// firstRequest begins a requester's sequence.
func (t *Tracker) firstRequest(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[d]
	h.flags |= halfRequests
	h.reqFrame = p.Number
	t.note(c, d, dissect.Request, p)
	if h.flags&halfAnnounced != 0 {
		if diff := p.PSN.Sub(h.first); diff >= 0 && diff <= maxJump {
			return // what is missing before it is a gap
		}
		if c.transport != dissect.UD {
			t.report(findPSNStart, c, d, p, m, uint64(h.first), uint64(p.PSN))
		}
	}
	h.first, h.next, h.acked = p.PSN, p.PSN, p.PSN
	if !p.Op().Starts() {
		h.flags |= halfMidStart
	}
}

// jump begins the sequence anew behind a leap that no loss explains.
func (t *Tracker) jump(c *conn, d Direction, p *dissect.Packet, m *Mark, diff int) {
	h := &c.half[d]
	t.report(findPSNJump, c, d, p, m, uint64(h.next), uint64(p.PSN))
	t.settleHalf(c, d)
	t.leap(c, d, h.next)
	h.first, h.next, h.acked = p.PSN, p.PSN, p.PSN
	h.flags &^= halfAckSeen | halfMSN | halfResending | halfSpanOpen
	if x := t.extrasOf(c); x != nil {
		x.recovery[d].nak = lastNAK{}
	}
	m.PSNOffset = 0
	t.inOrder(c, d, p, m)
}

// learnMTU takes the path MTU of the requester in direction d from packets that must be full.
func (t *Tracker) learnMTU(c *conn, d Direction, p *dissect.Packet) {
	h := &c.half[d]
	if h.mtu>>4 != 0 || p.Op().Payload != dissect.FullMTU {
		return
	}
	code := mtuCode(p.PayloadLen())
	h.mtu |= code << 4
	switch guess := h.mtu & 15; {
	case guess == 0:
		h.setMTU(code)
	case h.flags&halfGuessedMTU != 0 && code != 0:
		h.setMTU(code)
		if guess != code {
			t.respan(c, d, p)
		}
	}
}

// span is how many PSNs a request takes; known is false for a READ whose
// answer's length in packets hangs on a path MTU that is not known.
func (t *Tracker) span(c *conn, d Direction, p *dissect.Packet) (n int, known bool) {
	op := p.Op()
	if op.Family != dissect.Read {
		return 1, true
	}
	mtu := c.half[d].mtuBytes()
	if mtu == 0 {
		mtu = c.half[d.Reverse()].mtuBytes()
	}
	switch {
	case p.DMALen <= 256:
		return 1, true
	case mtu == 0:
		return 1, false
	}
	return int((uint64(p.DMALen) + uint64(mtu) - 1) / uint64(mtu)), true
}

// closeSpan derives a READ's span, and with it the path MTU, from the PSN of
// the request behind it.
func (t *Tracker) closeSpan(c *conn, d Direction, p *dissect.Packet, diff int) int {
	h := &c.half[d]
	i := h.tail
	if diff < 0 || i == 0 || t.open[i].Op != OpRead {
		return diff
	}
	f := &t.open[i]
	n := p.PSN.Sub(f.FirstPSN)
	for code := uint8(1); code <= 5; code++ {
		mtu := uint64(dissect.MTUBytes(code))
		if (f.Bytes+mtu-1)/mtu == uint64(n) {
			h.setMTU(code)
			h.flags |= halfGuessedMTU // packets between may be missing
			h.next, f.end = p.PSN, p.PSN
			h.flags &^= halfSpanOpen
			return 0
		}
	}
	return diff
}

// tooSmall reports that a packet of an answer is larger than the path MTU, which was a guess. Then it is forgotten.
func (t *Tracker) tooSmall(c *conn, d Direction, p *dissect.Packet) bool {
	h := &c.half[d]
	if h.flags&halfGuessedMTU == 0 || p.PayloadLen() <= h.mtuBytes() {
		return false
	}
	h.setMTU(0)
	t.respan(c, d, p)
	return true
}

// respan corrects the spans of open READs that rest on a guess of the path MTU, which p disproved. The PSNs behind their real ends
// are of packets that are missing.
func (t *Tracker) respan(c *conn, d Direction, p *dissect.Packet) {
	h := &c.half[d]
	for i := h.head; i != 0; i = t.open[i].next {
		f := &t.open[i]
		end := f.FirstPSN.Add(1) // without an MTU: that of an answer of one packet, as p is
		if mtu := uint64(h.mtuBytes()); mtu != 0 {
			end = f.FirstPSN.Add(max(1, int((f.Bytes+mtu-1)/mtu)))
		}
		if f.Op != OpRead || !end.Before(f.end) || h.mtu&15 == 0 && p.PSN != f.FirstPSN {
			continue
		}
		if i == h.tail && h.next == f.end {
			h.next = end
		} else {
			gaps := &t.rare(c).gaps[d]
			at := slices.IndexFunc(*gaps, func(g gap) bool { return g.from.After(end) })
			if at < 0 {
				at = len(*gaps)
			}
			t.rare(c).count(d).OutOfOrder++
			*gaps = slices.Insert(*gaps, at, gap{from: end, to: f.end, time: p.Time, frame: p.Number})
			t.boundGaps(c, d)
		}
		f.end = end
	}
}

// inOrder takes the packet that was expected next, or the first behind a gap.
func (t *Tracker) inOrder(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[d]
	op := p.Op()
	n, known := t.span(c, d, p)
	if !known {
		h.flags |= halfSpanOpen
	}
	i := t.place(c, d, p, m)
	f := &t.open[i]
	if op.Family == dissect.Read {
		f.end = p.PSN.Add(n)
		f.Segments = 1
	}
	h.next = p.PSN.Add(n)
	h.prevOp = p.Opcode
	if sent := h.next.Sub(h.acked); sent > int(h.maxSent) {
		h.maxSent = uint16(min(sent, 0xFFFF))
	}
	t.sent(c, d, i, p, m)
	if op.Has(dissect.LayerAtomicETH) && p.VA&7 != 0 {
		t.report(findAtomicAligned, c, d, p, m, p.VA)
	}
	if f.needsAnswer() {
		h.depth++
		h.maxDepth = max(h.maxDepth, h.depth)
		t.checkDepth(c, d, p, m)
	}
	if t.ghostsPending(c, d) {
		t.answerGhosts(c, d, p)
	}
	t.endUnacknowledged(c, d)
	t.boundOpen(c, d)
}

// place finds or makes the message that an unseen packet belongs to. Behind a
// gap, a message can be known in parts, which grow together as the gap fills.
func (t *Tracker) place(c *conn, d Direction, p *dissect.Packet, m *Mark) uint32 {
	h := &c.half[d]
	op := p.Op()
	kind, _ := operationOf(op.Family)
	// The usual cases: it goes on with the newest message, or begins one.
	prev, before, after := uint32(0), uint32(0), uint32(0)
	if tail := h.tail; tail == 0 || !p.PSN.Before(t.open[tail].end) {
		before = tail
		prev = tail
	} else {
		for i := h.head; i != 0; i = t.open[i].next {
			if t.open[i].FirstPSN.After(p.PSN) {
				after = i
				break
			}
			prev, before = i, i
		}
	}
	if before != 0 && t.open[before].holds(p.PSN) {
		return before // it fills a hole
	}
	if !op.Starts() && before != 0 {
		f := &t.open[before]
		if f.Op == kind && f.flags&haveEnd == 0 && !f.needsAnswer() && t.continues(h, f, p) {
			if p.PSN != f.end {
				f.flags |= haveHole
			}
			f.end = p.PSN.Add(1)
			t.joinParts(c, d, before)
			return before
		}
	}
	if after != 0 && op.Position != dissect.Last && op.Position != dissect.Only {
		f := &t.open[after]
		if f.Op == kind && f.flags&haveStart == 0 && f.FirstPSN == p.PSN.Add(1) {
			f.FirstPSN = p.PSN
			return after
		}
	}
	t.checkOrder(c, d, p, m, before)
	i, f := t.begin(c, d, prev)
	f.Op = kind
	f.FirstPSN, f.end = p.PSN, p.PSN.Add(1)
	f.psn = p.PSN.Add(-1)
	f.FirstSeen, f.FirstFrame = p.Time, p.Number
	f.respNext, f.respMax = p.PSN, p.PSN
	return i
}

// continues reports whether a MIDDLE or LAST packet is of message f, which has
// no end yet: the next PSN, or one that lies within the length that its RETH
// told.
func (t *Tracker) continues(h *half, f *inflight, p *dissect.Packet) bool {
	if p.PSN == f.end {
		return true
	}
	mtu := uint64(h.mtuBytes())
	if f.Op != OpWrite || f.flags&haveStart == 0 || mtu == 0 {
		return false
	}
	last := f.FirstPSN.Add(int((f.Bytes+mtu-1)/mtu) - 1)
	return !p.PSN.After(last)
}

// joinParts makes one message of two parts that have come to touch.
func (t *Tracker) joinParts(c *conn, d Direction, i uint32) {
	f := &t.open[i]
	j := f.next
	if j == 0 || f.flags&haveEnd != 0 {
		return
	}
	g := &t.open[j]
	if g.Op != f.Op || g.flags&haveStart != 0 || g.FirstPSN != f.end || g.needsAnswer() {
		return
	}
	f.end = g.end
	f.flags |= g.flags & (haveEnd | haveHole)
	f.Flags |= g.Flags
	f.Segments += g.Segments
	f.Seen += g.Seen
	f.WireBytes += g.WireBytes
	f.Resends += g.Resends
	if f.flags&haveStart == 0 || f.Op == OpSend {
		f.Bytes += g.Bytes
	}
	if g.Flags&(dissect.WithImm|dissect.WithInv) != 0 {
		f.Imm = g.Imm
	}
	f.LastSent, f.LastFrame = max(f.LastSent, g.LastSent), max(f.LastFrame, g.LastFrame)
	c.half[d].msnIndex++ // one index less is a message
	t.drop(&c.half[d], i, j)
}

// sent adds a packet that is seen for the first time to its message.
func (t *Tracker) sent(c *conn, d Direction, i uint32, p *dissect.Packet, m *Mark) {
	f := &t.open[i]
	op := p.Op()
	m.Bits |= MarkMessage
	m.Message = f.Index
	m.Round = f.round
	n := uint64(p.PayloadLen())
	f.Seen += n
	f.WireBytes += uint64(p.WireLen)
	if op.Family != dissect.Read {
		f.Segments++
	}
	f.Flags |= op.Flags
	if f.psn.Before(p.PSN) {
		f.psn = p.PSN
	}
	f.LastSent, f.LastFrame = p.Time, p.Number
	if op.Starts() {
		f.flags |= haveStart
		f.Upper = t.saying.Upper
		f.FirstPSN = p.PSN
		if op.Has(dissect.LayerRETH) {
			f.VA, f.RKey = p.VA, p.RKey
			f.Bytes = uint64(p.DMALen)
		}
		if op.Has(dissect.LayerAtomicETH) {
			f.VA, f.RKey, f.Swap, f.Compare, f.Bytes = p.VA, p.RKey, p.Swap, p.Compare, 8
		}
	}
	if f.Op == OpSend || f.Op == OpWrite && f.flags&haveStart == 0 {
		f.Bytes += n
	}
	if op.Flags&(dissect.WithImm|dissect.WithInv) != 0 {
		f.Imm = p.Imm
	}
	if f.flags&haveHole != 0 && int(f.Segments) == f.end.Sub(f.FirstPSN) {
		f.flags &^= haveHole
	}
	if op.Ends() {
		f.flags |= haveEnd
		t.checkLength(c, d, f, p, m)
	}
}

// endUnacknowledged settles the messages of transports that nobody answers.
func (t *Tracker) endUnacknowledged(c *conn, d Direction) {
	if c.transport != dissect.UC {
		return
	}
	h := &c.half[d]
	for h.head != 0 {
		f := &t.open[h.head]
		if f.flags&haveEnd == 0 && f.next == 0 {
			return
		}
		if f.flags&haveEnd != 0 && f.next == 0 && t.gapBefore(c, d, f.end) {
			return // what is missing may only be late
		}
		t.settleMessage(c, d, 0, h.head, StatusSent, false)
	}
}

// datagram takes a UD packet: a message of its own.
func (t *Tracker) datagram(c *conn, d Direction, p *dissect.Packet, m *Mark) {
	h := &c.half[d]
	m.Bits |= MarkPSN
	m.PSNOffset = uint32(p.PSN.Add(-int(h.first)))
	switch diff := p.PSN.Sub(h.next); {
	case diff > 0 && diff <= maxJump:
		t.openGap(c, d, h.next, p, m)
	case diff < 0 && diff >= -maxJump:
		if t.fillGap(c, d, p.PSN) {
			t.rare(c).count(d).Reordered++
			m.Bits |= MarkReordered
			break
		}
		t.rare(c).count(d).NetworkDuplicates++
		t.rare(c).count(d).Duplicates++
		m.Bits |= MarkDuplicate
		h.lastReq = p.Time
		return
	}
	if !p.PSN.Before(h.next) {
		h.next = p.PSN.Add(1)
	}
	i, f := t.begin(c, d, 0)
	f.Op, f.FirstPSN, f.end = OpSend, p.PSN, p.PSN.Add(1)
	f.psn = p.PSN
	f.FirstSeen, f.FirstFrame = p.Time, p.Number
	t.sent(c, d, i, p, m)
	t.settleMessage(c, d, 0, i, StatusSent, false)
	h.lastReq = p.Time
}

// maxOpen bounds the messages of one requester that wait for an answer: beyond
// it the oldest is given up. maxUnheard is for those whose answers cannot come,
// for the capture has nothing of their direction.
const (
	maxOpen    = 4096
	maxUnheard = 512
)

func (t *Tracker) boundOpen(c *conn, d Direction) {
	h := &c.half[d]
	if h.openCount <= maxUnheard || h.openCount <= maxOpen && (h.flags&halfResponses != 0 || t.heard(c, d.Reverse())) {
		return
	}
	t.settleMessage(c, d, 0, h.head, StatusOpen, false)
}
