package main

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// open begins the picture: the page, what it is of, and what its lines mean.
func (d *drawing) open() {
	h := d.floorY() + barH + edge + 20
	fmt.Fprintf(d, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %[1]f %[2]f\" role=\"img\">\n", drawnW, h)
	d.WriteString("<title>The packages of rocescope: each stands on those that it imports; thick lines are the ways of packets</title>\n" + buildingStyle)
	fmt.Fprintf(d, "<rect class=\"page\" width=\"%.0f\" height=\"%.0f\" rx=\"6\"/>\n", drawnW, h)
	d.text(edge+5, 27, "t", "The packages of rocescope: each stands on those that it imports")
	d.text(edge+5, d.floorY()+barH+22, "s", "Left out: imports that others imply, and what imports nothing of ours and has no part in a packet's way ("+strings.Join(beside, ", ")+")")
	d.legend()
}

// legends are the ways of packets, step by step, as the numbers in the picture count them.
var legends = []struct {
	title string
	steps [][2]string
}{
	{"A packet that is looked at", [][2]string{
		{"1", "is read from a file or an interface"},
		{"2", "is decoded, its ICRC checked"},
		{"3", "is tracked: queue pair, message"},
		{"4", "is shown, told, stored"},
	}},
	{"A packet that is sent", [][2]string{
		{"A", "is crafted, header by header"},
		{"B", "is patched, or made to answer"},
		{"C", "is broken, where a rule wants it"},
		{"D", "leaves; answers come in the same way"},
	}},
}

// The legend has the place under the roof that is free above the left part: so many columns and levels.
const legendColumns, legendLevels = 7.5, 2

func (d *drawing) legend() {
	top := d.rowY(d.top) + 6
	for i, l := range legends {
		x := edge + 5 + float64(i)*240
		d.text(x, top, "n", l.title)
		for j, s := range l.steps {
			y := top + 20 + float64(j)*20
			d.step(x+8, y-4, s[0])
			d.text(x+24, y, "", s[1])
		}
	}
	x, y := float64(edge+5+2*240), top
	d.hotLine(x, y+16, x+34, y+16)
	d.text(x+44, y+20, "", "its way, at full rate")
	fmt.Fprintf(d, "<path class=\"i\" d=\"M%.1f %.1fh30\"/>\n", x, y+36)
	d.head("ia", x+34, y+36, 1, 0)
	d.text(x+44, y+40, "", "imports")
	fmt.Fprintf(d, "<rect class=\"open\" x=\"%.1f\" y=\"%.1f\" width=\"34\" height=\"14\" rx=\"3\"/>\n", x, y+49)
	d.text(x+44, y+60, "", "for other programs, too")
}

// frame is around the packages below inject, which have that in common in their names.
func (d *drawing) frame() {
	left := make([]float64, d.top+1)
	for l := range left {
		left[l] = columns
	}
	for name, b := range d.boxes {
		if strings.HasPrefix(name, "inject/") {
			left[d.level[name]] = min(left[d.level[name]], b.at)
		}
	}
	left[d.top] = left[d.top-1] // room for the name
	right := drawnW - edge + 6
	outline := fmt.Sprintf("M%.1f %.1f", right, d.rowY(d.top)-12)
	lowest := slices.IndexFunc(left, func(x float64) bool { return x < columns })
	for l := d.top; l >= lowest; l-- {
		if left[l] == columns {
			left[l] = left[l+1]
		}
		x := edge + left[l]*columnW - 3
		outline += fmt.Sprintf("H%.1fV%.1f", x, d.rowY(l)+boxH+12)
	}
	fmt.Fprintf(d, "<path class=\"area\" d=\"%sH%.1fz\"/>\n", outline, right)
	d.text(edge+left[d.top]*columnW+5, d.rowY(d.top)+6, "n", "inject/")
	d.text(edge+left[d.top]*columnW+5, d.rowY(d.top)+22, "s", "the other end of the wire")
}

// lines are all arrows.
func (d *drawing) lines() {
	isHot := map[[2]string]bool{}
	for _, h := range hot {
		isHot[[2]string{h.from, h.to}], isHot[[2]string{h.to, h.from}] = true, true
	}
	for _, a := range d.arrows() {
		if !isHot[a] {
			d.arrow("i", a[0], a[1], false, true)
		}
	}
	for _, h := range hot {
		upper, lower := h.from, h.to
		if upper == floor.pkg || lower != floor.pkg && d.level[upper] < d.level[lower] {
			upper, lower = lower, upper
		}
		d.arrow("h", upper, lower, h.both || upper == h.to, h.both || lower == h.to)
	}
	// Where packets come from, and go to.
	for _, o := range []struct {
		name, box string
		at        float64
		both      bool
	}{{"interfaces", "internal/xsk", .5, true}, {"files, AF_PACKET", "captures", .12, false}} {
		x, y, w, h := d.rect(o.box)
		x, foot := x+o.at*w, d.rowY(0)+boxH+16.0
		d.hotLine(x, foot, x, y+h+arrowSize)
		d.head("ha", x, y+h, 0, -1)
		if o.both {
			d.head("ha", x, foot+6, 0, 1)
		}
		d.centred(x, foot+20, o.name)
	}
}

