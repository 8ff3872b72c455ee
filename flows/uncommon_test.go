package flows

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// wrapIP puts a frame into UDP or another protocol over IPv4, byte by byte.
func wrapIP(proto byte, header, inner []byte) []byte {
	b := append([]byte{2, 0, 0, 0, 9, 2, 2, 0, 0, 0, 9, 1, 8, 0}, 0x45, 0, 0, 0, 0, 0, 0, 0, 64, proto, 0, 0, 192, 168, 0, 1, 192, 168, 0, 2)
	b = append(append(b, header...), inner...)
	binary.BigEndian.PutUint16(b[16:], uint16(len(b)-14))
	return b
}

func vxlan(vni byte, inner []byte) []byte {
	h := []byte{0xC0, 0, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, vni, 0}
	binary.BigEndian.PutUint16(h[4:], uint16(len(inner)+16))
	return wrapIP(17, h, inner)
}

// erspan2 is a mirror's copy: GRE with a sequence number, ERSPAN type II.
func erspan2(inner []byte) []byte {
	return wrapIP(47, []byte{0x10, 0, 0x88, 0xBE, 0, 0, 0, 7, 0x10, 0x64, 0, 5, 0, 0, 0, 1}, inner)
}

func framed(f testkit.Frame, data []byte) testkit.Frame {
	f.Data, f.WireLen = data, len(data)
	return f
}

// brief is what is compared of two ways to capture the same traffic.
func (s *seen) brief() (lines []string) {
	for i := range s.Connections {
		c := &s.Connections[i]
		for d := range c.Streams {
			st := &c.Streams[d]
			lines = append(lines, fmt.Sprintf("%v %v %#x-%#x packets %d payload %d resent %d duplicates %d acks %d", c.Transport, Direction(d), c.A.QPN, c.B.QPN, st.Packets, st.PayloadBytes, st.RetransmittedPackets, st.NetworkDuplicates, st.Acks))
		}
	}
	for i := range s.messages {
		m := &s.messages[i]
		lines = append(lines, fmt.Sprintf("%v %d %v %d", m.Op, m.Bytes, m.Status, m.Resends))
	}
	return append(lines, fmt.Sprint(s.Protocols.CM, s.Protocols.CNP, s.grave()))
}

func lossy() []testkit.Frame {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	begun(x)
	sendAll(x, 3000, 10, 5000)
	m := x.A.Write(3000) // the last packet gets lost behind the tap, and is sent again
	x.Wait(50 * ms)
	m.ResendFrom(2)
	x.B.Answer(m)
	return x.Frames()
}

func TestCapturedTwice(t *testing.T) {
	frames := lossy()
	want := look(frames).brief()
	for name, wrap := range map[string]func([]byte) []byte{
		"VXLAN": func(b []byte) []byte { return vxlan(9, b) }, "ERSPAN": erspan2,
		"VXLAN in ERSPAN": func(b []byte) []byte { return erspan2(vxlan(9, b)) },
	} {
		t.Run(name, func(t *testing.T) {
			var alone, after, before []testkit.Frame
			for _, f := range frames {
				alone = append(alone, framed(f, wrap(f.Data)))
				after = append(after, f, framed(f, wrap(f.Data)))
				before = append(before, framed(f, wrap(f.Data)), f)
			}
			s := look(alone)
			if got := s.brief(); !slices.Equal(got, want) || s.finding("seen_twice") != nil || s.Mirrored != 0 {
				t.Errorf("in the tunnel only:\n%v\nwant\n%v", got, want)
			}
			for when, both := range map[string][]testkit.Frame{"outside first": after, "inside first": before} {
				s := look(both)
				if got := s.brief(); !slices.Equal(got, want) {
					t.Errorf("%s:\n%v\nwant\n%v", when, got, want)
				}
				if f := s.finding("seen_twice"); f == nil || s.Mirrored != uint64(len(frames)) || s.Packets != uint64(len(both)) {
					t.Errorf("%s: %d of %d packets captured twice, %v", when, s.Mirrored, s.Packets, f)
				}
			}
		})
	}
}

