package filter

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// The tests that are made most, without the generic reader. What Decode has
// put into the Packet is used as it is: it is valid wherever its layer is there.

// fastNumber returns a test of one row, or nil where the generic one is as
// good.
func fastNumber(r *row, t *numberTest) matcher {
	switch {
	case r.g != nil:
		return fastTracked(r.g, t)
	case r.f.When != nil:
		return nil
	case r.f.Name == opcodeField:
		return fastOpcode(t)
	case r.f.Name == "frame.problem":
		return anyProblem(t)
	case r.f.Get != nil:
		return fastFrame(r.f, t)
	}
	if m := fastDecoded(r.f, t); m != nil {
		return m
	}
	return fastBytes(r.f, t)
}

// manyValued reports whether a row itself can occur several times in a packet.
func manyValued(r *row) bool {
	return r.inFPDU() || r.f != nil && r.f.Name == "frame.problem" || r.g != nil && r.g.Name == "finding.id"
}

// opcodes is a set of opcodes, one bit each.
type opcodeBits = [4]uint64

func (t *numberTest) opcodes() (set opcodeBits) {
	for op := range uint64(256) {
		if t.has(op) {
			set[op>>6] |= 1 << (op & 63)
		}
	}
	return set
}

func fastOpcode(t *numberTest) matcher {
	set := t.opcodes()
	return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		return p.Has(dissect.LayerBTH) && set[p.Opcode>>6]>>(p.Opcode&63)&1 != 0
	}
}

func fastFrame(f *dissect.Field, t *numberTest) matcher {
	switch f.Name {
	case "frame.number":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool { return t.has(p.Number) }
	case "frame.len":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return t.has(uint64(p.WireLen))
		}
	case "frame.time_relative":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return t.has(uint64(p.Time - p.Base))
		}
	}
	return nil
}

func fastDecoded(f *dissect.Field, t *numberTest) matcher {
	if f.Layer >= dissect.LayerOuterEthernet { // Decode has copied the values of the innermost headers
		return nil
	}
	switch f.Name {
	case "infiniband.bth.psn":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerBTH) && t.has(uint64(p.PSN))
		}
	case "infiniband.bth.destqp":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerBTH) && t.has(uint64(p.DestQP))
		}
	case "infiniband.bth.p_key":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerBTH) && t.has(uint64(p.PKey))
		}
	case "infiniband.bth.a":
		no, yes := t.has(0), t.has(1)
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerBTH) && (p.AckReq && yes || !p.AckReq && no)
		}
	case "infiniband.bth.se":
		return fastFlag(t, 15)
	case "infiniband.bth.m":
		return fastFlag(t, 14)
	case "infiniband.bth.f":
		return fastFlag(t, 7)
	case "infiniband.bth.b":
		return fastFlag(t, 6)
	case "infiniband.reth.va": // of a RETH or an AtomicETH
		l := f.Layer
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(l) && t.has(p.VA)
		}
	case "infiniband.reth.r_key":
		l := f.Layer
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(l) && t.has(uint64(p.RKey))
		}
	case "infiniband.reth.dmalen":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerRETH) && t.has(uint64(p.DMALen))
		}
	case "infiniband.aeth.syndrome":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerAETH) && t.has(uint64(p.Syndrome))
		}
	case "infiniband.aeth.msn":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerAETH) && t.has(uint64(p.MSN))
		}
	case "infiniband.deth.srcqp":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerDETH) && t.has(uint64(p.SrcQP))
		}
	case "udp.srcport":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerUDP) && t.has(uint64(p.SrcPort))
		}
	case "udp.dstport":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerUDP) && t.has(uint64(p.DstPort))
		}
	case "ip.src":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerIPv4) && t.has(p.Src.Lo&0xFFFFFFFF)
		}
	case "ip.dst":
		return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			return p.Has(dissect.LayerIPv4) && t.has(p.Dst.Lo&0xFFFFFFFF)
		}
	}
	return nil
}

// fastFlag tests one of the BTH's flags.
func fastFlag(t *numberTest, bit uint) matcher {
	return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		return p.Has(dissect.LayerBTH) && t.has(uint64(p.BTHFlags>>bit&1))
	}
}

