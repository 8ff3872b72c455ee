package gopacketlayer_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/dissect/gopacketlayer"
)

var (
	_ gopacket.Layer             = (*gopacketlayer.BTH)(nil)
	_ gopacket.DecodingLayer     = (*gopacketlayer.RETH)(nil)
	_ gopacket.SerializableLayer = (*gopacketlayer.ICRC)(nil)
)

// crafted is a frame of an opcode with random headers, of one of the kinds that RoCE travels in.
func crafted(t testing.TB, op dissect.Opcode, seed uint64, size int) []byte {
	r := rand.New(rand.NewPCG(seed, uint64(op)))
	o := dissect.Outer{Src: netip.MustParseAddr("10.0.0.1"), Dst: netip.MustParseAddr("10.0.0.2"), SrcPort: 0xC000, IPID: uint16(seed), TrafficClass: 0x6A}
	switch seed % 4 {
	case 1:
		o.Src, o.Dst = netip.MustParseAddr("2001:db8::1"), netip.MustParseAddr("2001:db8::2")
	case 2:
		o.RoCEv1 = true
	case 3:
		o.VLANs = []uint16{100}
	}
	frame := o.AppendTo(nil)
	at := len(frame)
	frame = dissect.AppendTransport(frame, op)
	for i := at + 5; i < len(frame); i++ { // DestQP and what follows it
		frame[i] = byte(r.Uint32())
	}
	payload := make([]byte, size)
	for i := range payload {
		payload[i] = byte(r.Uint32())
	}
	var c dissect.Crafter
	frame, err := c.Seal(&o, append(frame, payload...))
	if err != nil {
		t.Fatal(err)
	}
	return frame
}

// TestEveryOpcode decodes packets of every opcode, compares them with dissect's reading and serializes them again.
func TestEveryOpcode(t *testing.T) {
	for i := range 256 {
		op := dissect.Opcode(i)
		for seed := range uint64(4) {
			frame := crafted(t, op, seed, i%9)
			var d dissect.Decoder
			var p dissect.Packet
			d.Decode(dissect.LinkEthernet, frame, len(frame), &p)
			for _, options := range []gopacket.DecodeOptions{gopacket.Default, gopacket.Lazy, {SkipDecodeRecovery: true, NoCopy: true}} {
				packet := gopacket.NewPacket(frame, layers.LayerTypeEthernet, options)
				if e := packet.ErrorLayer(); e != nil {
					t.Fatalf("%v: %v", op, e.Error())
				}
				var got, want []string
				for _, l := range packet.Layers() {
					if 1791 <= l.LayerType() && l.LayerType() <= 1803 || l.LayerType() == gopacket.LayerTypePayload {
						got = append(got, l.LayerType().String())
					}
				}
				if p.Has(dissect.LayerGRH) {
					want = append(want, "GRH")
				}
				want = append(want, "BTH")
				for _, l := range op.Info().Headers {
					name, _, _ := bytes.Cut([]byte(l.String()), []byte(" "))
					want = append(want, string(name))
				}
				want = append(want, "ICRC")
				if i%9 > 0 {
					want = append(want, "Payload")
				}
				if !slices.Equal(got, want) {
					t.Fatalf("%v: layers %v, want %v", op, got, want)
				}
				for _, l := range packet.Layers() {
					if h, ok := l.(*gopacketlayer.RETH); ok && h.View.VA() != p.VA {
						t.Errorf("%v: VA %#x, want %#x", op, h.View.VA(), p.VA)
					}
				}
				if bth := packet.Layer(gopacketlayer.LayerTypeBTH).(*gopacketlayer.BTH); bth.View.PSN() != p.PSN || bth.View.DestQP() != p.DestQP {
					t.Errorf("%v: PSN %d, want %d", op, bth.View.PSN(), p.PSN)
				}
				if app := packet.ApplicationLayer(); i%9 > 0 && !bytes.Equal(app.Payload(), p.Payload(frame)) {
					t.Errorf("%v: payload % x, want % x", op, app.Payload(), p.Payload(frame))
				}

				for _, compute := range []bool{false, true} {
					if again := serialize(t, packet, compute); !bytes.Equal(again[:len(frame)], frame) { // gopacket fills short frames up to 60 bytes
						t.Fatalf("%v, seed %d, computed %v: serialized\n% x, was\n% x", op, seed, compute, again, frame)
					}
				}
			}
		}
	}
}