// A mirror that begins later, and one more tunnel.
func TestCapturedTwiceInPart(t *testing.T) {
	frames := lossy()
	want := look(frames).brief()
	var both []testkit.Frame
	for i, f := range frames {
		both = append(both, f)
		if i > len(frames)/2 {
			both = append(both, framed(f, vxlan(9, f.Data)), framed(f, erspan2(f.Data)))
		}
	}
	if got := look(both).brief(); !slices.Equal(got, want) {
		t.Errorf("%v\nwant\n%v", got, want)
	}
}

// fragments4 cuts a frame's IPv4 packet into fragments of at most n bytes.
func fragments4(frame []byte, n int) (all [][]byte) {
	data := frame[34:]
	for at := 0; at < len(data); at += n {
		part := data[at:min(at+n, len(data))]
		b := append(slices.Clone(frame[:34]), part...)
		binary.BigEndian.PutUint16(b[16:], uint16(20+len(part)))
		v := uint16(at/8) | binary.BigEndian.Uint16(frame[20:])&0x4000 // the ICRC covers "don't fragment"
		if at+n < len(data) {
			v |= 0x2000
		}
		binary.BigEndian.PutUint16(b[20:], v)
		all = append(all, b)
	}
	return all
}

// fragments6 is the same over IPv6.
func fragments6(frame []byte, n int) (all [][]byte) {
	data := frame[54:]
	if len(data) <= n {
		return [][]byte{frame}
	}
	for at := 0; at < len(data); at += n {
		part := data[at:min(at+n, len(data))]
		b := slices.Clone(frame[:54])
		b[20] = 44
		v := uint16(at)
		if at+n < len(data) {
			v |= 1
		}
		b = append(b, frame[20], 0, byte(v>>8), byte(v), 0, 0, 0, byte(len(frame)))
		b = append(b, part...)
		binary.BigEndian.PutUint16(b[18:], uint16(8+len(part)))
		all = append(all, b)
	}
	return all
}

func TestFragments(t *testing.T) {
	for _, c := range []struct {
		name string
		ipv6 bool
		cut  func([]byte) [][]byte
	}{
		{"IPv4", false, func(b []byte) [][]byte { return fragments4(b, 512) }},
		{"IPv6", true, func(b []byte) [][]byte { return fragments6(b, 512) }},
		{"a tunnel's packets", false, func(b []byte) [][]byte { return fragments4(vxlan(3, b), 800) }},
	} {
		x := testkit.NewExchange(testkit.ExchangeOptions{IPv6: c.ipv6})
		begun(x)
		sendAll(x, 3000, 10, 5000)
		frames := x.Frames()
		want := look(frames).brief()
		var in, out []testkit.Frame
		id := uint16(1)
		for _, f := range frames {
			parts := c.cut(f.Data)
			if !c.ipv6 {
				id++
				for _, b := range parts { // as a tunnel would number them
					if len(parts) > 1 && c.name != "IPv4" {
						binary.BigEndian.PutUint16(b[18:], id)
					}
				}
			}
			for _, b := range parts {
				in = append(in, framed(f, b))
			}
			slices.Reverse(parts)
			for _, b := range parts {
				out = append(out, framed(f, b))
			}
		}
		for when, all := range map[string][]testkit.Frame{"in order": in, "backwards": out} {
			if got := look(all).brief(); !slices.Equal(got, want) {
				t.Errorf("%s, %s:\n%v\nwant\n%v", c.name, when, got, want)
			}
		}
		if len(in) < len(frames)+5 {
			t.Errorf("%s: nothing is fragmented", c.name)
		}
		// With a fragment missing its packet is, and nothing else happens.
		s := look(in[:len(in)-1])
		if s.tracker.fragments.bytes > maxDatagramBytes {
			t.Error("too much is held")
		}
	}
}

// The fragments that are held are bounded, whatever comes.
func TestFragmentsAreBounded(t *testing.T) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	begun(x)
	frame := x.Frames()[8].Data
	var frames []testkit.Frame
	for i := range 5000 {
		b := fragments4(vxlan(1, append(slices.Clone(frame), make([]byte, 3000)...)), 1480)[0]
		binary.BigEndian.PutUint16(b[18:], uint16(i))
		frames = append(frames, testkit.Frame{Link: dissect.LinkEthernet, Data: b, WireLen: len(b), Time: int64(i)})
	}
	s := look(frames)
	if n := len(s.tracker.fragments.open); n > maxDatagrams || s.tracker.fragments.bytes > maxDatagrams*1480 {
		t.Errorf("%d datagrams of %d bytes are held", n, s.tracker.fragments.bytes)
	}
}

