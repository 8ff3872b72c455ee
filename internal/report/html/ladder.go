package html

import (
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/report"
)

// rung is a packet of a ladder diagram.
type rung struct {
	frame string
	at    int64 // nanoseconds from whatever the diagram counts from
	right bool  // goes to the right
	label string
	note  string
	full  string // all that is known, where label and note are not all
	class string // request, answer, nak, rnr, resent, lost, damaged, other
	flag  bool   // this one decides
}

// The measures of a ladder diagram.
const (
	ladderWidth = 980.0
	rungHeight  = 27.0
	laneLeft    = 170.0
	laneRight   = 690.0
)

// drawLadder draws packets between two ends, one below the other. Times are shown from the first packet on; where much time
// passes between two packets, it is said.
func drawLadder(title, left, right string, rungs []rung, before int) template.HTML {
	var d drawing
	height := 58 + rungHeight*float64(len(rungs))
	rows := make([]float64, len(rungs))
	y := 62.0
	long := pause(rungs)
	for i := range rungs {
		if i > 0 && rungs[i].at-rungs[i-1].at > long {
			y += 18
			height += 18
		}
		rows[i] = y
		y += rungHeight
	}
	d.begin("ladder", ladderWidth, height, title)
	d.text("end mid", laneLeft, 16, left)
	d.text("end mid", laneRight, 16, right)
	if before > 0 {
		d.text("dim mid", (laneLeft+laneRight)/2, 36, report.Plural(uint64(before), "earlier packet")+" of this connection")
	}
	d.text("dim end", 66, 36, "frame")
	d.text("dim end", laneLeft-12, 36, "after")
	for i := range rungs {
		if rungs[i].flag {
			d.rect("deciding", 4, rows[i]-18, ladderWidth-8, rungHeight-2, 4, "")
		}
	}
	d.line("lane", laneLeft, 24, laneLeft, height-6)
	d.line("lane", laneRight, 24, laneRight, height-6)
	for i := range rungs {
		r := &rungs[i]
		if i > 0 && rungs[i].at-rungs[i-1].at > long {
			d.text("dim mid", (laneLeft+laneRight)/2, rows[i]-rungHeight+8, "… "+report.Duration(time.Duration(rungs[i].at-rungs[i-1].at))+" later")
		}
		d.rung(r, rows[i], r.at-rungs[0].at)
	}
	return d.end()
}

// pause is how long nothing happens before a diagram says so: ten times what is usual in it.
func pause(rungs []rung) int64 {
	if len(rungs) < 2 {
		return 1 << 62
	}
	var steps []int64
	for i := 1; i < len(rungs); i++ {
		steps = append(steps, rungs[i].at-rungs[i-1].at)
	}
	slices.Sort(steps)
	return max(10*steps[len(steps)/2], 1000)
}

func (d *drawing) rung(r *rung, y float64, after int64) {
	d.open("rung " + r.class)
	if r.full != "" {
		d.title(r.full)
	}
	d.text("dim end", 66, y, r.frame)
	d.text("dim end", laneLeft-12, y, report.Duration(time.Duration(after)))
	x1, x2 := laneLeft+4, laneRight-4
	if !r.right {
		x1, x2 = x2, x1
	}
	if r.class == "lost" {
		x2 = (laneLeft+laneRight)/2 + map[bool]float64{true: 150, false: -150}[r.right]
		d.line("arrow", x1, y, x2, y+5)
		d.path("cross", fmt.Sprintf("M%g %gl9 9m0-9l-9 9", x2-4.5, y+.5))
	} else {
		d.line("arrow", x1, y-1, x2, y+5)
		back := map[bool]float64{true: -9, false: 9}[r.right]
		d.path("head", fmt.Sprintf("M%g %gl%g -5.2l0 10z", x2, y+5, back))
	}
	d.text("label mid", (laneLeft+laneRight)/2, y-5, r.label)
	d.text("note", laneRight+14, y, r.note)
	d.close()
}

// rungs are the packets of a window, those of the findings flagged.
func (w *window) rungs(zero int64, named map[uint64]bool) []rung {
	var out []rung
	for i := range w.rows {
		p := &w.rows[i]
		right := p.dir == flows.AToB
		if p.missing > 0 {
			out = append(out, rung{
				at: p.at - zero, right: right, class: "lost",
				label: missingText(p.psn, p.missing), note: "not in this capture",
			})
		}
		out = append(out, rung{
			frame: fmt.Sprint(p.number), at: p.at - zero, right: right, label: p.label(), note: p.note(), class: p.class(), flag: named[p.number],
		})
	}
	return out
}

func missingText(next dissect.PSN, n uint32) string {
	first := psnAt(next, -int64(n))
	if n == 1 {
		return "PSN " + first + " is missing"
	}
	return fmt.Sprintf("%s missing: PSN %s to %s", report.Plural(uint64(n), "packet"), first, psnAt(next, -1))
}

// label says what a packet is, in a line.
func (p *packet) label() string {
	if p.info == nil {
		return "handshake over TCP, " + report.Bytes(uint64(p.payload))
	}
	if p.layers.Has(dissect.LayerMAD) {
		for a := dissect.CMAttrREQ; a <= dissect.CMAttrAPR; a++ {
			if p.layers.Has(dissect.LayerCMREQ + dissect.Layer(a-dissect.CMAttrREQ)) {
				return "CM " + a.String()
			}
		}
		return "management datagram"
	}
	name := p.info.Name
	if _, short, ok := strings.Cut(name, " "); ok && p.info.Family != dissect.Congestion {
		name = short
	}
	parts := []string{name, "PSN " + report.PSN(uint32(p.psn))}
	switch {
	case p.info.Family == dissect.Congestion:
		return name
	case p.layers.Has(dissect.LayerAETH):
		if p.syndrome.Kind() != dissect.KindACK {
			parts[0] = p.syndrome.String()
		}
		parts = append(parts, fmt.Sprintf("MSN %d", p.msn))
	case p.layers.Has(dissect.LayerRETH):
		parts = append(parts, report.Bytes(uint64(p.dmaLen))+" in all")
	}
	return strings.Join(parts, " · ")
}

var rungNotes = []struct {
	bit  flows.MarkBits
	text string
}{
	{flows.MarkBadICRC, "wrong ICRC"},
	{flows.MarkRetransmission, "sent again"},
	{flows.MarkDuplicate, "a copy"},
	{flows.MarkUnclear, "sent again, or a copy"},
	{flows.MarkAfterGap, "PSNs missing before"},
	{flows.MarkReordered, "late"},
	{flows.MarkGhost, "answers no request seen"},
	{flows.MarkCE, "CE"},
}

func (p *packet) note() string {
	var notes []string
	for _, n := range rungNotes {
		if p.bits&n.bit != 0 {
			notes = append(notes, n.text)
		}
	}
	return strings.Join(notes, ", ")
}

func (p *packet) class() string {
	switch {
	case p.bits&flows.MarkBadICRC != 0:
		return "damaged"
	case p.info == nil || p.layers.Has(dissect.LayerMAD):
		return "other"
	case p.layers.Has(dissect.LayerAETH) && p.syndrome.Kind() == dissect.KindNAK:
		return "nak"
	case p.layers.Has(dissect.LayerAETH) && p.syndrome.Kind() == dissect.KindRNR:
		return "rnr"
	case p.bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkUnclear) != 0:
		return "resent"
	case p.info.Role == dissect.Response:
		return "answer"
	case p.info.Family == dissect.Congestion:
		return "ce"
	}
	return "request"
}
