package report

import (
	"io"
	"strings"
	"unicode/utf8"
)

// table is rows and columns for people. Columns without a word to say are left out; where the rest is wider than the
// line, the table is continued below, with its key columns repeated, so that no row ever wraps.
type table struct {
	columns []column
	rows    [][]cell
}

type column struct {
	title string
	right bool // aligned: numbers
	key   bool // repeated where the table is continued; shown even when empty
}

type cell struct {
	text  string
	paint paint
}

func text(s string) cell             { return cell{text: s} }
func painted(p paint, s string) cell { return cell{s, p} }

const (
	tableIndent = "  "
	columnGap   = 2
)

func (t *table) add(cells ...cell) { t.rows = append(t.rows, cells) }

// widths are those of the columns, their titles included; 0 where no row has anything in it.
func (t *table) widths() []int {
	w := make([]int, len(t.columns))
	for _, row := range t.rows {
		for i, c := range row {
			w[i] = max(w[i], utf8.RuneCountInString(c.text))
		}
	}
	for i, c := range t.columns {
		if w[i] > 0 || c.key {
			w[i] = max(w[i], utf8.RuneCountInString(c.title))
		}
	}
	return w
}

// parts are the columns of each part of the table.
func (t *table) parts(widths []int, room int) [][]int {
	var keys []int
	room -= len(tableIndent)
	for i, c := range t.columns {
		if c.key {
			keys = append(keys, i)
			room -= widths[i] + columnGap
		}
	}
	var all [][]int
	part, used := append([]int(nil), keys...), 0
	for i, c := range t.columns {
		if c.key || widths[i] == 0 {
			continue
		}
		if len(part) > len(keys) && used+widths[i] > room {
			all = append(all, part)
			part, used = append([]int(nil), keys...), 0
		}
		part = append(part, i)
		used += widths[i] + columnGap
	}
	return append(all, part)
}

// fits reports whether the table needs no continuation.
func (t *table) fits(room int) bool { return len(t.parts(t.widths(), room)) == 1 }

// write writes the table in lines of at most room characters, as long as a single column leaves room for that.
func (t *table) write(w io.Writer, room int, style Style) {
	widths := t.widths()
	for n, part := range t.parts(widths, room) {
		if n > 0 {
			io.WriteString(w, "\n")
		}
		titles := make([]cell, len(t.columns))
		for i, c := range t.columns {
			titles[i] = painted(dim, c.title)
		}
		t.writeRow(w, part, widths, titles, style)
		for _, row := range t.rows {
			if n == 0 || t.speaks(part, row) {
				t.writeRow(w, part, widths, row, style)
			}
		}
	}
}

// speaks reports whether a row has anything in a continued part of the table but its keys.
func (t *table) speaks(part []int, row []cell) bool {
	for _, i := range part {
		if i < len(row) && !t.columns[i].key && row[i].text != "" {
			return true
		}
	}
	return false
}

func (t *table) writeRow(w io.Writer, part, widths []int, row []cell, style Style) {
	var b strings.Builder
	b.WriteString(tableIndent)
	blanks := 0
	for _, i := range part {
		var c cell
		if i < len(row) {
			c = row[i]
		}
		space := widths[i] - utf8.RuneCountInString(c.text)
		if t.columns[i].right {
			blanks += space
		}
		if c.text != "" { // blanks at the end of a line are not written
			b.WriteString(strings.Repeat(" ", blanks))
			b.WriteString(style.paint(c.paint, c.text))
			blanks = 0
		}
		if !t.columns[i].right {
			blanks += space
		}
		blanks += columnGap
	}
	b.WriteByte('\n')
	io.WriteString(w, b.String())
}

// wrap breaks words into lines of at most width characters.
func wrap(s string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}

// spelled are the signs that text for people goes without, so that it reads the same on every terminal.
var spelled = strings.NewReplacer(
	"→", "->", "←", "<-", "↔", "<->", "≤", "<=", "≥", ">=", "≠", "!=", "×", "x", "µ", "u", "μ", "u", "…", "...",
	"–", "-", "—", "-", "’", "'", "‘", "'", "“", `"`, "”", `"`, "·", "*", "±", "+-",
)

// ascii makes a sentence safe for every terminal: signs are spelled out, and control characters, which no sentence of
// ours has but a file's name may, become question marks.
func ascii(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, spelled.Replace(s))
}
