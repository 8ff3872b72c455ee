package html

import (
	"cmp"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// How much a page shows. What is left out is said in it.
const (
	maxPlots    = 24   // connections with plots
	maxFindings = 300  // in full
	maxLadders  = 48   // ladder diagrams
	maxRows     = 1500 // of the table of connections
)

// Collector takes from the packets what a snapshot does not have: PSNs over time, and what lies around each finding. It is
// for one goroutine. Its memory is bounded by the limits above, whatever the capture's length.
type Collector struct {
	streams map[streamName]side
	byID    map[uint32]*trail
	trails  []*trail
}

// streamName names one direction between two queue pairs, as its packets do.
type streamName struct {
	to   flows.QPName
	from dissect.Addr
	src  uint32 // UD: the source queue pair
}

// side is a direction of a connection.
type side struct {
	trail *trail
	dir   flows.Direction
}

// trail is what the packets of one connection show.
type trail struct {
	conn    *flows.Connection
	plotted bool
	span    timespan
	spaces  [2]space  // by the direction of the requests whose PSNs they are
	load    [2][]load // by direction
	ladder  recorder
}

// NewCollector prepares for a second look at a capture: d and s are what the first one found. Connections are plotted that
// have the gravest findings, then those that carried most.
func NewCollector(d *report.Document, s *flows.Snapshot) *Collector {
	c := &Collector{streams: map[streamName]side{}, byID: map[uint32]*trail{}}
	known := map[uint32]*flows.Connection{}
	for i := range s.Connections {
		known[s.Connections[i].ID] = &s.Connections[i]
	}
	for _, id := range foremost(d, maxPlots) {
		if f := known[id]; f != nil {
			c.follow(f).plot()
		}
	}
	n := 0
	for i := range d.Findings {
		f := &d.Findings[i]
		if f.Connection == nil || f.Frame == nil || known[*f.Connection] == nil || i >= maxFindings || n == maxLadders {
			continue
		}
		if c.follow(known[*f.Connection]).ladder.want(*f.Frame) {
			n++
		}
	}
	for _, t := range c.trails {
		t.ladder.prepare()
	}
	return c
}

// foremost are the connections that a reader looks at first, n at most, in the document's order.
func foremost(d *report.Document, n int) []uint32 {
	gravest := map[uint32]int{}
	for i := range d.Findings {
		if f := &d.Findings[i]; f.Connection != nil {
			if s, ok := flows.ParseSeverity(f.Severity); ok {
				gravest[*f.Connection] = max(gravest[*f.Connection], int(s)+1)
			}
		}
	}
	list := make([]*report.Connection, 0, len(d.Connections))
	for i := range d.Connections {
		if c := &d.Connections[i]; c.AToB.Packets+c.BToA.Packets > 0 {
			list = append(list, c)
		}
	}
	carried := func(c *report.Connection) uint64 { return c.AToB.Bytes + c.BToA.Bytes }
	slices.SortStableFunc(list, func(x, y *report.Connection) int {
		return cmp.Or(cmp.Compare(gravest[y.ID], gravest[x.ID]), cmp.Compare(carried(y), carried(x)))
	})
	list = list[:min(n, len(list))]
	slices.SortFunc(list, func(x, y *report.Connection) int { return cmp.Compare(x.ID, y.ID) })
	ids := make([]uint32, len(list))
	for i, c := range list {
		ids[i] = c.ID
	}
	return ids
}

// follow has a connection's packets told from others.
func (c *Collector) follow(f *flows.Connection) *trail {
	if t := c.byID[f.ID]; t != nil {
		return t
	}
	t := &trail{conn: f, span: timespan{f.FirstSeen, max(f.LastSeen, f.FirstSeen+1)}}
	c.byID[f.ID] = t
	c.trails = append(c.trails, t)
	var src uint32
	if f.Transport == dissect.UD {
		src = f.A.QPN
	}
	if f.B.Known {
		c.streams[streamName{f.B.QPName, f.A.Addr, src}] = side{t, flows.AToB}
	}
	if f.A.Known && f.Transport != dissect.UD {
		c.streams[streamName{f.A.QPName, f.B.Addr, 0}] = side{t, flows.BToA}
	}
	return t
}

func (t *trail) plot() {
	t.plotted = true
	for d := range t.spaces {
		t.spaces[d].init(&t.span, t.mtu(flows.Direction(d)))
		t.load[d] = make([]load, loadBins)
	}
}

// mtu is the path MTU that responses to requests in a direction have, 0 if the wire does not tell.
func (t *trail) mtu(d flows.Direction) int {
	requester, responder := &t.conn.A, &t.conn.B
	if d == flows.BToA {
		requester, responder = responder, requester
	}
	return cmp.Or(requester.PathMTU, responder.PathMTU, responder.InUse.PathMTU, requester.InUse.PathMTU)
}

// Packets takes the packets of a batch, tracked as in the first look.
func (c *Collector) Packets(b *flows.Batch) {
	for i := range b.Packets {
		p, m := &b.Packets[i], &b.Marks[i]
		s, ok := c.sideOf(p, m)
		if !ok {
			continue
		}
		s.trail.packet(p, m, s.dir)
	}
}

func (c *Collector) sideOf(p *dissect.Packet, m *flows.Mark) (side, bool) {
	if p.Has(dissect.LayerBTH) {
		name := streamName{to: flows.QPName{Addr: p.Dst, VLAN: p.VLAN(), QPN: p.DestQP}, from: p.Src}
		if p.Has(dissect.LayerDETH) {
			name.src = p.SrcQP
		}
		if s, ok := c.streams[name]; ok {
			return s, true
		}
	}
	// Handshakes do not go to the queue pair that they are about.
	if t := c.byID[m.Conn]; t != nil && (p.Has(dissect.LayerMAD) || p.Has(dissect.LayerTCP)) {
		dir := flows.AToB
		if p.Src == t.conn.B.Addr {
			dir = flows.BToA
		}
		return side{t, dir}, true
	}
	return side{}, false
}

func (t *trail) packet(p *dissect.Packet, m *flows.Mark, dir flows.Direction) {
	missing := uint32(0)
	if t.plotted && p.Has(dissect.LayerBTH) && !p.Has(dissect.LayerMAD) {
		t.load[dir][t.span.slot(p.Time, loadBins)].packet(p, m)
		if p.Op().Role == dissect.Response {
			t.spaces[dir.Reverse()].answer(p, m)
		} else {
			missing = t.spaces[dir].request(p, m)
		}
	}
	t.ladder.packet(p, m, dir, missing)
}

// Message takes a message that ended, in the second look.
func (c *Collector) Message(m *flows.Message) {
	t := c.byID[m.Conn]
	if t == nil || !t.plotted {
		return
	}
	if d, ok := m.Latency(); ok {
		t.load[m.Direction][t.span.slot(m.Completed, loadBins)].latency.add(int64(d))
	}
}

// timespan is the time that a connection's plots cover.
type timespan struct{ first, last int64 }

// slot is which of n equal parts a time lies in.
func (s *timespan) slot(at int64, n int) int {
	width := s.last - s.first
	return max(0, min(n-1, int(float64(at-s.first)/float64(width)*float64(n))))
}

func (s *timespan) width() int64 { return s.last - s.first }
