package tui

import (
	"fmt"
	"strings"

	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/tui/cells"
)

// prompt has all keys while it is open.
type prompt interface {
	key(s *screen, k keyPress)
	mouse(s *screen, m mouseEvent)
	draw(s *screen, c *cells.Canvas)
}

// window draws an empty box over the middle of the screen and returns its inside.
func window(c *cells.Canvas, w, h int, title string) (in *cells.Canvas, at rect) {
	w, h = min(w, c.W), min(h, c.H)
	at = rect{(c.W - w) / 2, (c.H - h) / 2, w, h}
	box := c.Sub(at.x, at.y, w, h)
	box.Fill(' ', cells.Plain)
	box.Box(cells.Focus, title, cells.Title)
	at = rect{at.x + 1, at.y + 1, w - 2, h - 2}
	return box.Sub(1, 1, w-2, h-2), at
}

// ask asks for one line.
type ask struct {
	title string
	edit  lineEdit
	err   string
	done  func(*screen, string) error
}

func newAsk(title, text string, done func(*screen, string) error) *ask {
	a := &ask{title: title, done: done}
	a.edit.set(text)
	return a
}

func (a *ask) key(s *screen, k keyPress) {
	switch k.name {
	case "esc":
		s.prompt = nil
	case "enter":
		s.prompt = nil
		if err := a.done(s, a.edit.String()); err != nil {
			a.err, s.prompt = err.Error(), a
		}
	default:
		a.edit.key(k)
		a.err = ""
	}
}

func (a *ask) mouse(*screen, mouseEvent) {}

func (a *ask) draw(s *screen, c *cells.Canvas) {
	in, _ := window(c, 72, 5, a.title)
	drawEdit(in, 1, 1, in.W-2, &a.edit)
	if a.err != "" {
		in.Fit(1, 2, in.W-2, cells.Bad, a.err)
	} else {
		in.Text(1, 2, cells.Faint, "enter does it, esc leaves it")
	}
}

// drawEdit draws a line that is being typed, with its cursor.
func drawEdit(c *cells.Canvas, x, y, w int, e *lineEdit) {
	from := 0
	if e.at >= w {
		from = e.at - w + 1
	}
	for i := range w {
		r, st := ' ', cells.Underline
		if from+i < len(e.text) {
			r = e.text[from+i]
		}
		if from+i == e.at {
			st = cells.Reverse
		}
		c.Text(x+i, y, st, string(r))
	}
}

// confirm asks whether something is really meant.
type confirm struct {
	question string
	yes      func(*screen)
}

func newConfirm(question string, yes func(*screen)) *confirm { return &confirm{question, yes} }

func (q *confirm) key(s *screen, k keyPress) {
	switch k.name {
	case "y", "Y", "enter":
		s.prompt = nil
		q.yes(s)
	case "n", "N", "esc", "q":
		s.prompt = nil
	}
}

func (q *confirm) mouse(*screen, mouseEvent) {}

func (q *confirm) draw(s *screen, c *cells.Canvas) {
	lines := wrapText(q.question, 60)
	in, _ := window(c, 66, len(lines)+4, "")
	for i, l := range lines {
		in.Text(2, i, cells.Bold, l)
	}
	in.Text(2, len(lines)+1, cells.Key, "y")
	in.Text(4, len(lines)+1, cells.Plain, "yes")
	in.Text(10, len(lines)+1, cells.Key, "n")
	in.Text(12, len(lines)+1, cells.Plain, "no")
}

// choice is a line of a menu.
type choice struct {
	label string
	help  string
	key   string // shown beside it
	on    bool   // of menus that switch things on and off
	do    func(*screen)
}

// menu offers choices; what is typed narrows them down.
type menu struct {
	name    string
	all     []choice
	shown   []int
	typed   lineEdit
	cursor  scroller
	toggles bool // a choice does not close the menu
	narrow  bool // typing narrows down
	at      rect
	again   func(*screen) []choice // toggles: the choices anew
}

func newMenu(name string, all []choice) *menu {
	m := &menu{name: name, all: all, narrow: true}
	m.choose()
	return m
}

func (m *menu) choose() {
	m.shown = m.shown[:0]
	want := strings.ToLower(m.typed.String())
	for pass := range 2 { // what contains the words first, then what has their letters in order
		for i, c := range m.all {
			label := strings.ToLower(c.label + " " + c.help)
			if in := strings.Contains(label, want); pass == 0 && in || pass == 1 && !in && inOrder(strings.ToLower(c.label), want) {
				m.shown = append(m.shown, i)
			}
		}
	}
	m.cursor.n = len(m.shown)
	m.cursor.fit()
}

