package html

import (
	"fmt"
	"html/template"

	"github.com/rocescope/rocescope/internal/report"
)

// maxRegions is how many rkeys a memory map shows.
const maxRegions = 24

// memoryView is the memory of a responder as a requester used it.
type memoryView struct {
	Title   string
	Regions []regionView
	Refused []string
	Notes   []string
}

// regionView is what was done under one rkey.
type regionView struct {
	RKey, From, To, Size string
	Did                  string
	SVG                  template.HTML
}

func newMemoryView(title string, m *report.MemoryMap) *memoryView {
	if m == nil {
		return nil
	}
	v := &memoryView{Title: title}
	for i := range m.Regions {
		if i == maxRegions {
			v.Notes = append(v.Notes, report.Plural(uint64(len(m.Regions)-i), "further rkey")+" left out here; analyze --json has them.")
			break
		}
		v.Regions = append(v.Regions, newRegionView(&m.Regions[i], m.Refused))
	}
	for i := range m.Refused {
		r := &m.Refused[i]
		text := fmt.Sprintf("%s of %s at 0x%x under rkey 0x%x: %s", r.Operation, report.Bytes(r.Bytes), r.VA, r.RKey, r.Status)
		if r.Frame != nil {
			text += fmt.Sprintf(" (frame %d)", *r.Frame)
		}
		v.Refused = append(v.Refused, text)
	}
	if m.Overlaps > 0 {
		v.Notes = append(v.Notes, report.Plural(m.Overlaps, "WRITE")+" overlapped an earlier one that was still outstanding.")
	}
	if m.More {
		v.Notes = append(v.Notes, "There were more rkeys than are kept.")
	}
	return v
}

// memoryRows are the kinds of access, a row of the map each.
var memoryRows = []struct {
	class  string
	ranges func(*report.MemoryRegion) []report.AddrRange
}{
	{"written", func(r *report.MemoryRegion) []report.AddrRange { return r.Written }},
	{"read", func(r *report.MemoryRegion) []report.AddrRange { return r.Read }},
	{"atomic", func(r *report.MemoryRegion) []report.AddrRange { return r.Atomic }},
}

func newRegionView(r *report.MemoryRegion, refused []report.Refusal) regionView {
	from, to := ^uint64(0), uint64(0)
	for _, row := range memoryRows {
		for _, a := range row.ranges(r) {
			from, to = min(from, a.From), max(to, a.To)
		}
	}
	for _, x := range refused {
		if x.RKey == r.RKey {
			from, to = min(from, x.VA), max(to, x.VA+x.Bytes)
		}
	}
	if to <= from {
		from, to = 0, 1
	}
	v := regionView{
		RKey: fmt.Sprintf("0x%x", r.RKey), From: fmt.Sprintf("0x%x", from), To: fmt.Sprintf("0x%x", to), Size: report.Bytes(to - from),
	}
	for i, n := range [...]uint64{r.Writes, r.Reads, r.Atomics} {
		if n > 0 {
			if v.Did != "" {
				v.Did += ", "
			}
			v.Did += report.Plural(n, [...]string{"WRITE", "READ", "atomic"}[i])
		}
	}
	const width = 720.0
	scale := width / float64(to-from)
	rows := 0
	for _, row := range memoryRows {
		if len(row.ranges(r)) > 0 {
			rows++
		}
	}
	height := 4 + 14*float64(max(rows, 1))
	var d drawing
	d.begin("memory", width, height, fmt.Sprintf("Memory under rkey %s: %s", v.RKey, v.Did), "preserveAspectRatio", "none")
	d.rect("plot", 0, 0, width, height, 3, "")
	y := 3.0
	for _, row := range memoryRows {
		list := row.ranges(r)
		if len(list) == 0 {
			continue
		}
		for _, a := range list {
			d.rect(row.class, float64(a.From-from)*scale, y, max(1.5, float64(a.To-a.From)*scale), 11, 0,
				fmt.Sprintf("%s: 0x%x to 0x%x, %s", row.class, a.From, a.To, report.Bytes(a.To-a.From)))
		}
		y += 14
	}
	for _, x := range refused {
		if x.RKey == r.RKey {
			d.rect("refused", float64(x.VA-from)*scale, 0, max(2.5, float64(x.Bytes)*scale), height, 0, fmt.Sprintf("refused: %s at 0x%x", x.Operation, x.VA))
		}
	}
	v.SVG = d.end()
	return v
}
