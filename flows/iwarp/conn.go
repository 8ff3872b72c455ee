package iwarp

import "github.com/rocescope/rocescope/dissect"

// Direction is one of a connection's two.
type Direction uint8

// The directions: A is the initiator, who connects.
const (
	AToB Direction = iota
	BToA
)

// Connection is an iWARP connection and what became of it.
type Connection struct {
	ID         uint32
	A, B       End // A is the initiator, as far as known
	VLAN       int // -1 without a tag
	FirstFrame uint64
	First      int64
	Last       int64
	Packets    uint64
	Request    SetUp // what the initiator asked for
	Reply      SetUp // what the responder answered
	CRC        bool  // CRCs are used
	Terminated bool  // by a Terminate message
	Error      dissect.Terminated
	Closed     bool // FIN or RST was seen
	Streams    [2]Stream
}

// SetUp is an MPA start-up frame.
type SetUp struct {
	Seen     bool
	Revision uint8
	Markers  bool // its sender wants to receive markers
	CRC      bool
	Rejected bool
	Enhanced bool // IRD and ORD are told
	Peer     bool // peer to peer: the initiator sends an RTR message
	IRD, ORD uint16
	Private  int // bytes of private data
}

// Stream is one direction. Messages are those asked for by who sends in it.
type Stream struct {
	FPDUs    uint64
	Payload  uint64 // bytes that messages carried
	Again    uint64 // TCP segments that brought nothing new
	Lost     uint64 // bytes that the capture lacks
	Resyncs  uint64 // times that FPDUs had to be found
	BadCRC   uint64
	Markers  uint64
	Messages [NumOps]Count
	Latency  Latency
	MaxReads int // READs and atomics open at a time
}

// Count are the messages of one operation.
type Count struct{ Count, Bytes, Done uint64 }

// conn is a connection with what following it needs.
type conn struct {
	Connection
	t            *Tracker
	key          key
	newer, older *conn
	streams      [2]stream
	begins       [2]uint32 // sequence numbers of the start-up frames
	spoke        bool      // the initiator sent an FPDU
}

// renewed reports whether a packet with a start-up request is that of another
// connection between the same ports.
func (c *conn) renewed(src End, p *dissect.Packet) bool {
	if src != c.A {
		return false
	}
	far := int32(p.TCPSeq - c.streams[AToB].next)
	return far > 1<<24 || far < -1<<24
}

// reborn reports whether a SYN begins another connection between the same ports.
func (c *conn) reborn(src End, p *dissect.Packet) bool {
	d := c.directionOf(src)
	return p.TCPFlags&dissect.TCPSyn != 0 && c.streams[d].known && p.TCPSeq+1 != c.begins[d]
}

func (c *conn) directionOf(src End) Direction {
	if src == c.A {
		return AToB
	}
	return BToA
}

func (c *conn) packet(src End, p *dissect.Packet, frame []byte) {
	d := c.directionOf(src)
	s, o := &c.streams[d], &c.streams[1-d]
	c.Last = p.Time
	c.Packets++
	if n := p.PayloadLen(); n > 0 {
		if !s.known {
			c.begins[d] = p.TCPSeq
		}
		data := p.Payload(frame)
		s.arrive(p.TCPSeq, data, n-len(data), p)
	}
	if p.TCPFlags&dissect.TCPAck != 0 {
		o.acknowledge(p.TCPAck, p)
	}
	if p.TCPFlags&(dissect.TCPFin|dissect.TCPRst) != 0 {
		c.Closed = true
	}
}

// acknowledge takes the other side's word on how far it has this stream.
func (s *stream) acknowledge(ack uint32, p *dissect.Packet) {
	if s.isAcked && int32(ack-s.acked) <= 0 {
		return
	}
	s.acked, s.isAcked = ack, true
	if len(s.held) > 0 {
		s.release(p)
	}
	n := 0
	for ; n < len(s.sent) && int32(ack-s.sent[n].end) >= 0; n++ {
		m := &s.sent[n].Message
		m.Done, m.Answer, m.Status = p.Time, p.Number, Done
		s.c.emit(s.d, m)
	}
	if n > 0 {
		s.sent = s.sent[:copy(s.sent, s.sent[n:])]
	}
}

