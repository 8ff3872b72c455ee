package tui

import (
	"encoding/hex"
	"fmt"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/packetline"
	"github.com/rocescope/rocescope/tui/cells"
)

// node is a line of a packet's tree.
type node struct {
	layer    string // what it belongs to; of a heading, itself
	heading  bool
	text     string
	name     string // in filters; "" for none
	value    string // as filters write it
	from, to int    // the bytes it lies in; equal: none
	style    cells.Style
}

// treeOf is everything that is known of a packet, as lines, each with its bytes.
func treeOf(s *screen, r *row) []node {
	var all []node
	p, frame := &r.Packet, r.Data
	packetline.EachLayer(p, frame, func(l dissect.Layer) {
		title := l.String()
		switch l {
		case dissect.LayerFrame:
			title += fmt.Sprintf(" %d: %d bytes on the wire, %d captured", p.Number, p.WireLen, p.CapLen)
		case dissect.LayerBTH:
			title += ": " + p.Op().Name
		case dissect.LayerPayload:
			title += fmt.Sprintf(": %d bytes", p.PayloadLen())
		}
		head := node{layer: l.String(), heading: true, text: title, style: cells.Title}
		at := len(all)
		all = append(all, head)
		from, to := len(frame), 0
		for _, f := range dissect.LayerFields(l) {
			n, ok := fieldNode(s, p, frame, f)
			if !ok {
				continue
			}
			n.layer = head.layer
			if n.to > n.from {
				from, to = min(from, n.from), max(to, n.to)
			}
			all = append(all, n)
		}
		if to > from {
			all[at].from, all[at].to = from, to
		}
	})
	if problems := p.Problems(); len(problems) > 0 {
		all = append(all, node{layer: "Problems", heading: true, text: "Problems", style: cells.Title})
		for _, q := range problems {
			all = append(all, node{layer: "Problems", text: fmt.Sprintf("%s, at byte %d", q.Code, q.Offset), style: cells.Bad, from: int(q.Offset), to: min(int(q.Offset)+1, len(frame))})
		}
	}
	return append(all, flowNodes(s, r)...)
}

// maxShown is how many bytes of a field a line shows.
const maxShown = 16

func fieldNode(s *screen, p *dissect.Packet, frame []byte, f *dissect.Field) (n node, ok bool) {
	var value []byte
	raw, isRaw := f.Raw(p, frame)
	if isRaw && f.Kind == dissect.Bytes && len(raw) > maxShown {
		value = append(hex.AppendEncode(nil, raw[:maxShown]), "…"...)
	} else if value, ok = f.AppendText(nil, p, frame); !ok {
		return n, false
	}
	n = node{name: f.Name, value: string(value), style: cells.Plain}
	shown := string(value)
	if f.Name == "infiniband.reth.r_key" || f.Name == "infiniband.atomiceth.r_key" {
		shown = s.rkey(p.RKey)
	}
	if s.raw {
		if v, ok := f.Uint(p, frame); ok && f.Width <= 64 && f.Width > 0 {
			shown = fmt.Sprintf("0x%0*x", (int(f.Width)+3)/4, v)
		}
	}
	prefix := ""
	if f.Get == nil && f.Width > 0 && f.Width <= 64 && (f.Bit|f.Width)&7 != 0 {
		prefix = string(packetline.AppendBits(nil, p, frame, f))
	}
	n.text = prefix + f.Text + ": " + shown
	if meaning := f.Meaning(p, frame); meaning != "" && !s.raw {
		n.text += " [" + meaning + "]"
	}
	n.text = s.masked(n.text)
	if first, ok := f.Place(p, frame); ok && f.Layer != dissect.LayerFrame {
		last := first + int(f.Width)
		if f.Width == 0 {
			last = first + 8*len(raw)
		}
		n.from, n.to = first/8, min((last+7)/8, len(frame))
		if n.to < n.from {
			n.to = n.from
		}
	}
	return n, true
}

// flowNodes is what tracking says of the packet, and which findings it proves.
func flowNodes(s *screen, r *row) []node {
	var all []node
	for i := range flows.Fields() {
		f := &flows.Fields()[i]
		if f.AtEnd {
			continue
		}
		v, ok := f.Get(&r.Mark, nil)
		if !ok || f.Kind == dissect.Bool && v == 0 {
			continue
		}
		value := strconv.FormatUint(v, 10)
		shown := value
		if f.Values != nil {
			shown = f.Values(v)
			if f.Kind == dissect.Text {
				value = strconv.Quote(shown)
			}
		} else if f.Kind == dissect.Bool {
			shown = "yes"
		}
		all = append(all, node{layer: "Flow", text: f.Text + ": " + shown, name: f.Name, value: value, style: cells.Plain})
	}
	if len(all) > 0 {
		all = append([]node{{layer: "Flow", heading: true, text: "Flow (from tracking, not in the bytes)", style: cells.Title}}, all...)
	}
	if found := s.ses.index.FindingsOf(r.Number); len(found) > 0 {
		all = append(all, node{layer: "Findings", heading: true, text: "Findings that this packet proves", style: cells.Title})
		for _, o := range found {
			f := flows.Finding{ID: o.ID}
			letter, st := severity(f.Severity())
			all = append(all, node{layer: "Findings", text: letter + " " + f.Check().Title + ": " + f.Check().Explain, style: st})
		}
	}
	return all
}

