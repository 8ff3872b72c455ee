package iwarp

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// queues is where a stream's messages are.
type queues struct {
	untagged [4]untagged
	write    tagged
	answer   tagged   // of a READ that the other side sent
	reads    []asked  // READs and atomics sent in this direction, not answered yet
	sent     []ending // messages that TCP has not acknowledged yet
	begun    uint32   // messages that began
}

type untagged struct {
	msn     uint32 // of the message that is open, or of the one before
	started bool
	open    bool
	unsure  bool // bytes are missing: what comes next need not follow what was before
	Message
}

type tagged struct {
	open   bool
	unsure bool
	late   bool // its beginning may be missing
	Message
}

// doubt notes that bytes are missing.
func (q *queues) doubt() {
	q.write.unsure, q.answer.unsure = true, true
	for i := range q.untagged {
		q.untagged[i].unsure = true
	}
}

type asked struct {
	id uint32 // of an atomic
	Message
}

type ending struct {
	end uint32 // sequence number behind its last byte
	Message
}

const (
	maxAsked = 4096
	maxSent  = 4096
)

// fpdu takes the next FPDU of a stream.
func (c *conn) fpdu(s *stream, f *FPDU) {
	st := &c.Streams[s.d]
	st.FPDUs++
	st.Markers += uint64(f.Markers)
	if c.t.opt.Sink.FPDU != nil {
		c.t.opt.Sink.FPDU(f)
	}
	if f.Checked == dissect.ICRCInvalid {
		st.BadCRC++
		s.doubt()
		c.event(Event{Rule: CRC, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(f.ULPDU)}})
		return
	}
	if fault := headerFault(f.Data, f.ULPDU); fault != 0 {
		e := Event{Rule: Header, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(fault)}}
		if len(f.Data) >= 2 {
			e.Args[1] = uint64(f.Data[0])<<8 | uint64(f.Data[1])
		}
		c.event(e)
		s.doubt()
		if f.Checked != dissect.ICRCValid {
			s.phase = searching
		}
		return
	}
	if s.over {
		c.event(Event{Rule: AfterTerminate, Direction: s.d, Frame: f.Frame, Time: f.Time})
	}
	if s.d == AToB {
		c.spoke = true
	} else if !c.spoke && c.Request.Seen && c.Reply.Seen && !c.streams[AToB].missing() {
		c.spoke = true // told once
		c.event(Event{Rule: SpokeFirst, Direction: s.d, Frame: f.Frame, Time: f.Time})
	}
	h := dissect.DDP(f.Data)
	if int(h.Size()) > len(f.Data) {
		return
	}
	switch h.Opcode() {
	case dissect.RDMAPWrite:
		s.writes(f, h)
	case dissect.RDMAPReadResponse:
		s.answers(f, h)
	default:
		s.queued(f, h)
	}
}

// joins adds a segment to the message that it goes on with.
func (s *stream) joins(m *Message, f *FPDU, h dissect.DDP) {
	n := uint64(f.ULPDU - h.Size())
	m.Length += n
	m.Seen += n
	m.Wire += uint64(f.End - f.Seq)
	m.Segments++
	m.Last, m.Sent = f.Frame, f.Time
	s.c.Streams[s.d].Payload += n
}

// continues begins or continues a tagged message, and calls it broken where the
// segment does not fit what went before.
func (s *stream) continues(g *tagged, f *FPDU, h dissect.DDP) {
	switch want := g.Offset + g.Length; {
	case !g.open:
		g.Message = Message{
			Op: opOf[h.Opcode()], Opcode: h.Opcode(), Direction: s.d, STag: h.STag(), Offset: h.TO(), First: f.First, Begun: f.Began,
		}
		if g.Op == Write {
			g.Index = s.begin()
		}
		g.open, g.late = true, g.unsure
	case h.STag() == g.STag && h.TO() == want:
	case g.unsure && (h.STag() != g.STag || h.TO() < want): // another message
		g.Status = Incomplete
		if g.Op == Write {
			s.c.emit(s.d, &g.Message)
		}
		g.open = false
		s.continues(g, f, h)
		return
	default:
		if !g.unsure {
			s.c.event(Event{Rule: Segment, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(h.Opcode()), h.TO(), want}})
		}
		g.Status = Incomplete
		if h.STag() == g.STag && h.TO() > g.Offset {
			g.Length = h.TO() - g.Offset
		}
	}
	g.unsure = false
	s.joins(&g.Message, f, h)
}

