package tui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// endpointCols are the columns of the table of hosts.
func endpointCols() []col[endpoint] {
	of := func(_ *screen, e *endpoint) string { return e.filter() }
	number := func(name, title string, width, spare int, st cells.Style, f func(*endpoint) uint64, field func(*endpoint) string) col[endpoint] {
		c := col[endpoint]{
			name: name, title: title, width: width, right: true, spare: spare,
			text: func(_ *screen, e *endpoint) (string, cells.Style) {
				if n := f(e); n > 0 {
					return short(n), st
				}
				return "·", cells.Faint
			},
			num: func(e *endpoint) float64 { return float64(f(e)) },
		}
		if field != nil {
			c.field = func(_ *screen, e *endpoint) string { return field(e) }
		}
		return c
	}
	bytes := func(name, title string, spare int, f func(*endpoint) uint64) col[endpoint] {
		c := number(name, title, 10, spare, cells.Plain, f, nil)
		c.text = func(_ *screen, e *endpoint) (string, cells.Style) { return report.Bytes(f(e)), cells.Plain }
		return c
	}
	with := func(field string) func(*endpoint) string {
		return func(e *endpoint) string { return "(" + e.filter() + ") and " + field }
	}
	return []col[endpoint]{
		{name: "host", title: "host", least: 15, most: 39, text: func(s *screen, e *endpoint) (string, cells.Style) { return s.addr(e.addr), cells.Plain }, field: of},
		{name: "qps", title: "QPs", width: 5, right: true, text: func(_ *screen, e *endpoint) (string, cells.Style) { return e.qpCount(), cells.Plain }, num: func(e *endpoint) float64 { return float64(len(e.qps)) }},
		number("connections", "conns", 6, 0, cells.Plain, func(e *endpoint) uint64 { return e.conns }, nil),
		number("peers", "peers", 6, 6, cells.Plain, func(e *endpoint) uint64 { return uint64(len(e.peers)) }, nil),
		number("packets-sent", "pkts out", 9, 3, cells.Request, func(e *endpoint) uint64 { return e.sent.packets }, nil),
		number("packets-received", "pkts in", 8, 3, cells.Response, func(e *endpoint) uint64 { return e.received.packets }, nil),
		bytes("bytes-sent", "bytes out", 0, func(e *endpoint) uint64 { return e.sent.bytes }),
		bytes("bytes-received", "bytes in", 0, func(e *endpoint) uint64 { return e.received.bytes }),
		{name: "bytes", title: "bytes", width: 10, right: true, spare: 8, text: func(_ *screen, e *endpoint) (string, cells.Style) {
			return report.Bytes(e.sent.bytes + e.received.bytes), cells.Plain
		}, num: func(e *endpoint) float64 { return float64(e.sent.bytes + e.received.bytes) }},
		number("requests", "requests", 9, 7, cells.Plain, func(e *endpoint) (n uint64) {
			for i := range e.asked {
				n += e.asked[i].Count
			}
			return n
		}, nil),
		number("resent", "resent", 7, 0, cells.Warn, func(e *endpoint) uint64 { return e.resent }, with("flow.retransmission")),
		number("naks", "NAKs", 5, 0, cells.Bad, func(e *endpoint) uint64 { return e.naks }, with("flow.nak")),
		number("rnr", "RNRs", 5, 4, cells.Warn, func(e *endpoint) uint64 { return e.rnrs }, with("flow.rnr")),
		number("ce", "CE in", 6, 5, cells.Congestion, func(e *endpoint) uint64 { return e.marked }, with("flow.ce")),
		number("cnp", "CNPs", 5, 5, cells.Congestion, func(e *endpoint) uint64 { return e.cnps }, with("flow.cnp")),
		{name: "findings", title: "findings", width: 10, text: func(_ *screen, e *endpoint) (string, cells.Style) {
			text, worst := "", cells.Faint
			for v := flows.Error; ; v-- {
				if n := e.found[v]; n > 0 {
					letter, st := severity(v)
					if text == "" {
						worst = st
					}
					text += fmt.Sprintf(" %s%s", letter, short(n))
				}
				if v == flows.Note {
					break
				}
			}
			return cmp.Or(strings.TrimSpace(text), "·"), worst
		}, num: func(e *endpoint) float64 {
			return float64(e.found[flows.Error])*1e12 + float64(e.found[flows.Warning])*1e6 + float64(e.found[flows.Note])
		}},
	}
}

