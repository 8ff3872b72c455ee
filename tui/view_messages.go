package tui

import (
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// mostMessages is how many messages of a connection are listed.
const mostMessages = 100_000

func messageID(m *flows.Message) uint64 {
	return uint64(m.Conn)<<33 ^ uint64(m.Direction)<<32 ^ uint64(m.Index) + 1
}

// statusText is what became of a message; a status concluded from silence says so.
func statusText(m *flows.Message) (string, cells.Style) {
	text := m.Status.String()
	if m.Presumed {
		text = "presumed: " + text
	}
	switch {
	case m.Status.Failed():
		return text, cells.Bad
	case m.Status == flows.StatusSuccess:
		return text, cells.OK
	case m.Status == flows.StatusSent:
		return text, cells.Plain
	}
	return text, cells.Warn
}

// latencyText is a message's latency; ≤ where the answer covered later messages too.
func latencyText(m *flows.Message) string {
	d, ok := m.Latency()
	switch {
	case !ok:
		return "-"
	case m.Coalesced:
		return "≤" + dur(int64(d))
	}
	return dur(int64(d))
}

// upperText is what an upper protocol says of a message.
func upperText(s *screen, m *flows.Message) (string, cells.Style) {
	u := m.Upper
	if u == nil {
		return "", cells.Faint
	}
	text, st := u.Summary, cells.Plain
	switch {
	case u.Answers():
		text += fmt.Sprintf(" (to packet %d, %s)", u.Request, dur(u.Latency))
	case u.Request != 0:
		text += fmt.Sprintf(" (of packet %d)", u.Request)
	}
	if u.Failed {
		st = cells.Bad
	}
	return s.masked(text), st
}

func messageCols() []col[flows.Message] {
	type msg = flows.Message
	ofMessage := func(_ *screen, m *msg) string {
		return fmt.Sprintf("flow.id == %d and msg.index == %d", m.Conn, m.Index)
	}
	cols := []col[msg]{
		{name: "index", title: "#", width: 6, right: true, text: func(_ *screen, m *msg) (string, cells.Style) { return fmt.Sprint(m.Index), cells.Faint }, num: func(m *msg) float64 { return float64(m.Index) }, field: ofMessage},
		{name: "direction", title: "from", width: 5, text: func(_ *screen, m *msg) (string, cells.Style) {
			if m.Direction == flows.AToB {
				return "A→B", cells.Request
			}
			return "B→A", cells.Response
		}, num: func(m *msg) float64 { return float64(m.Direction) }},
		{name: "operation", title: "operation", width: 12, text: func(_ *screen, m *msg) (string, cells.Style) { return m.Op.String(), cells.Plain }},
		{name: "bytes", title: "bytes", width: 10, right: true, text: func(_ *screen, m *msg) (string, cells.Style) { return report.Bytes(m.Bytes), cells.Plain }, num: func(m *msg) float64 { return float64(m.Bytes) }},
		{name: "psn", title: "first PSN", width: 9, right: true, text: func(_ *screen, m *msg) (string, cells.Style) { return fmt.Sprintf("0x%06x", m.FirstPSN), cells.Plain }, num: func(m *msg) float64 { return float64(m.Index) }, field: func(_ *screen, m *msg) string {
			return fmt.Sprintf("flow.id == %d and infiniband.bth.psn in {%d..%d}", m.Conn, m.FirstPSN, m.LastPSN)
		}},
		{name: "packets", title: "pkts", width: 5, right: true, text: func(_ *screen, m *msg) (string, cells.Style) { return fmt.Sprint(m.Segments), cells.Plain }, num: func(m *msg) float64 { return float64(m.Segments) }},
		{name: "started", title: "first seen", width: 11, right: true, text: func(s *screen, m *msg) (string, cells.Style) { return s.moment(m.FirstSeen), cells.Plain }, num: func(m *msg) float64 { return float64(m.FirstSeen) }},
		{name: "latency", title: "latency", width: 9, right: true, text: func(_ *screen, m *msg) (string, cells.Style) { return latencyText(m), cells.Plain }, num: func(m *msg) float64 { d, _ := m.Latency(); return float64(d) }},
		{name: "resends", title: "resent", width: 6, right: true, text: func(_ *screen, m *msg) (string, cells.Style) {
			if m.Resends == 0 {
				return "·", cells.Faint
			}
			return fmt.Sprint(m.Resends), cells.Warn
		}, num: func(m *msg) float64 { return float64(m.Resends) }},
		{name: "carries", title: "carries", hide: true, least: 24, text: func(s *screen, m *msg) (string, cells.Style) { return upperText(s, m) }},
		{name: "status", title: "status", least: 16, text: func(_ *screen, m *msg) (string, cells.Style) { return statusText(m) }},
	}
	for rank, name := range []string{"psn", "started", "packets", "direction"} { // what goes first where there is little room
		for i := range cols {
			if cols[i].name == name {
				cols[i].spare = 4 - rank
			}
		}
	}
	return cols
}

// messageList is the messages of a connection, and how they get there.
type messageList struct {
	conn    uint32
	table   *grid[flows.Message]
	total   int
	partial bool
	loaded  bool
	carries bool // there is an upper protocol, which has a column then
	failed  error
	of      *flows.Snapshot // the snapshot that they were asked for with
}

func newMessageList(conn uint32) messageList {
	return messageList{conn: conn, table: newGrid(messageID, messageCols())}
}

// refresh asks for the messages anew when there is something new.
func (l *messageList) refresh(s *screen) {
	if l.conn == 0 || l.of == s.snap && l.loaded {
		return
	}
	ses, conn, snap := s.ses, l.conn, s.snap
	s.start(fmt.Sprintf("messages of %d", conn), func() func(*screen) {
		got, err := ses.index.MessagesOf(ses.ctx, conn, mostMessages)
		return func(s *screen) {
			l.of, l.loaded, l.failed = snap, true, err
			l.total, l.partial = got.Total, got.Partial
			l.show(s, got.List)
		}
	})
}

func (l *messageList) show(s *screen, list []flows.Message) {
	if !l.carries && slices.ContainsFunc(list, func(m flows.Message) bool { return m.Upper != nil }) {
		l.carries = true
		if k := slices.IndexFunc(l.table.cols, func(c col[flows.Message]) bool { return c.name == "carries" }); !slices.Contains(l.table.shown, k) {
			l.table.toggleColumn(k)
		}
	}
	l.table.set(s, list)
}

func (l *messageList) draw(s *screen, c *cells.Canvas, focused bool) {
	switch {
	case l.failed != nil:
		c.Fit(1, 0, c.W-2, cells.Bad, l.failed.Error())
	case !l.loaded:
		c.Text(1, 0, cells.Faint, "…")
	case l.table.n == 0:
		c.Text(1, 0, cells.Faint, "No message has ended so far.")
	default:
		note := ""
		switch {
		case l.partial:
			note = "Earlier messages are not remembered."
		case l.total > l.table.n:
			note = fmt.Sprintf("The first %s of %s.", report.Count(uint64(l.table.n)), report.Count(uint64(l.total)))
		}
		h := c.H
		if note != "" && h > 3 {
			h--
			c.Fit(1, h, c.W-2, cells.Note, note)
		}
		l.table.draw(s, c.Sub(0, 0, c.W, h), focused)
	}
}

// into opens the message under the cursor.
func (l *messageList) into(s *screen) {
	if m := l.table.current(); m != nil {
		s.push(newMessage(*m))
	}
}

// messagesView is the messages of a connection.
type messagesView struct{ list messageList }

func newMessages(conn uint32) *messagesView { return &messagesView{newMessageList(conn)} }

func (v *messagesView) title(s *screen) string {
	if v.list.conn == 0 {
		return "Messages"
	}
	return fmt.Sprintf("Messages of %s", s.connTitle(v.list.conn))
}

func (v *messagesView) refresh(s *screen) {
	if all := s.snapshot().Connections; v.list.conn == 0 && len(all) > 0 {
		v.list.conn = all[0].ID
	}
	v.list.refresh(s)
}

func (v *messagesView) draw(s *screen, c *cells.Canvas) {
	if v.list.conn == 0 {
		if s.packets() > 0 {
			noQueuePairs(s, c.Sub(1, 1, c.W-1, c.H-1))
			return
		}
		drawEmpty(s, c)
		return
	}
	v.list.draw(s, c, true)
}

func (v *messagesView) act(s *screen, a action) bool {
	if a == doInto {
		v.list.into(s)
		return true
	}
	return v.list.table.act(s, a)
}

func (v *messagesView) mouse(s *screen, m mouseEvent) bool {
	if m.wheel != 0 {
		v.list.table.wheel(m.wheel)
	} else if v.list.table.click(s, m.x, m.y) {
		v.list.into(s)
	}
	return true
}

func (v *messagesView) here(*screen) place {
	p := place{conn: v.list.conn}
	if m := v.list.table.current(); m != nil {
		p.frame = m.FirstFrame
	}
	return p
}

func (v *messagesView) grid() gridLike   { return v.list.table }
func (v *messagesView) footer() []action { return []action{doInto, doLadderHere, doSort, doFromCell} }

// messageView is one message: what it asked for, what became of it, and its packets.
type messageView struct {
	m       flows.Message
	packets packetGrid
	split   int
	tree    tree
	hex     hexPane
}

func newMessage(m flows.Message) *messageView { return &messageView{m: m} }

func (v *messageView) title(*screen) string { return fmt.Sprintf("%s %d", v.m.Op, v.m.Index) }

func (v *messageView) refresh(s *screen) {
	if v.packets.view == nil {
		v.packets.view = s.ses.index.OfMessage(s.ses.ctx, v.m.Conn, v.m.Direction, v.m.Index)
	}
	v.packets.count(s)
}

func (v *messageView) draw(s *screen, c *cells.Canvas) {
	m := &v.m
	y := paragraph(c, 0, "asked", cells.Bold, v.request(s))
	status, st := statusText(m)
	y = paragraph(c, y, "became", st, status)
	y = paragraph(c, y, "went", cells.Plain, s.connTitle(m.Conn)+", requested "+way(m.Direction))
	y = paragraph(c, y, "PSN", cells.Plain, fmt.Sprintf("0x%06x to 0x%06x, %s, first seen in packet %d, last in packet %d", m.FirstPSN, m.LastPSN, report.Plural(uint64(m.Segments), "packet"), m.FirstFrame, m.LastFrame))
	when := fmt.Sprintf("first seen at %s s, last sent at %s s", s.moment(m.FirstSeen), s.moment(m.LastSent))
	if m.Completed > 0 {
		when += fmt.Sprintf(", answered by packet %d at %s s", m.AnswerFrame, s.moment(m.Completed))
	}
	y = paragraph(c, y, "when", cells.Plain, when)
	if _, ok := m.Latency(); ok {
		text := latencyText(m)
		if m.Coalesced {
			text += " (at most: the answer covered later messages too)"
		}
		y = paragraph(c, y, "latency", cells.Plain, text)
	}
	if m.Resends > 0 {
		y = paragraph(c, y, "resent", cells.Warn, report.Plural(uint64(m.Resends), "packet")+" sent again")
	}
	if m.Seen < m.Bytes {
		y = paragraph(c, y, "seen", cells.Note, fmt.Sprintf("%s of %s of payload passed here", report.Bytes(m.Seen), report.Bytes(m.Bytes)))
	}
	if text, st := upperText(s, m); text != "" {
		y = paragraph(c, y, "carries", st, text)
	}
	panelTitle(c, rect{0, y + 1, c.W, 1}, "Its packets", true)
	v.split = y + 1
	h := c.H - v.split
	if rest := h - v.packets.n - 2; rest >= 10 && !s.zoom { // room for what the packet under the cursor says
		h = max(v.packets.n+1, h/3)
		v.detail(s, c.Sub(0, v.split+h, c.W, c.H-v.split-h))
	}
	v.packets.draw(s, c.Sub(0, v.split, c.W, h), true)
	v.packets.load(s, fmt.Sprintf("rows %p", v))
}

// detail draws the tree and the bytes of the packet under the cursor.
func (v *messageView) detail(s *screen, c *cells.Canvas) {
	r := v.packets.current()
	v.tree.set(s, r)
	if r == nil {
		return
	}
	w := c.W
	if c.W >= 110 {
		w = c.W - 77
		panelTitle(c, rect{w + 1, 1, 76, 1}, "Bytes", false)
		v.hex.draw(c.Sub(w+1, 1, 76, c.H-1), r, 0, 0, false)
	}
	panelTitle(c, rect{0, 1, w, 1}, fmt.Sprintf("Packet %d", r.Number), false)
	v.tree.draw(c.Sub(0, 1, w, c.H-1), false)
}

// request is what the message asked for, in words.
func (v *messageView) request(s *screen) string {
	m := &v.m
	text := fmt.Sprintf("%s of %s", m.Op, report.Bytes(m.Bytes))
	switch m.Op {
	case flows.OpCompareSwap:
		text = fmt.Sprintf("%s: 0x%x if there is 0x%x", m.Op, m.Swap, m.Compare)
	case flows.OpFetchAdd:
		text = fmt.Sprintf("%s: add 0x%x", m.Op, m.Swap)
	}
	if m.Op != flows.OpSend {
		va := fmt.Sprintf("0x%x", m.VA)
		if s.privacy != nil {
			va = "masked"
		}
		text += fmt.Sprintf(" at %s, R_Key %s", va, s.rkey(m.RKey))
	}
	if m.HasOrig {
		text += fmt.Sprintf("; before: 0x%x", m.Orig)
	}
	return text
}

func (v *messageView) act(s *screen, a action) bool {
	if a == doInto {
		if v.packets.n > 0 {
			p := newPacketsOf(v.title(s), s.ses.index.OfMessage(s.ses.ctx, v.m.Conn, v.m.Direction, v.m.Index))
			p.list.want = v.packets.anchor
			s.push(p)
		}
		return true
	}
	return v.packets.act(s, a)
}

func (v *messageView) mouse(s *screen, m mouseEvent) bool {
	if m.wheel != 0 {
		v.packets.wheel(m.wheel)
		v.packets.settle()
	} else if v.packets.click(m.x, m.y-v.split) {
		v.act(s, doInto)
	}
	return true
}

func (v *messageView) here(*screen) place {
	p := place{conn: v.m.Conn, frame: v.m.FirstFrame, message: v.m.Index, hasMsg: true}
	if v.packets.anchor > 0 {
		p.frame = v.packets.anchor
	}
	return p
}

func (v *messageView) grid() gridLike   { return &v.packets }
func (v *messageView) footer() []action { return []action{doInto, doLadderHere, doFromCell} }
