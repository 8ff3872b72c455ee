package tui

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/internal/filter"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// filtering is the display filter in force, and those before it.
type filtering struct {
	text     string
	compiled *filter.Filter // nil for none
	view     *index.View    // what it selects
	conns    map[uint32]bool
	history  []string          // newest last
	named    map[string]string // by name: the config file's, and own
	own      map[string]string // those that were saved here, in this run and before
}

// newFiltering knows filters by their names; where both have one, the one that was saved here is meant.
func newFiltering(history []string, own, config map[string]string) *filtering {
	f := &filtering{history: history, named: map[string]string{}, own: map[string]string{}}
	maps.Copy(f.named, config)
	maps.Copy(f.named, own)
	maps.Copy(f.own, own)
	return f
}

// expand puts in what saved filters stand for: @name.
func (f *filtering) expand(text string) (string, error) {
	words := strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == '(' || r == ')' || r == '!' })
	for _, w := range words {
		name, ok := strings.CutPrefix(w, "@")
		if !ok || name == "" {
			continue
		}
		saved, ok := f.named[name]
		if !ok {
			return "", fmt.Errorf("no filter is saved as @%s; ctrl-s in the filter line saves one", name)
		}
		text = strings.Replace(text, w, "("+saved+")", 1)
	}
	return text, nil
}

// check compiles a filter as typed.
func (f *filtering) check(text string) (*filter.Filter, error) {
	full, err := f.expand(text)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(full) == "" {
		return nil, nil
	}
	return filter.Compile(full)
}

// state says how far the filter is.
func (f *filtering) state(s *screen) string {
	if f.view == nil {
		return ""
	}
	text := report.Plural(uint64(f.view.Len()), "packet")
	complete, err := f.view.State()
	switch {
	case err != nil:
		return text + ", then it stopped: " + err.Error()
	case !complete && s.status.done:
		return fmt.Sprintf("%s so far, %d %%", text, f.view.Scanned()*100/max(s.status.packets, 1))
	}
	return text
}

// applyFilter puts a filter in force; "" takes it away. An error leaves all as it is.
func (s *screen) applyFilter(text string) error {
	text = strings.TrimSpace(text)
	compiled, err := s.filter.check(text)
	if err != nil {
		s.fail(err)
		return err
	}
	if s.ses == nil {
		return nil
	}
	var view *index.View
	if compiled != nil {
		if view, err = s.ses.index.Filter(s.ses.ctx, compiled); err != nil {
			s.fail(err)
			return err
		}
	}
	if old := s.filter.text; old != text {
		s.remember(func(s *screen) {
			s.applyFilter(old)
			s.undo = s.undo[:max(0, len(s.undo)-1)] // undoing is not undone
		})
	}
	s.setFilter(text, compiled, view)
	return nil
}

func (s *screen) setFilter(text string, compiled *filter.Filter, view *index.View) {
	f := s.filter
	if old := f.view; old != nil {
		s.start("", func() func(*screen) { old.Close(); return nil })
	}
	f.text, f.compiled, f.view, f.conns = text, compiled, view, nil
	if compiled != nil {
		if k := slices.Index(f.history, text); k >= 0 {
			f.history = slices.Delete(f.history, k, k+1)
		}
		f.history = append(f.history, text)
	}
	for _, v := range s.stack {
		v.refresh(s)
	}
}

// filterPrompt is the filter line while it is being typed.
type filterPrompt struct {
	edit     lineEdit
	err      error
	options  []filter.Completion
	chosen   scroller
	picked   bool // the cursor was moved into the options
	past     int  // in the history, from the end; 0 = what is being typed
	typed    string
	savingAs bool
	name     lineEdit
}

func newFilterPrompt(s *screen, text string) prompt {
	p := &filterPrompt{}
	p.edit.set(text)
	p.look(s)
	return p
}

// look checks what is typed, and how it may go on.
func (p *filterPrompt) look(s *screen) {
	_, p.err = s.filter.check(p.edit.String())
	before := p.edit.before()
	p.options = filter.Complete(before)
	if k := strings.LastIndex(before, "@"); k >= 0 && !strings.ContainsAny(before[k:], " )") {
		p.options = nil
		for name, text := range s.filter.named {
			if strings.HasPrefix(name, before[k+1:]) {
				p.options = append(p.options, filter.Completion{Start: k, Text: "@" + name, Help: text})
			}
		}
		slices.SortFunc(p.options, func(a, b filter.Completion) int { return strings.Compare(a.Text, b.Text) })
	}
	p.chosen = scroller{n: len(p.options)}
	p.picked = false
}

func (p *filterPrompt) key(s *screen, k keyPress) {
	if p.savingAs {
		p.saveKey(s, k)
		return
	}
	switch k.name {
	case "esc":
		s.prompt = nil
	case "enter":
		if p.picked {
			p.complete(s)
			return
		}
		if err := s.applyFilter(p.edit.String()); err == nil {
			s.prompt = nil
		}
	case "tab":
		p.complete(s)
	case "down", "ctrl-n":
		if p.past > 0 {
			p.remember(s, p.past-1)
			return
		}
		if p.picked {
			p.chosen.act(doDown)
		}
		p.picked = len(p.options) > 0
	case "up", "ctrl-p":
		if p.picked && p.chosen.cur > 0 {
			p.chosen.act(doUp)
			return
		}
		if p.picked {
			p.picked = false
			return
		}
		p.remember(s, p.past+1)
	case "ctrl-s":
		if p.err == nil && strings.TrimSpace(p.edit.String()) != "" {
			p.savingAs = true
		}
	default:
		if p.edit.key(k) {
			p.past = 0
			p.look(s)
		}
	}
}

