package html

import (
	"slices"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// How much of a connection a ladder diagram shows around a frame.
const (
	rungsBefore = 7
	rungsBehind = 16
)

// recorder keeps the packets of a connection around chosen frames.
type recorder struct {
	wanted []uint64 // frames, ascending once prepared
	recent [rungsBefore]packet
	seen   int // packets so far
	open   []*window
	done   []*window
}

// window is what lies around a frame.
type window struct {
	frame   uint64
	before  int // packets of the connection before rows
	rows    []packet
	waiting int // for so many more
}

// packet is what a ladder says of a packet.
type packet struct {
	number   uint64
	at       int64
	dir      flows.Direction
	layers   dissect.LayerSet
	info     *dissect.OpInfo // nil: no BTH
	psn      dissect.PSN
	msn      dissect.MSN
	syndrome dissect.Syndrome
	dmaLen   uint32
	payload  uint32
	round    uint16
	bits     flows.MarkBits
	missing  uint32 // PSNs before it
}

// want asks for what lies around a frame. It reports whether that makes a diagram of its own: near ones share one.
func (r *recorder) want(frame uint64) bool {
	for _, f := range r.wanted {
		if frame >= f && frame-f <= rungsBehind/2 || f > frame && f-frame <= rungsBefore/2 {
			return false
		}
	}
	r.wanted = append(r.wanted, frame)
	return true
}

func (r *recorder) prepare() { slices.Sort(r.wanted) }

func (r *recorder) packet(p *dissect.Packet, m *flows.Mark, dir flows.Direction, missing uint32) {
	if len(r.wanted)+len(r.open) == 0 {
		return
	}
	row := newPacket(p, m, dir, missing)
	for len(r.wanted) > 0 && p.Number >= r.wanted[0] {
		w := &window{frame: r.wanted[0], waiting: rungsBehind}
		for i := max(0, r.seen-rungsBefore); i < r.seen; i++ {
			w.rows = append(w.rows, r.recent[i%rungsBefore])
		}
		w.before = r.seen - len(w.rows)
		r.open, r.wanted = append(r.open, w), r.wanted[1:]
	}
	for _, w := range r.open {
		w.rows = append(w.rows, row)
		w.waiting--
	}
	for len(r.open) > 0 && r.open[0].waiting == 0 {
		r.done, r.open = append(r.done, r.open[0]), r.open[1:]
	}
	r.recent[r.seen%rungsBefore] = row
	r.seen++
}

// of is the window that a frame lies in; nil where none was asked for, or the connection has no packet from there on.
func (r *recorder) of(frame uint64) *window {
	for _, list := range [...][]*window{r.done, r.open} {
		for _, w := range list {
			if frame >= w.frame && frame-w.frame <= rungsBehind/2 || w.frame > frame && w.frame-frame <= rungsBefore/2 {
				return w
			}
		}
	}
	return nil
}

func newPacket(p *dissect.Packet, m *flows.Mark, dir flows.Direction, missing uint32) packet {
	row := packet{number: p.Number, at: p.Time, dir: dir, layers: p.Layers(), bits: m.Bits, round: m.Round, missing: missing, payload: uint32(p.PayloadLen())}
	if !p.Has(dissect.LayerBTH) {
		return row
	}
	row.info, row.psn = p.Op(), p.PSN
	if p.Has(dissect.LayerAETH) {
		row.syndrome, row.msn = p.Syndrome, p.MSN
	}
	if p.Has(dissect.LayerRETH) {
		row.dmaLen = p.DMALen
	}
	return row
}
