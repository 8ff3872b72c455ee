package dissect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// randomOuter is one of the kinds of network header with random values.
func randomOuter(r *rand.Rand) Outer {
	o := Outer{
		SrcPort: uint16(r.Uint32()), TrafficClass: uint8(r.Uint32()), HopLimit: uint8(r.IntN(255) + 1),
		FlowLabel: r.Uint32N(1 << 20), IPID: uint16(r.Uint32()),
	}
	for i := range o.DstMAC {
		o.DstMAC[i], o.SrcMAC[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	for range r.IntN(3) {
		o.VLANs = append(o.VLANs, uint16(r.Uint32()))
	}
	var a, b [16]byte
	for i := range a {
		a[i], b[i] = byte(r.Uint32()), byte(r.Uint32())
	}
	switch r.IntN(3) {
	case 0:
		o.Src, o.Dst = netip.AddrFrom4([4]byte(a[:4])), netip.AddrFrom4([4]byte(b[:4]))
	case 1:
		o.Src, o.Dst = netip.AddrFrom16(a), netip.AddrFrom16(b)
	case 2:
		o.RoCEv1, o.Src, o.Dst = true, netip.AddrFrom16(a), netip.AddrFrom16(b)
	}
	return o
}

// payloadFor is a random payload that the opcode allows.
func payloadFor(r *rand.Rand, op *OpInfo) []byte {
	n := 0
	switch op.Payload {
	case FullMTU:
		n = 256 << r.IntN(5)
	case OneToMTU:
		n = 1 + r.IntN(1024)
	case UpToMTU, AnyPayload:
		n = r.IntN(1024)
	case EightBytes:
		n = 8
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// want is one value that was set, and how Packet and view give it back.
type want struct {
	name      string
	got, want uint64
}

// TestCraftRoundTrip sets every field of every opcode's headers and finds it
// again, by view and in the Packet.
func TestCraftRoundTrip(t *testing.T) {
	for i := range 256 {
		for seed := range uint64(4) {
			roundTrip(t, Opcode(i), seed)
		}
	}
}

func FuzzRoundTrip(f *testing.F) {
	for i := range 256 {
		f.Add(byte(i), uint64(i))
	}
	f.Fuzz(func(t *testing.T, op byte, seed uint64) { roundTrip(t, Opcode(op), seed) })
}

func roundTrip(t *testing.T, code Opcode, seed uint64) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, uint64(code)))
	op := code.Info()
	o := randomOuter(r)
	frame := o.AppendTo(nil)
	at := len(frame)
	frame = AppendTransport(frame, code)
	b := BTH(frame[at:])
	flags := r.Uint32()
	se, migReq, fecn, becn, ackReq := flags&1 != 0, flags&2 != 0, flags&4 != 0, flags&8 != 0, flags&16 != 0
	pkey, qpn, psn := uint16(r.Uint32()), r.Uint32N(1<<24-2)+2, PSN(r.Uint32N(1<<24)) // 0 and 1 carry management datagrams
	b.SetSE(se)
	b.SetMigReq(migReq)
	b.SetFECN(fecn)
	b.SetBECN(becn)
	b.SetAckReq(ackReq)
	b.SetPKey(pkey)
	b.SetDestQP(qpn)
	b.SetPSN(psn)
	va, key, length := r.Uint64(), r.Uint32(), r.Uint32()
	swap, compare, orig := r.Uint64(), r.Uint64(), r.Uint64()
	syndrome, msn := Syndrome(r.Uint32()), MSN(r.Uint32N(1<<24))
	qkey, srcQP, imm, small := r.Uint32(), r.Uint32N(1<<24), r.Uint32(), r.Uint32N(1<<24)
	for _, l := range op.Headers {
		v := op.View(b, l)
		switch l {
		case LayerRDETH:
			RDETH(v).SetEEContext(small)
		case LayerXRCETH:
			XRCETH(v).SetSRQ(small)
		case LayerDETH:
			DETH(v).SetQKey(qkey)
			DETH(v).SetSrcQP(srcQP)
		case LayerFETH:
			FETH(v).SetPlacement(uint8(small & 0xF))
			FETH(v).SetSelectivity(uint8(small >> 4 & 3))
		case LayerRETH:
			RETH(v).SetVA(va)
			RETH(v).SetRKey(key)
			RETH(v).SetDMALen(length)
		case LayerAtomicETH:
			AtomicETH(v).SetVA(va)
			AtomicETH(v).SetRKey(key)
			AtomicETH(v).SetSwapAdd(swap)
			AtomicETH(v).SetCompare(compare)
		case LayerAETH:
			AETH(v).SetSyndrome(syndrome)
			AETH(v).SetMSN(msn)
		case LayerAtomicAckETH:
			AtomicAckETH(v).SetOrig(orig)
		case LayerImmDt:
			ImmDt(v).SetData(imm)
		case LayerIETH:
			IETH(v).SetRKey(imm)
		default:
			t.Fatalf("%v: no case for %v", code, l)
		}
	}
	payload := payloadFor(r, op)
	var c Crafter
	frame, err := c.Seal(&o, append(frame, payload...))
	if err != nil {
		t.Fatal(err)
	}

	d := Decoder{CheckICRC: true}
	var p Packet
	d.Decode(LinkEthernet, frame, len(frame), &p)
	for _, q := range p.Problems() {
		if !(q.Code == ProblemOpcode && op.Family == Reserved) {
			t.Errorf("%v: %v at %d", code, q.Code, q.Offset)
		}
	}
	if p.ICRC != ICRCValid {
		t.Errorf("%v: ICRC is %v", code, p.ICRC)
	}
	if !bytes.Equal(p.Payload(frame), payload) || p.PayloadLen() != len(payload) {
		t.Errorf("%v: payload of %d bytes, want %d", code, p.PayloadLen(), len(payload))
	}
	if p.Layers()&setOf(LayerRDETH, LayerXRCETH, LayerDETH, LayerFETH, LayerRETH, LayerAtomicETH, LayerAETH, LayerAtomicAckETH, LayerImmDt, LayerIETH) != op.Layers {
		t.Errorf("%v: the packet's extension headers are not those of the table", code)
	}
	h := p.BTH(frame)
	b01 := func(on bool) uint64 {
		if on {
			return 1
		}
		return 0
	}
	pad := uint64(-len(payload) & 3)
	wants := []want{
		{"opcode", uint64(p.Opcode), uint64(code)},
		{"opcode view", uint64(h.Opcode()), uint64(code)},
		{"SE", b01(p.SE()), b01(se)},
		{"SE view", b01(h.SE()), b01(se)},
		{"MigReq", b01(p.MigReq()), b01(migReq)},
		{"MigReq view", b01(h.MigReq()), b01(migReq)},
		{"FECN", b01(p.FECN()), b01(fecn)},
		{"FECN view", b01(h.FECN()), b01(fecn)},
		{"BECN", b01(p.BECN()), b01(becn)},
		{"BECN view", b01(h.BECN()), b01(becn)},
		{"AckReq", b01(p.AckReq), b01(ackReq)},
		{"AckReq view", b01(h.AckReq()), b01(ackReq)},
		{"PadCnt", uint64(p.PadCount), pad},
		{"PadCnt view", uint64(h.PadCnt()), pad},
		{"TVer", uint64(p.TVer()), 0},
		{"TVer view", uint64(h.TVer()), 0},
		{"P_Key", uint64(p.PKey), uint64(pkey)},
		{"P_Key view", uint64(h.PKey()), uint64(pkey)},
		{"DestQP", uint64(p.DestQP), uint64(qpn)},
		{"DestQP view", uint64(h.DestQP()), uint64(qpn)},
		{"PSN", uint64(p.PSN), uint64(psn)},
		{"PSN view", uint64(h.PSN()), uint64(psn)},
		{"traffic class", uint64(p.TrafficClass), uint64(o.TrafficClass)},
		{"hop limit", uint64(p.HopLimit), uint64(o.HopLimit)},
		{"source", p.Src.Lo, AddrFrom(o.Src).Lo},
		{"source, high half", p.Src.Hi, AddrFrom(o.Src).Hi},
		{"destination", p.Dst.Lo, AddrFrom(o.Dst).Lo},
		{"destination, high half", p.Dst.Hi, AddrFrom(o.Dst).Hi},
	}
	if len(o.VLANs) > 0 {
		wants = append(wants, want{"VLAN tag", uint64(p.VLANTag), uint64(o.VLANs[0])})
	}
	if !o.RoCEv1 {
		wants = append(wants, want{"source port", uint64(p.SrcPort), uint64(o.SrcPort)}, want{"destination port", uint64(p.DstPort), PortRoCEv2},
			want{"UDP length", uint64(p.UDP(frame).Len()), uint64(len(frame) - p.Offset(LayerUDP))})
	}
	switch {
	case p.Has(LayerIPv4):
		ip := p.IPv4(frame)
		wants = append(wants, want{"IP identification", uint64(p.IPID), uint64(o.IPID)},
			want{"header checksum", uint64(FoldSum(OnesSum(0, ip))), 0xFFFF})
	case p.Has(LayerIPv6):
		wants = append(wants, want{"flow label", uint64(p.IPv6(frame).FlowLabel()), uint64(o.FlowLabel)})
	default:
		wants = append(wants, want{"flow label", uint64(p.GRH(frame).FlowLabel()), uint64(o.FlowLabel)})
	}
	for _, l := range op.Headers {
		v := p.View(frame, l)
		switch l {
		case LayerRDETH:
			wants = append(wants, want{"EE context", uint64(RDETH(v).EEContext()), uint64(small)})
		case LayerXRCETH:
			wants = append(wants, want{"SRQ", uint64(XRCETH(v).SRQ()), uint64(small)})
		case LayerDETH:
			wants = append(wants, want{"Q_Key", uint64(p.QKey), uint64(qkey)}, want{"Q_Key view", uint64(DETH(v).QKey()), uint64(qkey)},
				want{"source QP", uint64(p.SrcQP), uint64(srcQP)}, want{"source QP view", uint64(DETH(v).SrcQP()), uint64(srcQP)})
		case LayerFETH:
			wants = append(wants, want{"placement", uint64(FETH(v).Placement()), uint64(small & 0xF)},
				want{"selectivity", uint64(FETH(v).Selectivity()), uint64(small >> 4 & 3)})
		case LayerRETH:
			wants = append(wants, want{"VA", p.VA, va}, want{"VA view", RETH(v).VA(), va}, want{"R_Key", uint64(p.RKey), uint64(key)},
				want{"R_Key view", uint64(RETH(v).RKey()), uint64(key)}, want{"DMA length", uint64(p.DMALen), uint64(length)},
				want{"DMA length view", uint64(RETH(v).DMALen()), uint64(length)})
		case LayerAtomicETH:
			wants = append(wants, want{"VA", p.VA, va}, want{"VA view", AtomicETH(v).VA(), va}, want{"R_Key", uint64(p.RKey), uint64(key)},
				want{"R_Key view", uint64(AtomicETH(v).RKey()), uint64(key)}, want{"swap", p.Swap, swap}, want{"swap view", AtomicETH(v).SwapAdd(), swap},
				want{"compare", p.Compare, compare}, want{"compare view", AtomicETH(v).Compare(), compare})
		case LayerAETH:
			wants = append(wants, want{"syndrome", uint64(p.Syndrome), uint64(syndrome)}, want{"syndrome view", uint64(AETH(v).Syndrome()), uint64(syndrome)},
				want{"MSN", uint64(p.MSN), uint64(msn)}, want{"MSN view", uint64(AETH(v).MSN()), uint64(msn)})
		case LayerAtomicAckETH:
			wants = append(wants, want{"original", p.Orig, orig}, want{"original view", AtomicAckETH(v).Orig(), orig})
		case LayerImmDt:
			wants = append(wants, want{"immediate", uint64(p.Imm), uint64(imm)}, want{"immediate view", uint64(ImmDt(v).Data()), uint64(imm)})
		case LayerIETH:
			wants = append(wants, want{"invalidated key", uint64(p.Imm), uint64(imm)}, want{"invalidated key view", uint64(IETH(v).RKey()), uint64(imm)})
		}
	}
	for _, w := range wants {
		if w.got != w.want {
			t.Errorf("%v: %s is %#x, want %#x", code, w.name, w.got, w.want)
		}
	}

	resealed := append([]byte(nil), frame...)
	if err := c.Reseal(LinkEthernet, resealed); err != nil {
		t.Errorf("%v: %v", code, err)
	}
	if !bytes.Equal(resealed, frame) {
		t.Errorf("%v: resealing a valid packet changed it", code)
	}
	if t.Failed() {
		t.Logf("%v, seed %d: % x", code, seed, frame)
	}
}

func TestResealAfterChange(t *testing.T) {
	o := Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC001}
	var c Crafter
	frame := AppendTransport(o.AppendTo(nil), OpRCSendOnly)
	frame, err := c.Seal(&o, append(frame, "hello, far side"...))
	if err != nil {
		t.Fatal(err)
	}
	d := Decoder{CheckICRC: true}
	var p Packet
	d.Decode(LinkEthernet, frame, len(frame), &p)
	p.IPv4(frame).SetID(7)
	p.BTH(frame).SetPSN(0x123456)
	p.UDP(frame).SetChecksum(1) // any but 0 asks for a checksum
	d.Decode(LinkEthernet, frame, len(frame), &p)
	if p.ICRC != ICRCInvalid {
		t.Error("the change left the ICRC valid")
	}
	if err := c.Reseal(LinkEthernet, frame); err != nil {
		t.Fatal(err)
	}
	d.Decode(LinkEthernet, frame, len(frame), &p)
	if p.ICRC != ICRCValid || p.PSN != 0x123456 || p.IPID != 7 {
		t.Errorf("after resealing: ICRC %v, PSN %#x, IP identification %d", p.ICRC, p.PSN, p.IPID)
	}
	// The receiver's sum over pseudo-header and datagram, checksum included, is all ones (RFC 768).
	udp := frame[p.Offset(LayerUDP):]
	pseudo := append([]byte{10, 0, 0, 1, 10, 0, 0, 2, 0, 17}, udp[4:6]...)
	if sum := FoldSum(OnesSum(OnesSum(0, pseudo), udp)); sum != 0xFFFF {
		t.Errorf("UDP sum is %#x", sum)
	}
}

