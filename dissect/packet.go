package dissect

import "net/netip"

// Addr is an IPv6 address or GID as two big-endian halves. IPv4 addresses are
// held as their IPv4-mapped GID, ::ffff:a.b.c.d, as RoCE v2 itself does
// (annex A17.4.3).
type Addr struct{ Hi, Lo uint64 }

const v4Mapped = 0xFFFF << 32

// Is4 reports whether the address is an IPv4-mapped one.
func (a Addr) Is4() bool { return a.Hi == 0 && a.Lo>>32 == 0xFFFF }

// IsZero reports whether no address is held.
func (a Addr) IsZero() bool { return a == Addr{} }

// Netip returns the address in the standard library's form.
func (a Addr) Netip() netip.Addr {
	if a.Is4() {
		v := uint32(a.Lo)
		return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
	}
	var b [16]byte
	put64(b[:8], a.Hi)
	put64(b[8:], a.Lo)
	return netip.AddrFrom16(b)
}

// IsLID reports whether a local identifier of native InfiniBand is held, which
// is the address of packets without a GRH.
func (a Addr) IsLID() bool { return a.Hi == 0 && a.Lo != 0 && a.Lo <= 0xFFFF }

func (a Addr) String() string {
	if a.IsLID() {
		return "LID " + decimal(a.Lo)
	}
	return a.Netip().String()
}

// AddrFrom converts from the standard library's form.
func AddrFrom(n netip.Addr) Addr {
	if n.Is4() {
		b := n.As4()
		return addr4(be32(b[:]))
	}
	b := n.As16()
	return Addr{be64(b[:8]), be64(b[8:])}
}

func addr4(v uint32) Addr { return Addr{0, v4Mapped | uint64(v)} }

// Protocol is what a frame is for, in the words of the analysis document.
type Protocol uint8

// The protocols.
const (
	ProtoOther Protocol = iota
	ProtoRoCEv2
	ProtoRoCEv1
	ProtoInfiniBand
	ProtoTCP // may hold a socket exchange or iWARP
	ProtoPause
	ProtoIBLink // InfiniBand link packet: flow control, not tracked
)

var protocolNames = [...]string{"other", "RoCE v2", "RoCE v1", "InfiniBand", "TCP", "pause", "InfiniBand link"}

func (p Protocol) String() string {
	if int(p) < len(protocolNames) {
		return protocolNames[p]
	}
	return "unknown"
}

// ICRCStatus is the verdict on a packet's invariant CRC.
type ICRCStatus uint8

// The verdicts. ICRCUnchecked is also that of packets that have no ICRC.
const (
	ICRCUnchecked   ICRCStatus = iota // not asked for
	ICRCNotCaptured                   // the snap length cut it, or bytes that it covers, off
	ICRCValid
	ICRCInvalid
)

var icrcNames = [...]string{"unchecked", "not captured", "valid", "invalid"}

func (s ICRCStatus) String() string { return icrcNames[s&3] }

// maxProblems is how many problems a packet remembers; further ones are only
// told by the last.
const maxProblems = 4

// Packet is what Decode understood of a frame. It holds no pointers: it may be
// copied and kept when the frame's buffer is gone. Offsets count from the
// frame's first byte.
//
// The values below BTH are valid only where Has says that their header is
// there; Decode does not clear those of the packet before.
type Packet struct {
	// What the capture says. Decode sets CapLen, WireLen and Link; the rest
	// is its caller's.
	Number  uint64 // 1 = the first frame
	Time    int64  // nanoseconds since the Unix epoch
	Base    int64  // Time of the first frame
	Prev    int64  // Time of the frame before
	WireLen uint32
	CapLen  uint32
	Link    LinkType
	Iface   uint16
	NoTime  bool // the capture has no time for the frame: Time is then that of the frame before
	// Direction is 1 for a frame that the capturing host received, 2 for one that it sent, 0 where nothing says.
	Direction uint8

	Proto    Protocol
	ICRC     ICRCStatus
	Opcode   Opcode
	Fragment bool // an IP fragment that is not the first: no layer above IP

	layers LayerSet
	off    [numBaseLayers]uint16

	Src, Dst         Addr // addresses, or GIDs; native InfiniBand without GRH: LIDs in Lo
	SrcPort, DstPort uint16
	TrafficClass     uint8 // DSCP and ECN
	HopLimit         uint8
	VLANTag          uint16 // TCI of the outermost tag
	IPID             uint16 // IPv4 identification; 0 for IPv6

	BTHFlags uint16 // BTH bytes 1 and 4: SE M Pad TVer | F B
	PKey     uint16
	AckReq   bool
	PadCount uint8
	Syndrome Syndrome
	problems uint8

	PSN    PSN
	DestQP uint32
	SrcQP  uint32 // DETH
	QKey   uint32 // DETH
	MSN    MSN    // AETH
	RKey   uint32 // RETH, AtomicETH
	DMALen uint32 // RETH
	Imm    uint32 // ImmDt, or IETH's R_Key

	VA      uint64 // RETH, AtomicETH
	Swap    uint64 // AtomicETH: swap or add data
	Compare uint64 // AtomicETH
	Orig    uint64 // AtomicAckETH

	TCPSeq, TCPAck uint32
	TCPFlags       uint8

	payload    uint32 // offset of what the innermost header carries
	payloadLen uint32 // by the length fields, pad and ICRC left out
	end        uint32 // end of the network layer by its length field

	problem [maxProblems]Problem

	listed
}

