package flows

import "github.com/rocescope/rocescope/dissect"

// conn is the hot record of a connection: what nearly every packet needs, and
// no pointers. What only some connections need lies in extras.
type conn struct {
	id        uint32
	extras    uint32 // index in Tracker.extras; 0 = none
	transport dissect.Transport
	evidence  Evidence
	flags     connFlags
	why       uint32 // an inferred pair's reason: number in Tracker.reasons; 0 = none
	end       [2]endpoint
	half      [2]half   // by the direction of its requests
	stream    [2]stream // by direction
	firstNum  uint64    // its first frame
}

type connFlags uint16

const (
	connLive        connFlags = 1 << iota // the slot is in use
	connProvisional                       // its other side is still looked for: packets are held, nothing goes out
	connDisconnect                        // DREQ seen
	connClosed                            // DREP seen, or replaced by a newer connection of the same QPs
	connMidStart                          // began before the capture, as far as seen
	connNoHold                            // no use in looking for its other side
	connUsed                              // at least one packet of its own
	connSeeking                           // its other side is still looked for
	connDoubted                           // its pair was inferred, and does not hold
	connDetail                            // its extras have details
	connGhosts                            // its extras have had a ghost
	connUpper                             // its extras have an upper protocol
)

// endpoint is one queue pair. A connection whose other side is not known has
// qpn noSource there.
type endpoint struct {
	addr dissect.Addr
	qpn  uint32
	vlan int16
}

// eeContext marks, in an endpoint's qpn, an end-to-end context of RD: PSNs and
// acknowledgements of RD are the contexts', not the queue pairs' (IBA 9.8.1).
const eeContext = 1 << 25

// destination is the number that an endpoint has to which a packet goes.
func destination(p *dissect.Packet) uint32 {
	if p.Op().Transport == dissect.RD {
		return p.EEContext() | eeContext
	}
	return p.DestQP
}

func (e *endpoint) name() QPName {
	return QPName{Addr: e.addr, VLAN: int(e.vlan), QPN: e.qpn &^ eeContext}
}

// half is one requester's side of a connection: the requests that it sends and
// what their responder answers. PSNs are the requester's.
type half struct {
	flags     halfFlags
	maxSent   uint16      // most request packets unacknowledged at a time
	first     dissect.PSN // first request seen, or announced
	next      dissect.PSN // one behind the highest request seen
	acked     dissect.PSN // everything before it is acknowledged
	lastReq   int64       // time of the newest request, resends included
	reqFrame  uint64      // first request: the requester is in RTS
	respFrame uint64      // first answer: the responder is at least in RTR
	index     uint32      // messages begun
	head      uint32      // oldest open message in Tracker.open; 0 = none
	tail      uint32
	others    uint32         // counters of operations beside its stream's first, in Tracker.others
	msn       dissect.MSN    // when nothing was open last
	msnIndex  uint32         // index then
	prevOp    dissect.Opcode // of the newest request in order
	depth     uint8          // READs and atomics open
	maxDepth  uint8
	mtu       uint8 // path MTU codes 1…5, 0 unknown: the one in force | the one seen in use << 4
	openCount uint16
	maxOpen   uint16
}

type halfFlags uint16

const (
	halfRequests   halfFlags = 1 << iota // a request was seen
	halfResponses                        // an answer was seen
	halfResending                        // recovery.next is valid
	halfSpanOpen                         // the newest READ's span is not known for want of the MTU
	halfDead                             // a fatal NAK, or presumed retry exhaustion
	halfAckSeen                          // acked is from an answer
	halfMSN                              // msn is from an answer
	halfMidStart                         // began in the middle of a message
	halfAnnounced                        // first is from a handshake
	halfCopied                           // the newest request was taken for a copy, or may be one
	halfGuessedMTU                       // the MTU in force is what the PSN behind a READ suggests, no more
)

// recovery is what a requester that had to go back is at.
type recovery struct {
	next     dissect.PSN // with halfResending: what comes next if the running resend goes on
	cause    Cause       // of that resend
	copyNext dissect.PSN // with halfCopied: the PSN behind the newest request
	copied   bool        // with halfCopied: it was taken for a copy
	filled   bool        // that resend began with a packet that had been missing
	ended    int64       // when the last packet of the resend before was sent
	nak      lastNAK
	episode  episode
	rounds   uint16 // most times that one message was begun again
	timeouts silence
	late     psnRange // requests that came late, and what had passed them
	answers  psnRange // READ responses that came late
	implied  psnRange // what lies from a READ or atomic on that lacked its answer when one behind it came
	unsure   psnRange // what came again in a row, sent again or copied
	reads    psnRange // READs that were asked for again
}

