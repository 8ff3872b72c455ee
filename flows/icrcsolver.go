package flows

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"
	"net/netip"

	"github.com/rocescope/rocescope/dissect"
)

// The ICRC solver: for a sender whose invariant CRCs are wrong, it computes
// them again with the usual mistakes and names the one that fits all of its
// bad packets.

const (
	maxICRCSenders = 64
	maxICRCSamples = 8    // bad packets kept of a sender
	maxICRCFrame   = 5000 // bytes of one
	wantICRCSolved = 2    // bad packets that a mistake must fit
)

// icrcSender is what is kept of a sender's bad packets.
type icrcSender struct {
	samples    []icrcSample
	bad        uint64
	firstFrame uint64
	firstTime  int64
}

// icrcSample is the part of a packet that the ICRC covers, split where the
// mistakes lie.
type icrcSample struct {
	layer dissect.Layer // LayerIPv4, LayerIPv6 or LayerGRH
	link  []byte        // what lies in front of it
	b     []byte        // from the network header to the last pad byte
	bth   int           // offset of the BTH in b
	pad   int
	rest  []byte // captured bytes behind the ICRC
	wire  uint32 // the ICRC as sent, read little-endian
}

// icrcMistake is a row of the table of usual mistakes.
type icrcMistake struct {
	name string
	sum  func(s *icrcSample) (crc uint32, ok bool)
}

// icrcMistakes is tried in order; what is simplest comes first.
var icrcMistakes = []icrcMistake{
	{"it is always zero", func(*icrcSample) (uint32, bool) { return 0, true }},
	{"its bytes are in the wrong order", func(s *icrcSample) (uint32, bool) { return bits.ReverseBytes32(s.right()), true }},
	{"its bits are in the wrong order", func(s *icrcSample) (uint32, bool) { return bits.Reverse32(s.right()), true }},
	{"its bits are in the wrong order within each byte", func(s *icrcSample) (uint32, bool) {
		return bits.ReverseBytes32(bits.Reverse32(s.right())), true
	}},
	{"the final inversion is left out", func(s *icrcSample) (uint32, bool) { return ^s.right(), true }},
	{"the eight bytes of ones in front are left out", func(s *icrcSample) (uint32, bool) { return crc32.ChecksumIEEE(s.masked()), true }},
	{"nothing is masked", func(s *icrcSample) (uint32, bool) { return withOnes(s.b), true }},
	{"masked fields are set to zeros, not to ones", func(s *icrcSample) (uint32, bool) { return withOnes(s.maskedWith(0)), true }},
	{"the pad is left out", func(s *icrcSample) (uint32, bool) {
		m := s.masked()
		return withOnes(m[:len(m)-s.pad]), s.pad > 0
	}},
	unmasked("the traffic class (DSCP and ECN) is not masked", dissect.LayerIPv4, 1, 2),
	unmasked("the time to live is not masked", dissect.LayerIPv4, 8, 9),
	unmasked("the IPv4 header checksum is not masked", dissect.LayerIPv4, 10, 12),
	unmasked("the traffic class and flow label are not masked", dissect.LayerIPv6, 0, 4),
	unmasked("the hop limit is not masked", dissect.LayerIPv6, 7, 8),
	{"the UDP checksum is not masked", func(s *icrcSample) (uint32, bool) {
		m := s.masked()
		copy(m[s.bth-2:s.bth], s.b[s.bth-2:s.bth])
		return withOnes(m), s.layer != dissect.LayerGRH
	}},
	{"FECN, BECN and the reserved bits beside them are not masked", func(s *icrcSample) (uint32, bool) {
		m := s.masked()
		m[s.bth+4] = s.b[s.bth+4]
		return withOnes(m), true
	}},
	{"the IP length was set before the four bytes of the ICRC were added", func(s *icrcSample) (uint32, bool) {
		return withOnes(s.lengths(-4, 0)), s.layer != dissect.LayerGRH
	}},
	{"the UDP length was set before the four bytes of the ICRC were added", func(s *icrcSample) (uint32, bool) {
		return withOnes(s.lengths(0, -4)), s.layer != dissect.LayerGRH
	}},
	{"the IP and UDP lengths were set before the four bytes of the ICRC were added", func(s *icrcSample) (uint32, bool) {
		return withOnes(s.lengths(-4, -4)), s.layer != dissect.LayerGRH
	}},
	{"it covers only what lies behind the UDP header", func(s *icrcSample) (uint32, bool) { return crc32.ChecksumIEEE(s.b[s.bth:]), true }},
	{"it covers only what lies behind the UDP header, ones in front", func(s *icrcSample) (uint32, bool) { return withOnes(s.masked()[s.bth:]), true }},
	{"the Ethernet header is included", func(s *icrcSample) (uint32, bool) {
		return crc32.ChecksumIEEE(append(append([]byte(nil), s.link...), s.b...)), len(s.link) > 0
	}},
	{"the link header is included behind the ones", func(s *icrcSample) (uint32, bool) {
		return withOnes(append(append([]byte(nil), s.link...), s.masked()...)), len(s.link) > 0
	}},
	{"the frame check sequence behind it is included", func(s *icrcSample) (uint32, bool) {
		return withOnes(append(s.masked(), s.rest...)), len(s.rest) > 0
	}},
	{"the polynomial is that of CRC-32C", func(s *icrcSample) (uint32, bool) {
		return crc32.Checksum(append(eightOnes(), s.masked()...), crc32.MakeTable(crc32.Castagnoli)), true
	}},
}