// serialize writes a decoded packet anew: as it was, or with its pad, lengths and CRC taken away and computed again.
func serialize(t *testing.T, packet gopacket.Packet, compute bool) []byte {
	t.Helper()
	var outer []gopacket.SerializableLayer
	for _, l := range packet.Layers() {
		switch l := l.(type) {
		case *layers.IPv4, *layers.IPv6, *layers.UDP, *gopacketlayer.GRH:
			outer = append(outer, l.(gopacket.SerializableLayer))
		case *gopacketlayer.BTH:
			gopacketlayer.SetNetworkLayersForICRC(l, outer...)
		}
	}
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializePacket(buf, gopacket.SerializeOptions{FixLengths: compute}, packet); err != nil {
		t.Fatal(err)
	}
	if !compute {
		return buf.Bytes()
	}
	// The UDP checksum stays 0, as RoCE likes it: UDP goes in front by hand.
	var inner []gopacket.SerializableLayer
	for _, l := range packet.Layers() {
		inner = append(inner, l.(gopacket.SerializableLayer))
	}
	buf = gopacket.NewSerializeBuffer()
	for _, l := range slices.Backward(inner) {
		_, isUDP := l.(*layers.UDP)
		if icrc, ok := l.(*gopacketlayer.ICRC); ok {
			icrc.View = nil
		}
		if bth, ok := l.(*gopacketlayer.BTH); ok {
			defer func(v dissect.BTH) { bth.View = v }(bth.View)
			bth.View = slices.Clone(bth.View)
			bth.View.SetPadCnt(0)
		}
		if err := l.SerializeTo(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: !isUDP}); err != nil {
			t.Fatal(err)
		}
		buf.PushLayer(l.LayerType())
	}
	return buf.Bytes()
}

func TestICRCBehindPayload(t *testing.T) {
	bth := gopacketlayer.NewBTH(dissect.OpRCSendOnly)
	ip := &layers.IPv4{Version: 4, TTL: 1, Protocol: layers.IPProtocolUDP, SrcIP: []byte{1, 2, 3, 4}, DstIP: []byte{5, 6, 7, 8}}
	udp := &layers.UDP{DstPort: 4791}
	if err := udp.SetNetworkLayerForChecksum(ip); err != nil {
		t.Fatal(err)
	}
	gopacketlayer.SetNetworkLayersForICRC(bth, ip, udp)
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	a, b := gopacket.NewSerializeBuffer(), gopacket.NewSerializeBuffer()
	icrc, data := &gopacketlayer.ICRC{}, gopacket.Payload("x")
	if err := gopacket.SerializeLayers(a, opts, ip, udp, bth, icrc, data); err != nil {
		t.Fatal(err)
	}
	if err := gopacket.SerializeLayers(b, opts, ip, udp, bth, data, icrc); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Errorf("ICRC in front: % x\nbehind: % x", a.Bytes(), b.Bytes())
	}
	d := dissect.Decoder{CheckICRC: true}
	var p dissect.Packet
	d.Decode(dissect.LinkRaw, a.Bytes(), len(a.Bytes()), &p)
	if p.ICRC != dissect.ICRCValid || p.UDP(a.Bytes()).Checksum() == 0 {
		t.Errorf("ICRC %v, UDP checksum %#x", p.ICRC, p.UDP(a.Bytes()).Checksum())
	}

	gopacketlayer.SetNetworkLayersForICRC(bth)
	if err := gopacket.SerializeLayers(a, opts, bth, icrc, data); !errors.Is(err, gopacketlayer.ErrNoNetworkLayers) {
		t.Errorf("without network layers: %v", err)
	}
	if err := gopacket.SerializeLayers(a, opts, bth, data); !errors.Is(err, gopacketlayer.ErrNoICRC) {
		t.Errorf("without ICRC: %v", err)
	}
}

func TestCutAndBroken(t *testing.T) {
	frame := crafted(t, dissect.OpRCWriteOnly, 0, 100)
	for n := range frame {
		packet := gopacket.NewPacket(frame[:n], layers.LayerTypeEthernet, gopacket.DecodeOptions{SkipDecodeRecovery: true})
		if packet.Layer(gopacketlayer.LayerTypeICRC) != nil {
			t.Fatalf("cut to %d bytes: an ICRC is found", n)
		}
		if n >= 70 && (packet.Layer(gopacketlayer.LayerTypeRETH) == nil || packet.ErrorLayer() != nil) {
			t.Errorf("cut to %d bytes: %v", n, packet.ErrorLayer())
		}
		if n > 42 && n < 70 && packet.ErrorLayer() == nil {
			t.Errorf("cut to %d bytes, in the middle of a header: no error", n)
		}
	}
	short := crafted(t, dissect.OpRCSendOnly, 0, 0)
	short[14+28+1] |= 0x30 // a pad count where there is nothing
	if packet := gopacket.NewPacket(short, layers.LayerTypeEthernet, gopacket.Default); packet.ErrorLayer() == nil {
		t.Error("a pad count beyond the packet: no error")
	}
	elsewhere := crafted(t, dissect.OpRCSendOnly, 0, 0)
	copy(elsewhere[34:38], []byte{0x12, 0xB7, 0, 53}) // from 4791 to another port
	if packet := gopacket.NewPacket(elsewhere, layers.LayerTypeEthernet, gopacket.Default); packet.Layer(gopacketlayer.LayerTypeBTH) != nil {
		t.Error("a packet from port 4791 was taken for RoCE")
	}
}

