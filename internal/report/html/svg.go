package html

import (
	"html/template"
	"strconv"
	"strings"
)

// drawing is an SVG in the making. Colours come from the page's style sheet, by class.
type drawing struct{ b strings.Builder }

// begin opens the element. Its title is what a screen reader says of it.
func (d *drawing) begin(class string, width, height float64, title string, attrs ...string) {
	d.b.WriteString(`<svg class="`)
	d.b.WriteString(class)
	d.b.WriteString(`" viewBox="0 0 `)
	d.number(width)
	d.b.WriteByte(' ')
	d.number(height)
	d.b.WriteString(`" role="img" aria-label="`)
	d.b.WriteString(template.HTMLEscapeString(title))
	d.b.WriteByte('"')
	d.attrs(attrs)
	d.b.WriteString(">")
}

func (d *drawing) end() template.HTML {
	d.b.WriteString("</svg>")
	return template.HTML(d.b.String())
}

// attrs writes names and values in turn.
func (d *drawing) attrs(list []string) {
	for i := 0; i+1 < len(list); i += 2 {
		d.b.WriteByte(' ')
		d.b.WriteString(list[i])
		d.b.WriteString(`="`)
		d.b.WriteString(template.HTMLEscapeString(list[i+1]))
		d.b.WriteByte('"')
	}
}

// open begins a group; close ends it.
func (d *drawing) open(class string, attrs ...string) {
	d.b.WriteString("<g")
	if class != "" {
		d.attrs([]string{"class", class})
	}
	d.attrs(attrs)
	d.b.WriteByte('>')
}

func (d *drawing) close() { d.b.WriteString("</g>") }

// number writes a coordinate with two digits behind the point at most.
func (d *drawing) number(v float64) {
	var buf [32]byte
	out := strconv.AppendFloat(buf[:0], v, 'f', 2, 64)
	for out[len(out)-1] == '0' {
		out = out[:len(out)-1]
	}
	if out[len(out)-1] == '.' {
		out = out[:len(out)-1]
	}
	if string(out) == "-0" {
		out = out[1:]
	}
	d.b.Write(out)
}

func (d *drawing) coordinates(names string, values ...float64) {
	for i, name := range strings.Fields(names) {
		d.b.WriteByte(' ')
		d.b.WriteString(name)
		d.b.WriteString(`="`)
		d.number(values[i])
		d.b.WriteByte('"')
	}
}

func (d *drawing) line(class string, x1, y1, x2, y2 float64, attrs ...string) {
	d.b.WriteString("<line")
	d.attrs([]string{"class", class})
	d.coordinates("x1 y1 x2 y2", x1, y1, x2, y2)
	d.attrs(attrs)
	d.b.WriteString("/>")
}

// rect draws a box; with a title, that is shown where the pointer rests on it.
func (d *drawing) rect(class string, x, y, width, height, radius float64, title string) {
	d.b.WriteString("<rect")
	d.attrs([]string{"class", class})
	d.coordinates("x y width height", x, y, width, height)
	if radius > 0 {
		d.coordinates("rx", radius)
	}
	if title == "" {
		d.b.WriteString("/>")
		return
	}
	d.b.WriteByte('>')
	d.title(title)
	d.b.WriteString("</rect>")
}

func (d *drawing) title(text string) {
	d.b.WriteString("<title>")
	d.b.WriteString(template.HTMLEscapeString(text))
	d.b.WriteString("</title>")
}

func (d *drawing) text(class string, x, y float64, text string) {
	d.b.WriteString("<text")
	d.attrs([]string{"class", class})
	d.coordinates("x y", x, y)
	d.b.WriteByte('>')
	d.b.WriteString(template.HTMLEscapeString(text))
	d.b.WriteString("</text>")
}

func (d *drawing) path(class, data string, attrs ...string) {
	d.b.WriteString("<path")
	d.attrs([]string{"class", class, "d", data})
	d.attrs(attrs)
	d.b.WriteString("/>")
}

// use places a sign that is defined elsewhere in the page.
func (d *drawing) use(sign string, x, y float64, attrs ...string) {
	d.b.WriteString("<use")
	d.attrs([]string{"href", "#" + sign})
	d.coordinates("x y", x, y)
	d.attrs(attrs)
	d.b.WriteString("/>")
}
