package tui

import (
	"fmt"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/tui/cells"
)

// timeFormats are the ways to show a packet's time.
var timeFormats = []struct{ name, help string }{
	{"r", "since the first packet"},
	{"d", "since the packet before"},
	{"a", "local time of day"},
	{"u", "UTC, date and time of day"},
}

// clockText is a packet's time.
func clockText(format int, p *dissect.Packet) string {
	if p.NoTime {
		return "-"
	}
	switch timeFormats[format].name {
	case "d":
		return secondsText(p.Time - p.Prev)
	case "a":
		return time.Unix(0, p.Time).Format("15:04:05.000000")
	case "u":
		return time.Unix(0, p.Time).UTC().Format("01-02 15:04:05.000000")
	}
	return secondsText(p.Time - p.Base)
}

func clockWidth(format int) int {
	return map[string]int{"r": 11, "d": 11, "a": 15, "u": 21}[timeFormats[format].name]
}

func secondsText(ns int64) string {
	sign := ""
	if ns < 0 {
		sign, ns = "-", -ns
	}
	return fmt.Sprintf("%s%d.%06d", sign, ns/1e9, ns%1e9/1e3)
}

// qpName is a queue pair in words; "?" where the wire does not tell who it is.
func (s *screen) qpName(q *flows.QP) string {
	if !q.Known {
		return "? (unknown)"
	}
	return s.addr(q.Addr) + " " + qpn(q.QPN)
}

func qpn(n uint32) string { return fmt.Sprintf("0x%x", n) }

// addr is an address, masked where that was asked for.
func (s *screen) addr(a dissect.Addr) string {
	if s.privacy != nil {
		return s.privacy.addr(a)
	}
	return a.String()
}

// rkey is a key, masked where that was asked for.
func (s *screen) rkey(k uint32) string {
	if s.privacy != nil {
		return s.privacy.key(k)
	}
	return fmt.Sprintf("0x%x", k)
}

// connTitle names a connection in a few words.
func (s *screen) connTitle(id uint32) string {
	c := s.connection(id)
	if c == nil {
		return fmt.Sprintf("connection %d", id)
	}
	return fmt.Sprintf("#%d %s → %s", id, s.qpName(&c.A), s.qpName(&c.B))
}

// way names a direction of a connection.
func way(d flows.Direction) string {
	if d == flows.AToB {
		return "A→B"
	}
	return "B→A"
}

// pairing says how the two queue pairs were found, and how sure that is.
func pairing(e flows.Evidence) (string, cells.Style) {
	switch e {
	case flows.ByCM:
		return "CM", cells.OK
	case flows.BySocket:
		return "socket", cells.OK
	case flows.ByDETH:
		return "DETH", cells.OK
	case flows.Inferred:
		return "inferred", cells.Note
	case flows.Ambiguous:
		return "ambiguous", cells.Warn
	}
	return "unpaired", cells.Warn
}

// short writes a count in a few characters: 12.3k.
func short(n uint64) string {
	switch {
	case n < 10000:
		return fmt.Sprint(n)
	case n < 1e6:
		return fmt.Sprintf("%.1fk", float64(n)/1e3)
	case n < 1e9:
		return fmt.Sprintf("%.1fM", float64(n)/1e6)
	}
	return fmt.Sprintf("%.1fG", float64(n)/1e9)
}

// dur writes a length of time.
func dur(ns int64) string {
	return strings.Replace(report.Duration(time.Duration(ns)), " us", " µs", 1)
}

// severity is the letter and the style of a severity: colour is never alone.
func severity(v flows.Severity) (string, cells.Style) {
	switch v {
	case flows.Error:
		return "E", cells.Bad
	case flows.Warning:
		return "W", cells.Warn
	}
	return "N", cells.Note
}

// wrapText breaks a text into lines of at most w characters.
func wrapText(text string, w int) []string {
	var lines []string
	for _, para := range strings.Split(text, "\n") {
		line := ""
		for _, word := range strings.Fields(para) {
			for cells.Width(word) > w && w > 0 {
				if line != "" {
					lines = append(lines, line)
					line = ""
				}
				r := []rune(word)
				lines = append(lines, string(r[:w]))
				word = string(r[w:])
			}
			switch {
			case line == "":
				line = word
			case cells.Width(line)+1+cells.Width(word) > w:
				lines = append(lines, line)
				line = word
			default:
				line += " " + word
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// paragraph draws a text with a word in front, broken into lines, and returns the line behind it.
func paragraph(c *cells.Canvas, y int, label string, style cells.Style, text string) int {
	if text == "" {
		return y
	}
	c.Text(1, y, cells.Faint|cells.Bold, label)
	indent := 1
	if label != "" {
		indent = max(11, cells.Width(label)+2)
	}
	for _, line := range wrapText(text, max(8, c.W-indent-1)) {
		c.Text(indent, y, style, line)
		y++
	}
	return y
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