func (s *stream) writes(f *FPDU, h dissect.DDP) {
	g := &s.write
	s.continues(g, f, h)
	if h.Last() {
		g.open = false
		if g.late {
			g.Status = Incomplete
		}
		s.settle(&g.Message, f)
	}
}

// answers takes a segment of a READ Response: they come in the order of the
// requests (RFC 5040, 5.2).
func (s *stream) answers(f *FPDU, h dissect.DDP) {
	g := &s.answer
	s.continues(g, f, h)
	if !h.Last() {
		return
	}
	g.open = false
	o := &s.c.streams[1-s.d]
	i := 0
	for i < len(o.reads) && (o.reads[i].Op != Read || !g.answers(&o.reads[i].Message)) {
		i++
	}
	switch {
	case i == len(o.reads):
		if g.Status != Incomplete && !g.late && s.c.Request.Seen && !s.c.missing() {
			s.c.event(Event{Rule: ReadResponse, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(g.STag), g.Offset, g.Length}})
		}
		return
	case i > 0 && !s.c.missing():
		s.c.event(Event{Rule: ReadOrder, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(g.STag), g.Offset, uint64(i)}})
	}
	r := &o.reads[i].Message
	r.Wire += g.Wire
	r.Segments, r.Seen, r.Answer, r.Done, r.Status = g.Segments, g.Seen, f.Frame, f.Time, Done
	if g.Status == Incomplete || g.Length != r.Length {
		r.Status = Incomplete
	}
	s.c.emit(o.d, r)
	o.answered(i)
}

func (c *conn) missing() bool { return c.streams[0].missing() || c.streams[1].missing() }

// answers reports whether a response goes where the request asked it to go.
func (g *tagged) answers(r *Message) bool {
	if g.STag != r.SinkSTag {
		return false
	}
	if g.Status == Incomplete || g.late {
		return g.Offset >= r.SinkOffset && g.Offset+g.Length <= r.SinkOffset+r.Length
	}
	return g.Offset == r.SinkOffset && g.Length == r.Length
}

func (s *stream) answered(i int) {
	s.reads = append(s.reads[:i], s.reads[i+1:]...)
}

// queued takes a segment of an untagged message.
func (s *stream) queued(f *FPDU, h dissect.DDP) {
	g := &s.untagged[h.QN()]
	judged := !g.unsure
	g.unsure = false
	if g.open && h.MSN() != g.msn {
		if judged {
			s.c.event(Event{Rule: Segment, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(h.Opcode()), uint64(h.MO()), g.Length}})
		}
		g.Status = Incomplete
		s.c.emit(s.d, &g.Message)
		g.open = false
	}
	if !g.open {
		next := g.msn + 1
		if judged && (g.started || s.c.Request.Seen && !s.missing()) && h.MSN() != next {
			s.c.event(Event{Rule: MSN, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(h.QN()), uint64(h.MSN()), uint64(next)}})
		}
		g.Message = Message{
			Op: opOf[h.Opcode()], Opcode: h.Opcode(), Direction: s.d, MSN: h.MSN(), First: f.First, Begun: f.Began,
		}
		if !g.isAnswer() {
			g.Index = s.begin()
		}
		if g.Invalidates() {
			g.Invalidate = h.STag()
		}
		g.open, g.started, g.msn = true, true, h.MSN()
		if h.MO() != 0 && !judged {
			g.Status = Incomplete
			g.Length = uint64(h.MO())
		}
	}
	if uint64(h.MO()) != g.Length {
		if judged {
			s.c.event(Event{Rule: Segment, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(h.Opcode()), uint64(h.MO()), g.Length}})
		}
		g.Status = Incomplete
		g.Length = uint64(h.MO())
	}
	s.joins(&g.Message, f, h)
	if !h.Last() {
		return
	}
	g.open = false
	body := f.Data[h.Size():]
	switch h.Opcode() {
	case dissect.RDMAPReadRequest:
		if len(body) >= 28 {
			q := dissect.RDMAPRead(body)
			g.STag, g.Offset, g.SinkSTag, g.SinkOffset, g.Length, g.Seen = q.SourceSTag(), q.SourceTO(), q.SinkSTag(), q.SinkTO(), uint64(q.Length()), 0
			s.asks(asked{Message: g.Message}, f)
		}
	case dissect.RDMAPAtomicRequest:
		if len(body) >= 20 {
			q := dissect.RDMAPAtomic(body)
			g.STag, g.Offset, g.Length, g.Seen = q.STag(), q.TO(), 8, 0
			g.Atomic.Operation = q.Operation()
			switch cut := len(body) < 52; {
			case cut: // the capture ends before the operands
			case g.Atomic.Operation == 0:
				g.Atomic.Add = q.Data()
			case g.Atomic.Operation == 2:
				g.Atomic.Swap, g.Atomic.Compare = q.Data(), q.Compare()
			}
			s.asks(asked{q.ID(), g.Message}, f)
		}
	case dissect.RDMAPAtomicResponse:
		s.atomicAnswer(f, body)
	case dissect.RDMAPTerminate:
		s.terminates(f, h)
		s.settle(&g.Message, f)
	default:
		if g.Op == Immediate && len(body) >= 8 {
			for _, b := range body[:8] {
				g.Immediate = g.Immediate<<8 | uint64(b)
			}
		}
		s.settle(&g.Message, f)
	}
}

