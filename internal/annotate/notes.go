package annotate

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// MaxNotes bounds the comments that are kept, at about 200 bytes each.
const MaxNotes = 1 << 20

// Notes are the comments to be made. It is a sink of a first pass over the
// capture (engine.Sink), and listens to its tracker.
type Notes struct {
	Left uint64 // comments beyond the bound

	list   []note
	starts map[start]uint64 // first frame of a stream
	gone   []flows.Connection
}

// start names a stream: streams that turned out to belong to one connection live
// on under one of two numbers, so where the first packet went is kept too.
type start struct {
	conn uint32
	dir  flows.Direction
	to   flows.QPName
}

type note struct {
	frame uint64
	id    flows.FindingID
	conn  uint32
	dir   flows.Direction
	text  string
}

// Listen adds the notes to what a tracker tells.
func (n *Notes) Listen(s *flows.Sink) {
	n.starts = map[start]uint64{}
	s.Finding = n.finding
	s.Connection = func(c *flows.Connection) { n.gone = append(n.gone, *c) }
}

func (n *Notes) finding(f *flows.Finding) {
	if f.Frame == 0 {
		return
	}
	if len(n.list) >= MaxNotes {
		n.Left++
		return
	}
	n.list = append(n.list, note{f.Frame, f.ID, f.Conn, f.Direction, fmt.Sprintf("%v %v: %s", f.Severity(), f.ID, f.Sentence())})
}

// Batch implements engine.Sink.
func (n *Notes) Batch(b *engine.Batch) error {
	for i := range b.Packets {
		m := &b.Marks[i]
		if m.Conn == 0 {
			continue
		}
		p := &b.Packets[i]
		k := start{m.Conn, m.Direction, flows.QPName{Addr: p.Dst, VLAN: p.VLAN(), QPN: p.DestQP}}
		if _, ok := n.starts[k]; !ok && len(n.starts) < MaxNotes {
			n.starts[k] = p.Number
		}
	}
	return nil
}

// Comments are those of each frame, by number in ascending order.
type Comments struct {
	frames []uint64
	texts  []string
	at     int
}

// Close makes the comments, when all is known. Findings that later packets took
// back are left out.
func (n *Notes) Close(s *flows.Snapshot) *Comments {
	stand := map[note]bool{}
	for i := range s.Findings {
		f := &s.Findings[i]
		stand[note{id: f.ID, conn: f.Conn, dir: f.Direction}] = true
	}
	var all []note
	all = append(all, n.names(s)...)
	for _, x := range n.list {
		if stand[note{id: x.id, conn: x.conn, dir: x.dir}] {
			all = append(all, x)
		}
	}
	slices.SortStableFunc(all, func(x, y note) int { return cmp.Compare(x.frame, y.frame) })
	c := &Comments{}
	for _, x := range all {
		c.frames, c.texts = append(c.frames, x.frame), append(c.texts, x.text)
	}
	return c
}

// names says on the first packet of each stream who talks to whom.
func (n *Notes) names(s *flows.Snapshot) (all []note) {
	conns := map[uint32]*flows.Connection{}
	ends := map[flows.QPName]*flows.Connection{}
	for _, list := range [][]flows.Connection{n.gone, s.Connections} {
		for i := range list {
			c := &list[i]
			conns[c.ID] = c
			ends[c.A.QPName], ends[c.B.QPName] = c, c
		}
	}
	first := map[start]note{}
	for k, frame := range n.starts {
		c := conns[k.conn]
		if c == nil {
			c = ends[k.to]
		}
		if c == nil {
			continue
		}
		from, to, d := &c.A, &c.B, flows.AToB
		if c.A.QPName == k.to && c.B.QPName != k.to {
			from, to, d = to, from, flows.BToA
		}
		text := fmt.Sprintf("connection %d, %v: %s → %s; known by: %v", c.ID, c.Transport, qp(from), qp(to), c.Evidence)
		one := start{conn: c.ID, dir: d}
		if x, ok := first[one]; !ok || frame < x.frame {
			first[one] = note{frame: frame, text: text}
		}
	}
	for _, x := range first {
		all = append(all, x)
	}
	slices.SortFunc(all, func(x, y note) int { return cmp.Or(cmp.Compare(x.frame, y.frame), cmp.Compare(x.text, y.text)) })
	return all
}

func qp(q *flows.QP) string {
	if !q.Known {
		return fmt.Sprintf("%v, a QP that the wire does not tell", q.Addr)
	}
	return fmt.Sprintf("%v QP %#x", q.Addr, q.QPN)
}

// Len is how many comments there are.
func (c *Comments) Len() int { return len(c.frames) }

// Of returns a frame's comments. It is asked for frames in ascending order.
func (c *Comments) Of(frame uint64) []string {
	for c.at < len(c.frames) && c.frames[c.at] < frame {
		c.at++
	}
	from := c.at
	for c.at < len(c.frames) && c.frames[c.at] == frame {
		c.at++
	}
	return c.texts[from:c.at]
}