// psnRange is a run of PSNs; to is not part of it.
type psnRange struct{ from, to dissect.PSN }

// maxApart is how far apart PSNs may lie to be remembered as one range.
const maxApart = 4096

// add makes a range hold the PSNs from one up to another, or begins it anew
// where they are far from it.
func (r *psnRange) add(from, to dissect.PSN) {
	if far := from.Sub(r.to); r.from == r.to || far > maxApart || far < -maxApart {
		r.from, r.to = from, to
		return
	}
	if from.Before(r.from) {
		r.from = from
	}
	if to.After(r.to) {
		r.to = to
	}
}

func (r *psnRange) has(p dissect.PSN) bool {
	return r.from != r.to && !p.Before(r.from) && p.Before(r.to)
}

// silence is how long requesters were seen to wait before they sent again
// unasked, in nanoseconds.
type silence struct {
	count    uint64
	min, max int64
}

func (s *silence) add(ns int64) {
	if s.count == 0 || ns < s.min {
		s.min = ns
	}
	s.max = max(s.max, ns)
	s.count++
}

// lastNAK is the newest NAK or RNR NAK. Its kind is nakNone once a resend has
// answered it.
type lastNAK struct {
	psn    dissect.PSN
	kind   nakKind
	behind bool // taken for a loss behind the tap
	two    bool // a sequence NAK was before it, and neither is answered
	timer  uint8
	time   int64
	frame  uint64
}

type nakKind uint8

const (
	nakNone nakKind = iota
	nakSequence
	nakRNR
)

// stream is what one direction has carried: the counters that nearly every
// stream needs. Rare ones are in extras.
type stream struct {
	packets   uint64
	bytes     uint64
	payload   uint64
	msgBytes  uint64
	messages  uint32 // of operation op
	completed uint32
	acks      uint32
	class     uint8  // 802.1p and MigReq of its first packet; 0 before it, CNPs not counted
	pkey      uint16 // of its first packet
	lastSeen  int64
	firstSeen int64
	ipidSeen  uint64 // bit i: the identification i before ipid was seen
	ipid      uint16 // newest IPv4 identification
	srcPort   uint16
	op        Operation
	dscp      uint8
	ipidRuns  uint8 // how surely the identification counts up
	flags     streamFlags
}

type streamFlags uint8

const (
	streamOp      streamFlags = 1 << iota // op is set
	streamSeen                            // a packet was seen
	streamAsked                           // its first SEND was looked at for an upper protocol
	streamForeign                         // its extras know of packets from elsewhere
)

// key returns the key of the stream in direction d: it goes to the other end.
func (c *conn) key(d Direction) streamKey {
	dst := &c.end[d.Reverse()]
	k := streamKey{dst: dst.addr, dstQPN: dst.qpn, vlan: dst.vlan, srcQPN: noSource}
	if c.transport == dissect.UD {
		k.src, k.srcQPN = c.end[d].addr, c.end[d].qpn
	}
	return k
}

func (c *conn) hasKey(d Direction, k *streamKey) bool {
	dst := &c.end[d.Reverse()]
	if dst.qpn != k.dstQPN || dst.addr != k.dst || dst.vlan != k.vlan {
		return false
	}
	if k.srcQPN == noSource {
		return c.transport != dissect.UD
	}
	return c.transport == dissect.UD && c.end[d].qpn == k.srcQPN && c.end[d].addr == k.src
}

// paired reports whether both queue pairs are known.
func (c *conn) paired() bool { return c.end[0].qpn != noSource && c.end[1].qpn != noSource }

// mtuBytes is the requester's path MTU, 0 where it is not known.
func (h *half) mtuBytes() int { return dissect.MTUBytes(h.mtu & 15) }

// mtuSeen is the path MTU that the requester's full packets show, 0 where none
// was seen.
func (h *half) mtuSeen() int { return dissect.MTUBytes(h.mtu >> 4) }

// setMTU notes the path MTU in force.
func (h *half) setMTU(code uint8) {
	h.mtu = h.mtu&0xF0 | code
	h.flags &^= halfGuessedMTU
}

// mtuCode is the reverse of dissect.MTUBytes, 0 for what is no path MTU.
func mtuCode(n int) uint8 {
	for code := uint8(1); code <= 5; code++ {
		if dissect.MTUBytes(code) == n {
			return code
		}
	}
	return 0
}