// complete takes over the option under the cursor.
func (p *filterPrompt) complete(s *screen) {
	if len(p.options) == 0 {
		return
	}
	o := p.options[p.chosen.cur]
	before, after := p.edit.before(), string(p.edit.text[p.edit.at:])
	p.edit.set(before[:o.Start] + o.Text)
	if after == "" && !strings.HasSuffix(o.Text, ".") {
		p.edit.insert(" ")
	}
	at := p.edit.at
	p.edit.text = append(p.edit.text, []rune(after)...)
	p.edit.at = at
	p.look(s)
}

// remember shows a filter of the past.
func (p *filterPrompt) remember(s *screen, past int) {
	h := s.filter.history
	if past > len(h) {
		return
	}
	if p.past == 0 {
		p.typed = p.edit.String()
	}
	p.past = past
	if past == 0 {
		p.edit.set(p.typed)
	} else {
		p.edit.set(h[len(h)-past])
	}
	p.look(s)
}

func (p *filterPrompt) saveKey(s *screen, k keyPress) {
	switch k.name {
	case "esc":
		p.savingAs = false
	case "enter":
		name := strings.TrimPrefix(strings.TrimSpace(p.name.String()), "@")
		p.savingAs = false
		if name == "" || strings.ContainsAny(name, " ()!:") {
			s.fail(errors.New("a filter's name is one word"))
			return
		}
		s.filter.named[name], s.filter.own[name] = p.edit.String(), p.edit.String() // see Options.Keep
		s.say("Saved as @%s.", name)
	default:
		p.name.key(k)
	}
}

func (p *filterPrompt) mouse(s *screen, m mouseEvent) {
	if m.click {
		s.prompt = nil
	}
}

func (p *filterPrompt) draw(s *screen, c *cells.Canvas) {
	y := 2
	if s.h < 12 {
		y = 1
	}
	line := c.Sub(0, y, c.W, 1)
	line.Fill(' ', cells.Plain)
	x := line.Text(1, 0, cells.Key, s.keys.key(doFilter)+" ")
	from := x
	drawEdit(line, x, 0, c.W-x-12, &p.edit)
	switch {
	case strings.TrimSpace(p.edit.String()) == "":
		line.Right(c.W-1, 0, cells.Faint, "all packets")
	case p.err != nil:
		line.Right(c.W-1, 0, cells.Bad, "✗ not yet")
	default:
		line.Right(c.W-1, 0, cells.OK, "✓ valid")
	}
	y++
	if p.savingAs {
		row := c.Sub(0, y, c.W, 1)
		row.Fill(' ', cells.Plain)
		n := row.Text(1, 0, cells.Title, "save as @")
		drawEdit(row, n, 0, 30, &p.name)
		return
	}
	var place *filter.Error
	if errors.As(p.err, &place) {
		row := c.Sub(0, y, c.W, 1)
		row.Fill(' ', cells.Plain)
		at := min(from+len([]rune(p.edit.String()[:min(place.Pos, len(p.edit.String()))])), c.W-2)
		text := place.Msg
		if place.Hint != "" {
			text += "; " + place.Hint
		}
		if at+3+cells.Width(text) < c.W {
			row.Text(at, 0, cells.Bad, "^ "+text)
		} else {
			row.Text(at, 0, cells.Bad, "^")
			row.Right(max(at-1, cells.Width(text)+1), 0, cells.Bad, text)
		}
		y++
	} else if p.err != nil {
		row := c.Sub(0, y, c.W, 1)
		row.Fill(' ', cells.Plain)
		row.Fit(from, 0, c.W-from, cells.Bad, p.err.Error())
		y++
	}
	p.drawOptions(c, y)
}

func (p *filterPrompt) drawOptions(c *cells.Canvas, y int) {
	if len(p.options) == 0 {
		return
	}
	h := min(len(p.options), max(3, c.H/3))
	box := c.Sub(2, y, min(92, c.W-4), h+2)
	box.Fill(' ', cells.Plain)
	box.Box(cells.Border, fmt.Sprintf("tab completes (%d)", len(p.options)), cells.Faint)
	in := box.Sub(1, 1, box.W-2, box.H-2)
	p.chosen.height = in.H
	p.chosen.fit()
	for i := range min(in.H, len(p.options)-p.chosen.top) {
		o := p.options[p.chosen.top+i]
		st := cells.Plain
		x := in.Fit(1, i, 44, st, o.Text)
		in.Fit(max(x+2, 34), i, in.W-max(x+2, 34)-1, cells.Faint, o.Help)
		if p.chosen.top+i == p.chosen.cur {
			st := cells.Bold
			if p.picked {
				st = cells.Cursor
			}
			cursorRow(in, i, in.W, st)
		}
	}
}
