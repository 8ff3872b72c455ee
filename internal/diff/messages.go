package diff

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// Story is what one capture, or an event log, says above the packets.
type Story struct {
	Conns    []Conn
	Messages []Message // in the order in which they ended
	Left     uint64    // messages beyond the bound
	Findings []Finding
}

// Conn is a connection as both sides name it.
type Conn struct {
	ID         uint32
	A, B       QP
	Transport  string
	FirstFrame uint64
}

// QP is one end of a connection; Known is false where the wire does not tell.
type QP struct {
	Addr  string
	QPN   uint32
	Known bool
}

func (q QP) String() string {
	if !q.Known {
		return q.Addr + " unknown QP"
	}
	return fmt.Sprintf("%s %#x", q.Addr, q.QPN)
}

// Message is a work request.
type Message struct {
	Conn      uint32
	BToA      bool // its requester is B
	Index     uint32
	Op        string
	Status    string
	FirstPSN  dissect.PSN
	Bytes     uint64
	Resends   uint32
	First     int64
	Latency   int64 // -1 = it was not answered
	Frame     uint64
	Completed bool // answered, or sent where nobody answers
}

// Finding is a finding of one stream.
type Finding struct {
	ID, Severity, Summary string
	Conn                  uint32
	BToA                  bool
	Frame, Count          uint64
}

// MaxMessages is how many messages of a side are compared, at about 150 bytes.
const MaxMessages = 1 << 20

// Collect is a tracker's sink that fills a story.
func (s *Story) Collect(o *flows.Options) {
	o.Sink.Message = func(m *flows.Message) {
		if len(s.Messages) >= MaxMessages {
			s.Left++
			return
		}
		out := Message{
			Conn: m.Conn, BToA: m.Direction == flows.BToA, Index: m.Index, Op: m.Op.String(), Status: m.Status.String(),
			FirstPSN: m.FirstPSN, Bytes: m.Bytes, Resends: m.Resends, First: m.FirstSeen, Latency: -1, Frame: m.FirstFrame,
			Completed: m.Status == flows.StatusSuccess || m.Status == flows.StatusSent,
		}
		if d, ok := m.Latency(); ok {
			out.Latency = int64(d)
		}
		s.Messages = append(s.Messages, out)
	}
	o.Sink.Connection = func(c *flows.Connection) { s.Conns = append(s.Conns, connOf(c)) }
}

// Close adds what the tracker knows at its end.
func (s *Story) Close(end *flows.Snapshot) {
	for i := range end.Connections {
		s.Conns = append(s.Conns, connOf(&end.Connections[i]))
	}
	for i := range end.Findings {
		f := &end.Findings[i]
		s.Findings = append(s.Findings, Finding{
			ID: f.ID.String(), Severity: f.Severity().String(), Summary: f.Summary,
			Conn: f.Conn, BToA: f.Direction == flows.BToA, Frame: f.Frame, Count: f.Count,
		})
	}
}

func connOf(c *flows.Connection) Conn {
	qp := func(q *flows.QP) QP { return QP{Addr: q.Addr.String(), QPN: q.QPN, Known: q.Known} }
	return Conn{ID: c.ID, A: qp(&c.A), B: qp(&c.B), Transport: c.Transport.String(), FirstFrame: c.FirstFrame}
}

// Messages is what comparing two stories found.
type Messages struct {
	By      string    // "psn" or "order": how messages were matched
	Count   [2]uint64 // compared
	Left    [2]uint64 // beyond the bound
	Matched uint64
	Alone   [2]uint64
	Done    [2]uint64 // completed
	Resends [2]uint64 // of the matched
	Bytes   [2]uint64
	Latency [2]Delays // of the matched, where both have one
	Differ  []MessagePair
	More    uint64 // pairs and single messages beyond those listed
	Single  [2][]FindingOf
	Both    int // findings that both have
}

// MessagePair is a message that the captures tell differently, or that one of
// them alone has: then Frame of the other is 0.
type MessagePair struct {
	From, To QP // requester and responder, as a has them where it has
	Op       string
	FirstPSN dissect.PSN
	Frame    [2]uint64
	Status   [2]string
	Resends  [2]uint32
	Bytes    [2]uint64
}