// qpCount is how many queue pairs an endpoint has, at least.
func (e *endpoint) qpCount() string {
	if e.unnamed {
		return fmt.Sprintf("≥%s", short(uint64(max(1, len(e.qps)))))
	}
	return short(uint64(len(e.qps)))
}

// endpointsView is the table of hosts, and what is known of the one under the cursor.
type endpointsView struct {
	table *grid[endpoint]
	listH int
}

func newEndpoints() *endpointsView {
	v := &endpointsView{table: newGrid((*endpoint).id, endpointCols())}
	v.table.sort = slices.IndexFunc(v.table.cols, func(c col[endpoint]) bool { return c.name == "bytes" })
	v.table.desc = true
	return v
}

func (v *endpointsView) title(s *screen) string {
	if s.filter.conns != nil {
		return fmt.Sprintf("Endpoints of connections with packets of the filter (%d)", v.table.n)
	}
	return fmt.Sprintf("Endpoints (%d)", v.table.n)
}

func (v *endpointsView) refresh(s *screen) {
	s.findConnections()
	v.table.set(s, endpointsOf(s.filteredConnections(), s.snapshot().Findings))
}

func (v *endpointsView) draw(s *screen, c *cells.Canvas) {
	v.listH = c.H
	e := v.table.current()
	if e == nil {
		v.table.draw(s, c, true)
		if s.filter.text == "" && s.packets() > 0 {
			noQueuePairs(s, c.Sub(1, 2, c.W-1, c.H-2))
		} else {
			drawEmpty(s, c.Sub(0, 1, c.W, c.H-1))
		}
		return
	}
	if !s.zoom && c.H >= 14 {
		v.listH = max(3, min(v.table.n+2, c.H*s.split/100))
		v.drawDetail(s, c.Sub(0, v.listH, c.W, c.H-v.listH), e)
	}
	v.table.draw(s, c.Sub(0, 0, c.W, v.listH), true)
}

// drawDetail draws what is known of a host, and whom it talks to.
func (v *endpointsView) drawDetail(s *screen, c *cells.Canvas, e *endpoint) {
	panelTitle(c, rect{0, 1, c.W, 1}, fmt.Sprintf("%s (%s: its connections)", s.addr(e.addr), s.keys.key(doInto)), false)
	c = c.Sub(0, 1, c.W, c.H-1)
	y := 0
	if n := s.snapshot().Evicted; n > 0 {
		y = paragraph(c, y, "without", cells.Warn, report.Plural(n, "connection")+" evicted for want of room, which this table does not count")
	}
	if n := len(s.snapshot().IWARP); n > 0 {
		y = paragraph(c, y, "without", cells.Faint, iwarpApart(n))
	}
	var names []string
	for _, q := range e.qps[:min(len(e.qps), 12)] {
		names = append(names, qpn(q))
	}
	text := strings.Join(names, ", ")
	if n := len(e.qps) - len(names); n > 0 {
		text += fmt.Sprintf(" and %s more", report.Count(uint64(n)))
	}
	if e.unnamed {
		text = strings.TrimPrefix(text+", and such as no packet names", ", and ")
	}
	y = paragraph(c, y, "QPs", cells.Plain, text)
	y = paragraph(c, y, "asked for", cells.Plain, cmp.Or(e.operations(), "nothing in this capture"))
	for i := range s.snapshot().HostPairs {
		p := &s.snapshot().HostPairs[i]
		to := p.Paths[0]
		switch e.addr {
		case p.A:
		case p.B:
			to = p.Paths[1]
		default:
			continue
		}
		if (to.RoCEv1 || to.RoCEv2) && y < c.H/2 { // InfiniBand itself has none of them
			peer := p.B
			if e.addr == p.B {
				peer = p.A
			}
			y = paragraph(c, y, "sends", cells.Plain, "to "+s.addr(peer)+" with "+marksText(&to))
		}
	}
	v.drawPeers(s, c.Sub(0, y, c.W, c.H-y), e)
}

