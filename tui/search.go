package tui

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/rocescope/rocescope/internal/index"
	"github.com/rocescope/rocescope/tui/cells"
)

// search is what is searched for, and where it was found last.
type search struct {
	text  string
	match index.Match            // in packets
	line  func(line string) bool // in tables
	found index.Hit
	view  *index.View // of a search for what a filter selects; nil else
}

// hits reports whether a packet is the one that was found.
func (f *search) hits(n uint64) bool { return f.text != "" && f.found.Number == n }

// newSearch understands what is typed: 0x and digits are bytes, /…/ is a regular expression, = and a filter is what that selects,
// all else text.
func newSearch(s *screen, text string) (search, error) {
	f := search{text: text}
	var err error
	var inBytes index.Match
	switch {
	case strings.HasPrefix(text, "="):
		if s.ses == nil {
			return f, errors.New("there is no capture to search")
		}
		compiled, err := s.filter.check(text[1:])
		if err == nil && compiled == nil {
			err = errors.New("behind = a filter is wanted")
		}
		if err == nil {
			f.view, err = s.ses.index.Filter(s.ses.ctx, compiled)
		}
		f.line = func(string) bool { return false }
		return f, err
	case strings.HasPrefix(text, "0x"):
		if f.match, err = index.MatchHex(text); err != nil {
			return f, err
		}
		f.line = func(l string) bool { return strings.Contains(strings.ToLower(l), strings.ToLower(text)) }
		return f, nil
	case len(text) > 2 && strings.HasPrefix(text, "/") && strings.HasSuffix(text, "/"):
		expr := text[1 : len(text)-1]
		re, err := regexp.Compile("(?i)" + expr)
		if err != nil {
			return f, fmt.Errorf("the regular expression: %w", err)
		}
		if inBytes, err = index.MatchRegexp(expr); err != nil {
			return f, err
		}
		f.line = re.MatchString
	default:
		if inBytes, err = index.MatchText(text); err != nil {
			return f, err
		}
		low := strings.ToLower(text)
		f.line = func(l string) bool { return strings.Contains(strings.ToLower(l), low) }
	}
	// Of a packet, the line that the list shows of it is searched, and then its bytes.
	info := packetCols[len(packetCols)-1].text
	bare := &screen{}
	f.match = func(r *row) (at, length int, ok bool) {
		if f.line(info(bare, r)) {
			return 0, 0, true
		}
		return inBytes(r)
	}
	return f, nil
}

func newSearchPrompt(s *screen) prompt {
	return newAsk("Search: text, /regular expression/, 0x bytes, =filter", s.find.text, func(s *screen, text string) error {
		if strings.TrimSpace(text) == "" {
			s.endSearch()
			return nil
		}
		f, err := newSearch(s, strings.TrimSpace(text))
		if err != nil {
			return err
		}
		s.endSearch()
		s.find = f
		s.nextMatch(+1)
		return nil
	})
}

// endSearch forgets what is searched for.
func (s *screen) endSearch() {
	if v := s.find.view; v != nil {
		s.start("", func() func(*screen) { v.Close(); return nil })
	}
	s.find = search{}
}

// nextMatch goes to the next match, or the one before, in the view in front.
func (s *screen) nextMatch(step int) {
	if s.find.text == "" {
		s.say("Nothing is searched for; %s begins a search.", s.keys.key(doSearch))
		return
	}
	if v, ok := s.top().(*packetsView); ok {
		s.searchPackets(v, step)
		return
	}
	if s.find.view != nil && s.ses != nil {
		s.goFrame(max(s.here().frame, 1))
		s.searchPackets(s.top().(*packetsView), step)
		return
	}
	g := s.top().grid()
	if g == nil {
		s.say("Packets and tables can be searched.")
		return
	}
	sc := g.scroll()
	for i := 1; i <= sc.n; i++ {
		k := ((sc.cur+step*i)%sc.n + sc.n) % sc.n
		if s.find.line(g.line(s, k)) {
			sc.cur = k
			sc.fit()
			return
		}
	}
	s.say("%q is not in this table.", s.find.text)
}

// searchPackets reads packets until one matches, beside the event loop.
func (s *screen) searchPackets(v *packetsView, step int) {
	ses, match, view, text := s.ses, s.find.match, v.list.view, s.find.text
	from := v.here(s).frame
	s.say("Searching %s …", text)
	selected, upTo := s.find.view, s.packets()
	s.start("search", func() func(*screen) {
		var hit index.Hit
		var ok bool
		var err error
		if selected != nil {
			hit.Number, ok, err = nextOf(ses.ctx, selected, view, upTo, from, step)
		} else {
			hit, ok, err = ses.index.NewReader().Search(ses.ctx, match, from, step < 0, view)
		}
		return func(s *screen) {
			switch {
			case s.find.text != text:
			case err != nil:
				var gone *index.GoneError
				if errors.As(err, &gone) {
					err = fmt.Errorf("packets from %d on are still there, none of them matches", gone.First)
				}
				s.fail(err)
			case !ok:
				s.say("No packet %s matches %s.", map[bool]string{true: "behind this one", false: "in front of this one"}[step > 0], text)
			default:
				s.find.found = hit
				v.goTo(s, hit.Number)
				if hit.Length > 0 {
					v.hex.cur = hit.At
				}
				s.say("Packet %d matches.", hit.Number)
			}
		}
	})
}

// nextOf is the next packet behind one, or before it, that a view has, and another, if there is one.
func nextOf(ctx context.Context, view, within *index.View, upTo, from uint64, step int) (n uint64, ok bool, err error) {
	for { // of what passes live, as far as it had come
		complete, err := view.State()
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return 0, false, err
		}
		if complete || view.Scanned() >= upTo {
			break
		}
		select {
		case <-view.Done():
		case <-ctx.Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
	i, exact := view.Find(from)
	switch {
	case step < 0:
		i--
	case exact:
		i++
	}
	for ; i >= 0; i += step {
		n, ok := view.Frame(i)
		if !ok {
			break
		}
		if within == nil {
			return n, true, nil
		}
		if _, both := within.Find(n); both {
			return n, true, nil
		}
	}
	return 0, false, nil
}

// colorRule colours packets that a filter selects.
type colorRule struct {
	text  string
	style cells.Style
	match func(*row) bool
}

// ruleStyles are the colours of rules, in turn.
var ruleStyles = []cells.Style{cells.Marked, cells.Atomic | cells.Reverse, cells.Congestion | cells.Reverse, cells.OK | cells.Reverse}

// colour colours the packets that a filter selects; a second time it takes the colour away.
func (s *screen) colour(text string) {
	for i, r := range s.rules {
		if r.text == text {
			s.rules = append(s.rules[:i:i], s.rules[i+1:]...)
			return
		}
	}
	if err := s.paint(text, ruleStyles[len(s.rules)%len(ruleStyles)]); err != nil {
		s.fail(fmt.Errorf("colour: %w", err))
		return
	}
	s.remember(func(s *screen) { s.rules = s.rules[:max(0, len(s.rules)-1)] })
}

// paint adds a rule.
func (s *screen) paint(text string, style cells.Style) error {
	f, err := s.filter.check(text)
	if err == nil && f == nil {
		err = errors.New("a filter is wanted")
	}
	if err != nil {
		return err
	}
	s.rules = append(s.rules, colorRule{text, style, func(r *row) bool { return f.Match(&r.Packet, r.Data, &r.Mark) }})
	return nil
}
