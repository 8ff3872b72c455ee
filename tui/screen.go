package tui

import (
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"time"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/tui/cells"
)

// effect is work that takes time: it runs beside the event loop, and what it returns is done to the screen when it is over.
// Of effects with the same key only one is under way at a time.
type effect struct {
	key string
	run func() func(*screen)
}

// lent is a command that has the terminal until it ends.
type lent struct {
	cmd  *exec.Cmd
	done func(*screen, error)
}

// place is what a view is about: the connection and the packet that one looks at.
type place struct {
	conn    uint32 // 0 = none
	frame   uint64 // 0 = none
	message uint32
	hasMsg  bool
}

// view is one screenful. Views lie on a stack; esc takes the uppermost away.
type view interface {
	title(s *screen) string
	draw(s *screen, c *cells.Canvas)
	// act does what a key asks for, and says whether that meant something here.
	act(s *screen, a action) bool
	mouse(s *screen, m mouseEvent) bool
	// refresh is called when there is something new to show.
	refresh(s *screen)
	// here is what the cursor is on.
	here(s *screen) place
	// grid is the table that has the keys; nil without.
	grid() gridLike
	footer() []action
}

// screen is all that is on the terminal, and what keys do to it. It is for one goroutine.
type screen struct {
	o    Options
	ses  *Session // nil: nothing but controls
	own  *Session // the one that the screen itself opened, and closes: the packets of a case
	keys *keymap

	w, h  int
	theme *cells.Theme
	depth cells.Depth
	ascii bool

	stack  []view
	last   view // for doLastView
	visits history
	place  place

	snap   *flows.Snapshot
	status sessionStatus
	frozen *frozen // nil: not

	filter *filtering
	prompt prompt // what has all keys, above the views; nil
	find   search
	marks  map[rune]uint64
	undo   []func(*screen)

	raw     bool
	clock   int
	mouse   bool
	privacy *mask // nil: off
	follow  bool
	zoom    bool
	split   int      // how much of the height lists get where something explains them, in hundredths
	columns []string // fields added to the packet list
	rules   []colorRule
	profile string             // in force
	saved   map[string]Config  // profiles that were saved here, in this run and before
	begin   func(*screen) bool // goes to where one wants to begin, and says whether that could be done

	flash    string
	flashBad bool
	flashEnd time.Time
	nextKey  func(s *screen, k keyPress) // a letter is waited for: marks
	count    uint64                      // typed in front of a key; 0 = none
	dragged  func(s *screen, x, y int)   // what the mouse holds: a split

	lent    []lent
	effects []effect
	busy    map[string]bool
	quit    bool
	quitErr error
	out     []string // escape sequences for the terminal: copies
	now     func() time.Time
	began   time.Time // reading
	canvas  *cells.Canvas
	output  cells.Output
	areas   []area // where the mouse can go
	body    rect
}

type rect struct{ x, y, w, h int }

func (r rect) has(x, y int) bool { return x >= r.x && y >= r.y && x < r.x+r.w && y < r.y+r.h }

// area is a place of the frame around the views that the mouse can click.
type area struct {
	rect
	do func(*screen)
}

// frozen is what the screen shows while it does not move.
type frozen struct {
	packets uint64
	first   uint64 // whose bytes were there
	snap    *flows.Snapshot
}

func newScreen(o Options, ses *Session) (*screen, error) {
	s := &screen{
		o: o, ses: ses, w: 80, h: 24, marks: map[rune]uint64{}, busy: map[string]bool{}, now: time.Now,
		theme: cells.ThemeByName("dark"), depth: o.Depth, ascii: o.ASCII, mouse: o.Config.mouse(), saved: map[string]Config{},
	}
	maps.Copy(s.saved, o.Kept.Profiles)
	s.o.Config.AddProfiles(s.saved)
	s.filter = newFiltering(o.Kept.History, o.Kept.Filters, o.Config.Filters)
	if s.split = o.Kept.Split; s.split < leastSplit || s.split > mostSplit {
		s.split = usualSplit
	}
	if err := s.settle(&s.o.Config); err != nil {
		return nil, err
	}
	s.began = s.now()
	if ses != nil {
		s.follow = ses.Live()
		s.push(newOverview())
	}
	if o.Controls != nil {
		s.push(newTraffic())
	}
	s.tick()
	if o.Filter != "" {
		s.applyFilter(o.Filter)
	}
	if ses != nil && (o.View != "" || o.At > 0) {
		s.begin = beginning(o.View, o.At)
		s.tick()
	}
	return s, nil
}

