package dissect

import (
	"encoding/hex"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A whole packet of every opcode is understood on every stack.
func TestDecodeEveryOpcodeOnEveryStack(t *testing.T) {
	for _, s := range stacks {
		t.Run(s.name, func(t *testing.T) {
			for i := range 256 {
				op := Opcode(i)
				tr := sample(op)
				frame := s.build(tr)
				p := decoded(s.link, frame)
				_, defined := specHeaders(op)
				if op >= 0xC0 {
					defined = true // manufacturers may do as they like
				}
				if want := !defined; want != slices.Contains(codes(p), ProblemOpcode) || len(codes(p)) > 1 || defined && len(codes(p)) > 0 {
					t.Fatalf("%v: problems %v", op, p.Problems())
				}
				if p.ICRC != ICRCValid {
					t.Fatalf("%v: ICRC %v", op, p.ICRC)
				}
				general := Packet{Link: p.Link, CapLen: p.CapLen, WireLen: p.WireLen}
				new(Decoder).general(&general, frame)
				if general.ICRC, general.vcrc = p.ICRC, p.vcrc; general != *p {
					t.Fatalf("%v: the general way gives\n%+v, Decode\n%+v", op, general, p)
				}
				checkTransport(t, &stack{s.name, s.link, s.proto, s.network, s.build}, op, p, frame, tr)
			}
		})
	}
}

func checkTransport(t *testing.T, s *stack, op Opcode, p *Packet, frame, tr []byte) {
	t.Helper()
	if p.Proto != s.proto || p.Opcode != op || !p.Has(s.network) || !p.Has(LayerBTH) || !p.IsTransport() || p.Fragment {
		t.Fatalf("%v: proto %v, opcode %v, layers %b", op, p.Proto, p.Opcode, p.Layers())
	}
	at := p.Offset(LayerBTH)
	if string(frame[at:at+len(tr)]) != string(tr) {
		t.Fatalf("%v: BTH found at %d", op, at)
	}
	if p.DestQP != 0x123456 || p.PSN != 0xABCDEF || !p.AckReq || p.PKey != 0xFFFF || p.SE() || p.MigReq() || p.FECN() || p.BECN() || p.TVer() != 0 {
		t.Fatalf("%v: BTH values are wrong: %+v", op, p)
	}
	headers, _ := specHeaders(op)
	next, first := at+12, byte(0x80)
	for _, h := range headers {
		l := layerNamed(h)
		if !p.Has(l) || p.Offset(l) != next {
			t.Fatalf("%v: %s is at %d, want %d", op, h, p.Offset(l), next)
		}
		checkValues(t, h, p, first)
		next, first = next+headerBytes[h], first+byte(headerBytes[h])
	}
	for l := endBase; l < endExtLayers; l++ {
		if p.Has(l) != slices.Contains(headers, short(l)) {
			t.Fatalf("%v: has %v is %v", op, l, p.Has(l))
		}
	}
	n := specPayload(op)
	if p.PayloadLen() != n || string(p.Payload(frame)) != string(tr[next-at:next-at+n]) || int(p.PadCount) != len(tr)-(next-at)-n {
		t.Fatalf("%v: payload of %d bytes and %d pad bytes, want %d and %d", op, p.PayloadLen(), p.PadCount, n, len(tr)-(next-at)-n)
	}
	if p.Has(LayerPayload) != (n > 0) || p.Offset(LayerICRC) != at+len(tr) {
		t.Fatalf("%v: payload layer %v, ICRC at %d", op, p.Has(LayerPayload), p.Offset(LayerICRC))
	}
}

const endBase = LayerRDETH

func layerNamed(name string) Layer {
	for l := endBase; l < endExtLayers; l++ {
		if short(l) == name {
			return l
		}
	}
	panic(name)
}

// checkValues looks at the values that Decode copies. The header's bytes count
// up from first.
func checkValues(t *testing.T, header string, p *Packet, first byte) {
	t.Helper()
	num := func(at, n int) (v uint64) {
		for i := range n {
			v = v<<8 | uint64(first+byte(at+i))
		}
		return v
	}
	var got, want []uint64
	switch header {
	case "DETH":
		got, want = []uint64{uint64(p.QKey), uint64(p.SrcQP)}, []uint64{num(0, 4), num(5, 3)}
	case "RETH":
		got, want = []uint64{p.VA, uint64(p.RKey), uint64(p.DMALen)}, []uint64{num(0, 8), num(8, 4), num(12, 4)}
	case "AtomicETH":
		got, want = []uint64{p.VA, uint64(p.RKey), p.Swap, p.Compare}, []uint64{num(0, 8), num(8, 4), num(12, 8), num(20, 8)}
	case "AETH":
		got, want = []uint64{uint64(p.Syndrome), uint64(p.MSN)}, []uint64{num(0, 1), num(1, 3)}
	case "AtomicAckETH":
		got, want = []uint64{p.Orig}, []uint64{num(0, 8)}
	case "ImmDt", "IETH":
		got, want = []uint64{uint64(p.Imm)}, []uint64{num(0, 4)}
	}
	if !slices.Equal(got, want) {
		t.Fatalf("%v: %s values %x, want %x", p.Opcode, header, got, want)
	}
}

func TestDecodeLowerLayers(t *testing.T) {
	tr := sample(OpRCWriteOnly)
	p := decoded(LinkEthernet, ether(0x88A8, tag(0x6064, 0x8100, tag(0x00C8, 0x0800, roce4(tr)))))
	if p.VLAN() != 100 || p.VLANTag != 0x6064 || p.Offset(LayerVLAN) != 14 || p.Offset(LayerVLAN2) != 18 {
		t.Errorf("VLAN %d, tag %#x", p.VLAN(), p.VLANTag)
	}
	if p.Src.String() != "10.0.0.1" || p.Dst.String() != "10.0.0.2" || p.SrcPort != 49152 || p.DstPort != 4791 {
		t.Errorf("%v:%d > %v:%d", p.Src, p.SrcPort, p.Dst, p.DstPort)
	}
	if p.TrafficClass != 2 || p.DSCP() != 0 || p.ECN() != 2 || p.HopLimit != 64 || p.IPID != 0x1234 {
		t.Errorf("traffic class %#x, hop limit %d, identification %#x", p.TrafficClass, p.HopLimit, p.IPID)
	}
	p = decoded(LinkRaw, roce6(tr))
	if p.VLAN() != -1 || p.Src.String() != "fd77::1" || p.Dst.String() != "fd77::2" || p.TrafficClass != 0x6A || p.DSCP() != 0x1A || p.ECN() != 2 || p.HopLimit != 64 || p.IPID != 0 {
		t.Errorf("IPv6: %v > %v, traffic class %#x", p.Src, p.Dst, p.TrafficClass)
	}
	p = decoded(LinkInfiniBand, join(sealed("lrh", lrh(2, join(tr, icrcRoom)), 8), []byte{0, 0}))
	if p.Src != (Addr{Lo: 9}) || p.Dst != (Addr{Lo: 7}) {
		t.Errorf("LIDs %v > %v", p.Src, p.Dst)
	}
	p = decoded(LinkInfiniBand, join(sealed("lrh grh", lrh(3, ip6(0x1B, join(tr, icrcRoom))), 48), []byte{0, 0}))
	if p.Src.String() != "fd77::1" || p.Dst.String() != "fd77::2" {
		t.Errorf("routed: GIDs %v > %v", p.Src, p.Dst)
	}
}

// A packet that is cut behind byte n, by the capture or by its sender, has the
// layers of which it has all bytes, and no verdict on its ICRC.
func TestDecodeCutAnywhere(t *testing.T) {
	for _, s := range stacks {
		t.Run(s.name, func(t *testing.T) {
			ops := []Opcode{OpRCWriteOnlyImm, OpRCAtomicAcknowledge, OpUDSendOnlyImm, OpCNP, 0x4B, 0xAB, 0x1C, 0xFF}
			if s.name == "Ethernet, IPv4" || s.name == "Ethernet, IPv6" || s.name == "RoCE v1" {
				ops = ops[:0]
				for i := range 256 {
					ops = append(ops, Opcode(i))
				}
			}
			for _, op := range ops {
				cutAnywhere(t, &s, op)
			}
		})
	}
}

func cutAnywhere(t *testing.T, s *stack, op Opcode) {
	t.Helper()
	frame := s.build(sample(op))
	whole := decoded(s.link, frame)
	d := Decoder{CheckICRC: true}
	for n := range len(frame) + 1 {
		var p Packet
		d.Decode(s.link, frame[:n:n], len(frame), &p)
		end := whole.Offset(LayerICRC) + ICRCSize
		if p.Malformed() != whole.Malformed() && !(p.Malformed() == false && n < whole.Offset(LayerBTH)+12) {
			t.Fatalf("%v, %d bytes captured: malformed is %v: %v", op, n, p.Malformed(), p.Problems())
		}
		headers := whole.Offset(LayerBTH) + op.Info().Len
		if cut := slices.Contains(codes(&p), ProblemCut); cut != (n < headers) {
			t.Fatalf("%v, %d bytes captured: cut is %v", op, n, cut)
		}
		if p.IsTransport() != (n >= headers) {
			t.Fatalf("%v, %d bytes captured: IsTransport is %v", op, n, p.IsTransport())
		}
		want := ICRCValid
		switch {
		case n < whole.Offset(LayerBTH)+12:
			want = ICRCUnchecked // that there is one is not known
		case n < end:
			want = ICRCNotCaptured
		}
		if p.ICRC != want {
			t.Fatalf("%v, %d bytes captured: ICRC %v, want %v", op, n, p.ICRC, want)
		}
		if p.Has(LayerBTH) && (p.PayloadLen() != whole.PayloadLen() || p.PadCount != whole.PadCount) {
			t.Fatalf("%v, %d bytes captured: payload of %d bytes, want %d", op, n, p.PayloadLen(), whole.PayloadLen())
		}
		for l := Layer(0); l < numLayers; l++ {
			if !p.Has(l) || l == LayerPayload || l == LayerICRC {
				continue
			}
			if !whole.Has(l) {
				t.Fatalf("%v, %d bytes captured: has %v, the whole has not", op, n, l)
			}
			if p.Offset(l) != whole.Offset(l) || l != LayerFrame && l < LayerMAD && p.Offset(l)+min(l.Size(), 1) > n {
				t.Fatalf("%v, %d bytes captured: %v is at %d", op, n, l, p.Offset(l))
			}
			if l >= LayerBTH && l < LayerMAD && p.Offset(l)+l.Size() > n {
				t.Fatalf("%v, %d bytes captured: %v is not whole", op, n, l)
			}
		}
		checkReadable(t, &p, frame[:n:n])

		// The same bytes as a frame of this length: the sender's fault.
		d.Decode(s.link, frame[:n:n], n, &p)
		if n < end && n > 0 && !p.Malformed() {
			t.Fatalf("%v, frame of %d bytes: not malformed: %v", op, n, p.Problems())
		}
		if slices.Contains(codes(&p), ProblemCut) {
			t.Fatalf("%v, frame of %d bytes: called cut", op, n)
		}
		if n < end && p.ICRC == ICRCValid {
			t.Fatalf("%v, frame of %d bytes: ICRC %v", op, n, p.ICRC)
		}
		checkReadable(t, &p, frame[:n:n])
	}
}

// checkReadable reads everything that there is to read of a packet.
func checkReadable(t testing.TB, p *Packet, frame []byte) {
	t.Helper()
	if len(p.Problems()) > maxProblems {
		t.Fatalf("%d problems", len(p.Problems()))
	}
	for _, q := range p.Problems() {
		if q.Code == ProblemNone || q.Code >= numProblems || int(q.Offset) > max(int(p.WireLen), len(frame)) {
			t.Fatalf("problem %v at %d of %d bytes", q.Code, q.Offset, p.WireLen)
		}
	}
	for l := Layer(0); l < numLayers; l++ {
		if !p.Has(l) {
			continue
		}
		if o := p.Offset(l); o < 0 || o > max(int(p.WireLen), len(frame)) {
			t.Fatalf("%v is at %d of %d bytes", l, o, p.WireLen)
		}
		if v := p.View(frame, l); v != nil && len(v) != l.Size() {
			t.Fatalf("%v: view of %d bytes", l, len(v))
		}
	}
	if lo, n := int(p.payload), p.PayloadLen(); lo+n > max(int(p.WireLen), len(frame), lo) || len(p.Payload(frame)) > n {
		t.Fatalf("payload of %d bytes at %d of %d", n, lo, p.WireLen)
	}
	var buf [1024]byte
	all := Fields()
	for i := range all {
		f := &all[i]
		if f.Get == nil && !p.Has(f.Layer) {
			continue
		}
		out, ok := f.AppendText(buf[:0], p, frame)
		if !ok && len(out) > 0 {
			t.Fatalf("%s: not there, but printed %q", f.Name, out)
		}
		f.Meaning(p, frame)
	}
	p.Ethernet(frame)
	p.IPv4(frame)
	p.IPv6(frame)
	p.GRH(frame)
	p.UDP(frame)
	p.TCP(frame)
	p.LRH(frame)
	p.BTH(frame)
	p.IPCM(frame)
	h := p.MACControl(frame)
	for i := range 8 {
		if len(h) >= 2 {
			h.Quanta(i)
		}
	}
	if m, ok := p.CM(frame); ok {
		readCM(m)
	}
}

func TestDecodeIPFragments(t *testing.T) {
	tr := sample(OpRCSendFirst)
	whole := udpPacket(4791, join(tr, icrcRoom))
	for _, s := range []struct {
		name       string
		first      []byte // with the UDP header
		middle     []byte
		last       []byte
		offsetNote int
	}{
		{"IPv4", ip4(17, 0x2000, nil, whole[:64]), ip4(17, 0x2000|64/8, nil, whole[64:128]), ip4(17, 128/8, nil, whole[128:]), 6},
		{
			"IPv6", ip6(44, join([]byte{17, 0, 0, 1, 0, 0, 0, 9}, whole[:64])), ip6(44, join([]byte{17, 0, 0, 64 | 1, 0, 0, 0, 9}, whole[64:128])),
			ip6(44, join([]byte{17, 0, 0, 128, 0, 0, 0, 9}, whole[128:])), 40,
		},
	} {
		t.Run(s.name, func(t *testing.T) {
			p := decoded(LinkRaw, s.first)
			if p.Fragment || !p.Has(LayerBTH) || p.PSN != 0xABCDEF || p.ICRC != ICRCUnchecked || p.Has(LayerICRC) || !p.IsTransport() {
				t.Errorf("first: %+v", p)
			}
			if got := codes(p); !slices.Equal(got, []ProblemCode{ProblemFragment}) || p.Malformed() {
				t.Errorf("first: problems %v", p.Problems())
			}
			for name, frame := range map[string][]byte{"middle": s.middle, "last": s.last} {
				p := decoded(LinkRaw, frame)
				if !p.Fragment || p.Has(LayerUDP) || p.Has(LayerBTH) || p.IsTransport() || p.ICRC != ICRCUnchecked || p.Malformed() {
					t.Errorf("%s: %+v", name, p)
				}
				if text, ok := LookupField("infiniband.bth.psn")[0].AppendText(nil, p, frame); ok {
					t.Errorf("%s: a PSN of %s", name, text)
				}
				if got := codes(p); !slices.Equal(got, []ProblemCode{ProblemFragment}) || p.Problems()[0].Offset != uint16(s.offsetNote) {
					t.Errorf("%s: problems %v", name, p.Problems())
				}
			}
		})
	}
}

// Padding, frame check sequence and trailers behind the IP packet are no part
// of it.
func TestDecodeIgnoresWhatIsBehindThePacket(t *testing.T) {
	for name, trailer := range map[string][]byte{
		"two bytes of Ethernet padding": {0, 0}, "frame check sequence": {0xDE, 0xAD, 0xBE, 0xEF}, "a trailer of a switch": make([]byte, 20),
	} {
		for _, s := range stacks {
			frame := s.build(transport(OpRCSendOnly, nil))
			p := decoded(s.link, join(frame, trailer))
			if p.ICRC != ICRCValid || p.PayloadLen() != 0 || len(p.Problems()) != 0 {
				t.Errorf("%s, %s: ICRC %v, payload %d, problems %v", s.name, name, p.ICRC, p.PayloadLen(), p.Problems())
			}
		}
	}
}

func TestDecodeWrongLengths(t *testing.T) {
	base := ether(0x0800, roce4(sample(OpRCWriteOnly)))
	changed := func(do func(b []byte)) []byte { b := slices.Clone(base); do(b); return b }
	for _, c := range []struct {
		name  string
		frame []byte
		want  []ProblemCode
	}{
		{"UDP length beyond the IP packet", changed(func(b []byte) { b[39]++ }), []ProblemCode{ProblemUDPLength}},
		{"UDP length below its header", changed(func(b []byte) { b[38], b[39] = 0, 7 }), []ProblemCode{ProblemUDPLength}},
		{"UDP length of nothing", changed(func(b []byte) { b[38], b[39] = 0, 0 }), []ProblemCode{ProblemUDPLength}},
		{"UDP length without room for BTH", changed(func(b []byte) { b[38], b[39] = 0, 15 }), []ProblemCode{ProblemShort}},
		{"UDP length without room for RETH", changed(func(b []byte) { b[38], b[39] = 0, 8+12+8 }), []ProblemCode{ProblemNoICRC}},
		{"UDP length without room for the ICRC", changed(func(b []byte) { b[38], b[39] = 0, 8+12+16+3 }), []ProblemCode{ProblemNoICRC}},
		{"IP length beyond the frame", changed(func(b []byte) { b[16], b[17] = 0x20, 0 }), []ProblemCode{ProblemIPLength}},
		{"IP length below its header", changed(func(b []byte) { b[16], b[17] = 0, 19 }), []ProblemCode{ProblemIPHeader}},
		{"IP header length below 20", changed(func(b []byte) { b[14] = 0x44 }), []ProblemCode{ProblemIPHeader}},
		{"IP version that is none", changed(func(b []byte) { b[14] = 0x55 }), []ProblemCode{ProblemIPVersion}},
		{"IP version 6 behind EtherType of IPv4", changed(func(b []byte) { b[14] = 0x65 }), []ProblemCode{ProblemIPVersion}},
		{"transport version 1", changed(func(b []byte) { b[43] |= 1 }), []ProblemCode{ProblemTVer}},
		{"reserved opcode", changed(func(b []byte) { b[42] = 0x19 }), []ProblemCode{ProblemOpcode}},
		{"no payload where some must be", ether(0x0800, roce4(transport(OpRCSendLast, nil))), []ProblemCode{ProblemPayload}},
		{"payload where none may be", ether(0x0800, roce4(transport(OpRCAcknowledge, make([]byte, 4)))), []ProblemCode{ProblemPayload}},
		{"ATOMIC WRITE of four bytes", ether(0x0800, roce4(transport(0x1D, make([]byte, 4)))), []ProblemCode{ProblemPayload}},
		{"GRH without BTH behind it", ether(0x8915, ip6(59, sample(OpRCSendOnly))), []ProblemCode{ProblemNextHeader}},
		{"link type that is not known", base, []ProblemCode{ProblemLinkType}},
		{"VLAN tags without end", ether(0x8100, slices.Repeat(tag(1, 0x8100, nil), 17000)), []ProblemCode{ProblemExtensionLoop}},
		{"a chain of IPv6 extension headers without end", ether(0x86DD, ip6(60, longChain(40))), []ProblemCode{ProblemExtensionLoop}},
	} {
		t.Run(c.name, func(t *testing.T) {
			link := LinkEthernet
			if slices.Contains(c.want, ProblemLinkType) {
				link = 9999
			}
			p := decoded(link, c.frame)
			if got := codes(p); !slices.Equal(got, c.want) {
				t.Errorf("problems %v, want %v", p.Problems(), c.want)
			}
			checkReadable(t, p, c.frame)
		})
	}
}

// The longest chain of headers that is walked leads to a packet like any.
func TestDecodeFarthestTransport(t *testing.T) {
	tr := sample(OpRCWriteOnly)
	inner := chained(tr, 15*2048, func(u []byte) (byte, []byte) {
		for n := range 15 {
			next := byte(60)
			if n == 0 {
				next = 17
			}
			u = option6(next, 255, u)
		}
		return 60, u
	})
	var tags []byte
	for range maxTags - 1 {
		tags = join(tags, tag(1, 0x8100, nil))
	}
	frame := ether(0x8100, join(tags, tag(1, 0x86DD, nil), inner))
	p := decoded(LinkEthernet, frame)
	if at := 14 + 4*maxTags + 40 + 15*2048 + 8; !p.IsTransport() || p.Offset(LayerBTH) != at || p.ICRC != ICRCValid || len(p.Problems()) != 0 {
		t.Errorf("BTH at %d, ICRC %v, problems %v", p.Offset(LayerBTH), p.ICRC, p.Problems())
	}
	checkReadable(t, p, frame)
}

func longChain(n int) (b []byte) {
	for range n {
		b = option6(60, 0, b)
	}
	return b
}

// A whole set of headers with UDP lengths that lie is still transport only if
// the bytes are there.
func TestIsTransportNeedsTheHeadersInThePacket(t *testing.T) {
	frame := ether(0x0800, roce4(sample(OpRCWriteOnly)))
	frame[38], frame[39] = 0, 8+12+8 // half a RETH, the bytes of the other half are there
	p := decoded(LinkEthernet, frame)
	if p.IsTransport() || p.Has(LayerRETH) || p.Has(LayerICRC) || p.Has(LayerPayload) {
		t.Errorf("layers %b, transport %v", p.Layers(), p.IsTransport())
	}
}

func TestDecodeOddities(t *testing.T) {
	t.Run("whole headers without room for an ICRC have their own values", func(t *testing.T) {
		d, p := Decoder{}, &Packet{VA: 1, RKey: 2, DMALen: 3} // of the packet before
		frame := ether(0x0800, roce4(sample(OpRCWriteOnly)))
		frame[38], frame[39] = 0, 8+12+16+3
		d.Decode(LinkEthernet, frame, len(frame), p)
		if !p.IsTransport() || !p.Has(LayerRETH) {
			t.Fatalf("problems %v", p.Problems())
		}
		checkValues(t, "RETH", p, 0x80)
		d.Decode(LinkEthernet, frame[:60], len(frame), p)
		if p.Has(LayerRETH) || p.IsTransport() {
			t.Errorf("cut inside RETH: layers %b", p.Layers())
		}
	})
	t.Run("more pad bytes than payload", func(t *testing.T) {
		tr := transport(OpRCSendOnly, nil)
		tr[1] |= 3 << 4
		p := decoded(LinkRaw, roce4(tr))
		if !slices.Equal(codes(p), []ProblemCode{ProblemPad}) || p.PayloadLen() != 0 || p.PadCount != 0 || p.ICRC != ICRCValid {
			t.Errorf("payload %d, pad %d, problems %v, ICRC %v", p.PayloadLen(), p.PadCount, p.Problems(), p.ICRC)
		}
	})
	t.Run("opcode 0xff with three bytes behind BTH", func(t *testing.T) {
		tr := append(transport(0xFF, nil), 1, 2, 3)
		p := decoded(LinkRaw, ip4(17, 0, nil, udpPacket(4791, tr)))
		if !slices.Equal(codes(p), []ProblemCode{ProblemNoICRC}) || p.Has(LayerICRC) {
			t.Errorf("problems %v", p.Problems())
		}
	})
	t.Run("random bytes on port 4791", func(t *testing.T) {
		r := rand.New(rand.NewPCG(3, 4))
		for n := range 65 {
			for range 50 {
				b := make([]byte, n)
				fill(r, b)
				frame := ether(0x0800, ip4(17, 0, nil, udpPacket(4791, b)))
				p := decoded(LinkEthernet, frame)
				if p.Proto != ProtoRoCEv2 || p.Has(LayerBTH) != (n >= 12) || n < 16 && !p.Malformed() {
					t.Fatalf("%x: %v, layers %b, problems %v", b, p.Proto, p.Layers(), p.Problems())
				}
				if p.ICRC == ICRCValid {
					t.Fatalf("%x: ICRC valid", b)
				}
				checkReadable(t, p, frame)
			}
		}
	})
	t.Run("frame that ends with the IPv4 header", func(t *testing.T) {
		frame := ether(0x0800, ip4(17, 0, nil, nil))
		p := decoded(LinkEthernet, frame)
		if !slices.Equal(codes(p), []ProblemCode{ProblemShort}) || !p.Has(LayerIPv4) || p.Has(LayerUDP) {
			t.Errorf("problems %v, layers %b", p.Problems(), p.Layers())
		}
		frame = ether(0x0800, roce4(sample(OpRCSendOnly)))
		var p2 Packet
		new(Decoder).Decode(LinkEthernet, frame[:34], len(frame), &p2)
		if !slices.Equal(codes(&p2), []ProblemCode{ProblemCut}) || p2.Src.String() != "10.0.0.1" {
			t.Errorf("cut there: problems %v", p2.Problems())
		}
	})
	t.Run("multicast and highest QP numbers", func(t *testing.T) {
		tr := sample(OpUDSendOnly)
		tr[5], tr[6], tr[7] = 0xFF, 0xFF, 0xFF
		p := decoded(LinkRaw, roce4(tr))
		if p.DestQP != 0xFFFFFF || len(p.Problems()) != 0 || p.Has(LayerMAD) {
			t.Errorf("QP %#x, problems %v", p.DestQP, p.Problems())
		}
	})
	t.Run("the reserved bits of BTH do not reach its numbers", func(t *testing.T) {
		tr := sample(OpRCSendOnly)
		tr[4], tr[8] = 0xFF, 0xFF
		p := decoded(LinkRaw, roce4(tr))
		if p.DestQP != 0x123456 || p.PSN != 0xABCDEF || !p.FECN() || !p.BECN() {
			t.Errorf("QP %#x, PSN %#x", p.DestQP, p.PSN)
		}
	})
	t.Run("another port is another protocol", func(t *testing.T) {
		frame := ip4(17, 0, nil, udpPacket(4792, sample(OpRCSendOnly)))
		if p := decoded(LinkRaw, frame); p.Proto != ProtoOther || p.Has(LayerBTH) || !p.Has(LayerUDP) {
			t.Errorf("%v", p.Proto)
		}
		d, p := Decoder{Port: 4792}, &Packet{}
		if d.Decode(LinkRaw, frame, len(frame), p); p.Proto != ProtoRoCEv2 || !p.Has(LayerBTH) {
			t.Errorf("with the port set: %v", p.Proto)
		}
	})
	t.Run("a source port of 4791 decides nothing", func(t *testing.T) {
		u := udpPacket(53, sample(OpRCSendOnly))
		copy(u, be(4791))
		if p := decoded(LinkRaw, ip4(17, 0, nil, u)); p.Has(LayerBTH) {
			t.Error("taken for RoCE v2")
		}
	})
	t.Run("IP length of nothing, as segmentation offload leaves it", func(t *testing.T) {
		frame := ether(0x0800, roce4(sample(OpRCSendOnly)))
		frame[16], frame[17] = 0, 0
		if p := decoded(LinkEthernet, frame); !p.IsTransport() || len(p.Problems()) != 0 {
			t.Errorf("problems %v", p.Problems())
		}
	})
	t.Run("a packet does not inherit from the one before", func(t *testing.T) {
		d, p := Decoder{CheckICRC: true}, &Packet{}
		frame := ether(0x8100, tag(0x6064, 0x0800, roce4(sample(OpUDSendOnlyImm))))
		d.Decode(LinkEthernet, frame, len(frame), p)
		arp := ether(0x0806, make([]byte, 28))
		d.Decode(LinkEthernet, arp, len(arp), p)
		if p.Layers() != 1<<LayerFrame|1<<LayerEthernet || p.Proto != ProtoOther || p.VLAN() != -1 || p.PayloadLen() != 0 || p.ICRC != ICRCUnchecked || p.IsTransport() {
			t.Errorf("%+v", p)
		}
		d.Decode(LinkEthernet, frame[:20], len(frame), p)
		d.Decode(LinkEthernet, arp, len(arp), p)
		if len(p.Problems()) != 0 {
			t.Errorf("problems %v", p.Problems())
		}
	})
	t.Run("a wire length below the captured one", func(t *testing.T) {
		frame := ether(0x0800, roce4(sample(OpRCSendOnly)))
		var p Packet
		d := Decoder{CheckICRC: true}
		d.Decode(LinkEthernet, frame, 10, &p)
		if p.WireLen != uint32(len(frame)) || p.ICRC != ICRCValid {
			t.Errorf("wire length %d, ICRC %v", p.WireLen, p.ICRC)
		}
	})
}

func TestDecodeTCP(t *testing.T) {
	tcp := join(be(18515), be(40000), []byte{0, 0, 0, 9, 0, 0, 0, 7, 0x60, 0x18, 1, 0, 0, 0, 0, 0, 1, 1, 1, 0}, []byte("hello"))
	for name, frame := range map[string][]byte{
		"IPv4": ether(0x0800, ip4(6, 0, nil, tcp)), "IPv6": ether(0x86DD, ip6(6, tcp)), "padded": join(ether(0x0800, ip4(6, 0, nil, tcp)), make([]byte, 9)),
	} {
		p := decoded(LinkEthernet, frame)
		if p.Proto != ProtoTCP || p.SrcPort != 18515 || p.DstPort != 40000 || p.TCPSeq != 9 || p.TCPAck != 7 || p.TCPFlags != 0x18 || string(p.Payload(frame)) != "hello" {
			t.Errorf("%s: %+v", name, p)
		}
	}
	tcp[12] = 0x40
	if p := decoded(LinkEthernet, ether(0x0800, ip4(6, 0, nil, tcp))); !p.Malformed() {
		t.Error("a header length below 20 is malformed")
	}
}

func TestDecodePauseFrames(t *testing.T) {
	frame := func(body string) []byte {
		b, err := hex.DecodeString(strings.ReplaceAll(body, " ", ""))
		if err != nil {
			t.Fatal(err)
		}
		return ether(0x8808, b)
	}
	pfc := frame("0101 0009 ffff 0000 0000 0001 0000 0000 0000 0000")
	p := decoded(LinkEthernet, pfc)
	h := p.MACControl(pfc)
	if p.Proto != ProtoPause || len(p.Problems()) != 0 || h.Opcode() != MACControlPFC {
		t.Fatalf("%v, problems %v", p.Proto, p.Problems())
	}
	for priority, want := range map[int]int{0: 0xFFFF, 1: -1, 3: 1, 7: -1} {
		q, ok := h.Quanta(priority)
		if ok != (want >= 0) || ok && int(q) != want {
			t.Errorf("priority %d: %d, %v; want %d", priority, q, ok, want)
		}
	}
	for field, want := range map[string]string{"macc.opcode": "0x0101", "macc.cbfc.enbv": "0x0009", "macc.cbfc.pause_time.c3": "1", "macc.pause_time": ""} {
		text, _ := LookupField(field)[0].AppendText(nil, p, pfc)
		if string(text) != want {
			t.Errorf("%s is %q, want %q", field, text, want)
		}
	}
	pause := frame("0001 0100")
	p = decoded(LinkEthernet, pause)
	if q, ok := p.MACControl(pause).Quanta(5); p.Proto != ProtoPause || !ok || q != 0x100 {
		t.Errorf("pause frame: %v, %d, %v", p.Proto, q, ok)
	}
	for name, body := range map[string]string{"PFC that is short": "0101 0001 ffff", "PFC with reserved bits": "0101 0101 " + strings.Repeat("0000", 8), "pause without time": "0001 01"} {
		f := frame(body)
		if p := decoded(LinkEthernet, f); !slices.Equal(codes(p), []ProblemCode{ProblemPauseFrame}) {
			t.Errorf("%s: problems %v", name, p.Problems())
		} else {
			checkReadable(t, p, f)
		}
	}
	var cut Packet
	new(Decoder).Decode(LinkEthernet, pfc[:24], len(pfc), &cut)
	if !slices.Equal(codes(&cut), []ProblemCode{ProblemCut}) {
		t.Errorf("PFC that the capture cut: problems %v", cut.Problems())
	}
}
