package dissect

import (
	"encoding/binary"
	"hash/crc32"
	"sync"
)

// MPA start-up frames begin with one of two keys (RFC 5044, 7.1.1).
const (
	MPARequestKey = "MPA ID Req Frame"
	MPAReplyKey   = "MPA ID Rep Frame"
)

const (
	mpaFrameSize = 20
	// MaxMPAPrivate is the most private data that a start-up frame may carry.
	MaxMPAPrivate = 512
)

// MPAFrame is an MPA start-up frame: request or reply (RFC 5044, 7.1; RFC
// 6581).
type MPAFrame []byte

// IsRequest reports whether the key is that of a request.
func (h MPAFrame) IsRequest() bool { return string(h[:16]) == MPARequestKey }

// IsReply reports whether the key is that of a reply.
func (h MPAFrame) IsReply() bool { return string(h[:16]) == MPAReplyKey }

// Markers returns the M bit: the sender wants to receive markers.
func (h MPAFrame) Markers() bool { return h[16]&0x80 != 0 }

// CRC returns the C bit: the sender wants CRCs to be used.
func (h MPAFrame) CRC() bool { return h[16]&0x40 != 0 }

// Reject returns the R bit: the responder refuses.
func (h MPAFrame) Reject() bool { return h[16]&0x20 != 0 }

// Enhanced returns the S bit of revision 2: IRD and ORD are at the head of the
// private data.
func (h MPAFrame) Enhanced() bool { return h[16]&0x10 != 0 }

// Reserved returns the bits that must be zero.
func (h MPAFrame) Reserved() uint8 { return h[16] & 0x0F }

// Revision returns the revision, 1 or 2.
func (h MPAFrame) Revision() uint8 { return h[17] }

// PrivateLen returns the length of the private data.
func (h MPAFrame) PrivateLen() int { return int(be16(h[18:])) }

// MPAEnhanced is the head of the private data of an enhanced start-up frame
// (RFC 6581, 4.1): what READs each side can take and wants to have open.
type MPAEnhanced []byte

// PeerToPeer returns the A bit: the initiator sends an RTR message first.
func (h MPAEnhanced) PeerToPeer() bool { return h[0]&0x80 != 0 }

// ZeroSend, ZeroWrite and ZeroRead return which RTR messages may be used.
func (h MPAEnhanced) ZeroSend() bool { return h[0]&0x40 != 0 }

// ZeroWrite returns the C bit: an RDMA Write of no bytes may be the RTR.
func (h MPAEnhanced) ZeroWrite() bool { return h[2]&0x80 != 0 }

// ZeroRead returns the D bit: an RDMA Read of no bytes may be the RTR.
func (h MPAEnhanced) ZeroRead() bool { return h[2]&0x40 != 0 }

// IRD returns how many READs the sender can serve at a time; 0x3FFF leaves it
// open.
func (h MPAEnhanced) IRD() uint16 { return be16(h) & 0x3FFF }

// ORD returns how many READs the sender wants to have open.
func (h MPAEnhanced) ORD() uint16 { return be16(h[2:]) & 0x3FFF }

// castagnoli makes its tables on first need.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// FPDUCRC computes the CRC-32C of an FPDU: b runs from its length, or from a
// marker in front of that, to its last pad byte. Stored little-endian behind it,
// the value is what goes on the wire.
func FPDUCRC(b []byte) uint32 { return crc32.Checksum(b, castagnoli()) }

// FPDUSize is the length of an FPDU on the wire without markers: length field,
// ULPDU, pad and CRC.
func FPDUSize(ulpdu int) int { return (2+ulpdu+3)&^3 + 4 }

// startUp reports whether b begins with an MPA key, and which.
func startUp(b []byte) Layer {
	if len(b) < mpaFrameSize || b[0] != 'M' {
		return LayerFrame
	}
	switch string(b[:16]) {
	case MPARequestKey:
		return LayerMPARequest
	case MPAReplyKey:
		return LayerMPAReply
	}
	return LayerFrame
}

// iwarp lists the iWARP headers at the beginning of a TCP segment: an MPA
// start-up frame by its key, or an FPDU where segment and FPDU say so for
// certain. FPDUs that begin elsewhere in a stream are found by who follows the
// stream.
func (p *Packet) iwarp(b []byte) {
	lo := int(p.payload)
	if lo+8 > len(b) {
		return
	}
	seg := b[lo:min(len(b), int(p.payload+p.payloadLen))]
	if l := startUp(seg); l != LayerFrame {
		p.enlist(l, lo)
		return
	}
	n, ok := FPDUAt(seg)
	if !ok || len(seg) == int(p.payloadLen) && !certainFPDU(seg, n) {
		return
	}
	if len(seg) < int(p.payloadLen) && int(p.payloadLen) != FPDUSize(n) { // cut: the length has to do
		return
	}
	p.FPDU(b, lo)
}

// FPDUAt reports whether an FPDU may begin at b, by its headers, and the length
// of its ULPDU.
func FPDUAt(b []byte) (ulpdu int, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	n := int(be16(b))
	h := DDP(b[2:])
	op := h.Opcode()
	if h.Version() != 1 || h.RDMAPVersion() != 1 || h.Reserved() != 0 || op.Info() == nil || op.Info().Tagged != h.Tagged() || n < op.Info().Size {
		return n, false
	}
	if !h.Tagged() && len(b) >= 2+ddpUntaggedSize && DDP(b[2:]).QN() != op.Info().Queue {
		return n, false
	}
	return n, true
}