// Has reports whether the frame has the layer. Payload and ICRC are there
// where the lengths say so, captured or not.
func (p *Packet) Has(l Layer) bool {
	if l >= firstListed {
		return p.find(l) >= 0
	}
	return p.layers>>l&1 != 0
}

// Layers returns the set of layers that the frame has, without the seldom ones
// (see Listed).
func (p *Packet) Layers() LayerSet { return p.layers }

// Offset returns where the layer begins in the frame. It is meaningful only
// where Has(l).
func (p *Packet) Offset(l Layer) int {
	switch {
	case l < numBaseLayers:
		return int(p.off[l])
	case l < endExtLayers:
		return int(p.off[LayerBTH]) + int(opTable[p.Opcode].offset[l-numBaseLayers])
	case l >= firstListed:
		return p.find(l)
	case l == LayerMAD, l == LayerPayload:
		return int(p.payload)
	case l <= LayerCMAPR:
		return int(p.payload) + madHeaderSize
	case l == LayerIPCM:
		if p.Has(LayerCMREQ) {
			return int(p.payload) + madHeaderSize + cmREQPrivate
		}
		return int(p.payload) + madHeaderSize + cmSIDRREQPrivate
	case l >= LayerSMP && l <= LayerClassPortInfo:
		return int(p.payload) + mgmtOffset(l)
	default:
		return int(p.payload+p.payloadLen) + int(p.PadCount)
	}
}

// view returns the layer's captured bytes, at least n of them, or nil.
func (p *Packet) view(frame []byte, l Layer, n int) []byte {
	if !p.Has(l) {
		return nil
	}
	o := p.Offset(l)
	if o+n > len(frame) {
		return nil
	}
	return frame[o : o+n : o+n]
}

// Op returns the opcode's row in the table. It is meaningful only for packets
// that have a BTH.
func (p *Packet) Op() *OpInfo { return &opTable[p.Opcode] }

// IsTransport reports whether the frame has a BTH and a whole set of
// extension headers: only such packets take part in a queue pair's life.
func (p *Packet) IsTransport() bool {
	return p.layers>>LayerBTH&1 != 0 && p.problems&problemHeadersCut == 0
}

// PayloadLen is the number of payload bytes by the length fields, without pad
// and ICRC, captured or not.
func (p *Packet) PayloadLen() int { return int(p.payloadLen) }

// Payload returns the captured part of the payload.
func (p *Packet) Payload(frame []byte) []byte {
	lo, hi := int(p.payload), int(p.payload+p.payloadLen)
	if hi > len(frame) {
		hi = len(frame)
	}
	if lo >= hi {
		return nil
	}
	return frame[lo:hi:hi]
}

// DSCP returns the differentiated services code point.
func (p *Packet) DSCP() uint8 { return p.TrafficClass >> 2 }

// ECN returns the two ECN bits: 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE.
func (p *Packet) ECN() uint8 { return p.TrafficClass & 3 }

// VLAN returns the outermost VLAN identifier, -1 where there is no tag.
func (p *Packet) VLAN() int {
	if !p.Has(LayerVLAN) {
		return -1
	}
	return int(p.VLANTag & 0xFFF)
}

// SE reports the solicited event bit.
func (p *Packet) SE() bool { return p.BTHFlags&0x8000 != 0 }

// MigReq reports the migration request bit.
func (p *Packet) MigReq() bool { return p.BTHFlags&0x4000 != 0 }

// TVer returns the transport header version.
func (p *Packet) TVer() uint8 { return uint8(p.BTHFlags >> 8 & 0xF) }

// FECN and BECN report the congestion bits of the BTH.
func (p *Packet) FECN() bool { return p.BTHFlags&0x80 != 0 }

// BECN reports the backward congestion bit of the BTH.
func (p *Packet) BECN() bool { return p.BTHFlags&0x40 != 0 }
