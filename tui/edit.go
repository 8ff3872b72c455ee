package tui

import (
	"strings"
	"unicode"
)

// lineEdit is one line that is being typed.
type lineEdit struct {
	text []rune
	at   int
}

func (e *lineEdit) set(s string) { e.text = []rune(s); e.at = len(e.text) }

func (e *lineEdit) String() string { return string(e.text) }

// before is what stands left of the cursor.
func (e *lineEdit) before() string { return string(e.text[:e.at]) }

func (e *lineEdit) insert(s string) {
	add := []rune(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s))
	e.text = append(e.text[:e.at:e.at], append(add, e.text[e.at:]...)...)
	e.at += len(add)
}

// key edits, and says whether the key was one that edits.
func (e *lineEdit) key(k keyPress) bool {
	if k.paste != "" {
		e.insert(k.paste)
		return true
	}
	switch k.name {
	case "left", "ctrl-b":
		e.at = max(0, e.at-1)
	case "right":
		e.at = min(len(e.text), e.at+1)
	case "home", "ctrl-a":
		e.at = 0
	case "end", "ctrl-e":
		e.at = len(e.text)
	case "ctrl-left", "alt-b":
		e.at = e.wordLeft()
	case "ctrl-right", "alt-f":
		for e.at < len(e.text) && e.text[e.at] == ' ' {
			e.at++
		}
		for e.at < len(e.text) && e.text[e.at] != ' ' {
			e.at++
		}
	case "backspace", "ctrl-h":
		e.cut(max(0, e.at-1), e.at)
	case "delete":
		e.cut(e.at, min(len(e.text), e.at+1))
	case "ctrl-w", "alt-backspace":
		e.cut(e.wordLeft(), e.at)
	case "ctrl-u":
		e.cut(0, e.at)
	case "ctrl-k":
		e.cut(e.at, len(e.text))
	case "space":
		e.insert(" ")
	default:
		if r := []rune(k.name); len(r) == 1 && unicode.IsPrint(r[0]) {
			e.insert(k.name)
			return true
		}
		return false
	}
	return true
}

func (e *lineEdit) cut(from, to int) {
	e.text = append(e.text[:from:from], e.text[to:]...)
	e.at = from
}

func (e *lineEdit) wordLeft() int {
	at := e.at
	for at > 0 && e.text[at-1] == ' ' {
		at--
	}
	for at > 0 && e.text[at-1] != ' ' {
		at--
	}
	return at
}
