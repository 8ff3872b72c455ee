package tui

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	tea "github.com/charmbracelet/bubbletea"
)

// action is what a key asks for. The names are those of the palette, the config file and docs/keys.md.
type action string

// binding is a row of the key table: from it come the help, the footer, the palette, the config file's names and docs/keys.md.
type binding struct {
	do    action
	keys  []string // the first is the one that is shown
	group string
	help  string
	short string // in the footer; "" leaves it out there
}

// label is what the footer calls it.
func (b *binding) label() string {
	if b.short != "" {
		return b.short
	}
	return strings.ReplaceAll(string(b.do), "-", " ")
}

// The groups of the key table, in the order of the help.
const (
	groupMove  = "Moving"
	groupView  = "Views"
	groupFind  = "Finding things"
	groupShow  = "How it is shown"
	groupTake  = "Taking things out"
	groupSend  = "Sending traffic"
	groupOther = "This program"
	groupOwn   = "Your own"
)

const (
	doUp          action = "up"
	doDown        action = "down"
	doLeft        action = "left"
	doRight       action = "right"
	doPageUp      action = "page-up"
	doPageDown    action = "page-down"
	doTop         action = "top"
	doBottom      action = "bottom"
	doInto        action = "into"
	doBack        action = "back"
	doNextPanel   action = "next-panel"
	doPrevPanel   action = "previous-panel"
	doLastView    action = "last-view"
	doVisitBack   action = "view-back"
	doVisitNext   action = "view-forward"
	doOverview    action = "overview"
	doConnections action = "connections"
	doMessages    action = "messages"
	doPackets     action = "packets"
	doLadder      action = "ladder"
	doFindings    action = "findings"
	doEndpoints   action = "endpoints"
	doTraffic     action = "traffic"
	doLadderHere  action = "ladder-of-this"
	doFindingList action = "finding-list"
	doNextFinding action = "next-finding"
	doPrevFinding action = "previous-finding"
	doFilter      action = "filter"
	doFromCell    action = "filter-from-cell"
	doClearFilter action = "clear-filter"
	doSearch      action = "search"
	doNextMatch   action = "next-match"
	doPrevMatch   action = "previous-match"
	doMark        action = "mark"
	doGoMark      action = "go-to-mark"
	doGoTo        action = "go-to-packet"
	doFreeze      action = "freeze"
	doFollow      action = "follow"
	doColumns     action = "columns"
	doSort        action = "sort"
	doZoom        action = "zoom"
	doLarger      action = "larger-list"
	doSmaller     action = "smaller-list"
	doRaw         action = "raw-values"
	doTime        action = "time-format"
	doTheme       action = "theme"
	doMouse       action = "mouse"
	doPrivacy     action = "privacy"
	doCopy        action = "copy"
	doWrite       action = "write"
	doUndo        action = "undo"
	doHelp        action = "help"
	doPalette     action = "palette"
	doQuit        action = "quit"
	doCount       action = "count"
	doSaveProfile action = "save-profile"
	doStart       action = "start-stop"
	doPause       action = "pause"
	doRate        action = "rate"
)

