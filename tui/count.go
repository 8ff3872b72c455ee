package tui

import (
	"fmt"
	"strings"
)

// mostCount bounds how often one key press is done again.
const mostCount = 100_000

// digitOf is the digit that a key ends in: 5, alt-5.
func digitOf(key string) (d uint64, ok bool) {
	last := key[strings.LastIndexByte(key, '-')+1:]
	if len(last) != 1 || last[0] < '0' || last[0] > '9' {
		return 0, false
	}
	return uint64(last[0] - '0'), true
}

// counting takes a digit of a number that is being typed, and says whether the key was one.
func (s *screen) counting(k keyPress) bool {
	d, digit := digitOf(k.name)
	if !digit || s.count == 0 && s.keys.byKey[k.name] != doCount {
		return false
	}
	if s.count < 1e9 {
		s.count = s.count*10 + d
	}
	return true
}

// again are the actions that a number repeats.
var again = map[action]bool{
	doUp: true, doDown: true, doLeft: true, doRight: true, doPageUp: true, doPageDown: true, doNextPanel: true, doPrevPanel: true,
	doVisitBack: true, doVisitNext: true, doNextFinding: true, doPrevFinding: true, doUndo: true, doLarger: true, doSmaller: true,
}

// times does an action n times, or where it goes to a row, goes to that one.
func (s *screen) times(a action, n uint64) {
	switch {
	case a == doTop || a == doBottom:
		s.goNumber(n)
	case again[a]:
		if n > mostCount {
			s.say("%d times is too often; %s goes to a packet or a place by its number.", n, s.keys.key(doGoTo))
			return
		}
		for range n {
			s.do(a)
		}
	case a == doBack: // no number after all
	default:
		s.do(a)
	}
}

// goNumber goes to a row: in lists of packets to the packet with that number, or the next that the list has.
func (s *screen) goNumber(n uint64) {
	g := s.top().grid()
	if list, ok := g.(*packetGrid); ok && list.n > 0 {
		at, _ := list.place(n)
		list.cur, list.want = at, 0
		s.follow = false
		list.settle()
		return
	}
	rows := s.rowsHere()
	if rows == nil {
		s.say("There is no list here.")
		return
	}
	rows.cur = int(n) - 1
	rows.fit()
	s.follow = false
}

// rowsHere is the list that the cursor moves in; nil where there is none.
func (s *screen) rowsHere() *scroller {
	if v, ok := s.top().(*ladderView); ok {
		return &v.scroller
	}
	if g := s.top().grid(); g != nil {
		return g.scroll()
	}
	return nil
}

// countText is the number that is being typed, as a chip says it.
func (s *screen) countText() string { return fmt.Sprintf("%d times", s.count) }
