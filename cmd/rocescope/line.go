package main

import (
	"io"
	"os"
)

// line is what a command that goes on for a while says of itself on standard error, again and again: on a terminal in one
// place, else line by line.
type line struct {
	out      *os.File
	terminal bool
	drawn    bool
}

func (a *app) newLine() line { return line{out: a.stderr, terminal: isTerminal(a.stderr)} }

// takeAway goes to the beginning of a terminal's line and empties it.
const takeAway = "\r\x1b[K"

// show writes the line; on a terminal over the one before.
func (l *line) show(text string) {
	if !l.terminal {
		io.WriteString(l.out, text+"\n")
		return
	}
	io.WriteString(l.out, takeAway+text)
	l.drawn = true
}

// clear takes the line away.
func (l *line) clear() {
	if l.drawn {
		io.WriteString(l.out, takeAway)
		l.drawn = false
	}
}