// certainFPDU reports whether a segment that begins like an FPDU is one: its
// CRC-32C is right, or there is none (zero) and FPDUs fill the segment to its
// last byte.
func certainFPDU(seg []byte, ulpdu int) bool {
	size := FPDUSize(ulpdu)
	if size > len(seg) {
		return false
	}
	crc := binary.LittleEndian.Uint32(seg[size-4:])
	if crc != 0 {
		return crc == FPDUCRC(seg[:size-4])
	}
	for {
		if seg = seg[size:]; len(seg) == 0 {
			return true
		}
		n, ok := FPDUAt(seg)
		if size = FPDUSize(n); !ok || size > len(seg) || be32(seg[size-4:]) != 0 {
			return false
		}
	}
}

// FPDU lists the headers of the FPDU that begins at off of a TCP segment, as
// far as they are there. Markers inside the headers are not looked for.
func (p *Packet) FPDU(b []byte, off int) {
	if p.Has(LayerFPDU) || off+4 > len(b) {
		return
	}
	h := DDP(b[off+2:])
	info := h.Opcode().Info()
	if info == nil {
		return
	}
	p.enlist(LayerFPDU, off)
	l, size := LayerDDPUntagged, ddpUntaggedSize
	if h.Tagged() {
		l, size = LayerDDPTagged, ddpTaggedSize
	}
	if off+2+size > len(b) {
		return
	}
	p.enlist(l, off+2)
	if x := info.header; x != LayerFrame && off+2+size+x.Size() <= len(b) {
		p.enlist(x, off+2+size)
	}
}

// InFPDU reports whether a layer is one of an FPDU, of which a segment may hold
// several.
func (l Layer) InFPDU() bool { return l >= LayerFPDU && l <= LayerRDMAPImmediate }

// EachFPDU calls do for each FPDU that begins in the packet's segment, until it
// returns false. Meanwhile the packet's layers are those of that FPDU; behind it
// they are those of the first one again. What has no FPDU has its call, too.
func (p *Packet) EachFPDU(frame []byte, do func() bool) {
	first := p.listed
	for do() && p.nextFPDU(frame) {
	}
	p.listed = first
}

// nextFPDU lists the headers of the FPDU behind the one that is listed, in its
// place; false where there is none.
func (p *Packet) nextFPDU(b []byte) bool {
	at := p.find(LayerFPDU)
	end := min(len(b), int(p.payload+p.payloadLen))
	if at < 0 || at+2 > end {
		return false
	}
	at += FPDUSize(int(be16(b[at:])))
	if at+4 > end {
		return false
	}
	n, ok := FPDUAt(b[at:end])
	if !ok {
		return false
	}
	if size := FPDUSize(n); at+size <= end {
		if crc := binary.LittleEndian.Uint32(b[at+size-4:]); crc != 0 && crc != FPDUCRC(b[at:at+size-4]) {
			return false
		}
	}
	kept := p.list[:0]
	for _, x := range p.list[:p.nlisted] {
		if !x.layer.InFPDU() {
			kept = append(kept, x)
		}
	}
	p.nlisted = uint8(len(kept))
	p.FPDU(b[:end], at)
	return true
}

var mpaFields = append(append(mpaRows(LayerMPARequest), mpaRows(LayerMPAReply)...), []Field{
	{Name: "iwarp_mpa.ulpdulength", Text: "ULPDU length", Layer: LayerFPDU, Bit: 0, Width: 16, Kind: Dec},
	{Name: "iwarp_mpa.crc", Text: "CRC-32C", Layer: LayerFPDU, Kind: Hex, Digits: 8, Get: fpduCRC},
}...)

// fpduCRC is the CRC of an FPDU that the segment holds whole, without markers.
func fpduCRC(p *Packet, frame []byte) (uint64, bool) {
	at := p.find(LayerFPDU)
	if at < 0 || at+2 > len(frame) {
		return 0, false
	}
	end := at + FPDUSize(int(be16(frame[at:])))
	if end > len(frame) || end > int(p.payload+p.payloadLen) {
		return 0, false
	}
	return uint64(be32(frame[end-4:])), true
}

func mpaRows(l Layer) []Field {
	key := "iwarp_mpa.key.req"
	if l == LayerMPAReply {
		key = "iwarp_mpa.key.rep"
	}
	enhanced := func(p *Packet, frame []byte) bool {
		at := p.find(l)
		return at >= 0 && at+mpaFrameSize+4 <= len(frame) && MPAFrame(frame[at:]).Enhanced() && MPAFrame(frame[at:]).Revision() >= 2
	}
	return []Field{
		{Name: key, Text: "Key", Layer: l, Bit: 0, Width: 128, Kind: Bytes},
		{Name: "iwarp_mpa.marker_flag", Text: "Markers wanted", Layer: l, Bit: 128, Width: 1, Kind: Bool},
		{Name: "iwarp_mpa.crc_flag", Text: "CRC wanted", Layer: l, Bit: 129, Width: 1, Kind: Bool},
		{Name: "iwarp_mpa.rej_flag", Text: "Rejected", Layer: l, Bit: 130, Width: 1, Kind: Bool},
		{Name: "iwarp_mpa.res", Text: "Reserved; of revision 2 the first bit says enhanced", Layer: l, Bit: 131, Width: 5, Kind: Hex},
		{Name: "iwarp_mpa.rev", Text: "Revision", Layer: l, Bit: 136, Width: 8, Kind: Dec},
		{Name: "iwarp_mpa.pdlength", Text: "Private data length", Layer: l, Bit: 144, Width: 16, Kind: Dec},
		{Name: "iwarp_mpa.ird", Text: "READs that the sender can serve", Layer: l, Bit: 162, Width: 14, Kind: Dec, When: enhanced},
		{Name: "iwarp_mpa.ord", Text: "READs that the sender wants open", Layer: l, Bit: 178, Width: 14, Kind: Dec, When: enhanced},
	}
}