// TestSealAgainstTextbook computes the ICRC of a crafted packet from the text
// of the specification, with nothing of the code under test.
func TestSealAgainstTextbook(t *testing.T) {
	o := Outer{Src: netip.MustParseAddr("192.0.2.1"), Dst: netip.MustParseAddr("192.0.2.2"), SrcPort: 0xD00D, TrafficClass: 0x6A}
	var c Crafter
	frame := AppendTransport(o.AppendTo(nil), OpRCWriteOnly)
	frame, err := c.Seal(&o, append(frame, 1, 2, 3))
	if err != nil {
		t.Fatal(err)
	}
	masked := append(bytes.Repeat([]byte{0xFF}, 8), frame[14:len(frame)-4]...)
	for _, i := range []int{1, 8, 10, 11, 20 + 6, 20 + 7, 28 + 4} {
		masked[8+i] = 0xFF
	}
	if got := binary.LittleEndian.Uint32(frame[len(frame)-4:]); got != crc32.ChecksumIEEE(masked) {
		t.Errorf("ICRC %#x, want %#x", got, crc32.ChecksumIEEE(masked))
	}
	if n := len(frame); n != 14+44+20 { // the wire format notes: UDP length 44 for a WRITE of 3 bytes
		t.Errorf("frame of %d bytes", n)
	}
}

