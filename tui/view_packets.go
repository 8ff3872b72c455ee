package tui

import (
	"fmt"
	"slices"

	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/tui/cells"
)

// packetsView is the list of packets, the tree of the one under the cursor, and its bytes, linked both ways.
type packetsView struct {
	list  packetGrid
	tree  tree
	hex   hexPane
	focus int         // 0 list, 1 tree, 2 bytes
	of    *index.View // fixed packets: of a message, of a connection; nil: the filter's
	label string
	rects [3]rect
}

func newPackets() *packetsView { return &packetsView{} }

// newPacketsOf lists certain packets, whatever the filter says.
func newPacketsOf(label string, of *index.View) *packetsView {
	v := &packetsView{label: label, of: of}
	v.list.view = of
	return v
}

func (v *packetsView) title(s *screen) string {
	name := "Packets"
	if v.label != "" {
		name = "Packets of " + v.label
	}
	if r := v.list.current(); r != nil {
		return fmt.Sprintf("%s ▸ %d", name, r.Number)
	}
	return name
}

func (v *packetsView) refresh(s *screen) {
	if v.of == nil && v.list.view != s.filter.view {
		at := uint64(0)
		if v.list.n > 0 && v.list.cur < v.list.n && v.list.want == 0 {
			at = v.list.number(v.list.cur)
		}
		v.list.view = s.filter.view
		if at > 0 {
			v.list.want = at
		}
	}
	v.list.count(s)
	if s.tailing() && v.list.height > 0 {
		v.list.load(s, v.key())
	}
}

// key is that of reading the packets in view.
func (v *packetsView) key() string { return fmt.Sprintf("rows %p", v) }

// goTo puts the cursor on a packet. Where the filter hides it, the filter goes, which can be undone.
func (v *packetsView) goTo(s *screen, n uint64) {
	if v.list.view != nil {
		if _, exact := v.list.view.Find(n); !exact && v.list.reached(s, n) {
			if v.of != nil {
				v.of, v.label = nil, ""
				v.list.view = s.filter.view
			}
			if v.list.view != nil {
				if _, exact := v.list.view.Find(n); !exact {
					s.applyFilter("")
					s.say("The filter hid packet %d and was taken away; %s brings it back.", n, s.keys.key(doUndo))
				}
			}
		}
	}
	s.follow = false
	if s.frozen != nil && n > s.frozen.packets {
		s.frozen = nil
	}
	v.list.want = n
	v.list.count(s)
}

func (v *packetsView) here(s *screen) place {
	if v.list.n == 0 || v.list.cur >= v.list.n {
		return place{}
	}
	p := place{frame: v.list.number(v.list.cur)}
	if v.list.want > 0 {
		p.frame = v.list.want
	}
	if r := v.list.current(); r != nil {
		p.conn = s.ses.index.Connection(r.Mark.Conn)
	}
	return p
}

func (v *packetsView) grid() gridLike { return &v.list }

func (v *packetsView) footer() []action {
	switch v.focus {
	case 1:
		return []action{doNextPanel, doFromCell, doRaw, doZoom, doLadderHere}
	case 2:
		return []action{doNextPanel, doCopy, doZoom, doLadderHere}
	}
	return []action{doNextPanel, doLadderHere, doFromCell, doSearch, doNextFinding}
}

func (v *packetsView) act(s *screen, a action) bool {
	switch a {
	case doNextPanel:
		v.focus = (v.focus + 1) % 3
		return true
	case doPrevPanel:
		v.focus = (v.focus + 2) % 3
		return true
	case doBack:
		if v.focus > 0 {
			v.focus = 0
			return true
		}
		return false
	}
	switch v.focus {
	case 0:
		if a == doInto {
			v.focus = 1
			return true
		}
		return v.list.act(s, a)
	case 1:
		if a == doInto {
			if n := v.tree.current(); n != nil && !n.heading {
				v.focus = 2
				return true
			}
		}
		done := v.tree.act(a)
		v.fromTree()
		return done
	}
	r := v.list.current()
	if r == nil || !v.hex.act(a, len(r.Data)) {
		return false
	}
	v.fromHex()
	return true
}

// fromTree moves the cursor in the bytes to the field.
func (v *packetsView) fromTree() {
	if n := v.tree.current(); n != nil && n.to > n.from {
		v.hex.cur = n.from
	}
}

// fromHex moves the cursor in the tree to the field that the byte belongs to.
func (v *packetsView) fromHex() {
	if k := v.tree.nodeAt(v.hex.cur); k >= 0 {
		v.tree.toNode(k)
	}
}

