package iwarp

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

const (
	markerEvery = 512
	markerSize  = 4
	frameSize   = 20 // of a start-up frame without its private data
)

// FPDU is one FPDU of a stream.
type FPDU struct {
	Conn      *Connection
	Direction Direction
	Frame     uint64 // of the capture, in which its last byte came
	First     uint64 // … its first byte
	Time      int64  // of its last byte
	Began     int64
	Seq       uint32 // TCP sequence number of its length field, or of the marker in front of that
	End       uint32 // … behind its CRC
	ULPDU     int    // its length by the length field
	Data      []byte // the ULPDU without markers, as far as the capture has it
	Markers   int
	CRC       uint32             // as on the wire, read in network byte order
	Checked   dissect.ICRCStatus // the verdict on it: unchecked where the connection does not use it
	Whole     bool               // all of it was captured
}

// feed takes the next bytes of the stream. ends says that they end where their
// segment ends.
func (s *stream) feed(data []byte, seq uint32, time int64, num uint64, ends bool) {
	if s.skip > 0 {
		n := min(s.skip, len(data))
		s.skip -= n
		data, seq = data[n:], seq+uint32(n)
	}
	for len(data) > 0 {
		if len(s.buf) == 0 { // most often a frame is whole in its segment: nothing is copied
			s.at, s.from, s.first = seq, time, num
			n := s.frame(data, time, num, ends)
			if n > 0 {
				n = min(n, len(data))
				data, seq = data[n:], seq+uint32(n)
				continue
			}
			if !s.keep(data) {
				s.lostTrack(time, num)
			}
			return
		}
		n := len(data)
		if want := s.wants(); want > 0 {
			n = min(n, want)
		}
		if !s.keep(data[:n]) {
			s.lostTrack(time, num)
			return
		}
		data, seq = data[n:], seq+uint32(n)
		for len(s.buf) > 0 {
			used := s.frame(s.buf, time, num, ends && len(data) == 0)
			if used == 0 {
				break
			}
			used = min(used, len(s.buf))
			s.c.t.bytes -= used
			s.buf = append(s.buf[:0], s.buf[used:]...)
			s.at += uint32(used)
			s.from, s.first = time, num
		}
	}
}

// lostTrack goes on searching.
func (s *stream) lostTrack(time int64, num uint64) {
	s.c.Streams[s.d].Lost += uint64(len(s.buf))
	s.c.event(Event{Rule: Lost, Direction: s.d, Frame: num, Time: time, Args: [3]uint64{uint64(len(s.buf))}})
	s.drop()
	s.phase = searching
	s.doubt()
}

// wants is how many bytes are missing to what has begun; 0 where that is not
// known.
func (s *stream) wants() int {
	switch s.phase {
	case startUp:
		if len(s.buf) < frameSize {
			return frameSize - len(s.buf)
		}
		return max(0, frameSize+min(dissect.MPAFrame(s.buf).PrivateLen(), dissect.MaxMPAPrivate)-len(s.buf))
	case full:
		if size, ok := s.rawSize(s.buf); ok {
			return max(0, size-len(s.buf))
		}
		return max(1, s.headerAt(s.at)+2-len(s.buf))
	}
	return 0
}

// frame reads what begins at b, at sequence number s.at, and returns its length;
// 0 where more bytes are needed.
func (s *stream) frame(b []byte, time int64, num uint64, ends bool) int {
	if s.phase == startUp {
		if n, is := s.startUpFrame(b, time, num); is {
			return n
		}
		s.phase = searching // the capture began behind it
	}
	if s.phase == searching {
		if n := s.search(b, ends); n > 0 || s.phase == searching {
			return n
		}
	}
	size, ok := s.rawSize(b)
	if !ok || size > len(b) {
		return 0
	}
	s.tell(b[:size], size, time, num)
	return size
}

// headerAt is 4 where a marker stands in front of what begins at seq.
func (s *stream) headerAt(seq uint32) int {
	if s.markers && (seq-s.origin)%markerEvery == 0 {
		return markerSize
	}
	return 0
}

// rawSize is the length on the wire, with markers, of the FPDU that begins at b.
func (s *stream) rawSize(b []byte) (int, bool) {
	lead := s.headerAt(s.at)
	if lead+2 > len(b) {
		return 0, false
	}
	n := dissect.FPDUSize(int(binary.BigEndian.Uint16(b[lead:])))
	if !s.markers {
		return n, true
	}
	raw := 0
	for pos := int((s.at - s.origin) % markerEvery); n > 0; pos = 0 {
		if pos == 0 {
			raw, pos = raw+markerSize, markerSize
		}
		part := min(n, markerEvery-pos)
		raw, n = raw+part, n-part
	}
	return raw, true
}

// unmark returns the FPDU's bytes without markers, and how many of these there
// were. It looks at each of them.
func (s *stream) unmark(b []byte, time int64, num uint64) (plain []byte, markers int) {
	if !s.markers {
		return b, 0
	}
	s.c.t.plain = s.c.t.plain[:0]
	lead := s.headerAt(s.at)
	pos := int((s.at - s.origin) % markerEvery)
	for at := 0; at < len(b); pos = 0 {
		if pos == 0 {
			if at+markerSize > len(b) {
				break
			}
			markers++
			want := max(0, at-lead)
			if got := int(binary.BigEndian.Uint16(b[at+2:])); got != want {
				s.c.event(Event{Rule: Marker, Direction: s.d, Frame: num, Time: time, Args: [3]uint64{uint64(got), uint64(want)}})
			}
			at, pos = at+markerSize, markerSize
		}
		n := min(len(b)-at, markerEvery-pos)
		s.c.t.plain = append(s.c.t.plain, b[at:at+n]...)
		at += n
	}
	return s.c.t.plain, markers
}

