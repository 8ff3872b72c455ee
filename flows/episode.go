package flows

import (
	"fmt"

	"github.com/rocescope/rocescope/dissect"
)

// episode is one loss from its first sign until the requester's packets are
// acknowledged beyond everything that it had sent by then: gap, NAK or silence,
// go-back-N, recovered.
type episode struct {
	active  bool
	finding FindingID
	dir     Direction   // of the finding's stream
	goal    dissect.PSN // recovered when everything before it is acknowledged
	start   int64
	packets uint64
	bytes   uint64
}

// beginEpisode opens an episode of the requester in direction r, unless one is
// running: what is lost within it belongs to it.
func (t *Tracker) beginEpisode(c *conn, r Direction, id FindingID, dir Direction, start int64) {
	e := &t.rare(c).recovery[r].episode
	if e.active {
		return
	}
	*e = episode{active: true, finding: id, dir: dir, goal: c.half[r].next, start: start}
}

// endEpisode closes it at the answer that covers its goal, or, with at 0, at
// the end of the capture.
func (t *Tracker) endEpisode(c *conn, r Direction, at int64) {
	e := &t.extras[c.extras].recovery[r].episode
	e.active = false
	i, ok := t.findings.index[findingKey{id: e.finding, conn: c.id, dir: e.dir}]
	if !ok {
		return
	}
	s := &t.findings.list[i].Recovery
	s.Packets += e.packets
	s.Bytes += e.bytes
	if at == 0 {
		s.Open++
		return
	}
	took := max(at-e.start, 0)
	s.Recovered++
	s.Together += took
	s.Longest = max(s.Longest, took)
}

// recovered ends the running episode if its goal is reached.
func (t *Tracker) recovered(c *conn, r Direction, at int64) {
	x := t.extrasOf(c)
	if x == nil || !x.recovery[r].episode.active {
		return
	}
	h, goal := &c.half[r], x.recovery[r].episode.goal
	if h.acked.Before(goal) || h.head != 0 && t.open[h.head].FirstPSN.Before(goal) {
		return
	}
	t.endEpisode(c, r, at)
}

// text says in words what the episodes cost, "" where there were none.
func (r *Recovery) text() string {
	n := r.Recovered + r.Open
	if n == 0 {
		return ""
	}
	s := fmt.Sprintf("; %s (%d bytes) sent again", plural(int(r.Packets), "packet", "packets"), r.Bytes)
	switch {
	case r.Open == n:
		s += ", not recovered within the capture"
	case r.Recovered == 1:
		s += fmt.Sprintf(", recovered after %v", roundDuration(r.Longest))
	default:
		s += fmt.Sprintf(", recovered %d times, after %v at most", r.Recovered, roundDuration(r.Longest))
	}
	if r.Open > 0 && r.Recovered > 0 {
		s += fmt.Sprintf(", %d not within the capture", r.Open)
	}
	return s
}