// bindings is every key there is. h, j, k and l always mean the arrows; nothing else is bound to them.
var bindings = []binding{
	{doUp, []string{"up", "k"}, groupMove, "one row up", ""},
	{doDown, []string{"down", "j"}, groupMove, "one row down", ""},
	{doLeft, []string{"left", "h"}, groupMove, "one column left; close a branch of the tree", ""},
	{doRight, []string{"right", "l"}, groupMove, "one column right; open a branch of the tree", ""},
	{doPageUp, []string{"pgup", "ctrl-b"}, groupMove, "one page up", ""},
	{doPageDown, []string{"pgdown", "ctrl-d"}, groupMove, "one page down", ""},
	{doTop, []string{"g", "home"}, groupMove, "to the first row", ""},
	{doBottom, []string{"G", "end"}, groupMove, "to the last row", ""},
	{doCount, digitKeys("alt-"), groupMove, "how often the next key counts, or which row G goes to: alt-5 j, alt-1 2 G; more digits follow as they are", ""},
	{doGoTo, []string{"ctrl-g"}, groupMove, "to a packet, by its number; +10 and -10 are rows from here, 50% is a place in the list", ""},
	{doMark, []string{"m"}, groupMove, "mark this packet with the letter that follows", ""},
	{doGoMark, []string{"'"}, groupMove, "to the packet marked with the letter that follows", ""},

	{doInto, []string{"enter"}, groupView, "into what the cursor is on", "into"},
	{doBack, []string{"esc"}, groupView, "one step back; it never quits", "back"},
	{doNextPanel, []string{"tab"}, groupView, "to the next panel", ""},
	{doPrevPanel, []string{"shift-tab"}, groupView, "to the panel before", ""},
	{doLastView, []string{"-"}, groupView, "to the view before, and to this one again", ""},
	{doVisitBack, []string{"["}, groupView, "back to the view that was visited before this one, as in a browser", ""},
	{doVisitNext, []string{"]"}, groupView, "forward again", ""},
	{doOverview, []string{"1"}, groupView, "overview: rates, the busiest connections, what is wrong", ""},
	{doConnections, []string{"2"}, groupView, "connections: pairs of queue pairs", ""},
	{doMessages, []string{"3"}, groupView, "messages: work requests, of this connection", ""},
	{doPackets, []string{"4"}, groupView, "packets: list, tree, bytes", ""},
	{doLadder, []string{"5"}, groupView, "ladder: requester and responder side by side", ""},
	{doFindings, []string{"6"}, groupView, "findings, gravest first", ""},
	{doEndpoints, []string{"7"}, groupView, "endpoints: hosts, whom they talk to, what is wrong there", ""},
	{doTraffic, []string{"8"}, groupView, "the generator or suite, where one runs", ""},
	{doLadderHere, []string{"d"}, groupView, "ladder of the connection under the cursor, at this packet", "ladder"},
	{doZoom, []string{"z"}, groupView, "this panel alone, and back", ""},
	{doLarger, []string{">"}, groupView, "more room for the list, less for what is below it", ""},
	{doSmaller, []string{"<"}, groupView, "less room for the list", ""},

	{doNextFinding, []string{"e"}, groupFind, "to the next finding, from anywhere", "next finding"},
	{doPrevFinding, []string{"E"}, groupFind, "to the finding before", ""},
	{doFindingList, []string{"!"}, groupFind, "list the findings", ""},
	{doFilter, []string{"/"}, groupFind, "display filter", "filter"},
	{doFromCell, []string{"f"}, groupFind, "filter, column or colour from the value under the cursor", "from cell"},
	{doClearFilter, []string{"X"}, groupFind, "take the filter away", ""},
	{doSearch, []string{"ctrl-f"}, groupFind, "search: text, /regular expression/, 0x bytes", "search"},
	{doNextMatch, []string{"n"}, groupFind, "next match", ""},
	{doPrevMatch, []string{"N"}, groupFind, "match before", ""},

	{doFreeze, []string{"space"}, groupShow, "freeze the screen; the capture goes on", "freeze"},
	{doFollow, []string{"F"}, groupShow, "follow the newest packet", ""},
	{doColumns, []string{"c"}, groupShow, "choose columns", ""},
	{doSort, []string{"s"}, groupShow, "sort", "sort"},
	{doRaw, []string{"x"}, groupShow, "raw or pretty values", ""},
	{doTime, []string{"t"}, groupShow, "time: since the first packet, since the one before, of day", ""},
	{doTheme, []string{"T"}, groupShow, "next theme", ""},
	{doMouse, []string{"M"}, groupShow, "mouse on or off; off, the terminal's own selection works", ""},
	{doPrivacy, []string{"P"}, groupShow, "mask addresses and keys on screen, in copies and exports", ""},
	{doSaveProfile, nil, groupShow, "save columns, colours, theme, times and layout as a profile; : has profiles by name", ""},
	{doUndo, []string{"u"}, groupShow, "undo the last change of filter, sort, columns or zoom", ""},

	{doCopy, []string{"y"}, groupTake, "copy: value, hex, JSON, filter, command line", "copy"},
	{doWrite, []string{"w"}, groupTake, "write the packets that the filter selects to a file", "write"},

	{doStart, []string{"S"}, groupSend, "start or stop what is sent", "start/stop"},
	{doPause, []string{"p"}, groupSend, "pause or go on sending", ""},
	{doRate, []string{"r"}, groupSend, "change the rate", ""},

	{doHelp, []string{"?"}, groupOther, "all keys", "help"},
	{doPalette, []string{":"}, groupOther, "palette: every action by its name", ""},
	{doQuit, []string{"q", "ctrl-c"}, groupOther, "quit", "quit"},
}

// digitKeys are the digits that a number begins with.
func digitKeys(prefix string) []string {
	var keys []string
	for d := '1'; d <= '9'; d++ {
		keys = append(keys, prefix+string(d))
	}
	return keys
}

// shown is the keys as a table shows them.
func (b *binding) shown() []string {
	if b.do == doCount && len(b.keys) > 2 {
		return []string{b.keys[0], "…", b.keys[len(b.keys)-1]}
	}
	return b.keys
}

// keymap is the key table with the user's own keys.
type keymap struct {
	rows  []binding
	byKey map[string]action
}