// tell hands on the FPDU at b: all of its size bytes, or its beginning.
func (s *stream) tell(b []byte, size int, time int64, num uint64) {
	plain, markers := s.unmark(b, time, num)
	f := &s.c.t.fpdu
	*f = FPDU{
		Conn: &s.c.Connection, Direction: s.d, Frame: num, First: s.first, Time: time, Began: s.from,
		Seq: s.at, End: s.at + uint32(size), ULPDU: int(binary.BigEndian.Uint16(plain)), Markers: markers, Whole: len(b) == size,
	}
	f.Data = plain[2:min(2+f.ULPDU, len(plain))]
	if f.Whole {
		f.CRC = binary.BigEndian.Uint32(b[size-4:])
		if use := s.c.usesCRC(); use == yes || use == unknown && f.CRC != 0 {
			f.Checked = dissect.ICRCInvalid
			if binary.LittleEndian.Uint32(b[size-4:]) == dissect.FPDUCRC(b[:size-4]) {
				f.Checked = dissect.ICRCValid
			}
		}
	} else if s.c.usesCRC() == yes {
		f.Checked = dissect.ICRCNotCaptured
	}
	s.c.fpdu(s, f)
}

// tellCut hands on the FPDU in buf although its rest is missing, if its headers
// are there.
func (s *stream) tellCut(time int64, num uint64) {
	size, ok := s.rawSize(s.buf)
	lead := s.headerAt(s.at)
	if !ok || len(s.buf) < lead+4 {
		return
	}
	_, ok = dissect.FPDUAt(s.buf[lead:])
	info := dissect.DDP(s.buf[lead+2:]).Opcode().Info()
	if !ok || len(s.buf) < lead+2+info.Size+markerSize { // a marker may lie among the headers
		return
	}
	had := len(s.buf)
	s.tell(s.buf, size, time, num)
	s.drop()
	s.skip = size - had
}

// startUpFrame reads the MPA request or reply, if that is what begins at b.
func (s *stream) startUpFrame(b []byte, time int64, num uint64) (n int, is bool) {
	if len(b) < frameSize {
		return 0, true
	}
	h := dissect.MPAFrame(b)
	if !h.IsRequest() && !h.IsReply() {
		return 0, false
	}
	n = frameSize + min(h.PrivateLen(), dissect.MaxMPAPrivate)
	if n > len(b) {
		return 0, true
	}
	s.phase, s.originKnown, s.origin = full, true, s.at+uint32(n)
	s.c.started(s, h, b[frameSize:n], time, num)
	return n, true
}

// search looks for the beginning of an FPDU. What it returns is passed over; 0
// means that more bytes are needed to tell.
func (s *stream) search(b []byte, ends bool) int {
	if s.markers {
		return s.searchMarker(b)
	}
	at := 0
	if s.originKnown { // FPDUs are of four bytes each
		at = int(-(s.at - s.origin) & 3)
	}
	for ; at < len(b); at++ {
		if s.originKnown && (s.at+uint32(at)-s.origin)&3 != 0 {
			continue
		}
		n, ok := dissect.FPDUAt(b[at:])
		if !ok && len(b)-at >= 4 {
			continue
		}
		if !ok { // too few bytes to tell
			return s.pass(at, len(b))
		}
		size := dissect.FPDUSize(n)
		if at+size > len(b) {
			return s.pass(at, len(b))
		}
		if s.proves(b[at:], size, ends) {
			s.found(at)
			return at
		}
	}
	return len(b)
}

// pass is search's answer where bytes from at on may begin an FPDU.
func (s *stream) pass(at, n int) int {
	if at == 0 && n > maxSearched {
		return maxSearched / 2
	}
	return at
}

// proves reports whether what looks like an FPDU is one.
func (s *stream) proves(b []byte, size int, ends bool) bool {
	crc := binary.LittleEndian.Uint32(b[size-4:])
	if use := s.c.usesCRC(); use == yes || use == unknown && crc != 0 {
		return crc == dissect.FPDUCRC(b[:size-4])
	}
	if crc != 0 {
		return false
	}
	for b = b[size:]; len(b) >= 4; { // the next one must look like one too
		n, ok := dissect.FPDUAt(b)
		if !ok {
			return false
		}
		if size = dissect.FPDUSize(n); size > len(b) {
			return true
		}
		b = b[size:]
	}
	return ends && len(b) == 0
}

// searchMarker finds the beginning of an FPDU by the markers, which tell how
// far back it is.
func (s *stream) searchMarker(b []byte) int {
	for at := int(-(s.at - s.origin) & (markerEvery - 1)); at+markerSize <= len(b); at += markerEvery {
		back := int(binary.BigEndian.Uint16(b[at+2:]))
		begin := at - back
		if back > 0 {
			// A marker right in front of the length field belongs to the FPDU.
			if at-back-markerSize >= 0 && (s.at+uint32(begin-markerSize)-s.origin)%markerEvery == 0 {
				begin -= markerSize
			}
		}
		if begin < 0 {
			continue
		}
		lead := s.headerAt(s.at + uint32(begin))
		if begin+lead+4 > len(b) {
			return min(begin, len(b))
		}
		if _, ok := dissect.FPDUAt(b[begin+lead:]); ok {
			s.found(begin)
			return begin
		}
	}
	if len(b) > maxSearched {
		return len(b) - maxSearched/2
	}
	return 0
}

// found goes on with FPDUs, at bytes further on.
func (s *stream) found(at int) {
	s.phase = full
	s.doubt()
	s.c.Streams[s.d].Resyncs++
	if !s.originKnown && at == 0 {
		s.origin, s.originKnown = s.at, true
	}
}
