package flows

import (
	"slices"
	"sort"

	"github.com/rocescope/rocescope/dissect"
)

// What two streams say of each other. The stream that goes to a queue pair
// carries its partner's requests and its partner's answers to its own. So an
// answer in one stream names a request of the other one: its PSN had been sent
// by then, it asked for that kind of answer, and behind it as many messages
// were complete as the MSN says.

const (
	maxEvidence   = 512     // runs of requests, and answers, remembered of a stream
	maxTestimony  = 1 << 19 // of all streams
	maxCandidates = 64      // partners that are considered of a stream
	maxBlocks     = 64      // blocks of PSNs in which a stream is listed
	maxRun        = 32      // packets in a run of requests that ask for no answer
	blockBits     = 6       // PSNs of a block
	nearPSNs      = 128     // so far ahead a PSN may be sent soon

	// captureSlack is how much later than its answer a request may lie in the
	// capture: queues of one receiver, and mirrored legs, do not keep order.
	captureSlack = 50_000
)

// requestNote is a request that a stream carried, each PSN once; or a few in a
// row of which none asks for an answer.
type requestNote struct {
	psn, end dissect.PSN // end is one behind the PSNs of its answer
	time     int64
	va       uint64 // READ: what was asked for
	bytes    uint32
	messages uint32 // complete up to here
	gaps     uint32 // up to here
	family   dissect.Family
	ackReq   bool
	again    bool // READ: a part was asked for again
	open     bool // READ: end is not known, and only the greatest that can be
}

// answerNote is an answer that a stream carried.
type answerNote struct {
	psn   dissect.PSN
	msn   dissect.MSN
	time  int64
	bytes uint32
	op    dissect.Opcode
	kind  dissect.SyndromeKind // of acknowledgements
}

// seeker is what is remembered of a stream while its partner is looked for.
type seeker struct {
	slot       uint32
	side       uint8 // which of the two hosts it goes to
	at         int   // its place in the group
	hold       []heldPacket
	sent       []requestNote
	answers    []answerNote
	forgotten  bool // sent has lost its oldest
	ackReqs    bool // its requests ask for acknowledgements
	crowded    bool // too many streams had sent what it answers
	complete   bool // all streams that may be its partner are among the candidates
	packets    int
	count      int      // answers
	nextTry    int      // answers at which the partner is looked for again
	candidates []uint32 // streams that this one may answer to
	suitors    []uint32 // streams that may answer to this one
	ruledOut   int      // candidates that answers spoke against
	taken      int      // candidates that found another partner
	blocks     []uint32 // where it is listed
}

// testimony is how many entries a seeker has.
func (s *seeker) testimony() int { return len(s.sent) + len(s.answers) }

// keep drops the older half of a list that is full.
func keep[T any](list []T) ([]T, bool) {
	if len(list) < maxEvidence {
		return list, false
	}
	return append(list[:0], list[len(list)/2:]...), true
}

// noteRequest remembers a request that is seen for the first time.
func (t *Tracker) noteRequest(g *group, s *seeker, c *conn, p *dissect.Packet) {
	before := len(s.sent)
	n, known := t.span(c, AToB, p)
	if !known {
		n = int(min((uint64(p.DMALen)+255)/256, 1<<22))
	}
	a := requestNote{
		psn: p.PSN, end: p.PSN.Add(n), time: p.Time, family: p.Op().Family,
		ackReq: p.AckReq, open: !known,
	}
	if p.Op().Has(dissect.LayerRETH) {
		a.bytes, a.va = p.DMALen, p.VA
	}
	if len(s.sent) > 0 {
		last := &s.sent[len(s.sent)-1]
		diff := p.PSN.Sub(last.end)
		if last.open && diff < 0 && p.PSN.After(last.psn) && !last.resumedBy(p) {
			last.end, last.open, diff = p.PSN, false, 0
		}
		switch {
		case diff < 0 && diff >= -maxJump || diff < 0 && p.PSN.Sub(s.sent[0].psn) >= 0:
			if i := s.find(p.PSN); i >= 0 {
				s.sent[i].again = true
			}
			return
		case diff > maxJump || diff < 0:
			t.unlistBlocks(g, s) // a new sequence
			s.sent = s.sent[:0]
			s.forgotten = true
		default:
			a.messages, a.gaps = last.messages, last.gaps
			if diff > 0 {
				a.gaps++
			}
		}
	}
	if p.Op().Ends() {
		a.messages++
	}
	if len(s.sent) > 0 && a.end.Sub(s.sent[0].psn) < 0 { // spans half of all PSNs
		s.sent, s.forgotten = s.sent[:0], true
	}
	if n := len(s.sent); n > 0 && s.sent[n-1].extend(&a) {
		t.listBlock(g, s, uint32(p.PSN)>>blockBits)
		return
	}
	var lost bool
	if s.sent, lost = keep(s.sent); lost {
		s.forgotten = true
	}
	s.sent = append(s.sent, a)
	t.testimony += len(s.sent) - before
	s.ackReqs = s.ackReqs || p.AckReq && a.family != dissect.Read
	t.listBlock(g, s, uint32(p.PSN)>>blockBits)
}

