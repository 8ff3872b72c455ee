package report

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rocescope/rocescope/flows"
)

// messageBatch is how many messages decide the layout of a list: they are held back until there are so many.
const messageBatch = 500

// MessageList writes messages as they come, one line each. The first few hundred decide which columns there are and how
// wide; whatever comes later is written at once, so that the list may be of any length.
type MessageList struct {
	w       io.Writer
	o       TextOptions
	base    int64
	table   table
	widths  []int
	columns []int
	left    []string // columns that found no room
	begun   bool
	wrote   bool
}

// NewMessageList makes a list. Lines are at most o.Width characters wide, or as wide as they like where that is 0;
// times count from base, the capture's first packet, or are those of the day where that is 0.
func NewMessageList(w io.Writer, base int64, o TextOptions) *MessageList {
	return &MessageList{w: w, o: o, base: base, table: table{columns: messageColumns()}}
}

// messageColumns are those of the list. Where there is not room for all, those with the highest rank go first.
func messageColumns() []column {
	var c []column
	for _, m := range messageColumnTable {
		c = append(c, column{title: m.title, right: m.right})
	}
	return c
}

var messageColumnTable = []struct {
	title string
	right bool
	rank  int // the higher, the sooner it goes where room is short
	get   func(l *MessageList, m *Message) cell
}{
	{"conn", true, 0, func(_ *MessageList, m *Message) cell { return text(fmt.Sprint(m.Connection)) }},
	{"stream", false, 0, func(_ *MessageList, m *Message) cell { return text(arrow(m.Stream)) }},
	{"#", true, 0, func(_ *MessageList, m *Message) cell { return text(fmt.Sprint(m.Index)) }},
	{"operation", false, 0, func(_ *MessageList, m *Message) cell { return text(operationText(m)) }},
	{"bytes", true, 0, func(_ *MessageList, m *Message) cell { return text(Count(m.Bytes)) }},
	{"packets", true, 7, func(_ *MessageList, m *Message) cell { return text(Count(uint64(m.Segments))) }},
	{"PSN", false, 2, func(_ *MessageList, m *Message) cell { return text(psnText(m)) }},
	{"VA", false, 9, func(_ *MessageList, m *Message) cell { return hex(m.VA, "0x%012x") }},
	{"rkey", false, 8, func(_ *MessageList, m *Message) cell { return hex(m.RKey, "0x%x") }},
	{"imm", false, 5, func(_ *MessageList, m *Message) cell { return hex(m.Immediate, "0x%08x") }},
	{"inv rkey", false, 5, func(_ *MessageList, m *Message) cell { return hex(m.Invalidated, "0x%x") }},
	{"before", false, 6, func(_ *MessageList, m *Message) cell {
		if m.Atomic == nil {
			return cell{}
		}
		return hex(m.Atomic.Original, "0x%x")
	}},
	{"first seen", true, 4, func(l *MessageList, m *Message) cell { return text(l.when(m)) }},
	{"latency", true, 1, func(_ *MessageList, m *Message) cell { return text(latencyText(m)) }},
	{"consumes", false, 6, func(_ *MessageList, m *Message) cell { return text(consumesText(m)) }},
	{"resent", true, 3, func(_ *MessageList, m *Message) cell { return number(warning, uint64(m.Resends)) }},
	{"carries", false, 1, func(_ *MessageList, m *Message) cell { return text(ascii(upperText(m))) }},
	{"status", false, 0, func(_ *MessageList, m *Message) cell { return statusCell(m) }},
}

func operationText(m *Message) string {
	name := m.Operation
	for _, op := range operations {
		if op.key == m.Operation {
			name = op.name
		}
	}
	return name
}

// consumesText is which work queues a message took an entry of, at the requester + at the responder.
func consumesText(m *Message) string {
	switch r := m.Consumes.RQ; {
	case r == nil:
		return "SQ + ?"
	case m.Consumes.SQ == 0:
		return ""
	case *r > 0:
		return "SQ + RQ"
	}
	return "SQ"
}

func psnText(m *Message) string {
	switch {
	case m.FirstPSN == nil:
		return ""
	case *m.FirstPSN == *m.LastPSN:
		return PSN(*m.FirstPSN)
	}
	return PSN(*m.FirstPSN) + "-" + PSN(*m.LastPSN)
}

func hex[T uint32 | uint64](v *T, format string) cell {
	if v == nil {
		return cell{}
	}
	return text(fmt.Sprintf(format, *v))
}

