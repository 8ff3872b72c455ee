package flows

import "github.com/rocescope/rocescope/dissect"

// foreign reports whether a packet with an opcode of RD cannot be one of RD.
// NVIDIA's DC uses the same numbers with headers of its own, whose layout is not
// published; RD's have reserved bytes, which are zero.
func foreign(p *dissect.Packet, frame []byte) bool {
	if p.Op().Family == dissect.Reserved {
		return true
	}
	if h := p.View(frame, dissect.LayerRDETH); h != nil && h[0] != 0 {
		return true
	}
	h := p.View(frame, dissect.LayerDETH)
	return h != nil && h[4] != 0
}

// vendor notes a packet that only its maker understands.
func (t *Tracker) vendor(p *dissect.Packet) {
	f := Finding{ID: findVendor, Frame: p.Number, Time: p.Time, Count: 1, Args: [4]uint64{uint64(p.Opcode)}}
	f.Where = p.Src.String() + " → " + p.Dst.String()
	t.addFinding(&f)
}

var checkVendor = Check{
	ID: "vendor_transport", Severity: Note, Title: "A maker's own transport",
	Explain: "The opcodes are a maker's own, or of the range that NVIDIA's DC transport shares with RD, with headers that are not RD's. What they hold is not published: these packets are counted and checked as far as the BTH and the ICRC go, and not followed.",
	Rule:    "IBA Vol 1, 9.2.1, table 38 (manufacturer defined opcodes)",
	Try:     "Look at the maker's own tools and counters for these connections.",
	text: func(f *Finding) string {
		what := "of a maker's own transport"
		if dissect.Opcode(f.Args[0]).Info().Transport == dissect.RD {
			what = "of NVIDIA's DC, or another maker's transport in the range of RD"
		}
		return plural(int(f.Count), "packet", "packets") + " " + what + " (" + f.Where + "): not followed"
	},
}

// badVCRC notes a packet of native InfiniBand that was damaged on a link.
func (t *Tracker) badVCRC(p *dissect.Packet) {
	f := Finding{ID: findBadVCRC, Frame: p.Number, Time: p.Time, Count: 1, Where: p.Src.String() + " → " + p.Dst.String()}
	t.addFinding(&f)
}

var checkBadVCRC = Check{
	ID: "bad_vcrc", Severity: Error, Title: "Variant CRC is wrong",
	Explain: "The variant CRC guards a packet of native InfiniBand on one link, and each switch computes it anew. A wrong one means that the link before the capture damages packets, or that a device computes it wrongly; the next device drops the packet.",
	Rule:    "IBA Vol 1, 7.8.2",
	Try:     "Look at the symbol error and link recovery counters of the port before the capture, and at its cable.",
	text: func(f *Finding) string {
		return plural(int(f.Count), "packet", "packets") + " with a wrong variant CRC (" + f.Where + ")"
	},
}
