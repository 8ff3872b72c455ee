package cells

import (
	"strconv"
	"unicode/utf8"
)

// Style is what a cell means, and attributes.
type Style uint16

// The meanings.
const (
	Plain      Style = iota
	Faint            // less important
	Title            // headings
	Border           // of panels
	Focus            // the border of the panel that has the keys
	OK               // went well
	Warn             // sent again, late: a warning
	Bad              // refused, lost, damaged: an error
	Note             // worth knowing
	Request          // from a requester
	Response         // from a responder
	Atomic           // atomics
	Congestion       // CE, CNP, pause
	Chart1           // the curves of a chart
	Chart2
	Chart3
	Chart4
	Axis   // its axes and scales
	Key    // a key to press
	Chip   // a state that can be taken away again: filter, freeze
	Bar    // the lines at the top and the bottom
	Cursor // the row that the cursor is on
	Marked // what was searched, marked, linked
	NumStyles
)

// The attributes, to be added to a meaning.
const (
	Bold Style = 1 << (8 + iota)
	Underline
	Reverse
	meaning Style = 1<<8 - 1
)

// Meaning is the style without attributes.
func (s Style) Meaning() Style { return s & meaning }

// Look is how a meaning looks: colours of the 256, -1 for the terminal's own.
type Look struct {
	Fg, Bg int
	Attr   Style
}

// Depth is how many colours a terminal has.
type Depth uint8

// The depths.
const (
	NoColor Depth = iota
	Color16
	Color256
)

// Theme gives meanings their looks.
type Theme struct {
	Name string
	Help string
	Look [NumStyles]Look
}

// Themes are all there are. Colour never carries what a letter or a shape does not say too.
var Themes = []*Theme{
	{"dark", "for dark terminals", [NumStyles]Look{
		Plain: {-1, -1, 0}, Faint: {245, -1, 0}, Title: {81, -1, Bold}, Border: {240, -1, 0}, Focus: {39, -1, 0},
		OK: {78, -1, 0}, Warn: {221, -1, 0}, Bad: {203, -1, Bold}, Note: {117, -1, 0},
		Request: {117, -1, 0}, Response: {151, -1, 0}, Atomic: {183, -1, 0}, Congestion: {212, -1, 0},
		Chart1: {45, -1, 0}, Chart2: {221, -1, 0}, Chart3: {203, -1, 0}, Chart4: {150, -1, 0}, Axis: {242, -1, 0},
		Key: {215, -1, Bold}, Chip: {16, 179, 0}, Bar: {252, 236, 0}, Cursor: {231, 24, 0}, Marked: {16, 186, 0},
	}},
	{"light", "for light terminals", [NumStyles]Look{
		Plain: {-1, -1, 0}, Faint: {243, -1, 0}, Title: {25, -1, Bold}, Border: {249, -1, 0}, Focus: {26, -1, 0},
		OK: {28, -1, 0}, Warn: {130, -1, 0}, Bad: {160, -1, Bold}, Note: {25, -1, 0},
		Request: {25, -1, 0}, Response: {29, -1, 0}, Atomic: {91, -1, 0}, Congestion: {162, -1, 0},
		Chart1: {26, -1, 0}, Chart2: {136, -1, 0}, Chart3: {160, -1, 0}, Chart4: {28, -1, 0}, Axis: {246, -1, 0},
		Key: {94, -1, Bold}, Chip: {231, 130, 0}, Bar: {236, 253, 0}, Cursor: {16, 153, 0}, Marked: {16, 222, 0},
	}},
	{"contrast", "strong contrast, sixteen colours", [NumStyles]Look{
		Plain: {15, 0, 0}, Faint: {7, 0, 0}, Title: {14, 0, Bold}, Border: {15, 0, 0}, Focus: {11, 0, Bold},
		OK: {10, 0, Bold}, Warn: {11, 0, Bold}, Bad: {9, 0, Bold}, Note: {14, 0, Bold},
		Request: {14, 0, 0}, Response: {10, 0, 0}, Atomic: {13, 0, 0}, Congestion: {13, 0, Bold},
		Chart1: {14, 0, 0}, Chart2: {11, 0, 0}, Chart3: {9, 0, 0}, Chart4: {10, 0, 0}, Axis: {15, 0, 0},
		Key: {11, 0, Bold | Underline}, Chip: {0, 11, Bold}, Bar: {0, 15, 0}, Cursor: {0, 11, Bold}, Marked: {0, 14, Bold},
	}},
	{"colorblind", "blue, orange and shapes; no red against green", [NumStyles]Look{
		Plain: {-1, -1, 0}, Faint: {245, -1, 0}, Title: {75, -1, Bold}, Border: {240, -1, 0}, Focus: {75, -1, 0},
		OK: {75, -1, 0}, Warn: {220, -1, 0}, Bad: {208, -1, Bold | Underline}, Note: {152, -1, 0},
		Request: {75, -1, 0}, Response: {223, -1, 0}, Atomic: {176, -1, 0}, Congestion: {176, -1, Bold},
		Chart1: {75, -1, 0}, Chart2: {220, -1, 0}, Chart3: {208, -1, 0}, Chart4: {152, -1, 0}, Axis: {242, -1, 0},
		Key: {220, -1, Bold}, Chip: {16, 220, 0}, Bar: {252, 236, 0}, Cursor: {231, 25, 0}, Marked: {16, 223, 0},
	}},
	{"mono", "no colours at all", [NumStyles]Look{
		Plain: {-1, -1, 0}, Faint: {-1, -1, 0}, Title: {-1, -1, Bold}, Border: {-1, -1, 0}, Focus: {-1, -1, Bold},
		OK: {-1, -1, 0}, Warn: {-1, -1, Bold}, Bad: {-1, -1, Bold | Underline}, Note: {-1, -1, 0},
		Request: {-1, -1, 0}, Response: {-1, -1, 0}, Atomic: {-1, -1, 0}, Congestion: {-1, -1, Bold},
		Chart1: {-1, -1, 0}, Chart2: {-1, -1, Bold}, Chart3: {-1, -1, Bold}, Chart4: {-1, -1, 0}, Axis: {-1, -1, 0},
		Key: {-1, -1, Bold}, Chip: {-1, -1, Reverse}, Bar: {-1, -1, Reverse}, Cursor: {-1, -1, Reverse}, Marked: {-1, -1, Underline | Bold},
	}},
}

