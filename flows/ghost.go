package flows

import "github.com/rocescope/rocescope/dissect"

// reorderWindow is how long an answer may come before its request: capture
// order is not wire order.
const reorderWindow = 10_000_000 // 10 ms

// ghost is an answer to a request that was not seen: held until its request
// comes, late, or the sequence of requests goes on without or past it.
type ghost struct {
	packet dissect.Packet
	newest dissect.PSN // of the requests seen by then
	active bool

	leapt bool        // the requests left a range of PSNs for another one
	left  dissect.PSN // one behind the highest of that range
}

// ghostsOf returns what is known of answers without requests, made on first need.
func (t *Tracker) ghostsOf(c *conn, r Direction) *ghost {
	x := t.rare(c)
	if x.ghosts[r] == nil {
		x.ghosts[r] = &ghost{}
		c.flags |= connGhosts
	}
	return x.ghosts[r]
}

// leap notes that the requests leap away from where they were: answers to what
// was asked there are no ghosts.
func (t *Tracker) leap(c *conn, r Direction, next dissect.PSN) {
	g := t.ghostsOf(c, r)
	g.leapt, g.left = true, next
}

// ghost takes an answer whose PSN was never sent, as far as seen.
func (t *Tracker) ghost(c *conn, r Direction, p *dissect.Packet, m *Mark) {
	g := t.ghostsOf(c, r)
	if behind := g.left.Sub(p.PSN); g.leapt && behind > 0 && behind <= maxJump {
		return
	}
	if g.active && p.Time-g.packet.Time > reorderWindow {
		t.countGhost(c, r, g)
	}
	m.Bits |= MarkGhost
	g.packet, g.newest, g.active = *p, c.half[r].next.Add(-1), true
}

func (t *Tracker) countGhost(c *conn, r Direction, g *ghost) {
	g.active = false
	t.doubt(c)
	t.rare(c).count(r.Reverse()).GhostAcks++
	t.report(findGhostAck, c, r.Reverse(), &g.packet, nil, uint64(g.packet.PSN), uint64(g.newest))
}

func (t *Tracker) ghostsPending(c *conn, r Direction) bool {
	if c.flags&connGhosts == 0 {
		return false
	}
	g := t.extras[c.extras].ghosts[r]
	return g != nil && g.active
}

// answerGhosts looks at the held answer again when a request came.
func (t *Tracker) answerGhosts(c *conn, r Direction, p *dissect.Packet) {
	h := &c.half[r]
	g := t.extras[c.extras].ghosts[r]
	late := p.Time-g.packet.Time > reorderWindow
	switch at := g.packet.PSN; {
	case late && !p.PSN.After(at): // sent for the first time after its answer
		t.countGhost(c, r, g)
	case at.Before(h.next):
		g.active = false
		var m Mark
		t.dispatch(c, r, &g.packet, &m, ipidSilent)
	}
}