// extend makes a run longer by the request behind it, if that is one of its
// kind.
func (q *requestNote) extend(a *requestNote) bool {
	if q.ackReq || a.ackReq || q.family != a.family || q.messages != a.messages || q.gaps != a.gaps ||
		a.family != dissect.Send && a.family != dissect.Write || a.end.Sub(q.psn) > maxRun {
		return false
	}
	q.end = a.end
	return true
}

// resumedBy reports whether a READ request asks for the rest of an earlier one.
func (q *requestNote) resumedBy(p *dissect.Packet) bool {
	return p.Op().Family == dissect.Read && p.VA > q.va && p.VA-q.va < uint64(q.bytes)
}

// find returns the index of the request that a PSN belongs to: the last that
// does not begin behind it; -1 where all do.
func (s *seeker) find(psn dissect.PSN) int {
	return sort.Search(len(s.sent), func(i int) bool { return s.sent[i].psn.After(psn) }) - 1
}

// noteAnswer remembers an answer.
func (t *Tracker) noteAnswer(s *seeker, p *dissect.Packet) {
	before := len(s.answers)
	s.answers, _ = keep(s.answers)
	s.answers = append(s.answers, answerNote{
		psn: p.PSN, msn: p.MSN, time: p.Time, bytes: uint32(p.PayloadLen()), op: p.Opcode, kind: p.Syndrome.Kind(),
	})
	t.testimony += len(s.answers) - before
	s.count++
}

// weight is how well answers fit requests.
type weight struct {
	fit  int // to requests that had been sent
	near int // to requests that were sent later, or may have been
	far  int // to PSNs never sent, or to requests of another kind
	odd  int // unasked for, or with an MSN that does not fit
}

// against is how much speaks against a pair.
func (w *weight) against() int { return 2*w.far + w.near }

// likely reports whether a pair is worth believing in: of many answers some may
// fit nothing, for requests can be missing from a capture.
func (w *weight) likely() bool { return w.fit > 0 && w.against()*8 <= w.fit }

// weigh holds the answers of one stream against the requests of another, and
// the reverse.
func (t *Tracker) weigh(a, b *seeker) (w weight) {
	t.weighAnswers(&w, a, b)
	t.weighAnswers(&w, b, a)
	return w
}

func (t *Tracker) weighAnswers(w *weight, from, to *seeker) {
	t.compared += len(from.answers) + 1
	var prev *answerNote
	var prevAt *requestNote
	for i := range from.answers {
		a := &from.answers[i]
		at := to.weighAnswer(w, a, t.now)
		if at == nil || a.op != dissect.OpRCAcknowledge || a.kind != dissect.KindACK {
			continue
		}
		if to.ackReqs && !at.ackReq {
			w.odd++
		}
		if prev != nil && a.psn.After(prev.psn) && at.gaps == prevAt.gaps && at.end == a.psn.Add(1) && prevAt.end == prev.psn.Add(1) {
			if a.msn.Sub(prev.msn) != int(at.messages-prevAt.messages) {
				w.odd++
			}
		}
		prev, prevAt = a, at
	}
}

