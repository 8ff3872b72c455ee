package dissect

import (
	"encoding/binary"
	"sync"
)

// VCRCSize is the length of the variant CRC behind the ICRC of native
// InfiniBand.
const VCRCSize = 2

// vcrcTable is that of the CRC-16 with the polynomial 0x100B, its bits
// reflected (IBA 7.8.2).
var vcrcTable = sync.OnceValue(func() (t [256]uint16) {
	for v := range t {
		c := uint16(v)
		for range 8 {
			if c&1 != 0 {
				c = c>>1 ^ 0xD008
			} else {
				c >>= 1
			}
		}
		t[v] = c
	}
	return t
})

// VCRC computes the variant CRC of a native InfiniBand packet: b runs from the
// LRH to the ICRC. Stored little-endian behind it, the value is what goes on
// the wire.
func VCRC(b []byte) uint16 {
	t := vcrcTable()
	c := uint16(0xFFFF)
	for _, v := range b {
		c = c>>8 ^ t[byte(c)^v]
	}
	return ^c
}

// VCRC returns the verdict on the variant CRC of a native InfiniBand packet.
// Not all captures have one: the InfiniBand adapter itself takes it off.
func (p *Packet) VCRC() ICRCStatus { return p.vcrc }

func verifyVCRC(p *Packet, frame []byte) ICRCStatus {
	at := p.find(LayerVCRC)
	if at < 0 {
		return ICRCUnchecked
	}
	if VCRC(frame[p.off[LayerLRH]:at]) == binary.LittleEndian.Uint16(frame[at:]) {
		return ICRCValid
	}
	return ICRCInvalid
}

// lrh decodes a native InfiniBand packet (IBA 7.7): local route header, with
// or without a GRH, or one of the raw packets that hold no transport.
func (d *Decoder) lrh(p *Packet, b []byte, off int) {
	if !p.has(b, LayerLRH, off, 8) {
		return
	}
	h := LRH(b[off : off+8 : off+8])
	p.Proto = ProtoInfiniBand
	p.Src, p.Dst = Addr{Lo: uint64(h.SLID())}, Addr{Lo: uint64(h.DLID())}
	p.TrafficClass, p.HopLimit, p.IPID = 0, 0, 0
	if n := int(h.PktLen()) * 4; n >= 8 {
		p.setEnd(off, off+n)
		if end := off + n; end+VCRCSize <= len(b) {
			p.enlist(LayerVCRC, end)
		}
	}
	switch h.LNH() {
	case 0:
		if p.push(b, LayerRWH, off+8, 4) {
			d.etherType(p, b, be16(b[off+10:]), off+12)
		}
	case 1:
		d.ipv6(p, b, off+8)
	case 2:
		p.bth(b, off+8)
	case 3:
		if p.grh(b, off+8) {
			p.bth(b, off+48)
		}
	}
}

// ERF record types that hold frames of ours (Endace ERF types).
const (
	erfEthernet       = 2
	erfColorEthernet  = 11
	erfDSMEthernet    = 16
	erfColorHashEther = 20
	erfInfiniBand     = 21
	erfIPv4           = 22
	erfIPv6           = 23
	erfInfiniBandLink = 25
)

// erf decodes a record in Endace's extensible record format: 16 bytes, extension
// headers of eight bytes each, then the frame.
func (d *Decoder) erf(p *Packet, b []byte) {
	if !p.push(b, LayerERF, 0, 16) {
		return
	}
	kind, off := b[8], 16
	for more := kind; more&0x80 != 0; off += 8 {
		if off+8 > len(b) {
			p.short(b, off)
			return
		}
		more = b[off]
	}
	switch kind & 0x7F {
	case erfEthernet, erfColorEthernet, erfDSMEthernet, erfColorHashEther:
		d.ethernet(p, b, off+2) // two bytes align what is behind the addresses
	case erfInfiniBand:
		d.lrh(p, b, off)
	case erfInfiniBandLink:
		if p.push(b, LayerIBLink, off, 6) {
			p.Proto = ProtoIBLink
		}
	case erfIPv4, erfIPv6:
		d.rawIP(p, b, off)
	default:
		p.note(ProblemLinkType, 8)
	}
}

var erfFields = []Field{
	{Name: "erf.types.ext_header", Text: "Has extension headers", Layer: LayerERF, Bit: 64, Width: 1, Kind: Dec},
	{Name: "erf.types.type", Text: "Record type", Layer: LayerERF, Bit: 65, Width: 7, Kind: Dec, Values: erfTypeName},
	{Name: "erf.flags", Text: "Flags", Layer: LayerERF, Bit: 72, Width: 8, Kind: Hex},
	{Name: "erf.flags.cap", Text: "Capture interface", Layer: LayerERF, Bit: 78, Width: 2, Kind: Dec},
	{Name: "erf.rlen", Text: "Record length", Layer: LayerERF, Bit: 80, Width: 16, Kind: Dec},
	{Name: "erf.lctr", Text: "Loss counter", Layer: LayerERF, Bit: 96, Width: 16, Kind: Dec},
	{Name: "erf.wlen", Text: "Length on the wire", Layer: LayerERF, Bit: 112, Width: 16, Kind: Dec},
}

func erfTypeName(v uint64) string {
	switch v {
	case erfEthernet, erfColorEthernet, erfDSMEthernet, erfColorHashEther:
		return "Ethernet"
	case erfInfiniBand:
		return "InfiniBand"
	case erfInfiniBandLink:
		return "InfiniBand link"
	case erfIPv4, erfIPv6:
		return "IP"
	}
	return ""
}

var rwhFields = []Field{
	{Name: "infiniband.rwh.etype", Text: "EtherType", Layer: LayerRWH, Bit: 16, Width: 16, Kind: Hex, Values: etherTypeName},
}

var vcrcFields = []Field{
	{Name: "infiniband.variant.crc", Text: "Variant CRC", Layer: LayerVCRC, Bit: 0, Width: 16, Kind: Hex},
	{Name: "infiniband.variant.crc.status", Text: "Variant CRC status", Layer: LayerVCRC, Kind: Text, Values: icrcName, Get: func(p *Packet, _ []byte) (uint64, bool) {
		return uint64(p.vcrc), p.Has(LayerVCRC)
	}},
}

var ibLinkFields = []Field{
	{Name: "infiniband_link.op", Text: "Operand (0 flow control, 1 at the link's start)", Layer: LayerIBLink, Bit: 0, Width: 4, Kind: Dec},
	{Name: "infiniband_link.fctbs", Text: "Blocks sent in all", Layer: LayerIBLink, Bit: 4, Width: 12, Kind: Dec},
	{Name: "infiniband_link.vl", Text: "Virtual lane", Layer: LayerIBLink, Bit: 16, Width: 4, Kind: Dec},
	{Name: "infiniband_link.fccl", Text: "Credit limit", Layer: LayerIBLink, Bit: 20, Width: 12, Kind: Dec},
	{Name: "infiniband_link.lpcrc", Text: "Link packet CRC", Layer: LayerIBLink, Bit: 32, Width: 16, Kind: Hex},
}
