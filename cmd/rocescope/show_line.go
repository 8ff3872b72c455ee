package main

import (
	"strconv"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/packetline"
)

// linePrinter prints a packet as one line: number, time, from, to, protocol,
// length, and what matters of it.
type linePrinter struct {
	styles styles
	clock  *clock

	from, to, protocol int // widths, which only grow
	source             captures.Source
}

func newLinePrinter(s styles, c *clock) *linePrinter {
	return &linePrinter{styles: s, clock: c, from: 12, to: 12, protocol: 6}
}

func (l *linePrinter) describe(src captures.Source) { l.source = src }

func (l *linePrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	if l.source != nil {
		l.clock.resolution(l.source.Interfaces())
		l.source = nil
	}
	p, frame, m := &b.Packets[i], b.Data[i], &b.Marks[i]
	color := ""
	if l.styles.on {
		color = lineColor(p, m)
	}
	if color != "" {
		dst = append(dst, "\x1b["...)
		dst = append(dst, color...)
		dst = append(dst, 'm')
	}
	at := len(dst)
	dst = strconv.AppendUint(dst, p.Number, 10)
	dst = padLeft(dst, at, 6)
	dst = append(dst, ' ')
	at = len(dst)
	dst = l.clock.append(dst, p)
	dst = padLeft(dst, at, l.clock.width)
	dst = append(dst, ' ')
	at = len(dst)
	dst = packetline.AppendSource(dst, p, frame)
	dst, l.from = padRight(dst, at, l.from)
	dst = append(dst, " → "...)
	at = len(dst)
	dst = packetline.AppendDestination(dst, p, frame)
	dst, l.to = padRight(dst, at, l.to)
	dst = append(dst, ' ')
	at = len(dst)
	dst = packetline.AppendProtocol(dst, p, frame)
	dst, l.protocol = padRight(dst, at, l.protocol)
	dst = append(dst, ' ')
	at = len(dst)
	dst = strconv.AppendUint(dst, uint64(p.WireLen), 10)
	dst = padLeft(dst, at, 4)
	dst = append(dst, ' ')
	dst = packetline.AppendInfo(dst, p, frame)
	dst = packetline.AppendNotes(dst, p, m)
	if color != "" {
		dst = append(dst, "\x1b[0m"...)
	}
	return append(dst, '\n')
}

// lineColor is the colour of what a packet means, "" for the terminal's own.
func lineColor(p *dissect.Packet, m *flows.Mark) string {
	const red, yellow, magenta, dim = "31", "33", "35", "2"
	if p.ICRC == dissect.ICRCInvalid || p.Malformed() {
		return red
	}
	if !p.Has(dissect.LayerBTH) {
		if p.Proto == dissect.ProtoPause {
			return magenta
		}
		return dim
	}
	if p.Has(dissect.LayerAETH) {
		switch p.Syndrome.Kind() {
		case dissect.KindNAK:
			return red
		case dissect.KindRNR:
			return yellow
		}
	}
	switch {
	case m.Bits&(flows.MarkRetransmission|flows.MarkDuplicate|flows.MarkAfterGap|flows.MarkReordered) != 0:
		return yellow
	case p.Op().Family == dissect.Congestion || p.ECN() == 3:
		return magenta
	case p.Op().Role == dissect.Response:
		return dim
	}
	return ""
}

// padLeft puts spaces in front of dst[at:] up to a width.
func padLeft(dst []byte, at, width int) []byte {
	n := width - (len(dst) - at)
	if n <= 0 {
		return dst
	}
	dst = append(dst, "                "[:min(n, 16)]...)
	copy(dst[at+n:], dst[at:len(dst)-n])
	for i := range n {
		dst[at+i] = ' '
	}
	return dst
}

// padRight puts spaces behind dst[at:], and returns the width to pad to next.
func padRight(dst []byte, at, width int) ([]byte, int) {
	n := len(dst) - at
	for i := n; i < width; i++ {
		dst = append(dst, ' ')
	}
	return dst, max(n, width)
}

// summaryPrinter is -T csv without columns: the lines as a table.
type summaryPrinter struct {
	line  *linePrinter
	style *fieldStyle
}

func (s *summaryPrinter) describe(src captures.Source) { s.line.describe(src) }

func (s *summaryPrinter) begin(dst []byte) []byte {
	if !s.style.header {
		return dst
	}
	for i, name := range [...]string{"number", "time", "source", "destination", "protocol", "length", "info"} {
		if i > 0 {
			dst = append(dst, s.style.separator...)
		}
		dst = append(dst, name...)
	}
	return append(dst, '\n')
}

func (s *summaryPrinter) end(dst []byte) []byte { return dst }

func (s *summaryPrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	l := s.line
	if l.source != nil {
		l.clock.resolution(l.source.Interfaces())
		l.source = nil
	}
	p, frame := &b.Packets[i], b.Data[i]
	dst = strconv.AppendUint(dst, p.Number, 10)
	dst = append(dst, s.style.separator...)
	dst = l.clock.append(dst, p)
	for _, part := range [...]func([]byte, *dissect.Packet, []byte) []byte{packetline.AppendSource, packetline.AppendDestination, packetline.AppendProtocol} {
		dst = append(dst, s.style.separator...)
		dst = part(dst, p, frame)
	}
	dst = append(dst, s.style.separator...)
	dst = strconv.AppendUint(dst, uint64(p.WireLen), 10)
	dst = append(dst, s.style.separator...)
	at := len(dst)
	dst = packetline.AppendInfo(dst, p, frame)
	dst = packetline.AppendNotes(dst, p, &b.Marks[i])
	return append(quoteCSV(dst, at, s.style.separator), '\n')
}
