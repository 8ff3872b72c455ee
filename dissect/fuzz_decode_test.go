package dissect

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/gopacket/pcapgo"
)

// FuzzDecode: whatever the bytes are, nothing panics, what the packet says lies
// in the frame, every field can be read, and a cut frame is not taken for a
// damaged one.
func FuzzDecode(f *testing.F) {
	n := 0
	for i := range 256 { // each opcode on three stacks, each stack with several opcodes
		if _, ok := specHeaders(Opcode(i)); !ok {
			continue
		}
		for range 3 {
			s := stacks[n%len(stacks)]
			f.Add(uint16(s.link), s.build(sample(Opcode(i))), uint16(0))
			n++
		}
	}
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		f.Add(uint16(LinkEthernet), cmFrame(a), uint16(0))
		f.Add(uint16(LinkEthernet), cmFrame(a)[:120], uint16(202))
	}
	for _, frame := range sampleFrames(f) {
		f.Add(uint16(LinkEthernet), frame, uint16(0))
	}
	f.Add(uint16(LinkEthernet), ether(0x8808, make([]byte, 46)), uint16(0))
	f.Add(uint16(LinkRaw), ip4(6, 0, nil, make([]byte, 20)), uint16(0))
	f.Add(uint16(LinkRaw), ip4(17, 0x2001, nil, make([]byte, 20)), uint16(0))
	inner := ether(0x0800, roce4(transport(OpRCWriteOnly, make([]byte, 16))))
	for _, tunnel := range [][]byte{ // around a RoCE v2 packet
		append([]byte{0xC1, 0, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 9, 0}, inner...),
		append([]byte{0xC1, 0, 0x17, 0xC1, 0, 0, 0, 0, 0, 0, 0x65, 0x58, 0, 0, 9, 0}, inner...),
	} {
		put16(tunnel[4:], uint16(len(tunnel)))
		f.Add(uint16(LinkEthernet), ether(0x0800, ip4(17, 0, nil, tunnel)), uint16(0))
	}
	for _, header := range [][]byte{
		{0, 0, 0x88, 0xBE},
		{0x10, 0, 0x88, 0xBE, 0, 0, 0, 1, 0x10, 1, 0, 1, 0, 0, 0, 1},
		{0x10, 0, 0x22, 0xEB, 0, 0, 0, 1, 0x20, 1, 0, 1, 0, 0, 0, 1, 0, 0, 0x80, 1, 0, 0, 0, 0, 0, 0, 0, 0},
		{0xB0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2},
	} {
		f.Add(uint16(LinkEthernet), ether(0x0800, ip4(47, 0, nil, append(header, inner...))), uint16(0))
	}
	f.Add(uint16(LinkEthernet), ether(0x8847, append([]byte{0, 6, 0x40, 9, 0, 6, 0x41, 9}, inner[14:]...)), uint16(0))
	f.Add(uint16(LinkEthernet), ether(0x8864, append([]byte{0x11, 0, 0, 1, 0, 80, 0, 0x21}, inner[14:]...)), uint16(0))
	f.Add(uint16(LinkERF), append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, inner...), uint16(0))
	f.Add(uint16(LinkERF), []byte{0, 0, 0, 0, 0, 0, 0, 0, 25, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6}, uint16(0))
	tcp := make([]byte, 20, 200)
	tcp[12] = 0x50
	f.Add(uint16(LinkRaw), ip4(6, 0, nil, append(slices.Clone(tcp), MPARequestKey+"\x50\x02\x00\x04\x00\x01\x00\x01"...)), uint16(0))
	for op := range numRDMAPOpcodes { // an FPDU of each opcode, without CRC
		u := make([]byte, 2+op.Info().Size+3)
		u[2], u[3] = 0x41, 0x40|byte(op)
		if op.Info().Tagged {
			u[2] |= 0x80
		} else {
			put32(u[8:], op.Info().Queue)
		}
		put16(u, uint16(len(u)-2))
		f.Add(uint16(LinkRaw), ip4(6, 0, nil, append(slices.Clone(tcp), append(u, make([]byte, FPDUSize(len(u)-2)-len(u))...)...)), uint16(0))
	}
	f.Fuzz(func(t *testing.T, link uint16, frame []byte, missing uint16) {
		frame = slices.Clip(frame)
		before := string(frame)
		d := Decoder{CheckICRC: true}
		var p Packet
		d.Decode(LinkType(link), frame, len(frame)+int(missing), &p)
		checkConsistent(t, &p, frame)
		checkReadable(t, &p, frame)
		if string(frame) != before {
			t.Fatal("Decode wrote to the frame")
		}
		if missing == 0 && p.Depth() == 0 && slices.Contains(codes(&p), ProblemCut) { // a mirror may have cut what it carries
			t.Fatalf("a frame captured whole is called cut: %v", p.Problems())
		}

		if src, dst, ok := Between(LinkType(link), frame); ok {
			if p.Depth() > 0 || p.Fragmented() || p.Has(LayerLLDP) || p.Has(LayerMAD) {
				t.Fatalf("Between takes it for a plain packet: %v", p.Layers())
			}
			if p.IsTransport() && (p.Src != src || p.Dst != dst || p.DestQP <= 1) {
				t.Fatalf("Between gives %v and %v, Decode %v and %v, queue pair %d", src, dst, p.Src, p.Dst, p.DestQP)
			}
		}

		// The short way and the general one give the same.
		var general Packet
		general.Link, general.CapLen, general.WireLen = p.Link, p.CapLen, p.WireLen
		d.general(&general, frame)
		general.ICRC, general.vcrc = p.ICRC, p.vcrc
		if general != p {
			t.Fatalf("the general way gives\n%+v, the short one\n%+v", general, p)
		}

		// A packet that is used again gives what a fresh one gives.
		again := p
		for i := range again.problem {
			again.problem[i] = Problem{}
		}
		d.Decode(LinkType(link), frame, len(frame)+int(missing), &again)
		if again.Layers() != p.Layers() || again.ICRC != p.ICRC || again.PayloadLen() != p.PayloadLen() || !slices.Equal(again.Problems(), p.Problems()) {
			t.Fatal("decoding again gives another packet")
		}
	})
}