func TestResealRefuses(t *testing.T) {
	o := Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	var c Crafter
	frame, err := c.Seal(&o, append(AppendTransport(o.AppendTo(nil), OpRCSendOnly), make([]byte, 100)...))
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Reseal(LinkEthernet, frame[:80]); !errors.Is(err, ErrCut) {
		t.Errorf("a cut packet: %v", err)
	}
	if err := c.Reseal(LinkEthernet, frame[:40]); !errors.Is(err, ErrNoTransport) {
		t.Errorf("a packet without BTH: %v", err)
	}
	if _, err := c.Seal(&o, frame[:50]); !errors.Is(err, ErrNoTransport) {
		t.Errorf("sealing half a BTH: %v", err)
	}
	if _, err := c.Seal(&o, append(frame, make([]byte, 1<<16)...)); !errors.Is(err, ErrTooLong) {
		t.Errorf("sealing 64 KiB: %v", err)
	}
}

func TestCNP(t *testing.T) {
	o := Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	var c Crafter
	frame, err := c.Seal(&o, AppendCNP(o.AppendTo(nil), 0xABC))
	if err != nil {
		t.Fatal(err)
	}
	if len(frame) != 74 { // IPv4 length 60, as hardware sends it
		t.Errorf("CNP of %d bytes, want 74", len(frame))
	}
	var p Packet
	new(Decoder).Decode(LinkEthernet, frame, len(frame), &p)
	if p.Opcode != OpCNP || p.DestQP != 0xABC || !p.BECN() || len(p.Problems()) != 0 {
		t.Errorf("decoded as %v for QP %#x, BECN %v, problems %v", p.Opcode, p.DestQP, p.BECN(), p.Problems())
	}
}

