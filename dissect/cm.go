package dissect

import "time"

// Communication management (CM, IBA 12): the messages on QP 1 by which two
// sides set up a connection. Each of the eleven messages is a layer of its own
// and a view over the 232 bytes behind the header of its management datagram.
//
// A view may be shorter than 232 bytes where the capture cut the frame: a
// getter of bytes that are missing returns 0, a setter of them panics.

// CMAttribute is the attribute identifier of a CM message (IBA 12).
type CMAttribute uint16

// The CM messages.
const (
	CMAttrREQ CMAttribute = 0x0010 + iota
	CMAttrMRA
	CMAttrREJ
	CMAttrREP
	CMAttrRTU
	CMAttrDREQ
	CMAttrDREP
	CMAttrSIDRREQ
	CMAttrSIDRREP
	CMAttrLAP
	CMAttrAPR
)

var cmNames = [...]string{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP", "SIDR_REQ", "SIDR_REP", "LAP", "APR"}

func (a CMAttribute) String() string {
	if a >= CMAttrREQ && a <= CMAttrAPR {
		return cmNames[a-CMAttrREQ]
	}
	return "unknown CM attribute"
}

// Layer returns the layer of a message, LayerMAD where the attribute is none.
func (a CMAttribute) Layer() Layer {
	if a >= CMAttrREQ && a <= CMAttrAPR {
		return LayerCMREQ + Layer(a-CMAttrREQ)
	}
	return LayerMAD
}

// CM is a CM message. Data converts to the view that Attribute names:
//
//	if m, ok := p.CM(frame); ok && m.Attribute == dissect.CMAttrREQ {
//		qpn := dissect.CMREQ(m.Data).LocalQPN()
//	}
type CM struct {
	Attribute     CMAttribute
	TransactionID uint64
	Data          []byte // the captured part of the message's 232 bytes
}

// CM returns the frame's CM message. ok is false without one.
func (p *Packet) CM(frame []byte) (m CM, ok bool) {
	if p.layers&cmLayers == 0 {
		return CM{}, false
	}
	return p.MAD(frame).CM()
}

// CM returns the CM message of a management datagram, which may be a copy of
// the frame's. ok is false where it is of another class or has less than the
// common header.
func (h MAD) CM() (m CM, ok bool) {
	if len(h) < madHeaderSize || h.Class() != ClassCM {
		return CM{}, false
	}
	a := CMAttribute(h.Attribute())
	if a.Layer() == LayerMAD {
		return CM{}, false
	}
	return CM{Attribute: a, TransactionID: h.TransactionID(), Data: h.Data()}, true
}

// Whole reports whether all of the message was captured.
func (m CM) Whole() bool { return len(m.Data) >= madDataSize }

// LocalCommID returns the sender's communication identifier; of SIDR messages,
// the request identifier.
func (m CM) LocalCommID() uint32 { return cmBytes(m.Data).u32(0) }

// RemoteCommID returns the receiver's communication identifier. REQ and SIDR
// messages have none.
func (m CM) RemoteCommID() uint32 {
	switch m.Attribute {
	case CMAttrREQ, CMAttrSIDRREQ, CMAttrSIDRREP:
		return 0
	}
	return cmBytes(m.Data).u32(4)
}

// Where the private data of the messages begin that may carry an RDMA IP CM
// header.
const (
	cmREQPrivate     = 140
	cmSIDRREQPrivate = 16
)

// cmLayers are the layers of the CM messages.
const cmLayers LayerSet = 1<<(LayerCMAPR+1) - 1<<LayerCMREQ

// CMTimeout returns 4.096 µs × 2^n, the time that a CM response, service or
// delay code stands for. Other than in AckTimeout, 0 is a
// time as well.
func CMTimeout(n uint8) time.Duration { return 4096 << (n & 0x1F) }

// cmBytes reads what may be cut: bytes that were not captured are 0.
type cmBytes []byte

func (b cmBytes) u8(o int) uint8 {
	if o >= len(b) {
		return 0
	}
	return b[o]
}

func (b cmBytes) u16(o int) uint16 {
	if o+2 > len(b) {
		return 0
	}
	return be16(b[o:])
}

func (b cmBytes) u24(o int) uint32 {
	if o+3 > len(b) {
		return 0
	}
	return be24(b[o:])
}

func (b cmBytes) u32(o int) uint32 {
	if o+4 > len(b) {
		return 0
	}
	return be32(b[o:])
}

func (b cmBytes) u64(o int) uint64 {
	if o+8 > len(b) {
		return 0
	}
	return be64(b[o:])
}

func (b cmBytes) gid(o int) Addr {
	if o+16 > len(b) {
		return Addr{}
	}
	return Addr{be64(b[o:]), be64(b[o+8:])}
}

// bits reads width bits of a byte, shift bits from its lowest.
func (b cmBytes) bits(o int, shift, width uint8) uint8 {
	return b.u8(o) >> shift & (1<<width - 1)
}

func (b cmBytes) putBits(o int, shift, width, v uint8) {
	mask := byte(1<<width-1) << shift
	b[o] = b[o]&^mask | v<<shift&mask
}

// span returns the captured part of n bytes.
func (b cmBytes) span(o, n int) []byte {
	hi := min(o+n, len(b))
	if o >= hi {
		return nil
	}
	return b[o:hi:hi]
}

// tail returns the captured part of the message from o on.
func (b cmBytes) tail(o int) []byte { return b.span(o, madDataSize-o) }

func putGID(b []byte, a Addr) {
	put64(b[:8], a.Hi)
	put64(b[8:16], a.Lo)
}

func bit(on bool) uint8 {
	if on {
		return 1
	}
	return 0
}