// ThemeByName finds a theme, nil if there is none of the name.
func ThemeByName(name string) *Theme {
	for _, t := range Themes {
		if t.Name == name {
			return t
		}
	}
	return nil
}

// Output makes bytes for a terminal of canvases. What it is told does not change between them.
type Output struct {
	Theme *Theme
	Depth Depth
	ASCII bool // no other characters than those of ASCII

	codes [NumStyles << 3]string // escape sequences, as far as they were needed
	bytes []byte
}

// Lines are the canvas as lines with escape sequences, joined by newlines; none of them carries a colour into the next.
func (o *Output) Lines(c *Canvas) string {
	theme := o.Theme
	if o.Depth == NoColor {
		theme = ThemeByName("mono")
	}
	b := o.bytes[:0]
	for y := range c.H {
		if y > 0 {
			b = append(b, '\n')
		}
		last, colored := Plain, false
		for x, cell := range c.row(y) {
			blank := cell.R == ' ' && x > 0 && bare(theme, cell.S) && bare(theme, last)
			if (cell.S != last || x == 0) && !blank {
				key := int(cell.S.Meaning())<<3 | int(cell.S>>8)&7
				if o.codes[key] == "" {
					o.codes[key] = sequence(theme.Look[cell.S.Meaning()], cell.S, o.Depth)
				}
				if code := o.codes[key]; code != "\x1b[0m" || colored {
					b = append(b, code...)
					colored = code != "\x1b[0m"
				}
				last = cell.S
			}
			r := cell.R
			if o.ASCII && r > 0x7e {
				r = ascii(r)
			}
			b = utf8.AppendRune(b, r)
		}
		if colored {
			b = append(b, "\x1b[0m"...)
		}
	}
	o.bytes = b
	return string(b)
}