func latencyText(m *Message) string {
	switch {
	case m.LatencyNS == nil:
		return ""
	case m.Coalesced:
		return "<=" + Duration(time.Duration(*m.LatencyNS))
	}
	return Duration(time.Duration(*m.LatencyNS))
}

// statusCell is the status without verbs' prefix, with verbs' number where it is not success.
func statusCell(m *Message) cell {
	status := strings.TrimPrefix(m.Status, "IBV_WC_")
	p := plain
	switch {
	case m.StatusCode == nil && m.Status != flows.StatusSent.String():
		p = warning
	case m.StatusCode != nil && *m.StatusCode == 0:
		p = good
	case m.StatusCode != nil:
		p = bad
		status = fmt.Sprintf("%s (%d)", status, *m.StatusCode)
	}
	if m.Presumed {
		status += ", presumed"
	}
	return painted(p, status)
}

func (l *MessageList) when(m *Message) string {
	switch {
	case m.FirstNS == nil:
		return ""
	case l.base == 0:
		return time.Unix(0, *m.FirstNS).UTC().Format("15:04:05.000000")
	}
	return fmt.Sprintf("%.6f", float64(*m.FirstNS-l.base)/1e9)
}

// SetBase sets what times count from, if no line was written yet.
func (l *MessageList) SetBase(base int64) {
	if !l.begun && l.base == 0 {
		l.base = base
	}
}

// Add writes a message, or holds it back until the layout is known.
func (l *MessageList) Add(m *Message) {
	row := make([]cell, len(messageColumnTable))
	for i, c := range messageColumnTable {
		row[i] = c.get(l, m)
	}
	l.table.add(row...)
	if l.begun || len(l.table.rows) >= messageBatch {
		l.Flush()
	}
}

// Flush lays the list out, the first time, and writes what is held back: for messages that trickle in.
func (l *MessageList) Flush() {
	if len(l.table.rows) == 0 {
		return
	}
	if !l.begun {
		l.begun = true
		l.layout()
		titles := make([]cell, len(l.table.columns))
		for i, c := range l.table.columns {
			titles[i] = painted(dim, c.title)
		}
		l.table.writeRow(l.w, l.columns, l.widths, titles, l.o.Style)
	}
	for _, row := range l.table.rows {
		for _, i := range l.columns { // a later message may be wider than the first ones
			l.widths[i] = max(l.widths[i], utf8.RuneCountInString(row[i].text))
		}
		l.table.writeRow(l.w, l.columns, l.widths, row, l.o.Style)
		l.wrote = true
	}
	l.table.rows = l.table.rows[:0]
}

// layout chooses the columns. One that the first messages leave empty is still there for the later ones if it costs
// nothing, that is where the width is not limited.
func (l *MessageList) layout() {
	l.widths = l.table.widths()
	used := len(tableIndent)
	in := make([]bool, len(l.widths))
	for i, w := range l.widths {
		if w == 0 {
			if messageColumnTable[i].title != "resent" {
				continue
			}
			w = len(messageColumnTable[i].title)
			l.widths[i] = w
		}
		in[i] = true
		used += w + columnGap
	}
	used -= columnGap
	for l.o.Width > 0 && used > l.o.Width {
		worst := -1
		for i := range in {
			if in[i] && messageColumnTable[i].rank > 0 && (worst < 0 || messageColumnTable[i].rank > messageColumnTable[worst].rank) {
				worst = i
			}
		}
		if worst < 0 {
			break
		}
		in[worst] = false
		used -= l.widths[worst] + columnGap
		l.left = append(l.left, messageColumnTable[worst].title)
	}
	for i := range in {
		if in[i] {
			l.columns = append(l.columns, i)
		}
	}
}

// Close writes what is held back, says which connection is which, and what had no room.
func (l *MessageList) Close(d *Document) error {
	l.Flush()
	if !l.wrote {
		fmt.Fprintln(l.w, tableIndent+"no messages")
	}
	t := &summary{d: d, o: l.o}
	if len(l.left) > 0 {
		t.WriteByte('\n')
		t.paragraph("  ", "No room for: "+strings.Join(l.left, ", ")+". A wider terminal shows them, and so does --json.", dim)
	}
	if len(d.Connections) > 0 {
		t.section("Connections")
		t.pairs(t.top())
	}
	if len(d.IWARP) > 0 {
		t.iwarp()
	}
	_, err := l.w.Write(t.Bytes())
	return err
}
