package dissect

// madSize is the length of every management datagram (IBA 13.4.2).
const madSize = 256

// Management classes (IBA 13.4.4).
const (
	ClassCM = 0x07
)

// MAD is the common header of a management datagram and its data (IBA 13.4.2).
type MAD []byte

// Class returns the management class.
func (h MAD) Class() uint8 { return h[1] }

// Method returns the method.
func (h MAD) Method() uint8 { return h[3] }

// Status returns the status.
func (h MAD) Status() uint16 { return be16(h[4:]) }

// TransactionID returns the transaction identifier.
func (h MAD) TransactionID() uint64 { return be64(h[8:]) }

// Attribute returns the attribute identifier.
func (h MAD) Attribute() uint16 { return be16(h[16:]) }

// MAD returns the view of the frame's management datagram, header and captured
// data, nil without one.
func (p *Packet) MAD(frame []byte) MAD {
	if !p.Has(LayerMAD) {
		return nil
	}
	return p.Payload(frame)
}

func (c *cursor) mad(off int) {
	if int(c.p.payloadLen) != madSize {
		c.p.note(ProblemMAD, off)
	}
	if c.p.payloadLen < 24 || !c.has(LayerMAD, off, 24) {
		return
	}
}

var madFields = []Field{}
var cmFields = []Field{}
