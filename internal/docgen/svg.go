package main

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strconv"
	"strings"
)

// look is how a cell of a terminal looks: colours as #rrggbb, "" for the terminal's own.
type look struct {
	fg, bg                   string
	bold, underline, reverse bool
}

// glyph is a cell of a terminal.
type glyph struct {
	r rune
	look
}

// The terminal's own colours, and the first sixteen of its palette.
const ownFg, ownBg = "#d0d0d0", "#121218"

var palette16 = [16]string{
	"#000000", "#cd3131", "#2aa876", "#c9a227", "#3b78d8", "#b45bcf", "#2aa1b3", "#d0d0d0",
	"#767676", "#f14c4c", "#3ddc97", "#f5d547", "#6fa8ff", "#d98cf0", "#4dd0e1", "#ffffff",
}

// color256 is a colour of the palette of 256.
func color256(n int) string {
	switch {
	case n < 16:
		return palette16[n]
	case n < 232:
		n -= 16
		level := func(v int) int {
			if v == 0 {
				return 0
			}
			return 55 + 40*v
		}
		return fmt.Sprintf("#%02x%02x%02x", level(n/36), level(n/6%6), level(n%6))
	}
	return fmt.Sprintf("#%02[1]x%02[1]x%02[1]x", 8+10*(n-232))
}

// parseScreen reads lines of text with escape sequences for colours.
func parseScreen(text string, width, height int) [][]glyph {
	var rows [][]glyph
	var l look
	for _, line := range strings.Split(text, "\n") {
		if len(rows) == height {
			break
		}
		row := make([]glyph, 0, width)
		for line != "" {
			if rest, ok := strings.CutPrefix(line, "\x1b["); ok {
				end := strings.IndexByte(rest, 'm')
				if end < 0 {
					break
				}
				l.set(strings.Split(rest[:end], ";"))
				line = rest[end+1:]
				continue
			}
			r := []rune(line)[0]
			line = line[len(string(r)):]
			row = append(row, glyph{r, l})
		}
		rows = append(rows, row)
	}
	return rows
}

// set follows the parameters of one sequence.
func (l *look) set(codes []string) {
	for i := 0; i < len(codes); i++ {
		n, _ := strconv.Atoi(codes[i]) // an empty one is 0
		color := func(to *string) {
			if i+2 < len(codes) && codes[i+1] == "5" {
				n, _ := strconv.Atoi(codes[i+2])
				*to = color256(n & 255)
				i += 2
			}
		}
		switch {
		case n == 0:
			*l = look{}
		case n == 1:
			l.bold = true
		case n == 4:
			l.underline = true
		case n == 7:
			l.reverse = true
		case n == 22:
			l.bold = false
		case n == 24:
			l.underline = false
		case n == 27:
			l.reverse = false
		case n >= 30 && n <= 37:
			l.fg = palette16[n-30]
		case n == 38:
			color(&l.fg)
		case n == 39:
			l.fg = ""
		case n >= 40 && n <= 47:
			l.bg = palette16[n-40]
		case n == 48:
			color(&l.bg)
		case n == 49:
			l.bg = ""
		case n >= 90 && n <= 97:
			l.fg = palette16[n-90+8]
		case n >= 100 && n <= 107:
			l.bg = palette16[n-100+8]
		}
	}
}

// colors are what is seen of both.
func (l *look) colors() (fg, bg string) {
	fg, bg = l.fg, l.bg
	if l.reverse {
		if fg, bg = l.bg, l.fg; fg == "" {
			fg = ownBg
		}
		if bg == "" {
			bg = ownFg
		}
	}
	if fg == "" {
		fg = ownFg
	}
	return fg, bg
}

// The size of a cell, and the space around all.
const (
	cellW, cellH = 8, 17
	margin       = 12
)

// svg draws a screen. Every run of characters says how wide it is, so that columns stay columns with any font.
func svg(rows [][]glyph, title string) []byte {
	width := 0
	for _, row := range rows {
		width = max(width, len(row))
	}
	var b bytes.Buffer
	w, h := width*cellW+2*margin, len(rows)*cellH+2*margin
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %[1]d %[2]d\" role=\"img\">\n<title>%s</title>\n", w, h, escape(title))
	b.WriteString("<style>text{font:13px ui-monospace,'DejaVu Sans Mono',Menlo,Consolas,monospace;white-space:pre}.b{font-weight:bold}.u{text-decoration:underline}</style>\n")
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" rx=\"6\" fill=\"%s\"/>\n", w, h, ownBg)
	for y, row := range rows {
		for x := 0; x < len(row); {
			n := 1
			for x+n < len(row) && row[x+n].look == row[x].look {
				n++
			}
			drawRun(&b, x, y, row[x:x+n])
			x += n
		}
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// drawRun draws characters that look alike.
func drawRun(b *bytes.Buffer, x, y int, run []glyph) {
	l := &run[0].look
	fg, bg := l.colors()
	if bg != "" {
		fmt.Fprintf(b, "<rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\" fill=\"%s\"/>\n", margin+x*cellW, margin+y*cellH, len(run)*cellW, cellH, bg)
	}
	for len(run) > 0 && run[0].r == ' ' && !l.underline {
		x, run = x+1, run[1:]
	}
	for len(run) > 0 && run[len(run)-1].r == ' ' && !l.underline {
		run = run[:len(run)-1]
	}
	if len(run) == 0 {
		return
	}
	text := make([]rune, len(run))
	for i := range run {
		text[i] = run[i].r
	}
	class := ""
	if l.bold {
		class = " b"
	}
	if l.underline {
		class += " u"
	}
	if class != "" {
		class = fmt.Sprintf(" class=\"%s\"", class[1:])
	}
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\" textLength=\"%d\" lengthAdjust=\"spacingAndGlyphs\" fill=\"%s\"%s>%s</text>\n",
		margin+x*cellW, margin+y*cellH+13, len(run)*cellW, fg, class, escape(string(text)))
}

func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text)) // a buffer takes everything
	return b.String()
}