// unmasked is the mistake of leaving b[lo:hi] of the network header as sent.
func unmasked(name string, l dissect.Layer, lo, hi int) icrcMistake {
	return icrcMistake{name, func(s *icrcSample) (uint32, bool) {
		m := s.masked()
		copy(m[lo:hi], s.b[lo:hi])
		same := s.layer == l || l == dissect.LayerIPv6 && s.layer == dissect.LayerGRH
		return withOnes(m), same
	}}
}

func eightOnes() []byte {
	return []byte{0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}
}

// withOnes is the CRC of b with the eight bytes of ones in front.
func withOnes(b []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(eightOnes()), crc32.IEEETable, b)
}

func (s *icrcSample) masked() []byte { return s.maskedWith(0xFF) }

// right is the ICRC as it should be.
func (s *icrcSample) right() uint32 { return withOnes(s.masked()) }

// maskedWith returns a copy of the packet with the variant fields replaced.
func (s *icrcSample) maskedWith(v byte) []byte {
	m := append([]byte(nil), s.b...)
	if s.layer == dissect.LayerIPv4 {
		m[1], m[8], m[10], m[11] = v, v, v, v
	} else {
		m[0] = m[0]&0xF0 | v&0x0F
		m[1], m[2], m[3], m[7] = v, v, v, v
	}
	if s.layer != dissect.LayerGRH {
		m[s.bth-2], m[s.bth-1] = v, v
	}
	m[s.bth+4] = v
	return m
}

// lengths returns the masked packet with other lengths in the IP and UDP
// headers.
func (s *icrcSample) lengths(ip, udp int) []byte {
	m := s.masked()
	at := 4 // IPv6 payload length
	if s.layer == dissect.LayerIPv4 {
		at = 2
	}
	for _, f := range [...]struct{ at, by int }{{at, ip}, {s.bth - 4, udp}} {
		binary.BigEndian.PutUint16(m[f.at:], uint16(int(binary.BigEndian.Uint16(m[f.at:]))+f.by))
	}
	return m
}

// rewritten finds the value that four bytes of the packet must have had for
// the ICRC to be right: the CRC of packets of one length is linear, and four
// bytes reach every CRC exactly once.
func (s *icrcSample) rewritten(at int) uint32 {
	m := s.masked()
	want := withOnes(m) ^ s.wire
	zero := make([]byte, len(m)-at)
	base := crc32.ChecksumIEEE(zero)
	var rows [32]struct{ out, in uint32 } // a basis of the reachable differences
	for bit := range 32 {
		zero[bit/8] = 1 << (bit % 8)
		out, in := crc32.ChecksumIEEE(zero)^base, uint32(1)<<(bit/8*8+bit%8)
		zero[bit/8] = 0
		for out != 0 {
			top := bits.Len32(out) - 1
			if rows[top].out == 0 {
				rows[top].out, rows[top].in = out, in
				break
			}
			out, in = out^rows[top].out, in^rows[top].in
		}
	}
	var change uint32
	for want != 0 {
		r := rows[bits.Len32(want)-1]
		if r.out == 0 {
			break
		}
		want, change = want^r.out, change^r.in
	}
	return binary.LittleEndian.Uint32(m[at:]) ^ change // of the bytes in wire order
}