// ibAck is an acknowledgement between two LIDs, from the well-known sample of
// native InfiniBand: LRH, BTH, AETH, ICRC, VCRC.
const ibAck = "00020004000700011140ffff0087040800d40a551f000001a80355503081"

func TestVariantCRC(t *testing.T) {
	b, err := hex.DecodeString(ibAck)
	if err != nil {
		t.Fatal(err)
	}
	one := func(data []byte) []testkit.Frame {
		return []testkit.Frame{{Link: dissect.LinkInfiniBand, Data: data, WireLen: len(data)}}
	}
	if s := look(one(b)); s.finding("bad_vcrc") != nil || s.packets[0].VCRC() != dissect.ICRCValid || s.packets[0].ICRC != dissect.ICRCValid {
		t.Errorf("VCRC %v, ICRC %v\n%s", s.packets[0].VCRC(), s.packets[0].ICRC, s.describe())
	}
	b[0] ^= 0x10 // another virtual lane: only the VCRC covers it
	s := look(one(b))
	if f := s.finding("bad_vcrc"); f == nil || f.Summary != "1 packet with a wrong variant CRC (LID 1 → LID 4)" || s.packets[0].ICRC != dissect.ICRCValid {
		t.Errorf("not found: VCRC %v, ICRC %v\n%s", s.packets[0].VCRC(), s.packets[0].ICRC, s.describe())
	}
}

// transportFrame is a RoCE v2 frame from side 0 or 1 with the headers given from
// the BTH on, written out; only the ICRC is computed.
func transportFrame(side byte, at int64, transport ...byte) testkit.Frame {
	n := len(transport) + 4
	b := []byte{2, 0, 0, 0, 0, 2 - side, 2, 0, 0, 0, 0, 1 + side, 8, 0}
	b = append(b, 0x45, 0, 0, byte(28+n), 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1+side, 10, 0, 0, 2-side)
	b = append(b, 0xC0, 0, 0x12, 0xB7, 0, byte(8+n), 0, 0)
	b = append(append(b, transport...), 0, 0, 0, 0)
	var d dissect.Decoder
	var p dissect.Packet
	d.Decode(dissect.LinkEthernet, b, len(b), &p)
	if crc, ok := new(dissect.ICRC).Compute(&p, b); ok {
		binary.LittleEndian.PutUint32(b[len(b)-4:], crc)
	}
	return testkit.Frame{Link: dissect.LinkEthernet, Data: b, WireLen: len(b), Time: at}
}

// RD: PSNs and acknowledgements are those of end-to-end contexts. Two queue
// pairs use the same two contexts (IBA 9.8.1).
func TestReliableDatagram(t *testing.T) {
	send := func(psn, srcQP byte) []byte {
		return []byte{
			0x44, 0, 0xFF, 0xFF, 0, 0, 2, srcQP, 0x80, 0, 0, psn, // BTH: RD SEND Only to QP 0x200 + source
			0, 0, 0, 0x21, // RDETH: context 0x21
			0, 0, 0, 9, 0, 0, 1, srcQP, // DETH: Q_Key 9, source QP
			1, 2, 3, 4,
		}
	}
	ack := func(psn, msn byte) []byte {
		return []byte{
			0x51, 0, 0xFF, 0xFF, 0, 0, 1, 1, 0, 0, 0, psn, // BTH: RD Acknowledge
			0, 0, 0, 0x12, // RDETH: context 0x12
			0x1F, 0, 0, msn, // AETH
		}
	}
	s := look([]testkit.Frame{
		transportFrame(0, 1000, send(5, 1)...), transportFrame(1, 2000, ack(5, 1)...),
		transportFrame(0, 3000, send(6, 2)...), transportFrame(1, 4000, ack(6, 2)...),
		transportFrame(0, 5000, send(7, 1)...), transportFrame(1, 6000, ack(7, 3)...),
	})
	c := s.only(t)
	if c.Transport != dissect.RD || c.A.QPN != 0x12 || c.B.QPN != 0x21 {
		t.Errorf("%s", s.describe())
	}
	if got := s.of(AToB); !slices.Equal(got, []string{"send 4 IBV_WC_SUCCESS", "send 4 IBV_WC_SUCCESS", "send 4 IBV_WC_SUCCESS"}) {
		t.Errorf("messages %v\n%s", got, s.describe())
	}
	if g := s.grave(); len(g) > 0 {
		t.Errorf("findings %v", g)
	}
}