// marksText is what packets from one host to another have in their headers.
func marksText(p *flows.HostPath) string {
	parts := []string{"DSCP " + numbersText(p.DSCP)}
	if len(p.Priorities) > 0 {
		parts = append(parts, "priority "+numbersText(p.Priorities))
	}
	if len(p.VLANs) > 0 {
		var names []string
		for _, v := range p.VLANs {
			if v < 0 {
				names = append(names, "none")
				continue
			}
			names = append(names, fmt.Sprint(v))
		}
		parts = append(parts, "VLAN "+strings.Join(names, ", "))
	}
	if p.SrcPorts > 0 {
		parts = append(parts, report.Plural(uint64(p.SrcPorts), "UDP source port"))
	}
	for _, v := range []struct {
		seen bool
		name string
	}{{p.RoCEv1, "RoCE v1"}, {p.RoCEv2, "RoCE v2"}} {
		if v.seen {
			parts = append(parts, v.name)
		}
	}
	return strings.Join(parts, "; ")
}

func numbersText(list []uint8) string {
	var names []string
	for _, n := range list {
		names = append(names, fmt.Sprint(n))
	}
	return cmp.Or(strings.Join(names, ", "), "not told")
}

// drawPeers draws whom a host talks to, the busiest first.
func (v *endpointsView) drawPeers(s *screen, c *cells.Canvas, e *endpoint) {
	peers := slices.Clone(e.peers)
	slices.SortStableFunc(peers, func(a, b peer) int {
		return cmp.Compare(b.sent.bytes+b.received.bytes, a.sent.bytes+a.received.bytes)
	})
	if c.H < 2 || len(peers) == 0 {
		return
	}
	const numbers = 48 // columns of the five numbers
	w := max(15, min(39, c.W-2-numbers))
	line := func(y int, st cells.Style, texts ...string) {
		c.Fit(1, y, w, st, texts[0])
		x := 1 + w
		for i, width := range []int{7, 8, 10, 8, 10} {
			x += width + 1
			c.Right(x, y, st, texts[i+1])
		}
	}
	line(0, cells.Faint|cells.Bold, "talks to", "conns", "pkts to", "bytes to", "from", "bytes from")
	for i, p := range peers {
		if i == c.H-2 && len(peers) > c.H-1 {
			c.Text(1, i+1, cells.Faint, fmt.Sprintf("and %s more", report.Count(uint64(len(peers)-i))))
			break
		}
		line(i+1, cells.Plain, s.addr(p.addr), short(p.conns), short(p.sent.packets), report.Bytes(p.sent.bytes), short(p.received.packets), report.Bytes(p.received.bytes))
	}
}

func (v *endpointsView) act(s *screen, a action) bool {
	if a != doInto {
		return v.table.act(s, a)
	}
	if e := v.table.current(); e != nil {
		s.push(newConnectionsOf(e.addr))
	}
	return true
}

func (v *endpointsView) mouse(s *screen, m mouseEvent) bool {
	switch {
	case m.wheel != 0:
		v.table.wheel(m.wheel)
	case m.y == v.listH && v.listH > 0 && m.click:
		s.holdSplit()
	case m.y < v.listH && v.table.click(s, m.x, m.y):
		v.act(s, doInto)
	}
	return true
}

// here is the busiest connection of the host under the cursor.
func (v *endpointsView) here(s *screen) place {
	e := v.table.current()
	if e == nil {
		return place{}
	}
	var p place
	most := uint64(0)
	all := s.filteredConnections()
	for i := range all {
		if k := &all[i]; endsAt(k, e.addr) {
			if n := k.Streams[0].Bytes + k.Streams[1].Bytes; p.conn == 0 || n > most {
				p.conn, most = k.ID, n
			}
		}
	}
	return p
}

// endsAt says whether one end of a connection is at a host.
func endsAt(k *flows.Connection, host dissect.Addr) bool { return k.A.Addr == host || k.B.Addr == host }

func (v *endpointsView) grid() gridLike { return v.table }

func (v *endpointsView) footer() []action { return []action{doInto, doSort, doFromCell} }