// sampleFrames are frames of the sample captures: the first of each opcode and
// of each other kind, in each capture.
func sampleFrames(t testing.TB) (frames [][]byte) {
	t.Helper()
	files, err := filepath.Glob("../captures/samples/*.pcap")
	if err != nil || len(files) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	type kind struct {
		proto  Protocol
		layers LayerSet
		opcode Opcode
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := pcapgo.NewReader(bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		seen := map[kind]bool{}
		for {
			frame, _, err := r.ReadPacketData()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			p := decoded(LinkEthernet, frame)
			if k := (kind{p.Proto, p.Layers(), p.Opcode}); !seen[k] {
				seen[k] = true
				frames = append(frames, frame)
			}
		}
	}
	return frames
}

// checkConsistent holds what the parts of a packet say of each other.
func checkConsistent(t testing.TB, p *Packet, frame []byte) {
	t.Helper()
	for l := LayerEthernet; l < endExtLayers; l++ {
		size := l.Size()
		if l == LayerMACControl {
			size = 2
		}
		if p.Has(l) && p.Offset(l)+size > len(frame) {
			t.Fatalf("%v at %d of %d bytes is not whole", l, p.Offset(l), len(frame))
		}
	}
	for l := range p.Listed {
		if size := l.Size(); p.Offset(l)+size > len(frame) {
			t.Fatalf("%v at %d of %d bytes is not whole", l, p.Offset(l), len(frame))
		}
	}
	if p.Has(LayerBTH) && p.BTH(frame).Opcode() != p.Opcode {
		t.Fatal("the opcode is not the frame's")
	}
	if p.IsTransport() {
		for _, h := range p.Op().Headers {
			if !p.Has(h) {
				t.Fatalf("%v: IsTransport without %v", p.Opcode, h)
			}
		}
		if headers := p.Offset(LayerBTH) + p.Op().Len; headers > int(p.end) {
			t.Fatalf("%v: headers end at %d, the packet at %d", p.Opcode, headers, p.end)
		}
	}
	if p.Has(LayerICRC) {
		end := p.Offset(LayerICRC) + ICRCSize
		if end != int(p.end) || end > int(p.WireLen) && p.Depth() == 0 || p.Offset(LayerICRC) < int(p.payload)+p.PayloadLen() || p.PadCount > 3 {
			t.Fatalf("ICRC ends at %d, the packet at %d of %d", end, p.end, p.WireLen)
		}
		if whole := end <= len(frame); (p.ICRC == ICRCValid || p.ICRC == ICRCInvalid) != whole {
			t.Fatalf("ICRC %v, whole is %v", p.ICRC, whole)
		}
	} else if p.ICRC != ICRCUnchecked {
		t.Fatalf("no ICRC, but it is %v", p.ICRC)
	}
	if p.Fragment && (p.Has(LayerUDP) || p.Has(LayerTCP) || p.Has(LayerBTH)) {
		t.Fatal("layers above IP in a fragment that is not the first")
	}
	if lo := int(p.payload); p.Has(LayerPayload) != (p.PayloadLen() > 0) && !p.fragmented() && p.Has(LayerBTH) && lo <= int(p.end) {
		t.Fatalf("payload of %d bytes, layer %v", p.PayloadLen(), p.Has(LayerPayload))
	}
}

// FuzzCM: no management datagram makes a view, a field or a name panic, and
// what is read from a cut one is what is read from the whole.
func FuzzCM(f *testing.F) {
	for _, frame := range sampleFrames(f) {
		if p := decoded(LinkEthernet, frame); p.Has(LayerMAD) {
			f.Add(p.Payload(frame), uint16(madSize))
		}
	}
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		m := cmFrame(a)[madAt : madAt+madSize]
		f.Add(m, uint16(madSize))
		f.Add(m, uint16(100))
		ip := slices.Clone(m)
		put64(ip[24+8:], uint64(IPCMServiceID(PortSpaceTCP, 4420)))
		f.Add(ip, uint16(madSize))
		f.Add(ip, uint16(24+140+20))
	}
	f.Fuzz(func(t *testing.T, m []byte, kept uint16) {
		if len(m) > 1<<14 {
			return
		}
		frame := madFrame(m)
		cut := frame[:min(len(frame), madAt+int(kept))]
		cut = slices.Clip(cut)
		var p Packet
		new(Decoder).Decode(LinkEthernet, cut, len(frame), &p)
		checkReadable(t, &p, cut)
		got, ok := p.CM(cut)
		readCM(got)
		whole := decoded(LinkEthernet, frame)
		want, wholeOK := whole.CM(frame)
		if ok && !wholeOK || ok && (got.Attribute != want.Attribute || got.TransactionID != want.TransactionID || string(got.Data) != string(want.Data[:len(got.Data)])) {
			t.Fatalf("cut: %+v, whole: %+v", got, want)
		}
		if wholeOK && int(kept) >= madSize && !ok {
			t.Fatal("a whole message is not read")
		}
	})
}
