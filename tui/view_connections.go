package tui

import (
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// connectionCols are the columns of the table of connections; both streams are added up where a column does not say whose it is.
func connectionCols() []col[flows.Connection] {
	type conn = flows.Connection
	both := func(c *conn, f func(*flows.Stream) uint64) uint64 { return f(&c.Streams[0]) + f(&c.Streams[1]) }
	count := func(name, title string, width int, bad cells.Style, f func(*flows.Stream) uint64, field string) col[conn] {
		return col[conn]{
			name: name, title: title, width: width, right: true,
			text: func(_ *screen, c *conn) (string, cells.Style) {
				n := both(c, f)
				if n == 0 {
					return "·", cells.Faint
				}
				return short(n), bad
			},
			num: func(c *conn) float64 { return float64(both(c, f)) },
			field: func(_ *screen, c *conn) string {
				if field == "" {
					return ""
				}
				return fmt.Sprintf("flow.id == %d and %s", c.ID, field)
			},
		}
	}
	of := func(_ *screen, c *conn) string { return fmt.Sprintf("flow.id == %d", c.ID) }
	qp := func(which func(*conn) *flows.QP) func(*screen, *conn) string {
		return func(_ *screen, c *conn) string {
			if q := which(c); q.Known {
				return fmt.Sprintf("infiniband.bth.destqp == 0x%x", q.QPN)
			}
			return ""
		}
	}
	a, b := func(c *conn) *flows.QP { return &c.A }, func(c *conn) *flows.QP { return &c.B }
	ops := map[string]flows.Operation{"SEND": flows.OpSend, "WRITE": flows.OpWrite, "READ": flows.OpRead}
	perOp := func(title string) col[conn] {
		op := ops[title]
		return count(title, title, 6, cells.Plain, func(st *flows.Stream) uint64 {
			return st.Messages[op].Count
		}, "")
	}
	atomics := count("atomics", "ATOM", 6, cells.Atomic, func(st *flows.Stream) uint64 {
		return st.Messages[flows.OpCompareSwap].Count + st.Messages[flows.OpFetchAdd].Count + st.Messages[flows.OpAtomicWrite].Count
	}, "")
	worst := func(c *conn) int64 { return max(c.Streams[0].Latency.P99, c.Streams[1].Latency.P99) }
	cols := []col[conn]{
		{name: "id", title: "#", width: 4, right: true, text: func(_ *screen, c *conn) (string, cells.Style) { return fmt.Sprint(c.ID), cells.Faint }, num: func(c *conn) float64 { return float64(c.ID) }, field: of},
		{name: "a", title: "A", least: 18, most: 49, text: func(s *screen, c *conn) (string, cells.Style) { return s.qpName(&c.A), known(&c.A) }, field: qp(a)},
		{name: "b", title: "B", least: 18, most: 49, text: func(s *screen, c *conn) (string, cells.Style) { return s.qpName(&c.B), known(&c.B) }, field: qp(b)},
		{name: "service", title: "over", width: 4, text: func(_ *screen, c *conn) (string, cells.Style) { return c.Transport.String(), cells.Plain }, field: of},
		{name: "paired", title: "paired by", width: 9, text: func(_ *screen, c *conn) (string, cells.Style) { return pairing(c.Evidence) }, num: func(c *conn) float64 { return float64(c.Evidence) }},
		{name: "states", title: "states", width: 9, text: func(_ *screen, c *conn) (string, cells.Style) {
			st := cells.Plain
			if c.A.State == flows.StateError || c.B.State == flows.StateError {
				st = cells.Bad
			}
			return shortState(c.A.State) + "/" + shortState(c.B.State), st
		}},
		{name: "mtu", title: "MTU", width: 4, right: true, hide: true, text: func(_ *screen, c *conn) (string, cells.Style) {
			if m := max(c.A.PathMTU, c.B.PathMTU); m > 0 {
				return fmt.Sprint(m), cells.Plain
			}
			return "?", cells.Faint
		}, num: func(c *conn) float64 { return float64(max(c.A.PathMTU, c.B.PathMTU)) }},
		count("packets", "packets", 7, cells.Plain, func(s *flows.Stream) uint64 { return s.Packets }, ""),
		perOp("SEND"), perOp("WRITE"), perOp("READ"), atomics,
		{name: "goodput", title: "goodput", width: 12, right: true, text: func(_ *screen, c *conn) (string, cells.Style) {
			g := c.Streams[0].Goodput + c.Streams[1].Goodput
			if g == 0 {
				return "·", cells.Faint
			}
			return report.BitRate(g), cells.Plain
		}, num: func(c *conn) float64 { return c.Streams[0].Goodput + c.Streams[1].Goodput }},
		{name: "latency", title: "lat p99", width: 9, right: true, text: func(_ *screen, c *conn) (string, cells.Style) {
			n := worst(c)
			if n == 0 {
				return "·", cells.Faint
			}
			mark := ""
			if c.Streams[0].Latency.Coalesced+c.Streams[1].Latency.Coalesced > 0 {
				mark = "≤"
			}
			if c.Streams[0].Latency.Coarse || c.Streams[1].Latency.Coarse {
				mark += "~"
			}
			return mark + dur(n), cells.Plain
		}, num: func(c *conn) float64 { return float64(worst(c)) }},
		count("resent", "resent", 6, cells.Warn, func(s *flows.Stream) uint64 { return s.RetransmittedPackets }, "flow.retransmission"),
		count("naks", "NAK", 5, cells.Bad, func(s *flows.Stream) uint64 {
			var n uint64
			for _, k := range s.NAKs {
				n += k
			}
			return n
		}, "flow.nak"),
		count("rnr", "RNR", 5, cells.Warn, func(s *flows.Stream) uint64 { return s.RNRNAKs }, "flow.rnr"),
		count("ce", "CE", 5, cells.Congestion, func(s *flows.Stream) uint64 { return s.ECNCE }, "flow.ce"),
		count("cnp", "CNP", 5, cells.Congestion, func(s *flows.Stream) uint64 { return s.CNPs }, "flow.cnp"),
	}
	// What goes first where there is little room.
	for rank, name := range []string{"states", "packets", "goodput", "latency", "READ", "WRITE", "SEND", "rnr", "atomics", "ce", "cnp", "service", "paired"} {
		for i := range cols {
			if cols[i].name == name {
				cols[i].spare = rank + 1
			}
		}
	}
	return cols
}

func known(q *flows.QP) cells.Style {
	if q.Known {
		return cells.Plain
	}
	return cells.Faint
}

func shortState(st flows.State) string {
	if st == flows.StateUnknown {
		return "?"
	}
	return st.String()
}

// connectionsView is the table of all connections, or of those of a host, or of those that have a packet which the filter selects.
type connectionsView struct {
	host   dissect.Addr // only connections with an end there; zero: all
	table  *grid[flows.Connection]
	listH  int
	detail connectionView // draws what is known of the one under the cursor
}

func newConnections() *connectionsView {
	return &connectionsView{table: newGrid(func(c *flows.Connection) uint64 { return uint64(c.ID) }, connectionCols())}
}

// newConnectionsOf is the connections of a host.
func newConnectionsOf(host dissect.Addr) *connectionsView {
	v := newConnections()
	v.host = host
	return v
}

func (v *connectionsView) title(s *screen) string {
	if !v.host.IsZero() {
		return fmt.Sprintf("Connections of %s (%d)", s.addr(v.host), v.table.n)
	}
	if s.filter.conns != nil {
		return fmt.Sprintf("Connections with packets of the filter (%d of %d)", v.table.n, len(s.snapshot().Connections))
	}
	return fmt.Sprintf("Connections (%d)", v.table.n)
}

func (v *connectionsView) refresh(s *screen) {
	s.findConnections()
	all := s.filteredConnections()
	if !v.host.IsZero() {
		all = slices.DeleteFunc(slices.Clone(all), func(k flows.Connection) bool { return !endsAt(&k, v.host) })
	}
	v.table.set(s, all)
}

// filteredConnections are the connections that have a packet which the filter selects; all without a filter.
func (s *screen) filteredConnections() []flows.Connection {
	all := s.snapshot().Connections
	if s.filter.conns == nil {
		return all
	}
	var some []flows.Connection
	for i := range all {
		if s.filter.conns[all[i].ID] {
			some = append(some, all[i])
		}
	}
	return some
}

// maxConnectionScan bounds for how many selected packets it is worked out to which connections they belong.
const maxConnectionScan = 4 << 20

// findConnections has it worked out which connections the filter selects packets of.
func (s *screen) findConnections() {
	view := s.filter.view
	if view == nil {
		s.filter.conns = nil
		return
	}
	ses := s.ses
	s.start("connections of the filter", func() func(*screen) {
		conns := map[uint32]bool{}
		r := ses.index.NewReader()
		n := 0
		for frame := range view.Frames() {
			e, err := r.Entry(frame)
			if err == nil && e.Mark.Conn != 0 {
				conns[ses.index.Connection(e.Mark.Conn)] = true
			}
			if n++; n == maxConnectionScan {
				break
			}
		}
		return func(s *screen) {
			if s.filter.view != view {
				return
			}
			before := len(s.filter.conns)
			was := s.filter.conns != nil
			s.filter.conns = conns
			if !was || before != len(conns) {
				s.top().refresh(s)
			}
		}
	})
}

func (v *connectionsView) draw(s *screen, c *cells.Canvas) {
	v.listH = c.H
	k := v.table.current()
	if k != nil && !s.zoom && c.H-v.table.n-1 >= 14 { // room for what is known of the one under the cursor
		v.listH = max(v.table.n+2, min(c.H*s.split/100, c.H-16))
		v.drawDetail(s, c.Sub(0, v.listH, c.W, c.H-v.listH), k)
	}
	v.table.draw(s, c.Sub(0, 0, c.W, v.listH), true)
	if v.table.n == 0 {
		if s.filter.text == "" && s.packets() > 0 {
			noQueuePairs(s, c.Sub(1, 2, c.W-1, c.H-2))
			return
		}
		drawEmpty(s, c.Sub(0, 1, c.W, c.H-1))
	}
}

// iwarpApart names the iWARP connections, which no table of the screen has: these are of queue pairs.
func iwarpApart(n int) string {
	return report.Plural(uint64(n), "iWARP connection") + ", of which \"rocescope analyze\" tells"
}

// noQueuePairs says why there may be none, although there are packets.
func noQueuePairs(s *screen, c *cells.Canvas) {
	p := s.snapshot().Protocols
	lines := []string{"No queue pairs so far: none of the packets is RoCE."}
	switch {
	case s.snap == nil:
		lines = []string{"No queue pairs so far."}
	case len(s.snapshot().IWARP) > 0 && p.RoCEv2+p.RoCEv1+p.InfiniBand == 0:
		lines = []string{
			"No queue pairs so far: the packets of RDMA are iWARP, which goes over TCP.",
			"Here without " + iwarpApart(len(s.snapshot().IWARP)) + ".",
		}
	case p.RoCEv2+p.RoCEv1+p.InfiniBand+p.IWARP > 0:
		lines = []string{"No queue pairs so far: there are packets of RDMA, but none that a queue pair would be known by."}
	case s.status.done || s.ses.Live():
		lines = append(lines, "Where a card does the work of RDMA itself, its host does not see these packets: capture on a mirror port of the switch, or on the other end. \"rocescope doctor IFACE\" says what can be seen on an interface.")
	}
	y, style := 0, cells.Note
	for _, text := range lines {
		for _, l := range wrapText(text, max(20, c.W-3)) {
			c.Text(1, y, style, l)
			y++
		}
		style = cells.Faint
	}
}

// drawDetail draws the numbers of a connection, and beside them its states.
func (v *connectionsView) drawDetail(s *screen, c *cells.Canvas, k *flows.Connection) {
	w := c.W
	if c.W >= 110 {
		w = c.W / 2
		panelTitle(c, rect{w, 1, c.W - w, 1}, "States", false)
		v.detail.states(s, c.Sub(w, 1, c.W-w, c.H-1), k)
		w--
	}
	panelTitle(c, rect{0, 1, w, 1}, fmt.Sprintf("#%d (%s: all of it)", k.ID, s.keys.key(doInto)), false)
	v.detail.drawNumbers(s, c.Sub(0, 1, w, c.H-1), k, false)
}

func (v *connectionsView) act(s *screen, a action) bool {
	if a == doInto {
		if c := v.table.current(); c != nil {
			s.push(newConnection(c.ID))
		}
		return true
	}
	return v.table.act(s, a)
}

func (v *connectionsView) mouse(s *screen, m mouseEvent) bool {
	if m.wheel != 0 {
		v.table.wheel(m.wheel)
	} else if m.y < v.listH && v.table.click(s, m.x, m.y) {
		v.act(s, doInto)
	}
	return true
}

func (v *connectionsView) here(s *screen) place {
	if c := v.table.current(); c != nil {
		return place{conn: c.ID}
	}
	return place{}
}

func (v *connectionsView) grid() gridLike { return v.table }

func (v *connectionsView) footer() []action {
	return []action{doInto, doLadderHere, doSort, doFromCell}
}
