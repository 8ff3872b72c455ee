package index

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/flows"
)

// Entry is what the index itself knows of a packet, without its bytes.
type Entry struct {
	Number    uint64 // 1 = the first frame of the capture
	Time      int64  // nanoseconds since the Unix epoch
	Prev      int64  // Time of the frame before
	Offset    int64  // of its bytes, in what holds them
	WireLen   uint32
	CapLen    uint32
	Iface     uint16
	NoTime    bool
	Direction captures.Direction
	Mark      flows.Mark
}

// blockLen is how many packets a block has: few enough that to get at any one
// of them costs a few microseconds.
const blockLen = 256

// block is a run of packets. Each is written as what differs from the one before
// it, or from the one before it in its stream.
type block struct {
	start entryState
	code  []byte
}

// entryState is what the next packet is compared with.
type entryState struct {
	end    int64 // of the bytes of the packet before
	time   int64
	gap    int32 // between the bytes of two packets: the file format's headers
	conn   uint32
	iface  uint16
	padded bool // gaps count from the next multiple of four, as in pcapng
}

// slot remembers the last packet of a stream, within a block.
type slot struct {
	bits, psn, message uint32
	round              uint16
}

const numSlots = 64

func slotOf(m *flows.Mark) uint32 { return (m.Conn<<1 | uint32(m.Direction)) % numSlots }

// What is written of a packet only where it is not as one thinks.
const (
	codeIface = 1 << iota // another interface than the packet before
	codeCut               // not as long as on the wire
	codeNoTime
	codeIn
	codeOut
	codeGap  // another gap
	codeConn // another connection
	codeRound
)

func (s *entryState) from() int64 {
	if s.padded {
		return (s.end + 3) &^ 3
	}
	return s.end
}

// step takes over a packet.
func (s *entryState) step(e *Entry) {
	s.end, s.time, s.conn, s.iface = e.Offset+int64(e.CapLen), e.Time, e.Mark.Conn, e.Iface
}

// maxEntry is more bytes than a packet ever takes: its code and ten numbers, of which
// three may have 64 bits.
const maxEntry = 80

// appendEntry writes a packet.
func appendEntry(dst []byte, s *entryState, slots *[numSlots]slot, e *Entry) []byte {
	m := &e.Mark
	gap := e.Offset - s.from()
	last := &slots[slotOf(m)]
	var code byte
	if e.Iface != s.iface {
		code |= codeIface
	}
	if e.CapLen != e.WireLen {
		code |= codeCut
	}
	if e.NoTime {
		code |= codeNoTime
	}
	switch e.Direction {
	case captures.In:
		code |= codeIn
	case captures.Out:
		code |= codeOut
	}
	if gap != int64(s.gap) {
		code |= codeGap
	}
	if m.Conn != s.conn {
		code |= codeConn
	}
	if m.Round != last.round {
		code |= codeRound
	}
	dst = append(dst, code)
	dst = binary.AppendUvarint(dst, uint64(e.CapLen))
	dst = binary.AppendVarint(dst, e.Time-s.time)
	if code&codeIface != 0 {
		dst = binary.AppendUvarint(dst, uint64(e.Iface))
	}
	if code&codeCut != 0 {
		dst = binary.AppendVarint(dst, int64(e.WireLen)-int64(e.CapLen))
	}
	if code&codeGap != 0 {
		dst = binary.AppendVarint(dst, gap)
		s.gap = int32(gap)
		if gap != int64(s.gap) {
			s.gap = 0 // out of proportion: not to be expected again
		}
	}
	// The direction and a connection's number go first: they choose the slot.
	if code&codeConn != 0 {
		dst = binary.AppendVarint(dst, int64(m.Conn)-int64(s.conn))
	}
	dst = binary.AppendUvarint(dst, uint64(uint32(m.Bits)^last.bits)<<1|uint64(m.Direction))
	if m.Bits&flows.MarkPSN != 0 {
		dst = binary.AppendVarint(dst, int64(m.PSNOffset)-int64(last.psn))
		last.psn = m.PSNOffset
	}
	if m.Bits&flows.MarkMessage != 0 {
		dst = binary.AppendVarint(dst, int64(m.Message)-int64(last.message))
		last.message = m.Message
	}
	if code&codeRound != 0 {
		dst = binary.AppendUvarint(dst, uint64(m.Round))
	}
	last.bits, last.round = uint32(m.Bits), m.Round
	s.step(e)
	return dst
}

// scanner reads the packets of a block one after the other.
type scanner struct {
	state entryState
	slots [numSlots]slot
	code  []byte
}

func (s *scanner) reset(b *block) {
	s.state, s.code = b.start, b.code
	clear(s.slots[:])
}

func (s *scanner) uvarint() uint64 {
	if v := s.code[0]; v < 0x80 {
		s.code = s.code[1:]
		return uint64(v)
	}
	v, n := binary.Uvarint(s.code)
	s.code = s.code[n:]
	return v
}

func (s *scanner) varint() int64 {
	v := s.uvarint()
	return int64(v>>1) ^ -int64(v&1)
}

// next reads a packet, all but its number. It must not be called behind the last.
func (s *scanner) next(e *Entry) {
	st := &s.state
	code := s.code[0]
	s.code = s.code[1:]
	e.CapLen = uint32(s.uvarint())
	e.Prev = st.time
	e.Time = st.time + s.varint()
	e.Iface = st.iface
	if code&codeIface != 0 {
		e.Iface = uint16(s.uvarint())
	}
	e.WireLen = e.CapLen
	if code&codeCut != 0 {
		e.WireLen = uint32(int64(e.CapLen) + s.varint())
	}
	e.NoTime = code&codeNoTime != 0
	e.Direction = captures.InOut
	switch {
	case code&codeIn != 0:
		e.Direction = captures.In
	case code&codeOut != 0:
		e.Direction = captures.Out
	}
	gap := int64(st.gap)
	if code&codeGap != 0 {
		gap = s.varint()
		st.gap = int32(gap)
		if gap != int64(st.gap) {
			st.gap = 0
		}
	}
	e.Offset = st.from() + gap
	m := &e.Mark
	m.Conn = st.conn
	if code&codeConn != 0 {
		m.Conn = uint32(int64(st.conn) + s.varint())
	}
	bits := s.uvarint()
	m.Direction = flows.Direction(bits & 1)
	last := &s.slots[slotOf(m)]
	m.Bits = flows.MarkBits(uint32(bits>>1) ^ last.bits)
	m.PSNOffset, m.Message = 0, 0
	if m.Bits&flows.MarkPSN != 0 {
		last.psn = uint32(int64(last.psn) + s.varint())
		m.PSNOffset = last.psn
	}
	if m.Bits&flows.MarkMessage != 0 {
		last.message = uint32(int64(last.message) + s.varint())
		m.Message = last.message
	}
	m.Round = last.round
	if code&codeRound != 0 {
		m.Round = uint16(s.uvarint())
	}
	last.bits, last.round = uint32(m.Bits), m.Round
	st.step(e)
}