// weighAnswer holds one answer against a stream's requests; it returns the
// request that it fits.
func (s *seeker) weighAnswer(w *weight, a *answerNote, now int64) *requestNote {
	if len(s.sent) == 0 {
		w.near++
		return nil
	}
	first, last := &s.sent[0], &s.sent[len(s.sent)-1]
	if ahead := a.psn.Sub(last.end); ahead >= 0 {
		switch {
		case ahead >= nearPSNs:
			w.far++
		case now-a.time > captureSlack:
			w.near++
		}
		return nil
	}
	if before := first.psn.Sub(a.psn); before > 0 {
		if before > nearPSNs && !(s.forgotten && before < 1<<22) {
			w.far++
		}
		return nil // sent before the capture began
	}
	at := &s.sent[s.find(a.psn)]
	if !a.psn.Before(at.end) {
		return nil // in a gap
	}
	if at.time-a.time > captureSlack {
		w.near++
		return nil
	}
	if !at.drawsAnswer(a) {
		w.far++
		return nil
	}
	w.fit++
	return at
}

// drawsAnswer reports whether the request asks for that kind of answer.
func (q *requestNote) drawsAnswer(a *answerNote) bool {
	op := a.op.Info()
	switch op.Family {
	case dissect.Read:
		if q.family != dissect.Read && q.family != dissect.Flush && q.family != dissect.AtomicWrite {
			return false
		}
		if q.family == dissect.Read && a.psn == q.psn && !q.again {
			switch op.Position {
			case dissect.Only:
				return a.bytes == q.bytes
			case dissect.First:
				return a.bytes < q.bytes
			}
		}
	case dissect.AtomicAcknowledge:
		return q.family == dissect.CompareSwap || q.family == dissect.FetchAdd
	}
	return true
}

// bucket is the streams that sent a PSN of one block.
type bucket struct {
	list []uint32
	over int // how many more there are
}

func blockKey(side uint8, block uint32) uint32 {
	return uint32(side)<<(24-blockBits) | block&(1<<(24-blockBits)-1)
}

// listBlock enters a stream under a block of PSNs, unless it is there.
func (t *Tracker) listBlock(g *group, s *seeker, block uint32) {
	k := blockKey(s.side, block)
	if n := len(s.blocks); n > 0 && s.blocks[n-1] == k {
		return
	}
	t.compared++
	if slices.Contains(s.blocks, k) {
		return
	}
	if len(s.blocks) >= maxBlocks {
		g.unlist(s.blocks[0], s.slot)
		s.blocks = append(s.blocks[:0], s.blocks[1:]...)
	}
	s.blocks = append(s.blocks, k)
	b := g.blocks[k]
	if b == nil {
		b = &bucket{}
		g.blocks[k] = b
	}
	if len(b.list) < maxCandidates {
		b.list = append(b.list, s.slot)
	} else {
		b.over++
	}
}

func (t *Tracker) unlistBlocks(g *group, s *seeker) {
	for _, k := range s.blocks {
		g.unlist(k, s.slot)
	}
	t.compared += len(s.blocks)
	s.blocks = s.blocks[:0]
}

func (g *group) unlist(k, slot uint32) {
	b := g.blocks[k]
	if b == nil {
		return
	}
	if i := slices.Index(b.list, slot); i >= 0 {
		b.list = slices.Delete(b.list, i, i+1)
	} else {
		b.over--
	}
	if len(b.list) == 0 && b.over <= 0 {
		delete(g.blocks, k)
	}
}

// consider adds the streams that an answer may belong to to a seeker's
// candidates.
func (t *Tracker) consider(g *group, s *seeker, a *answerNote) {
	op := a.op.Info()
	own := uint32(a.psn) >> blockBits
	for _, block := range [2]uint32{own, own - 1} {
		b := g.blocks[blockKey(s.side^1, block)]
		if b == nil {
			continue
		}
		if b.over > 0 {
			s.crowded = s.crowded || block == own
			continue // this answer tells nobody apart; a later one may
		}
		t.compared += len(b.list)
		full := false
		for _, slot := range b.list {
			o := t.seekers[slot]
			if !t.opposite(s, o) || slices.Contains(s.candidates, slot) {
				continue
			}
			if len(s.candidates) >= maxCandidates {
				full = true
				break
			}
			s.candidates = append(s.candidates, slot)
			if len(o.suitors) < maxCandidates {
				o.suitors = append(o.suitors, s.slot)
			}
		}
		if block == own && !full && len(b.list) > 0 && (op.Family != dissect.Read || op.Starts()) {
			s.complete = true // a request has that very PSN
		}
	}
}
