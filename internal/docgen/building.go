package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// The picture of the architecture is a building: a box for each package stands on those that it imports. How high it stands and its
// arrows come from the imports; left and right, and the words in it, from here.

// box is where a package stands: from column `at`, as many columns wide.
type box struct {
	pkg      string
	at, wide float64
	step     string // of a packet's way, where it has one
	says     string // a line or two
}

var boxes = []box{
	{"internal/exchange", 0, 1, "", "set-ups of|one's own"},
	{"internal/sink", 1, 1, "4", "tables, files,|databases"},
	{"internal/report", 2, 1, "4", "text, JSON,|HTML"},
	{"internal/packetline", 3, 1, "", "a packet|in words"},
	{"internal/privacy", 4, 1, "", "masks"},
	{"internal/filter", 5.6, 1, "", "the language|of -Y"},
	{"flows", 0, 5.3, "3", "packets to queue pairs: who talks to whom, what was asked,|what became of it, what went wrong"},
	{"internal/engine", 4.8, 1.3, "", "decode, track,|hand on in batches"},
	{"internal/events", 0.6, 1, "4", "the log of|what happens"},
	{"internal/index", 3, 1, "", "any packet|by number"},
	{"internal/annotate", 4.9, 1, "", "comments|on packets"},
	{"internal/convert", 6.6, 1, "", "other formats|of files"},
	{"internal/diff", 1, 1, "", "two captures|compared"},
	{"tui", 2.5, 1.5, "4", "the screen"},
	{"captures", 6.9, 1, "1", "files and|interfaces"},
	{"internal/xsk", 7.7, 1, "", "AF_XDP"},
	{"inject/port", 8.9, 1, "D", "how frames|get out, in"},
	{"inject/fault", 7.7, 1, "C", "rules that|break things"},
	{"inject/stream", 8.7, 1, "B", "open loop, by|templates"},
	{"inject/rnic", 9.7, 1, "B", "a NIC in|software"},
	{"inject/connect", 10.7, 1, "", "CM, sockets,|ARP"},
	{"inject/peer", 9.7, 2, "", "a host on the wire: a NIC,|its address, its threads"},
	{"inject/wire", 7.7, 1, "", "a bridge,|with faults"},
	{"inject/suite", 7.7, 1, "", "cases and|verdicts"},
	{"inject/load", 8.7, 1, "", "messages,|timed"},
	{"inject/bringup", 9.7, 1, "", "a new core,|step by step"},
	{"inject/replay", 10.7, 1, "", "a captured|requester"},
	{"inject/shadow", 10.7, 1, "", "our RNIC|beside theirs"},
}

// raised boxes stand higher than their imports have them, out of the way of arrows: by so many levels.
var raised = map[string]int{"internal/convert": 1, "inject/connect": 2}

// around are arrows that go down in a column between boxes, and into the side of what they point at.
var around = map[[2]string]float64{{"inject/stream", "flows"}: 6.65}

// The floor and the roof are as wide as the building, and have no arrows: what they say of the others is checked.
var (
	roof  = box{pkg: program, says: "commands and options: each a file, which puts the parts together; imports whatever it needs"}
	floor = box{pkg: "dissect", step: "2 A", says: "bytes to meaning, meaning to bytes: opcodes, headers, fields, ICRC; knows none of the others, and nearly all import it"}
)

// beside are packages that import nothing of ours, and mean nothing for the way of a packet: they have no arrows either.
var beside = []string{"captures/samples", "inject/route", "internal/config", "internal/crash", "internal/schema", "internal/version"}

// hot are the ways of packets at full rate, in the direction in which they go; each is an import one way or the other.
var hot = []struct {
	from, to string
	both     bool
}{
	{"internal/xsk", "captures", false},
	{"captures", "internal/engine", false},
	{"internal/engine", "flows", true},
	{"internal/engine", "dissect", true},
	{"internal/engine", "internal/index", false},
	{"internal/engine", "internal/events", false},
	{"internal/index", "tui", false},
	{"inject/stream", "inject/port", false},
	{"inject/fault", "inject/port", false},
	{"inject/rnic", "inject/port", true},
	{"inject/port", "internal/xsk", true},
}

// building is what is drawn.
type building struct {
	boxes   map[string]*box
	imports map[string]map[string]bool // between boxes, as the code has them
	level   map[string]int
}

// folded is the box that a package belongs to: its own, or that of the package whose folder it lies in.
func folded(name string) string {
	for _, known := range boxes {
		if within(name, known.pkg) {
			return known.pkg
		}
	}
	return name
}

// build finds out how high each box stands, and refuses what the code and the tables above do not agree on.
func build(all map[string]*gopkg) (*building, error) {
	b := &building{boxes: map[string]*box{}, imports: map[string]map[string]bool{}, level: map[string]int{}}
	for i := range boxes {
		b.boxes[boxes[i].pkg] = &boxes[i]
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		p := all[name]
		if !p.shipped || name == roof.pkg {
			continue
		}
		if slices.Contains(beside, name) {
			if len(p.imports) > 0 {
				return nil, fmt.Errorf("%s imports %s, and cannot stand beside the building any more: give it a box", name, p.imports[0])
			}
			continue
		}
		from := folded(name)
		if b.boxes[from] == nil && from != floor.pkg {
			return nil, fmt.Errorf("%s has no place in the picture: give it a box in internal/docgen/building.go", name)
		}
		if b.imports[from] == nil {
			b.imports[from] = map[string]bool{}
		}
		for _, i := range p.imports {
			if to := folded(i); to != from && !slices.Contains(beside, to) {
				b.imports[from][to] = true
			}
		}
	}
	for name := range b.boxes {
		if b.imports[name] == nil {
			return nil, fmt.Errorf("%s is in the picture, and not in the program", name)
		}
		if err := b.stand(name, nil); err != nil {
			return nil, err
		}
	}
	if len(b.imports[floor.pkg]) > 0 {
		return nil, fmt.Errorf("%s imports others", floor.pkg)
	}
	for _, h := range hot {
		if !b.imports[h.from][h.to] && !b.imports[h.to][h.from] {
			return nil, fmt.Errorf("packets cannot go from %s to %s: neither imports the other", h.from, h.to)
		}
	}
	return b, b.collide()
}

