package filter

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Error is what is wrong with a filter, and where.
type Error struct {
	Pos, End int    // the place, as byte offsets in Source
	Msg      string // what is wrong: `unknown field "bth.pns"`
	Hint     string // what to do about it: "did you mean bth.psn?"; may be empty
	Source   string // the whole filter
}

// Error gives one sentence, hint included.
func (e *Error) Error() string {
	if e.Hint == "" {
		return e.Msg
	}
	return e.Msg + ": " + e.Hint
}

// caretRoom is how much of a long line Caret shows on each side of the place.
const caretRoom = 60

// Caret gives the line of the filter that is wrong, and under it a line that
// points at the place: ^ and as many ~ as it is long. There is no newline at
// the end.
func (e *Error) Caret() string {
	pos := min(max(e.Pos, 0), len(e.Source))
	end := min(max(e.End, pos), len(e.Source))
	lo := strings.LastIndexByte(e.Source[:pos], '\n') + 1
	hi := len(e.Source)
	if i := strings.IndexByte(e.Source[pos:], '\n'); i >= 0 {
		hi = pos + i
	}
	end = min(end, hi)

	before, place, after := visible(e.Source[lo:pos]), visible(e.Source[pos:end]), visible(e.Source[end:hi])
	if n := len(before); n > caretRoom {
		before = append([]rune("…"), before[n-caretRoom+1:]...)
	}
	if len(place) > caretRoom {
		place = append(place[:caretRoom-1:caretRoom-1], '…')
		after = nil
	}
	if len(after) > caretRoom {
		after = append(after[:caretRoom-1:caretRoom-1], '…')
	}
	var s strings.Builder
	s.WriteString(string(before) + string(place) + string(after))
	s.WriteByte('\n')
	s.WriteString(strings.Repeat(" ", len(before)))
	s.WriteByte('^')
	if len(place) > 1 {
		s.WriteString(strings.Repeat("~", len(place)-1))
	}
	return s.String()
}

// visible makes one printable rune of each rune, so that columns can be
// counted and no control character reaches a terminal.
func visible(s string) []rune {
	rs := make([]rune, 0, len(s))
	for _, r := range s {
		switch {
		case r == '\t' || r == '\r':
			r = ' '
		case r < ' ' || r == 0x7F || r >= 0x80 && r < 0xA0 || r == utf8.RuneError:
			r = '?'
		}
		rs = append(rs, r)
	}
	return rs
}

func errorAt(n *node, hint, format string, args ...any) *Error {
	return &Error{Pos: n.pos, End: n.end, Msg: fmt.Sprintf(format, args...), Hint: hint}
}
