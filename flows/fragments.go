package flows

import (
	"encoding/binary"

	"github.com/rocescope/rocescope/dissect"
)

// fragments puts IP datagrams together that came in fragments (RFC 791, 3.2;
// RFC 8200, 4.5). RoCE v2 packets are not to be fragmented, but the tunnels
// around them may be. The memory is bounded; the oldest datagram gives way.
type fragments struct {
	open    []datagram
	bytes   int
	decoder dissect.Decoder
	packet  dissect.Packet
	frame   []byte
}

const (
	maxDatagrams      = 64
	maxDatagramBytes  = 8 << 20
	maxFragmentsOfOne = 1024
)

// fragmentKey names a datagram.
type fragmentKey struct {
	src, dst dissect.Addr
	id       uint32
	proto    uint8
}

type datagram struct {
	key   fragmentKey
	time  int64  // of its first fragment seen
	head  []byte // the frame up to the data, as it would be of the whole datagram
	ip    int    // where the IP header is in it
	total int    // bytes of data, -1 while the last fragment is missing
	parts []part
	size  int
}

type part struct {
	at   int
	data []byte
}

// fragment is one fragment taken apart.
type fragment struct {
	key  fragmentKey
	head []byte
	ip   int
	part
	more bool // others follow it
}

// reassembly is how long a datagram may take (RFC 8200, 4.5).
const reassembly = 60e9

// add takes a fragment. With the last one missing it returns the datagram,
// decoded, and its frame; both are good until the next call.
func (s *fragments) add(p *dissect.Packet, frame []byte) (*dissect.Packet, []byte) {
	f, ok := fragmentOf(p, frame)
	if !ok {
		return nil, nil
	}
	d := s.of(f.key, p.Time)
	if len(d.parts) >= maxFragmentsOfOne {
		return nil, nil
	}
	for _, q := range d.parts {
		if f.at < q.at+len(q.data) && q.at < f.at+len(f.data) {
			return nil, nil // overlaps: the first one holds
		}
	}
	if f.at == 0 {
		d.head, d.ip = append([]byte(nil), f.head...), f.ip
	}
	if !f.more {
		d.total = f.at + len(f.data)
	}
	d.parts = append(d.parts, part{f.at, append([]byte(nil), f.data...)})
	d.size += len(f.data)
	s.bytes += len(f.data)
	if d.total < 0 || d.head == nil || d.size < d.total {
		for s.bytes > maxDatagramBytes && len(s.open) > 1 {
			s.drop(0)
		}
		return nil, nil
	}
	return s.whole(p, d)
}

// of returns the datagram of a key, a new one at need.
func (s *fragments) of(k fragmentKey, now int64) *datagram {
	for i := range s.open {
		if s.open[i].key != k {
			continue
		}
		if now-s.open[i].time <= reassembly {
			return &s.open[i]
		}
		s.drop(i) // its identification is used again
		break
	}
	if len(s.open) >= maxDatagrams {
		s.drop(0)
	}
	s.open = append(s.open, datagram{key: k, time: now, total: -1})
	return &s.open[len(s.open)-1]
}

func (s *fragments) drop(i int) {
	s.bytes -= s.open[i].size
	s.open = append(s.open[:i], s.open[i+1:]...)
}

// whole builds the frame of a complete datagram and decodes it.
func (s *fragments) whole(last *dissect.Packet, d *datagram) (*dissect.Packet, []byte) {
	s.frame = append(s.frame[:0], d.head...)
	data := len(s.frame)
	s.frame = append(s.frame, make([]byte, d.total)...)
	for _, q := range d.parts {
		if q.at+len(q.data) <= d.total {
			copy(s.frame[data+q.at:], q.data)
		}
	}
	h := s.frame[d.ip:]
	if h[0]>>4 == 4 {
		binary.BigEndian.PutUint16(h[2:], uint16(min(len(h), 0xFFFF)))
		binary.BigEndian.PutUint16(h[6:], binary.BigEndian.Uint16(h[6:])&0xC000)
	} else {
		binary.BigEndian.PutUint16(h[4:], uint16(min(len(h)-40, 0xFFFF)))
	}
	for i := range s.open {
		if &s.open[i] == d {
			s.drop(i)
			break
		}
	}
	w := &s.packet
	*w = dissect.Packet{Number: last.Number, Time: last.Time, Base: last.Base, Prev: last.Prev, Iface: last.Iface, Direction: last.Direction}
	s.decoder.CheckICRC = true
	s.decoder.Decode(last.Link, s.frame, len(s.frame), w)
	return w, s.frame
}

// fragmentOf takes a fragment apart; ok is false where the capture cut it.
func fragmentOf(p *dissect.Packet, frame []byte) (f fragment, ok bool) {
	if h := p.IPv4(frame); h != nil {
		f.ip = p.Offset(dissect.LayerIPv4)
		lo, hi := f.ip+h.HeaderLen(), f.ip+int(h.TotalLen())
		if lo >= hi || hi > len(frame) {
			return f, false
		}
		f.key = fragmentKey{p.Src, p.Dst, uint32(h.ID()), h.Protocol()}
		f.head, f.more, f.part = frame[:lo], h.MoreFragments(), part{h.FragOffset(), frame[lo:hi]}
		return f, true
	}
	h := p.IPv6(frame)
	if h == nil {
		return f, false
	}
	f.ip = p.Offset(dissect.LayerIPv6)
	off, end := f.ip+40, f.ip+40+int(h.PayloadLen())
	nextAt := f.ip + 6 // where the number of the fragment header stands
	for kind, x := range p.IPv6Extensions(frame) {
		if kind != dissect.ExtFragment {
			nextAt, off = off, off+len(x)
			continue
		}
		if off+8 >= end || end > len(frame) {
			break
		}
		g := dissect.IPv6Fragment(x)
		f.key = fragmentKey{p.Src, p.Dst, g.ID(), x.NextHeader()}
		f.head = append([]byte(nil), frame[:off]...)
		f.head[nextAt] = x.NextHeader()
		f.more, f.part = g.More(), part{g.Offset(), frame[off+8 : end]}
		return f, true
	}
	return f, false
}