// FindingOf is a finding that one capture alone has.
type FindingOf struct {
	Finding
	Where string
}

// maxListed is how many messages are listed.
const maxListed = 10_000

// CompareStories matches messages and findings: by the queue pairs and PSNs
// where both have common ones, else by the order of connections between the same
// hosts and of messages in them, as two runs of the same program have it.
func CompareStories(ctx context.Context, a, b *Story) (*Messages, error) {
	sides := [2]*Story{a, b}
	m := &Messages{By: "psn", Left: [2]uint64{a.Left, b.Left}}
	var conns [2]map[uint32]*connNames
	for s, story := range sides {
		conns[s] = nameConns(story)
	}
	streams, ops := numbers{}, numbers{}
	type direction struct {
		conn uint32
		bToA bool
	}
	keys := func(s int, byOrder bool) map[messageKey]*Message {
		out, known := make(map[messageKey]*Message, len(sides[s].Messages)), map[direction]int32{}
		for i := range sides[s].Messages {
			x := &sides[s].Messages[i]
			d := direction{x.Conn, x.BToA}
			stream, ok := known[d]
			if !ok {
				stream = streams.of(conns[s][x.Conn].stream(x.BToA, byOrder))
				known[d] = stream
			}
			k := messageKey{stream: stream, psn: uint32(x.FirstPSN), op: ops.of(x.Op)}
			if byOrder {
				k.psn = x.Index
			}
			for out[k] != nil {
				k.round++
			}
			out[k] = x
		}
		return out
	}
	ka, kb := keys(0, false), keys(1, false)
	common := 0
	for k := range ka {
		if kb[k] != nil {
			common++
		}
	}
	byOrder := common == 0 && len(ka) > 0 && len(kb) > 0
	if byOrder {
		m.By = "order"
		ka, kb = keys(0, true), keys(1, true)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	m.compare(ka, kb, conns)
	m.findings(sides, conns, byOrder)
	return m, nil
}

// messageKey is what makes a message one in both captures.
type messageKey struct {
	stream int32  // its requester and responder; by order: their hosts, and the how-manyth connection between them
	psn    uint32 // by order: its index
	op     int32
	round  int32
}

// numbers gives names numbers, the same in both captures.
type numbers map[string]int32

func (n numbers) of(name string) int32 {
	i, ok := n[name]
	if !ok {
		i = int32(len(n))
		n[name] = i
	}
	return i
}

// connNames is what a connection is called, both ways.
type connNames struct {
	c     *Conn
	order int // among those between the same hosts
}

func nameConns(s *Story) map[uint32]*connNames {
	list := make([]*Conn, len(s.Conns))
	for i := range s.Conns {
		list[i] = &s.Conns[i]
	}
	slices.SortStableFunc(list, func(x, y *Conn) int { return cmp.Compare(x.FirstFrame, y.FirstFrame) })
	out, count := map[uint32]*connNames{}, map[[3]string]int{}
	for _, c := range list {
		hosts := [3]string{min(c.A.Addr, c.B.Addr), max(c.A.Addr, c.B.Addr), c.Transport}
		out[c.ID] = &connNames{c, count[hosts]}
		count[hosts]++
	}
	return out
}

// ends are requester and responder.
func (n *connNames) ends(bToA bool) (from, to QP) {
	if n == nil {
		return
	}
	if bToA {
		return n.c.B, n.c.A
	}
	return n.c.A, n.c.B
}

// stream names a direction of a connection.
func (n *connNames) stream(bToA, byOrder bool) string {
	from, to := n.ends(bToA)
	switch {
	case n == nil:
		return ""
	case byOrder:
		return fmt.Sprint(from.Addr, " ", to.Addr, " ", n.order)
	}
	return from.Addr + " " + to.String()
}

func (m *Messages) compare(ka, kb map[messageKey]*Message, conns [2]map[uint32]*connNames) {
	var latency [2]spread
	add := func(p MessagePair) {
		if len(m.Differ) < maxListed {
			m.Differ = append(m.Differ, p)
		} else {
			m.More++
		}
	}
	pair := func(x, y *Message) MessagePair {
		var p MessagePair
		for s, z := range [2]*Message{y, x} {
			if z == nil {
				continue
			}
			side := 1 - s
			p.From, p.To = conns[side][z.Conn].ends(z.BToA)
			p.Op, p.FirstPSN = z.Op, z.FirstPSN
			p.Frame[side], p.Status[side], p.Resends[side], p.Bytes[side] = z.Frame, z.Status, z.Resends, z.Bytes
		}
		return p
	}
	for s, keys := range [2]map[messageKey]*Message{ka, kb} {
		for _, x := range keys {
			m.Count[s]++
			if x.Completed {
				m.Done[s]++
			}
		}
	}
	for _, k := range inOrder(ka) { // there may be more than are listed, and the list is to be the same each time
		x, y := ka[k], kb[k]
		if y == nil {
			m.Alone[0]++
			add(pair(x, nil))
			continue
		}
		m.Matched++
		for s, z := range [2]*Message{x, y} {
			m.Resends[s] += uint64(z.Resends)
			m.Bytes[s] += z.Bytes
		}
		if x.Latency >= 0 && y.Latency >= 0 {
			latency[0].add(x.Latency)
			latency[1].add(y.Latency)
		}
		if x.Status != y.Status || x.Resends != y.Resends || x.Bytes != y.Bytes {
			add(pair(x, y))
		}
	}
	for _, k := range inOrder(kb) {
		if ka[k] == nil {
			m.Alone[1]++
			add(pair(nil, kb[k]))
		}
	}
	slices.SortStableFunc(m.Differ, func(x, y MessagePair) int {
		return cmp.Or(cmp.Compare(max(x.Frame[0], x.Frame[1]), max(y.Frame[0], y.Frame[1])), cmp.Compare(x.Frame[0], y.Frame[0]), cmp.Compare(x.Op, y.Op))
	})
	m.Latency = [2]Delays{latency[0].sumUp(), latency[1].sumUp()}
}

// inOrder lists messages by when they began.
func inOrder(messages map[messageKey]*Message) []messageKey {
	list := slices.Collect(maps.Keys(messages))
	slices.SortFunc(list, func(x, y messageKey) int {
		a, b := messages[x], messages[y]
		return cmp.Or(cmp.Compare(a.First, b.First), cmp.Compare(a.Frame, b.Frame), cmp.Compare(a.Conn, b.Conn), cmp.Compare(a.Index, b.Index), cmp.Compare(x.op, y.op))
	})
	return list
}

// findings tells which of them one capture alone has. Their counts differ by
// where the taps are; that is no difference.
func (m *Messages) findings(sides [2]*Story, conns [2]map[uint32]*connNames, byOrder bool) {
	type key struct {
		id, from, to string
		conn         int
	}
	var have [2]map[key]bool
	keyOf := func(s int, f *Finding) key {
		k := key{id: f.ID}
		n := conns[s][f.Conn]
		if n == nil {
			return k
		}
		from, to := n.ends(f.BToA)
		if byOrder {
			k.from, k.to, k.conn = from.Addr, to.Addr, n.order
		} else {
			k.from, k.to = from.Addr, to.String()
		}
		return k
	}
	for s, story := range sides {
		have[s] = map[key]bool{}
		for i := range story.Findings {
			have[s][keyOf(s, &story.Findings[i])] = true
		}
	}
	for s, story := range sides {
		for i := range story.Findings {
			f := &story.Findings[i]
			if k := keyOf(s, f); have[1-s][k] {
				m.Both += 1 - s
				continue
			}
			where := "the capture as a whole"
			if n := conns[s][f.Conn]; n != nil {
				from, to := n.ends(f.BToA)
				where = from.String() + " → " + to.String()
			}
			m.Single[s] = append(m.Single[s], FindingOf{*f, where})
		}
	}
}

// Verdict compares the latencies: their medians differ if the ranges in which
// they lie with a confidence of 95 % do not touch.
func (m *Messages) Verdict() string {
	a, b := &m.Latency[0], &m.Latency[1]
	switch {
	case a.Count < 6: // fewer do not give such a range
		return "unknown"
	case a.High < b.Low:
		return "a_faster"
	case b.High < a.Low:
		return "b_faster"
	}
	return "same"
}