// newKeymap is the key table with actions and keys of the user's own. The error names what cannot be.
func newKeymap(c *Config) (*keymap, error) {
	own, countFirst := c.Keys, c.Digits == "count"
	m := &keymap{rows: slices.Clone(bindings), byKey: map[string]action{}}
	for _, name := range slices.Sorted(maps.Keys(c.Actions)) {
		if slices.ContainsFunc(bindings, func(b binding) bool { return string(b.do) == name }) {
			return nil, wrong("an action of that name is there already: choose another", "actions", name)
		}
		a := c.Actions[name]
		b := binding{do: action(name), group: groupOwn, help: cmp.Or(a.Help, a.Command)}
		if a.Key != "" {
			b.keys = []string{a.Key}
		}
		m.rows = append(m.rows, b)
	}
	for name := range own {
		if !slices.ContainsFunc(m.rows, func(b binding) bool { return string(b.do) == name }) {
			return nil, wrong(fmt.Sprintf("there is no action %q; \"rocescope tui --keys\" lists them", name), "keys", name)
		}
	}
	for i := range m.rows {
		if b := &m.rows[i]; countFirst && b.do == doCount {
			b.keys = digitKeys("")
		} else if countFirst && len(b.keys) == 1 && b.keys[0] >= "1" && b.keys[0] <= "9" {
			b.keys = []string{"alt-" + b.keys[0]}
		}
	}
	for i := range m.rows {
		if keys, ok := own[string(m.rows[i].do)]; ok {
			m.rows[i].keys = keys
		}
		for _, k := range m.rows[i].keys {
			if !validKey(k) {
				return nil, wrong(fmt.Sprintf("%q is no key; keys look like x, X, f5, ctrl-x, alt-x, space, pgdown", k), "keys", string(m.rows[i].do))
			}
			if _, digit := digitOf(k); m.rows[i].do == doCount && !digit {
				return nil, wrong(fmt.Sprintf("%q ends in no digit, and what it counts would not be known", k), "keys", string(doCount))
			}
			if taken, twice := m.byKey[k]; twice {
				return nil, wrong(fmt.Sprintf("%s is bound to both %s and %s", k, taken, m.rows[i].do), "keys", string(m.rows[i].do))
			}
			m.byKey[k] = m.rows[i].do
		}
	}
	if len(m.keysOf(doQuit)) == 0 {
		m.byKey["ctrl-c"] = doQuit // whatever else is taken away, one can leave
	}
	return m, nil
}

func (m *keymap) row(do action) *binding {
	for i := range m.rows {
		if m.rows[i].do == do {
			return &m.rows[i]
		}
	}
	return nil
}

func (m *keymap) keysOf(do action) []string {
	if b := m.row(do); b != nil {
		return b.keys
	}
	return nil
}

// key is the key to show for an action; "" where it has none.
func (m *keymap) key(do action) string {
	if keys := m.keysOf(do); len(keys) > 0 {
		return keys[0]
	}
	return ""
}

// namedKeys are the keys that are no single character.
var namedKeys = []string{
	"up", "down", "left", "right", "pgup", "pgdown", "home", "end", "enter", "esc", "tab", "shift-tab", "space", "backspace", "delete", "insert",
	"shift-up", "shift-down", "shift-left", "shift-right", "ctrl-up", "ctrl-down", "ctrl-left", "ctrl-right",
	"f1", "f2", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", "f11", "f12",
}

func validKey(k string) bool {
	if slices.Contains(namedKeys, k) || len([]rune(k)) == 1 {
		return true
	}
	for _, prefix := range []string{"ctrl-", "alt-"} {
		if rest, ok := strings.CutPrefix(k, prefix); ok && len([]rune(rest)) == 1 {
			return true
		}
	}
	return false
}

// keyPress is a key by its name in the table, or text that was pasted.
type keyPress struct {
	name  string
	paste string
}

// pressesOf gives key presses their names. Input that came in one piece is several of them.
func pressesOf(k tea.KeyMsg) []keyPress {
	if k.Paste {
		return []keyPress{{paste: string(k.Runes)}}
	}
	if k.Type == tea.KeyRunes && len(k.Runes) > 1 {
		all := make([]keyPress, len(k.Runes))
		for i, r := range k.Runes {
			all[i] = keyPress{name: keyName(string(r))}
		}
		return all
	}
	return []keyPress{{name: keyName(k.String())}}
}

func keyName(name string) string {
	switch name {
	case " ":
		return "space"
	case "+":
		return name
	}
	return strings.ReplaceAll(name, "+", "-")
}

// mouseEvent is a mouse event of the few kinds that matter.
type mouseEvent struct {
	x, y  int
	wheel int // rows to scroll
	click bool
	drag  bool // moved with the button held
	up    bool // the button was let go
}

func mouseOf(m tea.MouseMsg) (e mouseEvent, ok bool) {
	e = mouseEvent{x: m.X, y: m.Y}
	switch {
	case m.Button == tea.MouseButtonWheelUp:
		e.wheel = -3
	case m.Button == tea.MouseButtonWheelDown:
		e.wheel = 3
	case m.Button == tea.MouseButtonLeft && m.Action == tea.MouseActionPress:
		e.click = true
	case m.Button == tea.MouseButtonLeft && m.Action == tea.MouseActionMotion:
		e.drag = true
	case m.Action == tea.MouseActionRelease:
		e.up = true
	default:
		return e, false
	}
	return e, true
}