// arrow goes from the foot of one box to the head of another, with heads at either.
func (d *drawing) arrow(class, upper, lower string, up, down bool) {
	ux, uy, uw, uh := d.rect(upper)
	lx, ly, lw, _ := d.rect(lower)
	from, to := meet(ux, uw, lx, lw)
	if lower == floor.pkg { // past what stands in between
		from, to = ux+uw/2, ux+uw/2
	}
	top, foot := uy+uh, ly
	if up {
		top += arrowSize
	}
	if down {
		foot -= arrowSize
	}
	if column, ok := around[[2]string{upper, lower}]; ok {
		x, side, into := edge+column*columnW, lx+lw, ly+boxH/2
		turn := d.rowY(d.level[lower] + 1)
		fmt.Fprintf(d, "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1fV%.1fQ%.1f %.1f %.1f %.1fH%.1f\"/>\n", class,
			from, top, from, top+boxH, x, turn-boxH, x, turn, into-16, x, into, x-16, into, side+arrowSize)
		d.head(class+"a", side, into, -1, 0)
		return
	}
	bend := (foot - top) / 2
	fmt.Fprintf(d, "<path class=\"%s\" d=\"M%.1f %.1fC%.1f %.1f %.1f %.1f %.1f %.1f\"/>\n", class, from, top, from, top+bend, to, foot-bend, to, foot)
	if up {
		d.head(class+"a", from, uy+uh, 0, -1)
	}
	if down {
		d.head(class+"a", to, ly, 0, 1)
	}
}

// meet is where a line between two boxes begins and ends, so that it is as upright as it can be.
func meet(ux, uw, lx, lw float64) (from, to float64) {
	const aside = 14
	if left, right := max(ux, lx)+aside, min(ux+uw, lx+lw)-aside; left <= right {
		return (left + right) / 2, (left + right) / 2
	}
	if ux < lx {
		return ux + uw - aside, lx + aside
	}
	return ux + aside, lx + lw - aside
}

func (d *drawing) hotLine(x1, y1, x2, y2 float64) {
	fmt.Fprintf(d, "<path class=\"h\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x1, y1, x2, y2)
}

// head is the head of an arrow that points along (dx, dy).
func (d *drawing) head(class string, x, y, dx, dy float64) {
	size := float64(arrowSize)
	if class == "ha" {
		size += 3
	}
	fmt.Fprintf(d, "<path class=\"%s\" d=\"M%.1f %.1fL%.1f %.1fL%.1f %.1fz\"/>\n", class, x, y,
		x-dx*size-dy*size*.6, y-dy*size-dx*size*.6, x-dx*size+dy*size*.6, y-dy*size+dx*size*.6)
}

func (d *drawing) text(x, y float64, class, text string) {
	if class != "" {
		class = fmt.Sprintf(" class=\"%s\"", class)
	}
	fmt.Fprintf(d, "<text%s x=\"%.1f\" y=\"%.1f\">%s</text>\n", class, x, y, escape(text))
}

func (d *drawing) centred(x, y float64, text string) {
	fmt.Fprintf(d, "<text class=\"n\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y, escape(text))
}

// step is a number in a dot.
func (d *drawing) step(x, y float64, step string) {
	w := 8 + 8*float64(len(step))
	fmt.Fprintf(d, "<rect class=\"step\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"16\" rx=\"8\"/>\n", x-w/2, y-8, w)
	fmt.Fprintf(d, "<text class=\"stept\" text-anchor=\"middle\" x=\"%.1f\" y=\"%.1f\">%s</text>\n", x, y+4, step)
}

// box draws one.
func (d *drawing) box(b *box) {
	x, y, w, h := d.rect(b.pkg)
	fmt.Fprintf(d, "<g><title>%s</title>\n", b.pkg)
	d.plate(b, x, y, w, h)
	d.text(x+7, y+16, "n", path.Base(b.pkg))
	for i, line := range strings.Split(b.says, "|") {
		d.text(x+7, y+30+float64(i)*13, "s", line)
	}
	d.WriteString("</g>\n")
}

// bars draws the roof and the floor.
func (d *drawing) bars() {
	for _, b := range []*box{&roof, &floor} {
		x, y, w, _ := d.rect(floor.pkg)
		if b == &roof {
			y = headH
		}
		d.plate(b, x, y, w, barH)
		d.text(x+9, y+25, "n", b.pkg)
		d.text(x+130, y+25, "s", b.says)
	}
}

// plate is what the words of a box stand on.
func (d *drawing) plate(b *box, x, y, w, h float64) {
	class := "open"
	if strings.HasPrefix(b.pkg, "internal/") || b == &roof || b.pkg == "tui" {
		class = "own"
	}
	fmt.Fprintf(d, "<rect class=\"%s\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" rx=\"5\"/>\n", class, x, y, w, h)
	if b.step != "" {
		d.step(x+w-5-4*float64(len(b.step)), y, b.step)
	}
}
