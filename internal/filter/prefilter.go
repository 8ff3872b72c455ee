package filter

import (
	"github.com/rocescope/rocescope/dissect"
)

// OpcodeSet is a set of opcodes.
type OpcodeSet [4]uint64

// Has reports whether the opcode is in the set.
func (s *OpcodeSet) Has(o dissect.Opcode) bool { return s[o>>6]>>(o&63)&1 != 0 }

func (s *OpcodeSet) add(o dissect.Opcode) { s[o>>6] |= 1 << (o & 63) }

func (s OpcodeSet) empty() bool { return s == OpcodeSet{} }

var allOpcodes = OpcodeSet{maxUint, maxUint, maxUint, maxUint}

// Prefilter is a cheap test that rejects early: what it rejects, the filter
// rejects; what it lets pass, the filter decides.
type Prefilter struct {
	Opcodes    OpcodeSet // packets with another opcode do not match
	DestQP     uint32    // with HasDestQP: packets to another QP do not match
	HasDestQP  bool
	WithoutBTH bool // frames without a BTH can match
}

// everything lets all pass.
var everything = Prefilter{Opcodes: allOpcodes, WithoutBTH: true}

// Prefilter returns the filter's cheap test.
func (f *Filter) Prefilter() Prefilter { return f.pre }

// May reports whether the filter can match the packet.
func (f *Prefilter) May(p *dissect.Packet) bool {
	if !p.Has(dissect.LayerBTH) {
		return f.WithoutBTH
	}
	return f.MayMatch(p.Opcode, p.DestQP)
}

// MayMatch is May for a packet with a BTH.
func (f *Prefilter) MayMatch(o dissect.Opcode, destQP uint32) bool {
	return f.Opcodes.Has(o) && (!f.HasDestQP || f.DestQP == destQP)
}

func prefilter(c cond) Prefilter {
	yes, _ := outcomes(c)
	return yes
}

// outcomes bounds the packets for which a condition can be true, and those for
// which it can be false.
func outcomes(c cond) (yes, no Prefilter) {
	switch c := c.(type) {
	case *condNot:
		yes, no = outcomes(c.x)
		return no, yes
	case *condAnd:
		yes, no = outcomes(c.kids[0])
		for _, k := range c.kids[1:] {
			y, n := outcomes(k)
			yes, no = yes.both(y), no.either(n)
		}
		return yes, no
	case *condOr:
		yes, no = outcomes(c.kids[0])
		for _, k := range c.kids[1:] {
			y, n := outcomes(k)
			yes, no = yes.either(y), no.both(n)
		}
		return yes, no
	case *condHas:
		yes, no = needsLayers(c.sym), everything
		if c.sym.name == "infiniband.bth" {
			no = Prefilter{WithoutBTH: true}
		}
		return yes, no
	case *condNumber:
		return numberOutcomes(c)
	case *condAddr:
		return needsLayers(c.sym), everything
	case *condBytes:
		return needsLayers(c.sym), everything
	case *condLen:
		return needsLayers(c.sym), everything
	case *condCount:
		return needsLayers(c.sym), everything
	case *condFields:
		return needsLayers(c.a.sym).both(needsLayers(c.b.sym)), everything
	}
	return everything, everything
}

func numberOutcomes(c *condNumber) (yes, no Prefilter) {
	yes, no = needsLayers(c.sym), everything
	switch c.sym.name {
	case opcodeField:
		yes.Opcodes, no.Opcodes = OpcodeSet{}, OpcodeSet{}
		for o := range 256 {
			if c.set.has(uint64(o) & c.mask) {
				yes.Opcodes.add(dissect.Opcode(o))
			} else {
				no.Opcodes.add(dissect.Opcode(o))
			}
		}
	case "infiniband.bth.destqp":
		if c.mask == maxUint && len(c.set) == 1 && c.set[0].lo == c.set[0].hi {
			yes.DestQP, yes.HasDestQP = uint32(c.set[0].lo), true
		}
	}
	return yes, no
}

// needsLayers bounds the packets that have one of a name's rows.
func needsLayers(s *symbol) Prefilter {
	f := Prefilter{}
	for i := range s.rows {
		l := s.rows[i].layer
		switch {
		case s.rows[i].f != nil:
			l = s.rows[i].f.Layer
		case s.rows[i].g != nil:
			return everything
		}
		if l != dissect.LayerBTH && (l < dissect.LayerRDETH || l > dissect.LayerIETH) {
			return everything
		}
		for o := range 256 {
			op := dissect.Opcode(o)
			if l == dissect.LayerBTH || op.Info().Has(l) {
				f.Opcodes.add(op)
			}
		}
	}
	return f
}

// both bounds the packets that both let pass.
func (f Prefilter) both(g Prefilter) Prefilter {
	for i := range f.Opcodes {
		f.Opcodes[i] &= g.Opcodes[i]
	}
	f.WithoutBTH = f.WithoutBTH && g.WithoutBTH
	switch {
	case g.HasDestQP && f.HasDestQP && f.DestQP != g.DestQP:
		f.Opcodes = OpcodeSet{}
	case g.HasDestQP:
		f.DestQP, f.HasDestQP = g.DestQP, true
	}
	return f
}

// either bounds the packets that one of them lets pass.
func (f Prefilter) either(g Prefilter) Prefilter {
	switch {
	case f.Opcodes.empty():
		f.DestQP, f.HasDestQP = g.DestQP, g.HasDestQP
	case g.Opcodes.empty():
	case !f.HasDestQP || !g.HasDestQP || f.DestQP != g.DestQP:
		f.DestQP, f.HasDestQP = 0, false
	}
	for i := range f.Opcodes {
		f.Opcodes[i] |= g.Opcodes[i]
	}
	f.WithoutBTH = f.WithoutBTH || g.WithoutBTH
	return f
}
