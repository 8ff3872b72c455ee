package dissect

// VXLAN is a VXLAN header (RFC 7348).
type VXLAN []byte

// VNI returns the network identifier.
func (h VXLAN) VNI() uint32 { return be24(h[4:]) }

// GENEVE is a GENEVE header without options (RFC 8926).
type GENEVE []byte

// Version returns the version, 0.
func (h GENEVE) Version() uint8 { return h[0] >> 6 }

// HeaderLen returns the length of the header with its options.
func (h GENEVE) HeaderLen() int { return 8 + int(h[0]&0x3F)*4 }

// Protocol returns the EtherType of what is inside.
func (h GENEVE) Protocol() uint16 { return be16(h[2:]) }

// VNI returns the network identifier.
func (h GENEVE) VNI() uint32 { return be24(h[4:]) }

// GRE is a GRE header (RFC 2784, 2890), as far as captured, at least four
// bytes.
type GRE []byte

// HasChecksum returns the bit that says that there is a checksum.
func (h GRE) HasChecksum() bool { return h[0]&0x80 != 0 }

// Routing returns the bit of source routes, which RFC 2784 did away with.
func (h GRE) Routing() bool { return h[0]&0x40 != 0 }

// HasKey returns the bit that says that there is a key.
func (h GRE) HasKey() bool { return h[0]&0x20 != 0 }

// HasSequence returns the bit that says that there is a sequence number.
func (h GRE) HasSequence() bool { return h[0]&0x10 != 0 }

// Version returns the version: 0, or 1 of PPTP.
func (h GRE) Version() uint8 { return h[1] & 7 }

// Protocol returns the EtherType of what is inside.
func (h GRE) Protocol() uint16 { return be16(h[2:]) }

// HeaderLen returns the length of the header with the parts that it has.
func (h GRE) HeaderLen() int {
	n := 4
	for _, has := range [...]bool{h.HasChecksum() || h.Routing(), h.HasKey(), h.HasSequence()} {
		if has {
			n += 4
		}
	}
	return n
}

// Key returns the key; of NVGRE its upper 24 bits are the virtual subnet.
func (h GRE) Key() (uint32, bool) {
	at := 4
	if h.HasChecksum() || h.Routing() {
		at = 8
	}
	if !h.HasKey() || at+4 > len(h) {
		return 0, false
	}
	return be32(h[at:]), true
}

// Sequence returns the sequence number.
func (h GRE) Sequence() (uint32, bool) {
	at := h.HeaderLen() - 4
	if !h.HasSequence() || at+4 > len(h) {
		return 0, false
	}
	return be32(h[at:]), true
}

// PPPoE is a PPPoE session header with the PPP protocol behind it.
type PPPoE []byte

// Version returns the version, 1.
func (h PPPoE) Version() uint8 { return h[0] >> 4 }

// Type returns the type, 1.
func (h PPPoE) Type() uint8 { return h[0] & 15 }

// Code returns the code, 0 in a session.
func (h PPPoE) Code() uint8 { return h[1] }

// Session returns the session's number.
func (h PPPoE) Session() uint16 { return be16(h[2:]) }

// Protocol returns PPP's protocol number of what is inside.
func (h PPPoE) Protocol() uint16 { return be16(h[6:]) }

// gre returns the view of the frame's GRE header, nil without one.
func (p *Packet) gre(frame []byte) GRE {
	if at := p.find(LayerGRE); at >= 0 && at+4 <= len(frame) {
		return GRE(frame[at:])
	}
	return nil
}

var vxlanFields = []Field{
	{Name: "vxlan.flags", Text: "Flags", Layer: LayerVXLAN, Bit: 0, Width: 16, Kind: Hex},
	{Name: "vxlan.gbp", Text: "Group policy", Layer: LayerVXLAN, Bit: 16, Width: 16, Kind: Dec, When: ordinaryVXLAN},
	{Name: "vxlan.vni", Text: "Network identifier", Layer: LayerVXLAN, Bit: 32, Width: 24, Kind: Dec},
	{Name: "vxlan.reserved8", Text: "Reserved", Layer: LayerVXLAN, Bit: 56, Width: 8, Kind: Dec},
	{Name: "vxlan.next_proto", Text: "Next protocol", Layer: LayerVXLAN, Bit: 24, Width: 8, Kind: Dec, When: extendedVXLAN},
}

// VXLAN-GPE has another port, and another use for the first half of the header.
func ordinaryVXLAN(p *Packet, frame []byte) bool { return !extendedVXLAN(p, frame) }

func extendedVXLAN(p *Packet, frame []byte) bool {
	at := p.find(LayerVXLAN) - 6 // the UDP header's destination port
	return at >= 0 && be16(frame[at:]) == portVXLANGPE
}

var geneveFields = []Field{
	{Name: "geneve.version", Text: "Version", Layer: LayerGENEVE, Bit: 0, Width: 2, Kind: Dec},
	{Name: "geneve.flags", Text: "Flags", Layer: LayerGENEVE, Bit: 8, Width: 8, Kind: Hex},
	{Name: "geneve.flags.oam", Text: "OAM frame", Layer: LayerGENEVE, Bit: 8, Width: 1, Kind: Bool},
	{Name: "geneve.flags.critical", Text: "Critical options", Layer: LayerGENEVE, Bit: 9, Width: 1, Kind: Bool},
	{Name: "geneve.proto_type", Text: "Protocol", Layer: LayerGENEVE, Bit: 16, Width: 16, Kind: Hex, Values: etherTypeName},
	{Name: "geneve.vni", Text: "Network identifier", Layer: LayerGENEVE, Bit: 32, Width: 24, Kind: Hex},
	{Name: "geneve.reserved", Text: "Reserved", Layer: LayerGENEVE, Bit: 56, Width: 8, Kind: Hex},
}

