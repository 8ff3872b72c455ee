package diff

import (
	"encoding/binary"
	"hash/maphash"

	"github.com/rocescope/rocescope/dissect"
)

// record is what is kept of a packet until its twin is found.
type record struct {
	time   int64 // of its own clock
	when   int64 // of a's clock, as far as that is known
	frame  uint64
	head   uint64 // hash of what it is: addresses, identification, transport headers, length
	full   uint64 // of all that its ICRC covers, and of that itself
	stream int32
	wire   uint32
	psn    dissect.PSN
	port   uint16
	vlan   int16
	op     dissect.Opcode
	class  uint8 // DSCP and ECN
	hops   uint8
	cut    bool // the capture did not keep all of it
	old    bool // was left over from the chunk before
}

// hasher makes records' hashes. Its zero value is not usable.
type hasher struct {
	seed maphash.Seed
	buf  []byte
}

func newHasher(seed maphash.Seed) *hasher { return &hasher{seed: seed, buf: make([]byte, 0, 256)} }

// comparable reports whether a packet takes part: transport packets are
// compared, TCP packets serve as witnesses of the clocks.
func comparable(p *dissect.Packet) bool {
	return p.Has(dissect.LayerBTH) || witness(p)
}

func witness(p *dissect.Packet) bool { return p.Proto == dissect.ProtoTCP && !p.Fragment }

// head hashes what a packet is, whatever it carries.
func (h *hasher) head(p *dissect.Packet, frame []byte) uint64 {
	b := h.buf[:0]
	b = binary.LittleEndian.AppendUint64(b, p.Src.Hi)
	b = binary.LittleEndian.AppendUint64(b, p.Src.Lo)
	b = binary.LittleEndian.AppendUint64(b, p.Dst.Hi)
	b = binary.LittleEndian.AppendUint64(b, p.Dst.Lo)
	b = binary.LittleEndian.AppendUint16(b, p.IPID)
	if !p.Has(dissect.LayerBTH) {
		b = binary.LittleEndian.AppendUint32(b, uint32(p.SrcPort)<<16|uint32(p.DstPort))
		b = binary.LittleEndian.AppendUint32(b, p.TCPSeq)
		b = binary.LittleEndian.AppendUint32(b, p.TCPAck)
		b = append(b, p.TCPFlags)
		return maphash.Bytes(h.seed, b)
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(p.PayloadLen()))
	at := p.Offset(dissect.LayerBTH)
	n := len(b)
	b = append(b, frame[min(at, len(frame)):min(at+p.Op().Len, len(frame))]...)
	if n+4 < len(b) {
		b[n+4] |= 0xFF // FECN, BECN and reserved bits: no part of the ICRC
	}
	return maphash.Bytes(h.seed, b)
}

// full hashes what the ICRC covers behind the headers, and the ICRC.
func (h *hasher) full(p *dissect.Packet, frame []byte, head uint64) uint64 {
	at := min(p.Offset(dissect.LayerBTH)+p.Op().Len, len(frame))
	end := len(frame)
	if icrc := p.Offset(dissect.LayerICRC) + dissect.ICRCSize; p.Has(dissect.LayerICRC) && icrc < end {
		end = icrc // padding to the shortest frame, and an FCS, belong to the link
	}
	if at > end {
		at = end
	}
	return maphash.Bytes(h.seed, frame[at:end]) ^ head
}

// streamKey is one direction between two queue pairs, as far as a packet tells.
type streamKey struct {
	src, dst dissect.Addr
	qpn      uint32 // destination
	from     uint32 // source, UD only
}

func keyOf(p *dissect.Packet) streamKey {
	k := streamKey{src: p.Src, dst: p.Dst, qpn: p.DestQP}
	if p.Has(dissect.LayerDETH) {
		k.from = p.SrcQP
	}
	return k
}
