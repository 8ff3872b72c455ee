package flows

// socketStream is one direction of a TCP connection: its bytes put in order,
// and searched for texts.
type socketStream struct {
	first    uint32 // sequence number of its first byte, as far as known
	next     uint32 // … and of the first one not yet seen
	known    bool   // these two are
	fromSYN  bool   // first is the beginning of the stream
	finished bool   // FIN was seen

	late     []lateSegment // behind a hole that may yet be filled
	lateSize int

	quiet  int        // bytes since the last text, or since the beginning
	texts  uint32     // texts seen
	last   socketText // the last one, and whether the one before was the same
	again  bool
	start  [16]byte // the stream's first bytes
	nstart uint8
	before [2]byte // the two bytes before carry
	mtu    int8    // perftest's path MTU code; 0 unknown

	held []byte // of a messageFormat's stream: the beginning of its next message

	ncarry uint8
	carry  [maxText - 1]byte // the beginning of what may be a text
}

type lateSegment struct {
	seq  uint32
	data []byte
}

const (
	maxLateSegments = 8
	maxLateBytes    = 4 << 10
)

// place is where a segment lies in a stream.
type place uint8

const (
	inOrder place = iota
	seenBefore
	behindHole
)

// begin notes where the stream begins, unless some of it was read already.
func (s *socketStream) begin(seq uint32) {
	if !s.known {
		s.first, s.next, s.known, s.fromSYN = seq, seq, true, true
	}
}

// place says where data at seq belongs, and returns what of it is new.
func (s *socketStream) place(seq uint32, data []byte) (place, []byte) {
	switch d := int32(s.next - seq); {
	case d < 0:
		return behindHole, data
	case int(d) >= len(data):
		return seenBefore, nil
	default:
		return inOrder, data[d:]
	}
}

// keep holds a segment until the hole before it is filled; false if there is
// no more room, or it was held already.
func (s *socketStream) keep(seq uint32, data []byte) bool {
	if len(s.late) >= maxLateSegments || s.lateSize+len(data) > maxLateBytes {
		return false
	}
	for i := range s.late {
		if s.late[i].seq == seq && len(s.late[i].data) >= len(data) {
			return true
		}
	}
	s.late = append(s.late, lateSegment{seq, append([]byte(nil), data...)})
	s.lateSize += len(data)
	return true
}

// ready takes out a kept segment that is in order now.
func (s *socketStream) ready() (data []byte, ok bool) {
	for i := 0; i < len(s.late); i++ {
		where, data := s.place(s.late[i].seq, s.late[i].data)
		if where == behindHole {
			continue
		}
		s.lateSize -= len(s.late[i].data)
		s.late[i] = s.late[len(s.late)-1]
		s.late[len(s.late)-1] = lateSegment{}
		s.late = s.late[:len(s.late)-1]
		if where == inOrder {
			return data, true
		}
		i--
	}
	if len(s.late) == 0 {
		s.late = nil
	}
	return nil, false
}

// skip gives the hole up: the stream goes on at the first byte known behind
// it.
func (s *socketStream) skip(seq uint32) {
	for i := range s.late {
		if int32(s.late[i].seq-seq) < 0 {
			seq = s.late[i].seq
		}
	}
	s.next = seq
	s.cut()
}

// cut forgets a text that has begun, and what was before: a text can not go
// over a hole.
func (s *socketStream) cut() {
	s.ncarry, s.again, s.last = 0, false, socketText{}
	s.before = [2]byte{}
}

// release gives back what a stream that is no longer read may hold.
func (s *socketStream) release() {
	s.late, s.lateSize, s.ncarry, s.held = nil, 0, 0, nil
}

// scan reads data, the next bytes of the stream, up to the end of the first
// text in it. It returns the rest.
func (s *socketStream) scan(data []byte) (t socketText, found bool, rest []byte) {
	if n := len(s.start) - int(s.nstart); n > 0 && s.fromSYN {
		s.nstart += uint8(copy(s.start[s.nstart:], data))
	}
	if s.ncarry > 0 { // a text may have begun before data
		var b [2*maxText - 2]byte
		old := int(s.ncarry)
		n := copy(b[:], s.carry[:old])
		n += copy(b[n:n+min(len(data), maxText-1)], data)
		i, f, more := s.sniff(b[:n], old)
		switch {
		case f != noText:
			return s.text(f, b[i:]), true, data[max(i+len(textShapes[f])-old, 0):]
		case more: // and data is used up
			s.ncarry = uint8(copy(s.carry[:], b[i:n]))
			return t, false, nil
		}
		s.ncarry = 0
	}
	i, f, more := s.sniff(data, len(data))
	switch {
	case f != noText:
		return s.text(f, data[i:]), true, data[i+len(textShapes[f]):]
	case more:
		s.ncarry = uint8(copy(s.carry[:], data[i:]))
	}
	return t, false, nil
}

// sniff looks for a text that begins in the first limit bytes of b. It moves
// before along.
func (s *socketStream) sniff(b []byte, limit int) (i int, f textForm, more bool) {
	for i = range limit {
		if hexDigit[b[i]] >= 0 { // the first byte of every text
			if f, more = sniffText(b[i:]); f != noText || more {
				return i, f, more
			}
		}
		s.before[0], s.before[1] = s.before[1], b[i]
		s.quiet++
	}
	return limit, noText, false
}

func (s *socketStream) text(f textForm, b []byte) socketText {
	s.ncarry, s.quiet = 0, 0
	if f == textDone {
		s.before = [2]byte{}
		return socketText{form: f}
	}
	if s.texts == 0 && s.fromSYN && f.perftest() {
		s.mtu = perftestMTU(s.start, s.before)
	}
	s.before = [2]byte{}
	s.texts++
	return parseText(f, b)
}