var greFields = []Field{
	{Name: "gre.flags_and_version", Text: "Flags and version", Layer: LayerGRE, Bit: 0, Width: 16, Kind: Hex},
	{Name: "gre.flags.checksum", Text: "Has a checksum", Layer: LayerGRE, Bit: 0, Width: 1, Kind: Bool},
	{Name: "gre.flags.key", Text: "Has a key", Layer: LayerGRE, Bit: 2, Width: 1, Kind: Bool},
	{Name: "gre.flags.sequence_number", Text: "Has a sequence number", Layer: LayerGRE, Bit: 3, Width: 1, Kind: Bool},
	{Name: "gre.flags.version", Text: "Version", Layer: LayerGRE, Bit: 13, Width: 3, Kind: Dec},
	{Name: "gre.proto", Text: "Protocol", Layer: LayerGRE, Bit: 16, Width: 16, Kind: Hex, Values: etherTypeName},
	{Name: "gre.key", Text: "Key", Layer: LayerGRE, Kind: Hex, Digits: 8, Get: func(p *Packet, frame []byte) (uint64, bool) {
		if h := p.gre(frame); h != nil {
			v, ok := h.Key()
			return uint64(v), ok
		}
		return 0, false
	}},
	{Name: "gre.sequence_number", Text: "Sequence number", Layer: LayerGRE, Kind: Dec, Get: func(p *Packet, frame []byte) (uint64, bool) {
		if h := p.gre(frame); h != nil {
			v, ok := h.Sequence()
			return uint64(v), ok
		}
		return 0, false
	}},
}

var erspanFields = append(append(erspanRows(LayerERSPAN2), erspanRows(LayerERSPAN3)...), []Field{
	{Name: "erspan.encap", Text: "Encapsulation of the VLAN", Layer: LayerERSPAN2, Bit: 19, Width: 2, Kind: Dec},
	{Name: "erspan.index", Text: "Index of port and direction", Layer: LayerERSPAN2, Bit: 44, Width: 20, Kind: Dec},
	{Name: "erspan.bso", Text: "Bad, short or oversized", Layer: LayerERSPAN3, Bit: 19, Width: 2, Kind: Dec},
	{Name: "erspan.timestamp", Text: "Time stamp", Layer: LayerERSPAN3, Bit: 32, Width: 32, Kind: Dec},
	{Name: "erspan.sgt", Text: "Security group tag", Layer: LayerERSPAN3, Bit: 64, Width: 16, Kind: Dec},
	{Name: "erspan.p", Text: "Has an Ethernet frame", Layer: LayerERSPAN3, Bit: 80, Width: 1, Kind: Dec},
	{Name: "erspan.ft", Text: "Frame type", Layer: LayerERSPAN3, Bit: 81, Width: 5, Kind: Dec},
	{Name: "erspan.hw", Text: "Hardware", Layer: LayerERSPAN3, Bit: 86, Width: 6, Kind: Dec},
	{Name: "erspan.direction", Text: "Direction (1 leaving)", Layer: LayerERSPAN3, Bit: 92, Width: 1, Kind: Bool},
	{Name: "erspan.gra", Text: "Granularity of the time stamp", Layer: LayerERSPAN3, Bit: 93, Width: 2, Kind: Dec},
	{Name: "erspan.o", Text: "Has a subheader", Layer: LayerERSPAN3, Bit: 95, Width: 1, Kind: Dec},
}...)

func erspanRows(l Layer) []Field {
	return []Field{
		{Name: "erspan.version", Text: "Version (1 is type II, 2 is type III)", Layer: l, Bit: 0, Width: 4, Kind: Dec},
		{Name: "erspan.vlan", Text: "VLAN", Layer: l, Bit: 4, Width: 12, Kind: Dec},
		{Name: "erspan.cos", Text: "Class of service", Layer: l, Bit: 16, Width: 3, Kind: Dec},
		{Name: "erspan.truncated", Text: "The mirror cut the frame", Layer: l, Bit: 21, Width: 1, Kind: Dec},
		{Name: "erspan.spanid", Text: "Session", Layer: l, Bit: 22, Width: 10, Kind: Dec},
	}
}

var mplsFields = append(mplsRows(LayerMPLS), mplsRows(LayerMPLS2)...)

func mplsRows(l Layer) []Field {
	return []Field{
		{Name: "mpls.label", Text: "Label", Layer: l, Bit: 0, Width: 20, Kind: Dec},
		{Name: "mpls.exp", Text: "Traffic class", Layer: l, Bit: 20, Width: 3, Kind: Dec},
		{Name: "mpls.bottom", Text: "Bottom of the stack", Layer: l, Bit: 23, Width: 1, Kind: Dec},
		{Name: "mpls.ttl", Text: "Time to live", Layer: l, Bit: 24, Width: 8, Kind: Dec},
	}
}

var pppoeFields = []Field{
	{Name: "pppoe.version", Text: "Version", Layer: LayerPPPoE, Bit: 0, Width: 4, Kind: Dec},
	{Name: "pppoe.type", Text: "Type", Layer: LayerPPPoE, Bit: 4, Width: 4, Kind: Dec},
	{Name: "pppoe.code", Text: "Code", Layer: LayerPPPoE, Bit: 8, Width: 8, Kind: Hex},
	{Name: "pppoe.session_id", Text: "Session", Layer: LayerPPPoE, Bit: 16, Width: 16, Kind: Hex},
	{Name: "pppoe.payload_length", Text: "Payload length", Layer: LayerPPPoE, Bit: 32, Width: 16, Kind: Dec},
	{Name: "ppp.protocol", Text: "Protocol", Layer: LayerPPPoE, Bit: 48, Width: 16, Kind: Hex},
}
