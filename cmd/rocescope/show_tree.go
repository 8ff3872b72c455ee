package main

import (
	"encoding/hex"
	"strconv"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/packetline"
)

// treePrinter prints all layers and fields of a packet, each field with its
// name in filters beside it.
type treePrinter struct {
	styles  styles
	outcome flows.Outcome
}

func newTreePrinter(s styles) *treePrinter { return &treePrinter{styles: s} }

// nameColumn is where the names of fields stand.
const nameColumn = 72

// shownBytes is how many bytes of a field a tree shows; -x and -e show all.
const shownBytes = 16

func (t *treePrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	p, frame := &b.Packets[i], b.Data[i]
	packetline.EachLayer(p, frame, func(l dissect.Layer) {
		dst = t.title(dst, p, l)
		for _, f := range dissect.LayerFields(l) {
			dst = t.field(dst, p, frame, f)
		}
	})
	if problems := p.Problems(); len(problems) > 0 {
		dst = t.heading(dst, "Problems")
		for _, q := range problems {
			line := "    " + q.Code.String() + ", at byte " + strconv.Itoa(int(q.Offset))
			if q.Code.Malformed() {
				line = t.styles.bad(line)
			}
			dst = append(append(dst, line...), '\n')
		}
	}
	return t.flow(dst, b, i)
}

func (t *treePrinter) heading(dst []byte, text string) []byte {
	return append(append(dst, t.styles.bold(text)...), '\n')
}

// title is a layer's line.
func (t *treePrinter) title(dst []byte, p *dissect.Packet, l dissect.Layer) []byte {
	text := l.String()
	switch {
	case l == dissect.LayerFrame:
		text += " " + strconv.FormatUint(p.Number, 10) + ": " + strconv.Itoa(int(p.WireLen)) + " bytes on the wire, " +
			strconv.Itoa(int(p.CapLen)) + " captured"
	case l == dissect.LayerBTH:
		text += ": " + p.Op().Name
	case l == dissect.LayerPayload:
		text += ": " + strconv.Itoa(p.PayloadLen()) + " bytes"
	}
	return t.heading(dst, text)
}

// field is a field's line: the bits where it is no whole bytes, text, value,
// meaning, name.
func (t *treePrinter) field(dst []byte, p *dissect.Packet, frame []byte, f *dissect.Field) []byte {
	start := len(dst)
	dst = append(dst, "    "...)
	if f.Get == nil && f.Width > 0 && f.Width <= 64 && (f.Bit|f.Width)&7 != 0 {
		dst = packetline.AppendBits(dst, p, frame, f)
	}
	dst = append(dst, f.Text...)
	dst = append(dst, ": "...)
	before := len(dst)
	if raw, ok := f.Raw(p, frame); ok && f.Kind == dissect.Bytes && len(raw) > shownBytes {
		dst = hex.AppendEncode(dst, raw[:shownBytes])
		dst = append(dst, "…"...)
	} else if dst, ok = f.AppendText(dst, p, frame); !ok {
		return dst[:start]
	}
	if len(dst) == before {
		dst = append(dst, '-')
	}
	if meaning := f.Meaning(p, frame); meaning != "" {
		dst = append(dst, " ["...)
		dst = append(dst, meaning...)
		dst = append(dst, ']')
	}
	return t.name(dst, start, f.Name)
}

// name puts a field's name behind the line that begins at dst[start:].
func (t *treePrinter) name(dst []byte, start int, name string) []byte {
	dst = append(dst, "  "...)
	for len(dst)-start < nameColumn {
		dst = append(dst, ' ')
	}
	return append(append(dst, t.styles.dim(name)...), '\n')
}

// flow is what tracking says of the packet.
func (t *treePrinter) flow(dst []byte, b *engine.Batch, i int) []byte {
	titled := false
	for k := range flows.Fields() {
		f := &flows.Fields()[k]
		v, ok := flowFact(f, b, i, &t.outcome)
		if !ok {
			continue
		}
		if !titled {
			titled = true
			dst = t.heading(dst, "Flow")
		}
		start := len(dst)
		dst = append(dst, "    "...)
		dst = append(dst, f.Text...)
		dst = append(dst, ": "...)
		dst = appendFlow(dst, f, v)
		if f.Values != nil && f.Kind != dissect.Text {
			if meaning := f.Values(v); meaning != "" {
				dst = append(dst, " ["+meaning+"]"...)
			}
		}
		dst = t.name(dst, start, f.Name)
	}
	return dst
}

// flowFact is the value of a field of tracking, where it is worth a line:
// bits only where they are set.
func flowFact(f *flows.Field, b *engine.Batch, i int, o *flows.Outcome) (uint64, bool) {
	if f.AtEnd {
		if o = b.Outcome(i, o); o == nil {
			return 0, false
		}
	} else {
		o = nil
	}
	v, ok := f.Get(&b.Marks[i], o)
	if f.Kind == dissect.Bool && v == 0 {
		return 0, false
	}
	return v, ok
}
