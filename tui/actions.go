package tui

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// screenActions are what keys do wherever one is. A view comes first: see view.act.
var screenActions map[action]func(*screen)

func init() { // not a table of its own, for the palette does these and is one of them
	screenActions = map[action]func(*screen){
		doBack:        (*screen).back,
		doLastView:    (*screen).lastView,
		doVisitBack:   func(s *screen) { s.visitAgain(-1) },
		doVisitNext:   func(s *screen) { s.visitAgain(+1) },
		doOverview:    (*screen).openOverview,
		doConnections: func(s *screen) { s.open(newConnections()) },
		doMessages:    func(s *screen) { s.open(newMessages(s.here().conn)) },
		doPackets:     (*screen).openPackets,
		doLadder:      (*screen).openLadder,
		doLadderHere:  (*screen).openLadder,
		doFindings:    func(s *screen) { s.open(newFindings()) },
		doFindingList: func(s *screen) { s.open(newFindings()) },
		doEndpoints:   func(s *screen) { s.open(newEndpoints()) },
		doTraffic:     (*screen).openTraffic,
		doNextFinding: func(s *screen) { s.jumpFinding(+1) },
		doPrevFinding: func(s *screen) { s.jumpFinding(-1) },
		doFilter:      func(s *screen) { s.prompt = newFilterPrompt(s, s.filter.text) },
		doClearFilter: func(s *screen) { s.applyFilter("") },
		doFromCell:    (*screen).fromCell,
		doSearch:      func(s *screen) { s.prompt = newSearchPrompt(s) },
		doNextMatch:   func(s *screen) { s.nextMatch(+1) },
		doPrevMatch:   func(s *screen) { s.nextMatch(-1) },
		doMark:        (*screen).mark,
		doGoMark:      (*screen).goMark,
		doGoTo:        (*screen).goTo,
		doFreeze:      (*screen).freeze,
		doFollow:      (*screen).toggleFollow,
		doColumns:     (*screen).chooseColumns,
		doSort:        (*screen).chooseSort,
		doZoom: func(s *screen) {
			v, was := s.top(), s.zoom
			s.zoom = !was
			s.remember(func(s *screen) {
				if s.top() == v { // in another view there is nothing to undo any more
					s.zoom = was
				}
			})
		},
		doLarger:  func(s *screen) { s.resplit(+splitStep) },
		doSmaller: func(s *screen) { s.resplit(-splitStep) },
		doRaw: func(s *screen) {
			s.raw = !s.raw
			s.say("%s values", map[bool]string{true: "Raw", false: "Pretty"}[s.raw])
		},
		doTime:        (*screen).nextTime,
		doTheme:       (*screen).nextTheme,
		doMouse:       (*screen).toggleMouse,
		doPrivacy:     (*screen).togglePrivacy,
		doCopy:        (*screen).copyMenu,
		doSaveProfile: (*screen).saveProfile,
		doWrite:       (*screen).writePrompt,
		doUndo:        (*screen).undoLast,
		doHelp:        func(s *screen) { s.prompt = newHelp(s) },
		doPalette:     func(s *screen) { s.prompt = newPalette(s) },
		doQuit:        (*screen).leave,
	}
}

// here is the connection and packet that one looks at, from the view in front or from those below it.
func (s *screen) here() place {
	var p place
	for i := len(s.stack) - 1; i >= 0; i-- {
		h := s.stack[i].here(s)
		if p.conn == 0 {
			p.conn = h.conn
		}
		if p.frame == 0 {
			p.frame = h.frame
		}
	}
	if p.conn == 0 {
		p.conn = s.place.conn
	}
	return p
}

// open brings a view to the front, unless one like it is there.
func (s *screen) open(v view) {
	if s.ses == nil {
		s.say("There is no capture beside this traffic.")
		return
	}
	s.push(v)
}

// openOverview goes back to the first view, which is the overview, unless something else is steered there.
func (s *screen) openOverview() {
	if _, first := s.stack[0].(*overviewView); !first {
		s.open(newOverview())
		return
	}
	s.backTo(1)
}

func (s *screen) openPackets() {
	at := s.here().frame
	v := newPackets()
	s.open(v)
	if at > 0 {
		v.goTo(s, at)
	}
}

func (s *screen) openLadder() {
	p := s.here()
	if p.conn == 0 && len(s.snapshot().Connections) > 0 {
		p.conn = s.snapshot().Connections[0].ID
	}
	if p.conn == 0 {
		s.say("There is no connection to draw yet.")
		return
	}
	s.open(newLadder(p.conn, p.frame))
}

func (s *screen) openTraffic() {
	if s.o.Controls == nil {
		s.say("Nothing is sent here; inject, serve, bench and wire have --tui.")
		return
	}
	s.push(newTraffic())
}

func (s *screen) lastView() {
	if s.last != nil {
		s.push(s.last)
	}
}

// jumpFinding goes to the packet of the next finding, in the order of the capture.
func (s *screen) jumpFinding(step int) {
	if s.ses == nil {
		return
	}
	at := s.here().frame
	list := s.findingsByFrame()
	if len(list) == 0 {
		s.say("There are no findings%s.", map[bool]string{true: " so far", false: ""}[!s.status.done])
		return
	}
	k := -1
	if step > 0 {
		for i := range list {
			if list[i].Frame > at {
				k = i
				break
			}
		}
	} else {
		for i := len(list) - 1; i >= 0; i-- {
			if at == 0 || list[i].Frame < at {
				k = i
				break
			}
		}
	}
	wrapped := ""
	if k < 0 {
		wrapped = " (around the end)"
		if k = 0; step < 0 {
			k = len(list) - 1
		}
	}
	f := list[k]
	v, ok := s.top().(*packetsView)
	if !ok {
		if l, ladder := s.top().(*ladderView); ladder && l.conn == f.Conn {
			l.goTo(s, f.Frame)
			s.say("%s%s", s.findingLine(&f), wrapped)
			return
		}
		v = newPackets()
		s.push(v)
	}
	v.goTo(s, f.Frame)
	s.say("%s%s", s.findingLine(&f), wrapped)
}

