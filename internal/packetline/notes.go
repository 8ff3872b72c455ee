package packetline

import (
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// markNotes are the bits of a mark that deserve a word in a line.
var markNotes = []struct {
	bit  flows.MarkBits
	text string
}{
	{flows.MarkRetransmission, "retransmission"},
	{flows.MarkDuplicate, "network duplicate"},
	{flows.MarkAfterGap, "PSNs missing before"},
	{flows.MarkReordered, "late"},
	{flows.MarkGhost, "answers no request seen"},
	{flows.MarkCopy, "seen before"},
}

// AppendNotes appends, in brackets, what became of the packet and what is
// wrong with it.
func AppendNotes(dst []byte, p *dissect.Packet, m *flows.Mark) []byte {
	for _, n := range markNotes {
		if m.Bits&n.bit != 0 {
			dst = appendNote(dst, n.text)
		}
	}
	if isIP(p) && p.ECN() == 3 {
		dst = appendNote(dst, "CE")
	}
	if p.Uncommon() {
		dst = appendTunnel(dst, p)
	}
	if p.Has(dissect.LayerICRC) && p.ICRC == dissect.ICRCInvalid {
		dst = appendNote(dst, "wrong ICRC")
	}
	for _, q := range p.Problems() {
		if q.Code != dissect.ProblemLinkType {
			dst = appendNote(dst, q.Code.String())
		}
	}
	return dst
}

func appendNote(dst []byte, text string) []byte {
	dst = append(dst, " ["...)
	dst = append(dst, text...)
	return append(dst, ']')
}