// take shows another capture: the views of the one before go away.
func (s *screen) take(ses *Session) {
	s.giveUp()
	s.ses, s.own = ses, ses
	s.stack, s.last, s.place, s.visits = s.stack[:1], nil, place{}, history{}
	s.visits.visit(s.stack)
	s.began = s.now()
	s.snap, s.status, s.frozen, s.follow = nil, sessionStatus{}, nil, ses.Live()
	f := s.filter
	s.filter = &filtering{history: f.history, named: f.named, own: f.own}
	s.find, s.marks, s.undo, s.rules = search{}, map[rune]uint64{}, nil, nil
	s.tick()
}

// giveUp closes the capture that the screen itself opened.
func (s *screen) giveUp() {
	if s.own != nil {
		s.own.Close() // nothing was written
		s.own, s.ses = nil, nil
	}
}

// top is the view in front.
func (s *screen) top() view { return s.stack[len(s.stack)-1] }

// push brings a view to the front. One of the same kind farther down goes away, so that the crumbs stay short.
func (s *screen) push(v view) {
	if len(s.stack) > 0 {
		s.last = s.top()
	}
	for i, old := range s.stack {
		if i > 0 && fmt.Sprintf("%T", old) == fmt.Sprintf("%T", v) {
			s.stack = slices.Delete(s.stack, i, i+1)
			break
		}
	}
	s.stack = append(s.stack, v)
	s.visits.visit(s.stack)
	s.zoom = false
	v.refresh(s)
}

// back goes one step back, and never out of the program.
func (s *screen) back() {
	if len(s.stack) > 1 {
		s.backTo(len(s.stack) - 1)
		return
	}
	s.say("This is the first view; %s quits.", s.keys.key(doQuit))
}

// backTo leaves so many views on the stack, where there are more.
func (s *screen) backTo(views int) {
	if views < len(s.stack) {
		s.last, s.stack, s.zoom = s.top(), s.stack[:views], false
		s.visits.visit(s.stack)
		s.top().refresh(s)
	}
}

// say shows a sentence at the bottom for a while.
func (s *screen) say(format string, args ...any) {
	s.flash, s.flashBad, s.flashEnd = fmt.Sprintf(format, args...), false, s.now().Add(8*time.Second)
}

// fail shows what went wrong.
func (s *screen) fail(err error) {
	s.flash, s.flashBad, s.flashEnd = err.Error(), true, s.now().Add(20*time.Second)
}

// start has an effect run, unless the same is under way.
func (s *screen) start(key string, run func() func(*screen)) {
	if key != "" && s.busy[key] {
		return
	}
	if key != "" {
		s.busy[key] = true
	}
	s.effects = append(s.effects, effect{key, run})
}

// takeEffects hands over what is to be run.
func (s *screen) takeEffects() []effect {
	e := s.effects
	s.effects = nil
	return e
}

// takeLent hands over the commands that get the terminal.
func (s *screen) takeLent() []lent {
	l := s.lent
	s.lent = nil
	return l
}

// ended takes over what an effect came to.
func (s *screen) ended(key string, done func(*screen)) {
	delete(s.busy, key)
	if done != nil {
		done(s)
	}
}

// tick takes over what is new since the last one. It says whether anything is.
func (s *screen) tick() bool {
	changed := false
	if s.flash != "" && s.now().After(s.flashEnd) {
		s.flash, changed = "", true
	}
	if s.ses != nil {
		st := s.ses.status()
		if st != s.status {
			s.status, changed = st, true
		}
		if snap := s.ses.Snapshot(); snap != nil && snap != s.snap && s.frozen == nil {
			s.snap, changed = snap, true
			s.top().refresh(s)
		} else if changed && s.frozen == nil {
			s.top().refresh(s)
		}
	}
	if s.o.Controls != nil {
		changed = true
	}
	if begin := s.begin; begin != nil && s.snap != nil {
		if s.begin = nil; begin(s) {
			changed = true
		} else {
			s.begin = begin
		}
	}
	return changed
}