type tristate uint8

const (
	unknown tristate = iota
	yes
	no
)

// usesCRC says whether CRCs are used: when either side wants them (RFC 5044,
// 7.1.1).
func (c *conn) usesCRC() tristate {
	switch {
	case c.Request.Seen && c.Request.CRC, c.Reply.Seen && c.Reply.CRC:
		return yes
	case c.Request.Seen && c.Reply.Seen:
		return no
	}
	return unknown
}

// started takes a start-up frame.
func (c *conn) started(s *stream, h dissect.MPAFrame, private []byte, time int64, num uint64) {
	u := SetUp{
		Seen: true, Revision: h.Revision(), Markers: h.Markers(), CRC: h.CRC(), Rejected: h.Reject(),
		Enhanced: h.Revision() >= 2 && h.Enhanced(), Private: h.PrivateLen(),
	}
	if u.Enhanced && len(private) >= 4 {
		e := dissect.MPAEnhanced(private)
		u.IRD, u.ORD, u.Peer = e.IRD(), e.ORD(), e.PeerToPeer()
	}
	broken := func(what StartUpFault, more ...uint64) {
		e := Event{Rule: StartUp, Direction: s.d, Frame: num, Time: time, Args: [3]uint64{uint64(what)}}
		copy(e.Args[1:], more)
		c.event(e)
	}
	request := h.IsRequest()
	switch {
	case h.PrivateLen() > dissect.MaxMPAPrivate:
		broken(PrivateTooLong, uint64(h.PrivateLen()))
	case u.Revision < 1 || u.Revision > 2:
		broken(BadRevision, uint64(u.Revision))
	case h.Reserved() != 0 || u.Revision == 1 && h.Enhanced():
		broken(ReservedSet, uint64(h[16]))
	case request && u.Rejected:
		broken(RequestRejects)
	case u.Enhanced && len(private) < 4:
		broken(EnhancedShort, uint64(len(private)))
	case request != (s.d == AToB):
		broken(WrongSide)
	case !request && c.Request.Seen && u.Revision > c.Request.Revision && !u.Rejected:
		broken(RevisionAbove, uint64(u.Revision), uint64(c.Request.Revision))
	}
	c.streams[1-s.d].markers = u.Markers
	if request {
		c.Request = u
	} else {
		c.Reply = u
		if u.Rejected {
			c.event(Event{Rule: Rejected, Direction: s.d, Frame: num, Time: time})
		} else if q := c.Request; q.Enhanced && u.Enhanced && u.ORD > q.IRD && u.ORD != openDepth && q.IRD != openDepth {
			c.event(Event{Rule: Depths, Direction: s.d, Frame: num, Time: time, Args: [3]uint64{uint64(u.ORD), uint64(q.IRD)}})
		}
	}
	c.CRC = c.usesCRC() == yes
}

// openDepth is an IRD or ORD that the sender leaves open (RFC 6581, 4.1).
const openDepth = 0x3FFF

// readLimit is how many READs may be open in a direction; 0 where it is not
// known.
func (c *conn) readLimit(d Direction) int {
	u := c.Reply // who serves what the initiator asks for
	if d == BToA {
		u = c.Request
	}
	if !u.Enhanced || u.IRD == openDepth {
		return 0
	}
	return int(u.IRD)
}

func (c *conn) event(e Event) {
	e.Conn = &c.Connection
	if c.t.opt.Sink.Event != nil {
		c.t.opt.Sink.Event(&e)
	}
}

// finish tells what is still open, and gives back what the connection holds.
func (c *conn) finish() {
	for d := range c.streams {
		s := &c.streams[d]
		for len(s.held) > 0 {
			i := s.lowest()
			s.giveUp(s.held[i].time, s.held[i].num)
		}
		s.end()
		s.letGo()
	}
}

func (c *conn) record() Connection {
	r := c.Connection
	for d := range r.Streams {
		r.Streams[d].Latency.settle()
	}
	return r
}