func inOrder(text, letters string) bool {
	at := 0
	for _, r := range letters {
		k := strings.IndexRune(text[at:], r)
		if k < 0 {
			return false
		}
		at += k + len(string(r))
	}
	return true
}

func (m *menu) key(s *screen, k keyPress) {
	switch k.name {
	case "esc":
		s.prompt = nil
	case "up", "shift-tab":
		m.cursor.act(doUp)
	case "down", "tab":
		m.cursor.act(doDown)
	case "pgup":
		m.cursor.act(doPageUp)
	case "pgdown":
		m.cursor.act(doPageDown)
	case "enter":
		m.take(s)
	case "space":
		if m.toggles {
			m.take(s)
			return
		}
		fallthrough
	default:
		if m.narrow && m.typed.key(k) {
			m.cursor.cur = 0
			m.choose()
		}
	}
}

func (m *menu) take(s *screen) {
	if m.cursor.cur >= len(m.shown) {
		return
	}
	c := m.all[m.shown[m.cursor.cur]]
	if !m.toggles {
		s.prompt = nil
	}
	c.do(s)
	if m.toggles && m.again != nil {
		m.all = m.again(s)
	}
}

func (m *menu) mouse(s *screen, e mouseEvent) {
	if e.wheel != 0 {
		m.cursor.wheel(e.wheel)
		return
	}
	y := e.y - m.at.y - 1
	if !m.at.has(e.x, e.y) {
		s.prompt = nil
	} else if i := m.cursor.top + y; y >= 0 && i < len(m.shown) {
		m.cursor.cur = i
		m.take(s)
	}
}

func (m *menu) draw(s *screen, c *cells.Canvas) {
	wide := 30
	for _, o := range m.all {
		wide = max(wide, cells.Width(o.label)+cells.Width(o.key)+cells.Width(o.help)+10)
	}
	in, at := window(c, min(wide, 96), min(len(m.all)+3, max(8, c.H-4)), m.name)
	m.at = at
	drawEdit(in, 1, 0, in.W-2, &m.typed)
	m.cursor.height = in.H - 1
	m.cursor.fit()
	for y := range min(m.cursor.height, m.cursor.n-m.cursor.top) {
		i := m.cursor.top + y
		o := &m.all[m.shown[i]]
		x := 1
		if m.toggles {
			x = in.Text(x, y+1, cells.Key, map[bool]string{true: "[x] ", false: "[ ] "}[o.on])
		}
		x = in.Fit(x, y+1, in.W-2, cells.Plain, o.label)
		in.Fit(x+2, y+1, in.W-x-4-cells.Width(o.key), cells.Faint, o.help)
		in.Right(in.W-1, y+1, cells.Key, o.key)
		if i == m.cursor.cur {
			in.Restyle(0, y+1, in.W, cells.Cursor)
		}
	}
}

// newPalette offers every action by its name; a number goes to that packet.
func newPalette(s *screen) prompt {
	var all []choice
	for _, b := range s.keys.rows {
		if b.group == groupMove && b.do != doGoTo && b.do != doMark && b.do != doGoMark || b.do == doPalette {
			continue
		}
		key := ""
		if len(b.keys) > 0 {
			key = b.keys[0]
		}
		all = append(all, choice{label: string(b.do), help: b.help, key: key, do: func(s *screen) { s.do(b.do) }})
	}
	for _, name := range s.o.Config.themeNames() {
		t := s.o.Config.theme(name)
		all = append(all, choice{label: "theme " + name, help: t.Help, do: func(s *screen) { s.theme = t }})
	}
	for _, name := range s.o.Config.Profiles() {
		all = append(all, choice{label: "profile " + name, help: "its columns, colours, filters, keys and layout", do: func(s *screen) { s.useProfile(name) }})
	}
	for name, text := range s.filter.named {
		all = append(all, choice{label: "@" + name, help: "filter " + text, do: func(s *screen) { s.applyFilter(text) }})
	}
	return &palette{menu: newMenu("Do what? (or a packet's number)", all)}
}

type palette struct{ *menu }

func (p *palette) key(s *screen, k keyPress) {
	if k.name == "enter" {
		var n uint64
		if text := p.typed.String(); text != "" && strings.Trim(text, "0123456789") == "" {
			fmt.Sscan(text, &n)
			s.prompt = nil
			s.goFrame(max(1, min(n, s.packets())))
			return
		}
	}
	p.menu.key(s, k)
}