func (v *packetsView) mouse(s *screen, m mouseEvent) bool {
	if m.click && v.rects[0].h > 0 && m.y == v.rects[0].h && v.rects[1].h > 0 {
		s.holdSplit()
		return true
	}
	for i, r := range v.rects {
		if !r.has(m.x, m.y) {
			continue
		}
		if m.click {
			v.focus = i
		}
		x, y := m.x-r.x, m.y-r.y
		switch i {
		case 0:
			if m.wheel != 0 {
				s.follow = false
				v.list.wheel(m.wheel)
				v.list.settle()
			} else {
				s.follow = false
				v.list.click(x, y)
			}
		case 1:
			if m.wheel != 0 {
				v.tree.wheel(m.wheel)
			} else if k := v.tree.top + y; k < v.tree.n {
				again := k == v.tree.cur
				v.tree.cur = k
				if again {
					v.tree.act(doInto)
				}
				v.fromTree()
			}
		case 2:
			if m.wheel != 0 {
				v.hex.top += m.wheel
			} else if d := v.list.current(); d != nil {
				if b := v.hex.byteAt(x, y, d.Data); b >= 0 {
					v.hex.cur = b
					v.fromHex()
				}
			}
		}
		return true
	}
	return false
}

func (v *packetsView) draw(s *screen, c *cells.Canvas) {
	v.rects = [3]rect{}
	list, detail, bytes := v.layout(s, c.W, c.H)
	v.rects = [3]rect{list, detail, bytes}
	if list.h > 0 {
		v.list.draw(s, c.Sub(list.x, list.y, list.w, list.h), v.focus == 0)
		if v.list.n == 0 {
			drawEmpty(s, c.Sub(list.x, list.y+1, list.w, list.h-1))
		}
	}
	v.list.load(s, v.key())
	r := v.list.current()
	v.tree.set(s, r)
	var from, to int
	if n := v.tree.current(); n != nil {
		from, to = n.from, n.to
	}
	if detail.h > 0 {
		panelTitle(c, detail, "Tree", v.focus == 1)
		v.tree.draw(c.Sub(detail.x, detail.y, detail.w, detail.h), v.focus == 1)
	}
	if bytes.h > 0 && bytes.w > 0 {
		title := "Bytes"
		if n := v.tree.current(); n != nil && to > from {
			title = fmt.Sprintf("Bytes %d to %d of %s", from, to-1, orElse(n.name, n.layer))
		}
		panelTitle(c, bytes, title, v.focus == 2)
		if r != nil {
			v.hex.draw(c.Sub(bytes.x, bytes.y, bytes.w, bytes.h), r, from, to, v.focus == 2)
		}
	}
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// panelTitle draws the line above a panel.
func panelTitle(c *cells.Canvas, r rect, title string, focused bool) {
	y := r.y - 1
	st := cells.Border
	if focused {
		st = cells.Focus
	}
	for x := r.x; x < r.x+r.w; x++ {
		c.Set(x, y, '─', st)
	}
	if focused {
		st |= cells.Bold
	}
	c.Fit(r.x+1, y, r.w-2, st, " "+title+" ")
}

// layout shares the place: on wide screens tree and bytes side by side, on small ones one below the other.
func (v *packetsView) layout(s *screen, w, h int) (list, detail, bytes rect) {
	if s.zoom || h < 10 || s.small() {
		all := rect{0, 0, w, h}
		inner := rect{0, 1, w, h - 1}
		switch v.focus {
		case 0:
			return all, rect{}, rect{}
		case 1:
			return rect{}, inner, rect{}
		}
		return rect{}, rect{}, inner
	}
	top := max(5, h*s.split/100)
	list = rect{0, 0, w, top}
	rest := h - top
	if w >= 110 {
		hw := 76
		return list, rect{0, top + 1, w - hw - 1, rest - 1}, rect{w - hw, top + 1, hw, rest - 1}
	}
	low := max(3, rest*2/5)
	return list, rect{0, top + 1, w, rest - low - 1}, rect{0, h - low + 1, w, low - 1}
}

// drawEmpty says why there is nothing.
func drawEmpty(s *screen, c *cells.Canvas) {
	switch {
	case s.filter.text != "" && s.packets() > 0:
		complete := true
		if s.filter.view != nil {
			complete, _ = s.filter.view.State()
		}
		if !complete && s.filter.view.Scanned() < s.status.packets {
			c.Text(2, 1, cells.Faint, "Nothing so far; the filter is still at work.")
			return
		}
		c.Text(2, 1, cells.Note, "No packet passes the filter.")
		c.Text(2, 2, cells.Faint, fmt.Sprintf("%s takes it away, %s changes it, %s undoes the last change.", s.keys.key(doClearFilter), s.keys.key(doFilter), s.keys.key(doUndo)))
	case s.ses.Live() && !s.status.done || !s.status.done:
		y := 1
		c.Text(2, y, cells.Note, "No packets yet.")
		hints := s.ses.in.Hint
		if st := &s.status; st.not != "" {
			hints = append(slices.Clip(hints), fmt.Sprintf("It is captured by %s, %s.", st.engine, st.not))
		}
		for _, hint := range hints {
			for _, l := range wrapText(hint, max(20, c.W-6)) {
				y++
				c.Text(2, y, cells.Faint, l)
			}
		}
	default:
		c.Text(2, 1, cells.Note, "There are no packets in it.")
	}
}