func newParser() (*gopacket.DecodingLayerParser, *gopacketlayer.Stack) {
	parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet,
		new(layers.Ethernet), new(layers.Dot1Q), new(layers.IPv4), new(layers.IPv6), new(layers.UDP), new(gopacket.Payload))
	stack := new(gopacketlayer.Stack)
	for _, l := range stack.DecodingLayers() {
		parser.AddDecodingLayer(l)
	}
	return parser, stack
}

func TestParser(t *testing.T) {
	parser, stack := newParser()
	var decoded []gopacket.LayerType
	for i := range 256 {
		for seed := range uint64(4) {
			frame := crafted(t, dissect.Opcode(i), seed, 1+i%9)
			if err := parser.DecodeLayers(frame, &decoded); err != nil {
				t.Fatalf("%v: %v", dissect.Opcode(i), err)
			}
			if n := len(dissect.Opcode(i).Info().Headers); decoded[len(decoded)-1] != gopacket.LayerTypePayload || decoded[len(decoded)-3-n] != gopacketlayer.LayerTypeBTH {
				t.Errorf("%v: %v", dissect.Opcode(i), decoded)
			}
			if want := frame[len(frame)-4:]; !bytes.Equal(stack.ICRC.View, want) {
				t.Errorf("%v: ICRC % x, want % x", dissect.Opcode(i), stack.ICRC.View, want)
			}
		}
	}
	frame := crafted(t, dissect.OpRCWriteOnly, 0, 64)
	if n := testing.AllocsPerRun(100, func() { _ = parser.DecodeLayers(frame, &decoded) }); n != 0 {
		t.Errorf("%v allocations a packet", n)
	}
	if err := parser.DecodeLayers(frame[:90], &decoded); err != nil || slices.Contains(decoded, gopacketlayer.LayerTypeICRC) {
		t.Errorf("a cut packet: %v, %v", err, decoded)
	}
}

// FuzzLayers: any bytes decode without a panic, each way, and both ways find the same layers.
func FuzzLayers(f *testing.F) {
	for i := range 256 {
		f.Add(crafted(f, dissect.Opcode(i), uint64(i), i%7)[42:])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for typ := gopacketlayer.LayerTypeBTH; typ <= gopacketlayer.LayerTypeGRH; typ++ {
			packet := gopacket.NewPacket(data, typ, gopacket.DecodeOptions{SkipDecodeRecovery: true})
			left := len(data)
			var found []gopacket.LayerType
			for _, l := range packet.Layers() {
				left -= len(l.LayerContents())
				if l.LayerType() != gopacket.LayerTypeDecodeFailure {
					found = append(found, l.LayerType())
				}
			}
			if left < 0 {
				t.Errorf("%v: %d bytes more than there are", typ, -left)
			}
			if packet.ErrorLayer() == nil && !packet.Metadata().Truncated {
				buf := gopacket.NewSerializeBuffer()
				if err := gopacket.SerializePacket(buf, gopacket.SerializeOptions{}, packet); err != nil {
					t.Error(err)
				}
			}
			if typ != gopacketlayer.LayerTypeBTH && typ != gopacketlayer.LayerTypeGRH {
				continue
			}
			stack := new(gopacketlayer.Stack)
			parser := gopacket.NewDecodingLayerParser(typ, new(gopacket.Payload))
			parser.IgnorePanic = true
			for _, l := range stack.DecodingLayers() {
				parser.AddDecodingLayer(l)
			}
			var decoded []gopacket.LayerType
			_ = parser.DecodeLayers(data, &decoded)
			if !slices.Equal(decoded, found) {
				t.Errorf("%v: packet has %v, parser found %v", typ, found, decoded)
			}
		}
	})
}