func (s *screen) mark() {
	at := s.here().frame
	if at == 0 {
		s.say("The cursor is on no packet.")
		return
	}
	s.say("Mark packet %d: which letter?", at)
	s.nextKey = func(s *screen, k keyPress) {
		s.flash = ""
		if r := []rune(k.name); len(r) == 1 {
			s.marks[r[0]] = at
			s.say("Packet %d is marked %c; %s%c goes back to it.", at, r[0], s.keys.key(doGoMark), r[0])
		}
	}
}

func (s *screen) goMark() {
	if len(s.marks) == 0 {
		s.say("Nothing is marked; %s and a letter marks a packet.", s.keys.key(doMark))
		return
	}
	s.say("Go to which mark?")
	s.nextKey = func(s *screen, k keyPress) {
		s.flash = ""
		r := []rune(k.name)
		if len(r) != 1 || s.marks[r[0]] == 0 {
			s.say("%s is no mark.", k.name)
			return
		}
		s.goFrame(s.marks[r[0]])
	}
}

// goFrame shows a packet in the list of packets.
func (s *screen) goFrame(n uint64) {
	if s.ses == nil {
		return
	}
	v, ok := s.top().(*packetsView)
	if !ok {
		v = newPackets()
		s.push(v)
	}
	v.goTo(s, n)
}

func (s *screen) goTo() {
	s.prompt = newAsk("Go to packet number, or +10, -10, 50 %", "", func(s *screen, text string) error {
		text = strings.TrimSpace(text)
		percent, share := strings.CutSuffix(text, "%")
		relative := strings.HasPrefix(text, "+") || strings.HasPrefix(text, "-")
		n, err := strconv.ParseInt(strings.TrimSpace(percent), 10, 64)
		switch {
		case err != nil || share && (n < 0 || n > 100) || !relative && !share && n == 0:
			return errors.New("a packet's number is wanted, from 1 on; or rows from here, +10; or a place, 50 %")
		case relative || share:
			s.goRow(int(n), share)
		default:
			s.goFrame(min(uint64(n), max(1, s.packets())))
		}
		return nil
	})
}

// goRow moves by so many rows, or to a place in the list.
func (s *screen) goRow(n int, share bool) {
	rows := s.rowsHere()
	if rows == nil {
		s.say("There is no list here.")
		return
	}
	if share {
		rows.cur = (rows.n - 1) * n / 100
	} else {
		rows.cur += n
	}
	rows.fit()
	s.follow = false
	if p, ok := s.top().grid().(*packetGrid); ok {
		p.settle()
	}
}

func (s *screen) freeze() {
	if s.frozen != nil {
		s.frozen = nil
		s.tick()
		s.top().refresh(s)
		return
	}
	s.frozen = &frozen{packets: s.status.packets, first: s.first(), snap: s.snap}
}

func (s *screen) toggleFollow() {
	s.follow = !s.follow
	if s.follow {
		s.frozen = nil
	}
	s.say("%s", map[bool]string{true: "Following the newest packet.", false: "Not following any more."}[s.follow])
	s.top().refresh(s)
}

func (s *screen) chooseColumns() {
	g := s.top().grid()
	if g == nil {
		s.say("There are no columns here.")
		return
	}
	s.prompt = newColumnMenu(s, g)
}

func (s *screen) chooseSort() {
	g := s.top().grid()
	if g == nil {
		s.say("There is nothing to sort here.")
		return
	}
	if _, ok := g.(*packetGrid); ok {
		s.say("Packets stay in the order of the capture; messages and connections can be sorted.")
		return
	}
	s.prompt = newSortMenu(s, g)
}

func (s *screen) nextTime() {
	s.clock = (s.clock + 1) % len(timeFormats)
	s.say("Time: %s", timeFormats[s.clock].help)
}

func (s *screen) nextTheme() {
	names := s.o.Config.themeNames()
	s.theme = s.o.Config.theme(names[(slices.Index(names, s.theme.Name)+1)%len(names)])
	s.say("Theme %s: %s", s.theme.Name, s.theme.Help)
}

func (s *screen) toggleMouse() {
	s.mouse = !s.mouse
	s.say("%s", map[bool]string{true: "The mouse clicks and scrolls here.", false: "The mouse is the terminal's again: select text with it."}[s.mouse])
}

func (s *screen) togglePrivacy() {
	if s.privacy != nil {
		s.privacy = nil
		s.say("Addresses and keys are shown.")
	} else {
		s.privacy = newMask()
		s.say("Addresses and keys are masked on screen, in copies and in files that are written; payload bytes on the screen are not.")
	}
	s.top().refresh(s)
}

func (s *screen) undoLast() {
	if len(s.undo) == 0 {
		s.say("There is nothing to undo.")
		return
	}
	last := s.undo[len(s.undo)-1]
	s.undo = s.undo[:len(s.undo)-1]
	last(s)
}

// leave quits; while traffic is being sent it asks first.
func (s *screen) leave() {
	if c := s.o.Controls; c != nil && c.Status().State == Running {
		s.prompt = newConfirm("Traffic is being sent. Stop it and quit?", func(s *screen) { s.quit = true })
		return
	}
	s.quit = true
}