// asks notes a READ or atomic that waits for its answer.
func (s *stream) asks(q asked, f *FPDU) {
	if len(s.reads) >= maxAsked {
		s.c.emit(s.d, &s.reads[0].Message)
		s.answered(0)
	}
	s.reads = append(s.reads, q)
	st := &s.c.Streams[s.d]
	st.MaxReads = max(st.MaxReads, len(s.reads))
	if limit := s.c.readLimit(s.d); limit > 0 && len(s.reads) > limit && !s.c.missing() {
		s.c.event(Event{Rule: ReadDepth, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(len(s.reads)), uint64(limit)}})
	}
}

func (s *stream) atomicAnswer(f *FPDU, body []byte) {
	if len(body) < 12 {
		return
	}
	id := binary.BigEndian.Uint32(body)
	o := &s.c.streams[1-s.d]
	for i := range o.reads {
		if o.reads[i].Op == Atomic && o.reads[i].id == id {
			r := &o.reads[i].Message
			r.Wire += uint64(f.End - f.Seq)
			r.Seen, r.Answer, r.Done, r.Status = 8, f.Frame, f.Time, Done
			r.Atomic.Original, r.Atomic.Answered = binary.BigEndian.Uint64(body[4:]), true
			s.c.emit(o.d, r)
			o.answered(i)
			return
		}
	}
	if s.c.Request.Seen && !s.c.missing() {
		s.c.event(Event{Rule: ReadResponse, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{0, uint64(id), 8}})
	}
}

func (s *stream) terminates(f *FPDU, h dissect.DDP) {
	s.over = true
	if len(f.Data) < h.Size()+2 {
		return
	}
	s.c.Terminated, s.c.Error = true, h.Terminated()
	s.c.event(Event{Rule: Terminated, Direction: s.d, Frame: f.Frame, Time: f.Time, Args: [3]uint64{uint64(h.Terminated())}})
}

// settle lets a message wait for its acknowledgement.
func (s *stream) settle(m *Message, f *FPDU) {
	if m.Status == Incomplete {
		s.c.emit(s.d, m)
		return
	}
	if s.isAcked && int32(s.acked-f.End) >= 0 { // the acknowledgement came first
		m.Status, m.Done, m.Answer = Done, f.Time, f.Frame
		s.c.emit(s.d, m)
		return
	}
	if len(s.sent) >= maxSent {
		s.c.emit(s.d, &s.sent[0].Message)
		s.sent = s.sent[:copy(s.sent, s.sent[1:])]
	}
	s.sent = append(s.sent, ending{f.End, *m})
}

// end tells what is still open.
func (s *stream) end() {
	for i := range s.sent {
		s.c.emit(s.d, &s.sent[i].Message)
	}
	for i := range s.reads {
		s.c.emit(s.d, &s.reads[i].Message)
	}
	s.sent, s.reads = nil, nil
	for i := range s.untagged {
		if g := &s.untagged[i]; g.open {
			g.open, g.Status = false, Incomplete
			s.c.emit(s.d, &g.Message)
		}
	}
	if s.write.open {
		s.write.open, s.write.Status = false, Incomplete
		s.c.emit(s.d, &s.write.Message)
	}
}

// begin counts a message, and returns its number.
func (s *stream) begin() uint32 {
	s.begun++
	return s.begun - 1
}

// emit hands a message on.
func (c *conn) emit(d Direction, m *Message) {
	if m.isAnswer() {
		return
	}
	n := &c.Streams[d].Messages[m.Op]
	n.Count++
	n.Bytes += m.Length
	if m.Status == Done {
		n.Done++
		c.Streams[d].Latency.add(m.Done - m.Begun)
	}
	if c.t.opt.Sink.Message != nil {
		m.Conn = &c.Connection
		c.t.opt.Sink.Message(m)
	}
}
