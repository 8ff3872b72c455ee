package flows

import (
	"time"

	"github.com/rocescope/rocescope/dissect"
)

const (
	stallTime   = int64(time.Second) // silence that makes an unfinished message a finding
	stormRNRs   = 50                 // RNR NAKs that can be a storm
	stormShare  = 4                  // … if at least one request in so many is refused
	fewRequests = 1                  // more requests than this make silence a finding
)

// settleChecks looks at a connection as a whole, when it ends.
func (t *Tracker) settleChecks(c *conn) {
	for d := AToB; d <= BToA; d++ {
		h := &c.half[d]
		if h.flags&halfRequests == 0 {
			continue
		}
		t.checkStorm(c, d)
		t.checkSilence(c, d)
		o := &t.open[h.tail]
		if h.tail != 0 && o.flags&(haveStart|haveEnd) == haveStart && t.now-o.LastSent > stallTime && c.transport != dissect.UD {
			t.reportAt(findOpenMessage, c, d, o.LastFrame, o.LastSent, uint64(o.FirstPSN), o.Seen, o.Bytes, uint64(t.now-o.LastSent))
		}
	}
	a, b := &c.half[0], &c.half[1]
	if a.mtuSeen() != 0 && b.mtuSeen() != 0 && a.mtuSeen() != b.mtuSeen() {
		t.reportAt(findMTUAsymmetry, c, AToB, c.firstNum, t.firstSeen(c), uint64(a.mtuSeen()), uint64(b.mtuSeen()))
	}
}

// checkStorm looks whether RNR NAKs were more than an episode.
func (t *Tracker) checkStorm(c *conn, d Direction) {
	x := t.extrasOf(c)
	if x == nil {
		return
	}
	rnrs, requests := x.count(d.Reverse()).RNRNAKs, c.stream[d].packets
	if rnrs >= stormRNRs && rnrs*stormShare >= requests {
		s := &c.stream[d]
		t.reportAt(findRNRStorm, c, d.Reverse(), c.half[d].respFrame, s.lastSeen, rnrs, requests, uint64(s.lastSeen-s.firstSeen))
	}
}

// checkSilence looks whether requests got no answer at all. Only where the
// capture shows that it sees what the other host sends is silence more than
// blindness.
func (t *Tracker) checkSilence(c *conn, d Direction) {
	h := &c.half[d]
	if h.flags&halfResponses != 0 || c.transport == dissect.UC || c.transport == dissect.UD || c.evidence == Ambiguous {
		return
	}
	if c.stream[d.Reverse()].flags&streamSeen != 0 || c.stream[d].packets <= fewRequests {
		return
	}
	strays, heard := t.ways[way{c.end[d.Reverse()].addr, c.end[d].addr}]
	if !heard || strays {
		return
	}
	s := &c.stream[d]
	t.reportAt(findNoResponder, c, d, h.reqFrame, s.firstSeen, s.packets, uint64(c.end[d.Reverse()].qpn), uint64(s.lastSeen-s.firstSeen))
}

// way is one direction between two hosts. Tracker.ways has those that the
// capture shows, and whether answers came in it that fit no request.
type way struct{ from, to dissect.Addr }

// maxWays bounds the directions that are remembered.
const maxWays = 64 << 10

// hear notes that the capture has a packet of this direction.
func (t *Tracker) hear(p *dissect.Packet) {
	w := way{p.Src, p.Dst}
	if w == t.lastWay {
		return
	}
	t.lastWay = w
	if _, ok := t.ways[w]; !ok && len(t.ways) < maxWays {
		t.ways[w] = false
	}
}

// heard reports whether the capture has a packet that goes in a connection's
// direction, of whatever connection.
func (t *Tracker) heard(c *conn, d Direction) bool {
	_, ok := t.ways[way{c.end[d].addr, c.end[d.Reverse()].addr}]
	return ok
}

// stray notes that a host sent an answer to a request that its connection
// never made: it may belong to a stream without partner.
func (t *Tracker) stray(p *dissect.Packet) {
	w := way{p.Src, p.Dst}
	if _, ok := t.ways[w]; ok {
		t.ways[w] = true
	}
}