func TestCraftDoesNotAllocate(t *testing.T) {
	o := Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), VLANs: []uint16{5}}
	var c Crafter
	buf := make([]byte, 0, 2048)
	payload := make([]byte, 1023)
	if n := testing.AllocsPerRun(100, func() {
		buf = AppendTransport(o.AppendTo(buf[:0]), OpRCWriteOnly)
		buf, _ = c.Seal(&o, append(buf, payload...))
		_ = c.Reseal(LinkEthernet, buf)
	}); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
}

func BenchmarkSeal(b *testing.B) {
	o := Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2")}
	var c Crafter
	buf := make([]byte, 0, 2048)
	payload := make([]byte, 1024)
	b.SetBytes(1024)
	for b.Loop() {
		buf = AppendTransport(o.AppendTo(buf[:0]), OpRCWriteOnly)
		buf, _ = c.Seal(&o, append(buf, payload...))
	}
}

// FuzzReseal: whatever the bytes, nothing panics, and what was resealed has the
// right ICRC.
func FuzzReseal(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 2))
	var c Crafter
	for i := range 256 {
		o := randomOuter(r)
		frame, err := c.Seal(&o, append(AppendTransport(o.AppendTo(nil), Opcode(i)), make([]byte, i)...))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint16(LinkEthernet), frame)
	}
	f.Add(uint16(LinkInfiniBand), []byte{0, 2, 0, 1, 0, 6, 0, 2, 4, 0, 0xFF, 0xFF, 0, 0, 0, 9, 0, 0, 0, 1, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, link uint16, frame []byte) {
		var c Crafter
		if c.Reseal(LinkType(link), frame) != nil {
			return
		}
		d := Decoder{CheckICRC: true}
		var p Packet
		d.Decode(LinkType(link), frame, len(frame), &p)
		if p.Has(LayerICRC) && p.ICRC != ICRCValid {
			t.Errorf("resealed, but the ICRC is %v", p.ICRC)
		}
	})
}