// tailing says that lists go with what is newest.
func (s *screen) tailing() bool { return s.follow && s.frozen == nil && s.ses != nil && s.ses.Live() }

// snapshot is the one to show; an empty one before there is any.
func (s *screen) snapshot() *flows.Snapshot {
	if s.snap == nil {
		return &flows.Snapshot{}
	}
	return s.snap
}

// first is the oldest packet to list. Of a frozen screen it stays: what is in view stays there when its bytes are gone.
func (s *screen) first() uint64 {
	if s.frozen != nil {
		return s.frozen.first
	}
	return max(s.status.first, 1)
}

// packets is how many packets there are to show.
func (s *screen) packets() uint64 {
	if s.frozen != nil {
		return s.frozen.packets
	}
	return s.status.packets
}

func (s *screen) resize(w, h int) { s.w, s.h = max(w, 1), max(h, 1) }

// press does what a key asks for.
func (s *screen) press(k keyPress) {
	switch {
	case s.nextKey != nil:
		next := s.nextKey
		s.nextKey = nil
		next(s, k)
		return
	case s.prompt != nil:
		if k.name == "ctrl-c" {
			s.prompt = nil
			return
		}
		s.flash = ""
		s.prompt.key(s, k)
		return
	case k.paste != "":
		return
	}
	if s.counting(k) {
		return
	}
	n := s.count
	s.count = 0
	switch a, ok := s.keys.byKey[k.name]; {
	case ok && n > 0:
		s.times(a, n)
	case ok:
		s.do(a)
	}
}

// do does an action: the view's business first, then everybody's.
func (s *screen) do(a action) {
	s.flash = ""
	if s.top().act(s, a) {
		return
	}
	if f := screenActions[a]; f != nil {
		f(s)
	} else if own, ok := s.o.Config.Actions[string(a)]; ok {
		s.runOwn(string(a), own)
	}
}

// mouseAt does what the mouse asks for.
func (s *screen) mouseAt(m mouseEvent) {
	if s.prompt != nil {
		s.prompt.mouse(s, m)
		return
	}
	switch {
	case m.up:
		s.dragged = nil
		return
	case m.drag && s.dragged != nil:
		s.dragged(s, m.x-s.body.x, m.y-s.body.y)
		return
	case m.click:
		s.dragged = nil
		for i := len(s.areas) - 1; i >= 0; i-- { // what was drawn last lies on top
			if a := s.areas[i]; a.has(m.x, m.y) {
				a.do(s)
				return
			}
		}
	}
	if s.body.has(m.x, m.y) {
		m.x, m.y = m.x-s.body.x, m.y-s.body.y
		s.top().mouse(s, m)
	}
}

// remember notes how to undo a change of what is shown.
func (s *screen) remember(undo func(*screen)) {
	s.undo = append(s.undo, undo)
	if len(s.undo) > 50 {
		s.undo = s.undo[1:]
	}
}

// connection finds a connection of the snapshot; nil if it is not there.
func (s *screen) connection(id uint32) *flows.Connection {
	all := s.snapshot().Connections
	if i := int(id) - 1; i >= 0 && i < len(all) && all[i].ID == id {
		return &all[i]
	}
	for i := range all {
		if all[i].ID == id {
			return &all[i]
		}
	}
	return nil
}

// working says that something is being worked out that shows while it goes on.
func (s *screen) working() bool {
	if len(s.busy) > 0 {
		return true
	}
	if v := s.filter.view; v != nil {
		if complete, err := v.State(); !complete && err == nil {
			return true
		}
	}
	return false
}

// moving says that there may be something new at any moment.
func (s *screen) moving() bool {
	return s.o.Controls != nil || s.flash != "" || s.ses != nil && !s.status.done || s.working()
}

// watch has the screen drawn again as a view that is being worked out grows. While the capture itself does, that happens anyway.
func (s *screen) watch(v *index.View) {
	if v == nil || !s.status.done {
		return
	}
	if complete, err := v.State(); complete || err != nil {
		return
	}
	s.start(fmt.Sprintf("watch %p", v), func() func(*screen) {
		select {
		case <-v.Done():
		case <-time.After(100 * time.Millisecond):
		}
		return func(s *screen) { s.top().refresh(s) }
	})
}
