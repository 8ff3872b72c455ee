package sink

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// identities knows the two ends of each connection from its packets, for messages end long before the record of their
// connection is written. Of a direction the packets name the destination's QPN and both addresses; the source's QPN is the
// destination of the other direction, or in the DETH.
type identities struct {
	addresses addresses
	of        map[uint32]*identity
	lately    [1 << 10]glimpse // what was noted last, by connection and direction
}

type identity struct {
	transport string
	ends      [2]end // by the direction in which they send
}

// glimpse is what a packet tells, as short as it can be said.
type glimpse struct {
	conn, qpn uint32
	direction flows.Direction
	src, dst  dissect.Addr
}

func newIdentities(a addresses) *identities {
	return &identities{addresses: a, of: map[uint32]*identity{}}
}

// learn notes what a batch tells. It costs little where nothing is new.
func (n *identities) learn(b *flows.Batch) {
	for i := range b.Marks {
		m := &b.Marks[i]
		if m.Conn == 0 || m.Bits&(flows.MarkRequest|flows.MarkResponse) == 0 || m.Bits&flows.MarkBadICRC != 0 {
			continue
		}
		p := &b.Packets[i]
		seen := &n.lately[(m.Conn*2+uint32(m.Direction&1))%uint32(len(n.lately))]
		if seen.conn == m.Conn && seen.direction == m.Direction && seen.qpn == p.DestQP && seen.src == p.Src && seen.dst == p.Dst {
			continue
		}
		*seen = glimpse{m.Conn, p.DestQP, m.Direction, p.Src, p.Dst}
		n.note(m, p)
	}
}

func (n *identities) note(m *flows.Mark, p *dissect.Packet) {
	id := n.of[m.Conn]
	if id == nil {
		id = &identity{}
		n.of[m.Conn] = id
	}
	id.transport = p.Opcode.Info().Transport.String()
	src, dst := &id.ends[m.Direction&1], &id.ends[m.Direction.Reverse()&1]
	src.addr, dst.addr = n.addresses.text(p.Src), n.addresses.text(p.Dst)
	dst.qpn, dst.ok = p.DestQP, true
	if p.Has(dissect.LayerDETH) {
		src.qpn, src.ok = p.SrcQP, true
	}
}

// final takes a connection's own record for what is known of it.
func (n *identities) final(c *flows.Connection) {
	id := &identity{transport: c.Transport.String()}
	id.ends[flows.AToB], id.ends[flows.BToA] = n.end(&c.A), n.end(&c.B)
	n.of[c.ID] = id
}

func (n *identities) end(q *flows.QP) end {
	return end{addr: n.addresses.text(q.Addr), qpn: q.QPN, ok: q.Known}
}

// placeMessage says whose a message is. One of iWARP tells it itself.
func (n *identities) placeMessage(w *where, m *flows.Message) bool {
	if m.IWARP == nil {
		return n.place(w, m.Conn, m.Direction)
	}
	from, to := m.IWARP.Ends()
	w.conn, w.direction, w.transport = m.Conn, m.Direction, "iWARP"
	w.src, w.dst = end{addr: n.addresses.text(from.Addr)}, end{addr: n.addresses.text(to.Addr)}
	return true
}

// place says whose a direction is. It reports false while not even its destination is known.
func (n *identities) place(w *where, conn uint32, d flows.Direction) bool {
	w.conn, w.direction = conn, d
	id := n.of[conn]
	if id == nil {
		w.transport, w.src, w.dst = "", end{}, end{}
		return false
	}
	w.transport, w.src, w.dst = id.transport, id.ends[d&1], id.ends[d.Reverse()&1]
	return w.dst.ok
}