// XRC: requests name a shared receive queue, answers do not (annex A14).
func TestExtendedReliableConnection(t *testing.T) {
	send := func(psn byte) []byte {
		return []byte{0xA4, 0, 0xFF, 0xFF, 0, 0, 2, 0, 0x80, 0, 0, psn, 0, 0, 0, 0x77, 1, 2, 3, 4}
	}
	ack := func(psn, msn byte) []byte {
		return []byte{0xB1, 0, 0xFF, 0xFF, 0, 0, 1, 0, 0, 0, 0, psn, 0x1F, 0, 0, msn}
	}
	s := look([]testkit.Frame{
		transportFrame(0, 1000, send(5)...), transportFrame(1, 2000, ack(5, 1)...),
		transportFrame(0, 3000, send(6)...), transportFrame(1, 4000, ack(6, 2)...),
	})
	c := s.only(t)
	if c.Transport != dissect.XRC || s.packets[0].XRCSRQ() != 0x77 || len(s.of(AToB)) != 2 || len(s.grave()) > 0 {
		t.Errorf("%s", s.describe())
	}
}

// A maker's own packets are said to be that, and not followed.
func TestVendorTransport(t *testing.T) {
	dc := []byte{0x44, 0, 0xFF, 0xFF, 0, 0, 2, 0, 0x80, 0, 0, 1, 0x5A, 1, 2, 3, 4, 5, 6, 7, 9, 8, 7, 6, 1, 2, 3, 4}
	s := look([]testkit.Frame{transportFrame(0, 1000, dc...)})
	f := s.finding("vendor_transport")
	if f == nil || len(s.Connections) != 0 || f.Summary != "1 packet of NVIDIA's DC, or another maker's transport in the range of RD (10.0.0.1 → 10.0.0.2): not followed" {
		t.Errorf("%v\n%s", f, s.describe())
	}
	own := []byte{0xC5, 0, 0xFF, 0xFF, 0, 0, 2, 0, 0x80, 0, 0, 1, 1, 2, 3, 4}
	if s := look([]testkit.Frame{transportFrame(0, 1000, own...)}); s.finding("vendor_transport") == nil {
		t.Errorf("%s", s.describe())
	}
	rd := slices.Clone(dc)
	rd[12], rd[20] = 0, 0 // reserved bytes: this may be RD
	if s := look([]testkit.Frame{transportFrame(0, 1000, rd...)}); s.finding("vendor_transport") != nil {
		t.Errorf("%s", s.describe())
	}
}

// FuzzFragments: whatever comes as a fragment, nothing panics, and what is held
// is bounded.
func FuzzFragments(f *testing.F) {
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	begun(x)
	frame := x.Frames()[8].Data
	for _, b := range append(fragments4(frame, 16), fragments4(vxlan(3, frame), 48)...) {
		f.Add(b, uint16(0x2000), uint16(3), byte(5))
	}
	y := testkit.NewExchange(testkit.ExchangeOptions{IPv6: true})
	begun(y)
	for _, b := range fragments6(y.Frames()[8].Data, 16) {
		f.Add(b, uint16(1), uint16(8), byte(9))
	}
	f.Fuzz(func(t *testing.T, frame []byte, first, step uint16, n byte) {
		if len(frame) < 60 || len(frame) > 4096 {
			return
		}
		var frames []testkit.Frame
		for i := range uint16(n) {
			b := slices.Clone(frame)
			binary.BigEndian.PutUint16(b[20:], first+i*step)
			if b[20] == 44 && len(b) > 58 { // IPv6: the offset is in the fragment header
				b = slices.Clone(frame)
				binary.BigEndian.PutUint16(b[56:], first+i*step)
			}
			frames = append(frames, testkit.Frame{Link: dissect.LinkEthernet, Data: b, WireLen: len(b), Time: int64(i)})
		}
		s := look(frames)
		held := 0
		for _, d := range s.tracker.fragments.open {
			held += d.size
		}
		if held != s.tracker.fragments.bytes || held > 1<<20 {
			t.Fatalf("%d bytes are held, %d counted", held, s.tracker.fragments.bytes)
		}
	})
}
