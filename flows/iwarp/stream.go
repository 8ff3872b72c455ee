package iwarp

import "github.com/rocescope/rocescope/dissect"

// stream is one direction of a TCP connection: its bytes in order, and where
// MPA's frames are in them.
type stream struct {
	c *conn
	d Direction

	known bool
	next  uint32 // sequence number of the first byte not yet taken
	acked uint32 // what the other side has acknowledged, valid with isAcked
	held  []segment
	holds int // bytes of held

	phase  phase
	buf    []byte // what has begun and waits for its rest, from sequence number at on
	at     uint32
	skip   int    // bytes of a frame already told that are still to come
	origin uint32 // where full operation began: markers count from here
	from   int64  // when the frame in buf began
	first  uint64 // … and in which frame of the capture

	isAcked, originKnown, markers bool
	over                          bool // Terminate was sent
	queues
}

// phase is what a stream carries at the moment.
type phase uint8

const (
	startUp   phase = iota // the MPA request or reply
	full                   // FPDUs
	searching              // somewhere among FPDUs
)

// segment is TCP data behind a hole.
type segment struct {
	seq  uint32
	miss int // bytes at its end that the capture cut off
	data []byte
	time int64
	num  uint64
}

const (
	maxHeldSegments = 256
	maxHeldBytes    = 512 << 10
	maxSearched     = 160 << 10 // two of the largest FPDUs with their markers
)

func (s *stream) init(c *conn, d Direction) { s.c, s.d = c, d }

// arrive takes a packet's data.
func (s *stream) arrive(seq uint32, data []byte, miss int, p *dissect.Packet) {
	if !s.known {
		s.known, s.next = true, seq
	}
	if behind := int32(s.next - seq); behind < 0 {
		s.hold(segment{seq, miss, data, p.Time, p.Number})
		s.release(p)
		return
	}
	s.take(segment{seq, miss, data, p.Time, p.Number})
	s.release(p)
}

// take takes a segment that is in order, or that was seen before.
func (s *stream) take(g segment) {
	behind := int(int32(s.next - g.seq))
	total := len(g.data) + g.miss
	if behind >= total {
		if total > 0 {
			s.c.Streams[s.d].Again++
		}
		return
	}
	if behind > 0 {
		s.c.Streams[s.d].Again++
	}
	data := g.data[min(behind, len(g.data)):]
	miss := total - behind - len(data)
	s.next += uint32(len(data))
	s.feed(data, s.next-uint32(len(data)), g.time, g.num, miss == 0)
	if miss > 0 {
		s.lack(miss, g.time, g.num, true)
		s.next += uint32(miss)
	}
}

// hold keeps a segment until the hole before it is filled or given up.
func (s *stream) hold(g segment) {
	for i := range s.held {
		if s.held[i].seq == g.seq && len(s.held[i].data) >= len(g.data) {
			s.c.Streams[s.d].Again++
			return
		}
	}
	for len(s.held) > 0 && (len(s.held) >= maxHeldSegments || s.holds+len(g.data) > maxHeldBytes || !s.c.t.room(len(g.data))) {
		s.giveUp(g.time, g.num)
		if int32(s.next-g.seq) >= 0 {
			s.take(g)
			return
		}
	}
	g.data = append([]byte(nil), g.data...)
	s.held = append(s.held, g)
	s.holds += len(g.data)
	s.c.t.bytes += len(g.data)
}

// release takes what was held and is in order now, and what the other side has
// acknowledged: then the capture lacks what is missing.
func (s *stream) release(p *dissect.Packet) {
	for len(s.held) > 0 {
		i, ok := s.ready()
		if !ok {
			if at := s.held[s.lowest()].seq; !s.isAcked || int32(s.acked-at) < 0 {
				return
			}
			s.giveUp(p.Time, p.Number)
			continue
		}
		s.takeHeld(i)
	}
}

func (s *stream) takeHeld(i int) {
	g := s.held[i]
	last := len(s.held) - 1
	s.held[i] = s.held[last]
	s.held[last] = segment{}
	s.held = s.held[:last]
	s.holds -= len(g.data)
	s.c.t.bytes -= len(g.data)
	s.take(g)
}

func (s *stream) ready() (int, bool) {
	for i := range s.held {
		if int32(s.next-s.held[i].seq) >= 0 {
			return i, true
		}
	}
	return 0, false
}

func (s *stream) lowest() (at int) {
	for i := range s.held {
		if int32(s.held[i].seq-s.held[at].seq) < 0 {
			at = i
		}
	}
	return at
}

// giveUp goes on behind the hole before the first held segment.
func (s *stream) giveUp(time int64, num uint64) {
	i := s.lowest()
	hole := int(s.held[i].seq - s.next)
	s.lack(hole, time, num, false)
	s.next = s.held[i].seq
	s.takeHeld(i)
}

// lack passes over bytes that the capture does not have, cut off their segment
// or not captured at all. Where they lie in one FPDU whose headers are known,
// nothing else is lost.
func (s *stream) lack(n int, time int64, num uint64, cut bool) {
	s.c.Streams[s.d].Lost += uint64(n)
	if !cut {
		s.c.event(Event{Rule: Lost, Direction: s.d, Frame: num, Time: time, Args: [3]uint64{uint64(n)}})
	}
	if s.phase == full && s.skip == 0 && len(s.buf) > 0 {
		s.tellCut(time, num)
	}
	if s.phase == full && s.skip >= n {
		s.skip -= n
		return
	}
	s.phase = searching
	s.doubt()
	s.drop()
	s.skip = 0
}

// missing reports whether the capture lacks bytes of the stream, as far as that
// is known: it does too where the other side has acknowledged more than was seen.
func (s *stream) missing() bool {
	return s.c.Streams[s.d].Lost > 0 || s.isAcked && s.known && int32(s.acked-s.next) > 0
}

// drop forgets what has begun.
func (s *stream) drop() {
	s.c.t.bytes -= len(s.buf)
	s.buf = s.buf[:0]
}

// keep adds to what has begun; false where there is no room.
func (s *stream) keep(data []byte) bool {
	if !s.c.t.room(len(data)) {
		return false
	}
	s.buf = append(s.buf, data...)
	s.c.t.bytes += len(data)
	return true
}

// room reports whether n more bytes may wait.
func (t *Tracker) room(n int) bool { return t.bytes+n <= t.opt.MaxBytes }

// letGo gives back what the stream holds.
func (s *stream) letGo() {
	s.drop()
	s.buf = nil
	for i := range s.held {
		s.c.t.bytes -= len(s.held[i].data)
	}
	s.held, s.holds = nil, 0
}