// tree shows a packet's nodes; headings can be closed, and stay so for the next packet.
type tree struct {
	scroller
	nodes  []node
	shown  []int
	closed map[string]bool
	of     uint64 // the packet's number
	raw    bool
	masked bool
	keep   string // the field to stay on
}

func (t *tree) set(s *screen, r *row) {
	if r == nil {
		t.nodes, t.of = nil, 0
		t.choose()
		return
	}
	if t.of == r.Number && t.raw == s.raw && t.masked == (s.privacy != nil) {
		return
	}
	if n := t.current(); n != nil {
		t.keep = n.name
		if t.keep == "" {
			t.keep = n.layer
		}
	}
	first := t.of == 0 && t.keep == ""
	t.of, t.raw, t.masked = r.Number, s.raw, s.privacy != nil
	t.nodes = treeOf(s, r)
	if first { // the layers below the transport are seldom what one looks for
		t.closed = map[string]bool{dissect.LayerFrame.String(): true, dissect.LayerEthernet.String(): true, dissect.LayerIPv4.String(): true, dissect.LayerIPv6.String(): true, dissect.LayerUDP.String(): true}
		t.keep = dissect.LayerBTH.String()
	}
	t.choose()
	for i, k := range t.shown {
		if n := &t.nodes[k]; n.name == t.keep && n.name != "" || n.heading && n.layer == t.keep {
			t.cur = i
			break
		}
	}
	t.fit()
}

func (t *tree) choose() {
	t.shown = t.shown[:0]
	for i := range t.nodes {
		if n := &t.nodes[i]; n.heading || !t.closed[n.layer] {
			t.shown = append(t.shown, i)
		}
	}
	t.n = len(t.shown)
	t.fit()
}

func (t *tree) current() *node {
	if t.cur < 0 || t.cur >= len(t.shown) {
		return nil
	}
	return &t.nodes[t.shown[t.cur]]
}

// toNode puts the cursor on a node, and opens what it is in.
func (t *tree) toNode(k int) {
	delete(t.closed, t.nodes[k].layer)
	t.choose()
	for i, m := range t.shown {
		if m == k {
			t.cur = i
		}
	}
	t.fit()
}

// nodeAt is the innermost field that holds a byte; -1 for none.
func (t *tree) nodeAt(b int) int {
	best := -1
	for i := range t.nodes {
		n := &t.nodes[i]
		if b >= n.from && b < n.to && (best < 0 || n.to-n.from <= t.nodes[best].to-t.nodes[best].from) {
			best = i
		}
	}
	return best
}

func (t *tree) act(a action) bool {
	n := t.current()
	switch {
	case a == doInto && n != nil && n.heading:
		if t.closed[n.layer] {
			delete(t.closed, n.layer)
		} else {
			t.closed[n.layer] = true
		}
		t.choose()
	case a == doLeft && n != nil:
		t.closed[n.layer] = true
		for i, k := range t.shown {
			if t.nodes[k].heading && t.nodes[k].layer == n.layer {
				t.cur = i
			}
		}
		t.choose()
	case a == doRight && n != nil:
		delete(t.closed, n.layer)
		t.choose()
	default:
		return t.scroller.act(a)
	}
	return true
}

func (t *tree) draw(c *cells.Canvas, focused bool) {
	t.height = c.H
	t.fit()
	for y := range min(t.height, t.n-t.top) {
		n := &t.nodes[t.shown[t.top+y]]
		x := 2
		if n.heading {
			x = 0
			c.Set(0, y, map[bool]rune{true: '▸', false: '▾'}[t.closed[n.layer]], cells.Faint)
			x = 2
		} else {
			x = 4
		}
		x = c.Fit(x, y, c.W-x-1, n.style, n.text)
		if n.name != "" && c.W-x > cells.Width(n.name)+3 {
			c.Right(c.W-1, y, cells.Faint, n.name)
		}
		if t.top+y == t.cur {
			st := cells.Bold
			if focused {
				st = cells.Cursor
			}
			cursorRow(c, y, c.W-1, st)
		}
	}
	t.bar(c, c.W-1, 0)
}