// newColumnMenu switches columns on and off.
func newColumnMenu(s *screen, g gridLike) prompt {
	m := &menu{name: "Columns (enter switches, esc closes)", toggles: true, narrow: true}
	m.again = func(s *screen) []choice {
		names, on := g.columnChoices()
		var all []choice
		for i, n := range names {
			all = append(all, choice{label: n, on: on[i], do: func(s *screen) {
				g.toggleColumn(i)
				s.remember(func(*screen) { g.toggleColumn(i) })
			}})
		}
		if _, ok := g.(*packetGrid); ok {
			all = append(all, choice{label: "another field, by its name …", on: false, do: (*screen).askColumn})
		}
		return all
	}
	m.all = m.again(s)
	m.choose()
	return m
}

// askColumn adds a column by a field's name.
func (s *screen) askColumn() {
	s.prompt = newAsk("A column of which field? (as in filters)", "", func(s *screen, name string) error {
		c, err := filter.LookupColumn(strings.TrimSpace(name))
		if err != nil {
			return err
		}
		s.addColumn(c.Name())
		return nil
	})
}

// newSortMenu chooses what to sort by.
func newSortMenu(s *screen, g gridLike) prompt {
	names, _ := g.columnChoices()
	by, desc := g.sortedBy()
	var all []choice
	for i, n := range names {
		help := ""
		if by == i {
			help = map[bool]string{true: "▼ now", false: "▲ now"}[desc]
		}
		all = append(all, choice{label: n, help: help, do: func(s *screen) {
			s.remember(func(s *screen) { g.sortAs(s, by, desc) })
			g.sortBy(s, i)
		}})
	}
	return newMenu("Sort by (again turns it around)", all)
}

// help is all keys, grouped; typing searches.
type help struct {
	lines  []helpLine
	shown  []helpLine
	typed  lineEdit
	cursor scroller
}

type helpLine struct{ group, keys, text string }

func newHelp(s *screen) prompt {
	h := &help{}
	for _, b := range s.keys.rows {
		h.lines = append(h.lines, helpLine{b.group, strings.Join(b.shown(), " "), b.help})
	}
	h.choose()
	return h
}

func (h *help) choose() {
	h.shown = h.shown[:0]
	last := ""
	want := strings.ToLower(h.typed.String())
	for _, l := range h.lines {
		if !strings.Contains(strings.ToLower(l.keys+" "+l.text+" "+l.group), want) {
			continue
		}
		if l.group != last {
			if last != "" {
				h.shown = append(h.shown, helpLine{})
			}
			h.shown = append(h.shown, helpLine{group: l.group})
			last = l.group
		}
		h.shown = append(h.shown, l)
	}
	h.cursor.n = len(h.shown)
}

func (h *help) key(s *screen, k keyPress) {
	switch k.name {
	case "esc", "?", "q":
		if k.name == "q" && h.typed.String() != "" {
			break
		}
		s.prompt = nil
		return
	case "enter":
		s.prompt = nil
		return
	case "up":
		h.cursor.wheel(-1)
		return
	case "down":
		h.cursor.wheel(1)
		return
	case "pgup":
		h.cursor.wheel(-h.cursor.height)
		return
	case "space":
		if h.typed.String() == "" {
			h.cursor.wheel(h.cursor.height)
			return
		}
	case "pgdown":
		h.cursor.wheel(h.cursor.height)
		return
	}
	if h.typed.key(k) {
		h.cursor.top = 0
		h.choose()
	}
}

func (h *help) mouse(s *screen, m mouseEvent) {
	if m.click {
		s.prompt = nil
	}
	h.cursor.wheel(m.wheel)
}

func (h *help) draw(s *screen, c *cells.Canvas) {
	in, _ := window(c, min(96, c.W), c.H-2, "Keys (type to search, esc closes)")
	drawEdit(in, 1, 0, in.W-2, &h.typed)
	h.cursor.height = in.H - 1
	h.cursor.wheel(0)
	for y := range min(h.cursor.height, h.cursor.n-h.cursor.top) {
		l := h.shown[h.cursor.top+y]
		if l.text == "" {
			in.Text(1, y+1, cells.Title, l.group)
			continue
		}
		in.Fit(3, y+1, 17, cells.Key, l.keys)
		in.Fit(21, y+1, in.W-22, cells.Plain, l.text)
	}
	h.cursor.bar(in, in.W-1, 1)
}