// bare says that a style shows nothing on a blank, which needs no change of style
// then: a quarter of what a list sends.
func bare(t *Theme, s Style) bool {
	l := &t.Look[s.Meaning()]
	return (l.Attr|s)&(Underline|Reverse) == 0 && l.Bg < 0
}

func sequence(l Look, s Style, depth Depth) string {
	code := []byte("\x1b[0")
	attr := l.Attr | s&^meaning
	if attr&Bold != 0 {
		code = append(code, ";1"...)
	}
	if attr&Underline != 0 {
		code = append(code, ";4"...)
	}
	if attr&Reverse != 0 {
		code = append(code, ";7"...)
	}
	code = color(code, l.Fg, 38, 30, 90, depth)
	code = color(code, l.Bg, 48, 40, 100, depth)
	return string(append(code, 'm'))
}

func color(code []byte, n, many, few, bright int, depth Depth) []byte {
	if n < 0 || depth == NoColor {
		return code
	}
	if n > 15 && depth == Color16 {
		n = nearest16(n)
	}
	switch {
	case n < 8:
		return strconv.AppendInt(append(code, ';'), int64(few+n), 10)
	case n < 16:
		return strconv.AppendInt(append(code, ';'), int64(bright+n-8), 10)
	}
	code = strconv.AppendInt(append(code, ';'), int64(many), 10)
	return strconv.AppendInt(append(code, ";5;"...), int64(n), 10)
}

// nearest16 is the colour among sixteen that comes closest to one of 256.
func nearest16(n int) int {
	if n >= 232 { // greys
		return []int{0, 8, 7, 15}[min((n-232)/6, 3)]
	}
	n -= 16
	r, g, b := n/36, n/6%6, n%6
	most := max(r, g, b)
	c := 0
	for i, v := range []int{r, g, b} {
		if v*2 > most && v > 0 {
			c |= 1 << i
		}
	}
	if most >= 4 {
		c |= 8
	}
	return c
}

// asciiOf is what stands for characters that are not in ASCII.
var asciiOf = map[rune]rune{
	'─': '-', '│': '|', '┌': '.', '┐': '.', '└': '`', '┘': '\'', '├': '+', '┤': '+', '┬': '+', '┴': '+', '┼': '+', '╭': '.', '╮': '.', '╰': '`', '╯': '\'',
	'━': '=', '┃': '|', '═': '=', '║': '|', '╌': '-', '╎': ':', '┄': '-', '┆': ':', '┈': '.', '╴': '-', '╶': '-', '╵': '|', '╷': '|',
	'→': '>', '←': '<', '↑': '^', '↓': 'v', '⇢': '>', '⇠': '<', '▸': '>', '▾': 'v', '▴': '^', '◂': '<', '►': '>', '◄': '<', '▼': 'v', '▲': '^', '▶': '>', '◀': '<',
	'…': '~', '·': '.', '•': '*', '●': '*', '○': 'o', '◌': 'o', '◆': '#', '◇': 'o', '■': '#', '□': 'o', '×': 'x', '✓': '+', '✗': 'x', 'µ': 'u', 'μ': 'u',
	'≤': '<', '≥': '>', '≈': '~', '±': '~', '–': '-', '—': '-', '“': '"', '”': '"', '’': '\'', '‘': '\'', '█': '#', '▓': '#', '▒': '+', '░': '.',
	'∞': '8', '²': '2', '³': '3', '«': '<', '»': '>', ' ': ' ', '╳': 'X', '╱': '/', '╲': '\\', '⋮': ':', '⏸': '=',
}

func ascii(r rune) rune {
	switch a, ok := asciiOf[r]; {
	case ok:
		return a
	case r == 0x2800:
		return ' '
	case r > 0x2800 && r < 0x2900: // Braille: a curve
		return '*'
	case r >= 0x2581 && r <= 0x2588: // eighths of a block
		return []rune("..:-=+##")[r-0x2581]
	}
	return '?'
}
