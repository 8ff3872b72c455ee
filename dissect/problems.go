package dissect

// ProblemCode says what is wrong with a frame.
type ProblemCode uint8

// The problems. Those up to ProblemIPCut come from the capture's snap length
// and are no fault of the sender.
const (
	ProblemNone          ProblemCode = iota
	ProblemCut                       // the capture kept fewer bytes than the header needs
	ProblemLinkType                  // a link type that is not decoded
	ProblemShort                     // the frame ends inside a header
	ProblemIPVersion                 // IP version nibble does not fit the EtherType
	ProblemIPHeader                  // IPv4 header length below 20 or beyond the packet
	ProblemIPLength                  // IP length beyond the frame
	ProblemUDPLength                 // UDP length does not fit the IP length
	ProblemFragment                  // IP fragment: the transport is not whole
	ProblemExtensionLoop             // VLAN tags or IPv6 extension headers without end
	ProblemNextHeader                // GRH next header is not InfiniBand transport
	ProblemTVer                      // transport header version is not 0
	ProblemOpcode                    // opcode that no text defines
	ProblemPad                       // pad count larger than what is left for the payload
	ProblemNoICRC                    // no room for the invariant CRC
	ProblemPayload                   // payload where the opcode allows none, or not the one length it allows
	ProblemMAD                       // management datagram is not 256 bytes
	ProblemPauseFrame                // pause frame cut short or with reserved bits set
	numProblems
)

var problemText = [numProblems]string{
	ProblemNone:          "no problem",
	ProblemCut:           "cut by the capture's snap length",
	ProblemLinkType:      "link type not supported",
	ProblemShort:         "frame ends inside a header",
	ProblemIPVersion:     "bad IP version",
	ProblemIPHeader:      "bad IPv4 header length",
	ProblemIPLength:      "IP length beyond the end of the frame",
	ProblemUDPLength:     "UDP length does not fit the IP length",
	ProblemFragment:      "IP fragment",
	ProblemExtensionLoop: "too many VLAN tags or IPv6 extension headers",
	ProblemNextHeader:    "GRH next header is not InfiniBand",
	ProblemTVer:          "transport header version is not 0",
	ProblemOpcode:        "reserved opcode",
	ProblemPad:           "pad count exceeds the payload",
	ProblemNoICRC:        "too short for an invariant CRC",
	ProblemPayload:       "payload length not allowed for this opcode",
	ProblemMAD:           "management datagram is not 256 bytes",
	ProblemPauseFrame:    "malformed pause frame",
}

func (c ProblemCode) String() string {
	if c < numProblems {
		return problemText[c]
	}
	return "unknown problem"
}

// Malformed reports whether the problem is the frame's own, not the
// capture's.
func (c ProblemCode) Malformed() bool {
	return c != ProblemNone && c != ProblemCut && c != ProblemLinkType && c != ProblemFragment
}

// Problem is one thing that is wrong with a frame, and where.
type Problem struct {
	Code   ProblemCode
	Offset uint16 // in the frame, of the header or field concerned; the frame's end where that lies beyond
}

// problemHeadersCut marks, in Packet.problems, that the BTH or an extension
// header is not whole.
const problemHeadersCut = 0x80

// note records a problem; beyond maxProblems the last place is overwritten.
func (p *Packet) note(c ProblemCode, offset int) {
	n := p.problems & 0x7F
	if n == maxProblems {
		n--
	}
	p.problem[n] = Problem{c, uint16(min(offset, int(p.WireLen), 0xFFFF))}
	p.problems = p.problems&problemHeadersCut | (n + 1)
}

// Problems returns what is wrong with the frame, in the order found.
func (p *Packet) Problems() []Problem { return p.problem[:p.problems&0x7F] }

// Malformed reports whether anything is wrong that is the frame's own fault.
func (p *Packet) Malformed() bool {
	for _, q := range p.Problems() {
		if q.Code.Malformed() {
			return true
		}
	}
	return false
}