// keepICRC keeps a bad packet for the solver.
func (t *Tracker) keepICRC(p *dissect.Packet, frame []byte) {
	s := t.icrcSenders[p.Src]
	if s == nil {
		if len(t.icrcSenders) >= maxICRCSenders {
			return
		}
		s = &icrcSender{firstFrame: p.Number, firstTime: p.Time}
		t.icrcSenders[p.Src] = s
	}
	s.bad++
	if len(s.samples) >= maxICRCSamples || len(frame) > maxICRCFrame {
		return
	}
	for _, l := range [...]dissect.Layer{dissect.LayerIPv4, dissect.LayerIPv6, dissect.LayerGRH} {
		if !p.Has(l) {
			continue
		}
		lo, at := p.Offset(l), p.Offset(dissect.LayerICRC)
		if at+dissect.ICRCSize > len(frame) || at < lo {
			return
		}
		c := append([]byte(nil), frame...)
		s.samples = append(s.samples, icrcSample{
			layer: l, link: c[:lo], b: c[lo:at], bth: p.Offset(dissect.LayerBTH) - lo, pad: int(p.PadCount),
			rest: c[at+dissect.ICRCSize:], wire: binary.LittleEndian.Uint32(c[at:]),
		})
		return
	}
}

// solve names the mistake that fits all of a sender's bad packets, "" where
// none does.
func (s *icrcSender) solve(known func(dissect.Addr) bool) string {
	if len(s.samples) < wantICRCSolved {
		return ""
	}
	for _, m := range icrcMistakes {
		fits := true
		for i := range s.samples {
			crc, ok := m.sum(&s.samples[i])
			if !ok || crc != s.samples[i].wire {
				fits = false
				break
			}
		}
		if fits {
			return m.name
		}
	}
	return s.solveRewritten(known)
}

// solveRewritten looks for a header field that was rewritten on the way, as by
// network address translation. A change of one field of four bytes can always
// be put on another one at a fixed distance, so the CRC alone does not tell
// which it was: ports are believed where the destination port was RoCE's,
// addresses where the capture knows the host, else both are named.
func (s *icrcSender) solveRewritten(known func(dissect.Addr) bool) string {
	if !s.lengthsDiffer() {
		return "" // among packets of one length any constant error looks like that
	}
	ports := s.samples[0].bth - 8
	source, ok1 := s.before(12)
	destination, ok2 := s.before(16)
	udp, ok3 := s.before(ports)
	if !ok1 || !ok2 || !ok3 {
		return ""
	}
	if port := binary.BigEndian.Uint16(udp[2:]); port == dissect.PortRoCEv2 {
		return fmt.Sprintf("the UDP source port was rewritten on the way: it was computed for port %d", binary.BigEndian.Uint16(udp[:]))
	}
	src, dst := netip.AddrFrom4(source), netip.AddrFrom4(destination)
	switch s, d := known(dissect.AddrFrom(src)), known(dissect.AddrFrom(dst)); {
	case s && !d:
		return fmt.Sprintf("the source address was rewritten on the way: it was computed for %v", src)
	case d && !s:
		return fmt.Sprintf("the destination address was rewritten on the way: it was computed for %v", dst)
	}
	return fmt.Sprintf("an address was rewritten on the way: it was computed for source %v, or for destination %v", src, dst)
}

func (s *icrcSender) lengthsDiffer() bool {
	for i := range s.samples {
		if len(s.samples[i].b) != len(s.samples[0].b) {
			return true
		}
	}
	return false
}

// before returns the four bytes that made all of the sender's ICRCs right; ok
// is false where no single value does, or the packets are not IPv4.
func (s *icrcSender) before(at int) (b [4]byte, ok bool) {
	value := s.samples[0].rewritten(at)
	for i := range s.samples {
		if o := &s.samples[i]; o.layer != dissect.LayerIPv4 || o.bth != s.samples[0].bth || o.rewritten(at) != value {
			return b, false
		}
	}
	binary.LittleEndian.PutUint32(b[:], value)
	return b, true
}

// solveICRCs reports the senders whose mistake is known.
func (t *Tracker) solveICRCs() {
	hosts := map[dissect.Addr]bool{}
	for w := range t.ways {
		hosts[w.from], hosts[w.to] = true, true
	}
	known := func(a dissect.Addr) bool { return hosts[a] }
	for addr, s := range t.icrcSenders {
		if why := s.solve(known); why != "" {
			t.addFinding(&Finding{ID: findICRCSolved, Frame: s.firstFrame, Time: s.firstTime, Count: 1, Args: [4]uint64{s.bad}, Where: addr.String(), Detail: why})
		}
	}
}