// fastBytes reads numbers of whole bytes where they lie.
func fastBytes(f *dissect.Field, t *numberTest) matcher {
	if f.Bit%8 != 0 || f.Width%8 != 0 {
		return nil
	}
	l, at := f.Layer, int(f.Bit/8)
	switch f.Width {
	case 8:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o < len(b) && t.has(uint64(b[o]))
		}
	case 16:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o+2 <= len(b) && t.has(uint64(b[o])<<8|uint64(b[o+1]))
		}
	case 24:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o+3 <= len(b) && t.has(uint64(b[o])<<16|uint64(b[o+1])<<8|uint64(b[o+2]))
		}
	case 32:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o+4 <= len(b) && t.has(uint64(binary.BigEndian.Uint32(b[o:])))
		}
	case 48:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o+6 <= len(b) && t.has(uint64(binary.BigEndian.Uint16(b[o:]))<<32|uint64(binary.BigEndian.Uint32(b[o+2:])))
		}
	case 64:
		return func(p *dissect.Packet, b []byte, _ *flows.Mark, _ *flows.Outcome) bool {
			if !p.Has(l) {
				return false
			}
			o := p.Offset(l) + at
			return o+8 <= len(b) && t.has(binary.BigEndian.Uint64(b[o:]))
		}
	}
	return nil
}

// anyProblem looks at all problems of a packet.
func anyProblem(t *numberTest) matcher {
	return func(p *dissect.Packet, _ []byte, _ *flows.Mark, _ *flows.Outcome) bool {
		for _, q := range p.Problems() {
			if t.has(uint64(q.Code)) {
				return true
			}
		}
		return false
	}
}

func fastTracked(g *flows.Field, t *numberTest) matcher {
	if bit := markBit(g); bit != 0 {
		no, yes := t.has(0), t.has(1)
		switch {
		case yes && !no:
			return func(_ *dissect.Packet, _ []byte, m *flows.Mark, _ *flows.Outcome) bool {
				return m != nil && m.Bits&bit != 0
			}
		case no && !yes:
			return func(_ *dissect.Packet, _ []byte, m *flows.Mark, _ *flows.Outcome) bool {
				return m != nil && m.Bits&bit == 0 && (m.Conn != 0 || m.Bits != 0)
			}
		}
		return nil
	}
	switch g.Name {
	case "flow.id":
		return func(_ *dissect.Packet, _ []byte, m *flows.Mark, _ *flows.Outcome) bool {
			return m != nil && m.Conn != 0 && t.has(uint64(m.Conn))
		}
	case "flow.direction":
		a, b := t.has(uint64(flows.AToB)), t.has(uint64(flows.BToA))
		return func(_ *dissect.Packet, _ []byte, m *flows.Mark, _ *flows.Outcome) bool {
			return m != nil && m.Conn != 0 && (m.Direction == flows.AToB && a || m.Direction == flows.BToA && b)
		}
	case "finding.id":
		return func(_ *dissect.Packet, _ []byte, _ *flows.Mark, o *flows.Outcome) bool {
			if o == nil {
				return false
			}
			for _, id := range o.Findings {
				if t.has(uint64(id)) {
					return true
				}
			}
			return false
		}
	}
	return nil
}

// markBit finds the bit of a Mark that a boolean field shows, by asking the
// field; 0 where it is not exactly one bit.
func markBit(g *flows.Field) (bit flows.MarkBits) {
	if g.Kind != dissect.Bool || g.AtEnd {
		return 0
	}
	if v, ok := g.Get(&flows.Mark{Conn: 1}, nil); v != 0 || !ok {
		return 0
	}
	if v, ok := g.Get(&flows.Mark{}, nil); v != 0 || ok {
		return 0
	}
	for i := range 32 {
		b := flows.MarkBits(1) << i
		if v, _ := g.Get(&flows.Mark{Bits: b}, nil); v != 0 {
			if bit != 0 {
				return 0
			}
			bit = b
		}
	}
	return bit
}