// stand puts a box one level above the highest that it imports.
func (b *building) stand(name string, below []string) error {
	if slices.Contains(below, name) {
		return fmt.Errorf("imports go in a circle: %s", strings.Join(append(below, name), " → "))
	}
	level := 0
	for to := range b.imports[name] {
		if to == floor.pkg {
			continue
		}
		if err := b.stand(to, append(below, name)); err != nil {
			return err
		}
		level = max(level, b.level[to]+1)
	}
	b.level[name] = level + raised[name]
	return nil
}

// collide refuses boxes that stand in the same place, or in the legend's.
func (b *building) collide() error {
	names := slices.Sorted(maps.Keys(b.boxes))
	top := slices.Max(slices.Collect(maps.Values(b.level)))
	for i, one := range names {
		if b.level[one] > top-legendLevels && b.boxes[one].at < legendColumns {
			return fmt.Errorf("%s stands where the legend is", one)
		}
		for _, other := range names[i+1:] {
			x, y := b.boxes[one], b.boxes[other]
			if b.level[one] == b.level[other] && x.at < y.at+y.wide && y.at < x.at+x.wide {
				return fmt.Errorf("%s and %s stand in one place, level %d: move one in internal/docgen/building.go", one, other, b.level[one])
			}
		}
	}
	return nil
}

// arrows are the imports that no other import implies.
func (b *building) arrows() (all [][2]string) {
	reach := map[string]map[string]bool{}
	var below func(name string) map[string]bool
	below = func(name string) map[string]bool {
		if reach[name] == nil {
			reach[name] = map[string]bool{}
			for to := range b.imports[name] {
				reach[name][to] = true
				maps.Copy(reach[name], below(to))
			}
		}
		return reach[name]
	}
	for _, from := range slices.Sorted(maps.Keys(b.imports)) {
		for _, to := range slices.Sorted(maps.Keys(b.imports[from])) {
			implied := to == floor.pkg
			for by := range b.imports[from] {
				implied = implied || by != to && below(by)[to]
			}
			if !implied {
				all = append(all, [2]string{from, to})
			}
		}
	}
	return all
}

// Sizes, in pixels.
const (
	columns   = 11.7
	columnW   = 92
	levelH    = 82
	boxW      = columnW - 10 // of one column
	boxH      = 50
	edge      = 16 // around all
	barH      = 40 // of roof and floor
	headH     = 40 // the title
	streetH   = 56 // where packets come from
	drawnW    = columns*columnW + 2*edge
	arrowSize = 5
)

// The colours are classes, so that both a light and a dark page have theirs.
const buildingStyle = `<style>
text{font:12px ui-sans-serif,system-ui,'DejaVu Sans',Helvetica,Arial,sans-serif;fill:#1f2328}
.n{font-weight:600}.s{font-size:10.5px;fill:#59636e}.t{font-size:16px;font-weight:600}
.page{fill:#ffffff}.open{fill:#ddf4ff;stroke:#54aeff}.own{fill:#f6f8fa;stroke:#afb8c1}
.area{fill:none;stroke:#afb8c1;stroke-dasharray:4 3}.i{stroke:#8c959f;fill:none}.ia{fill:#8c959f}.h{stroke:#e16f24;stroke-width:3.5;fill:none;stroke-linecap:round}.ha{fill:#e16f24}
.step{fill:#bc4c00}.stept{fill:#ffffff;font-size:11px;font-weight:700}
@media (prefers-color-scheme:dark){text{fill:#e6edf3}.s{fill:#9198a1}.page{fill:#0d1117}.open{fill:#121d2f;stroke:#388bfd}
.own{fill:#161b22;stroke:#484f58}.area{stroke:#484f58}.i{stroke:#6e7681}.ia{fill:#6e7681}.h{stroke:#f0883e}.ha{fill:#f0883e}.stept{fill:#ffffff}}
</style>
`

// drawArchitecture draws the packages of the program.
func drawArchitecture(all map[string]*gopkg) ([]byte, error) {
	b, err := build(all)
	if err != nil {
		return nil, err
	}
	d := drawing{building: b, top: slices.Max(slices.Collect(maps.Values(b.level)))}
	d.open()
	d.frame()
	d.lines()
	for _, name := range slices.Sorted(maps.Keys(b.boxes)) {
		d.box(b.boxes[name])
	}
	d.bars()
	d.WriteString("</svg>\n")
	return d.Bytes(), nil
}

// drawing is the picture as it comes about.
type drawing struct {
	bytes.Buffer
	*building
	top int
}

func (d *drawing) rowY(level int) float64 {
	return float64(headH + barH + 30 + (d.top-level)*levelH)
}

// floorY is below the street, which is below the lowest level.
func (d *drawing) floorY() float64 { return d.rowY(0) + boxH + streetH }

// rect is a box's place.
func (d *drawing) rect(name string) (x, y, w, h float64) {
	if name == floor.pkg {
		return edge, d.floorY(), drawnW - 2*edge, barH
	}
	p := d.boxes[name]
	return edge + p.at*columnW + 5, d.rowY(d.level[name]), p.wide*columnW - (columnW - boxW), boxH
}
