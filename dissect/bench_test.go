package dissect

import (
	"hash/crc32"
	"testing"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
)

// benchFrames are packets as they are met most.
var benchFrames = []struct {
	name  string
	link  LinkType
	frame []byte
}{
	{"WRITE only, IPv4", LinkEthernet, ether(0x0800, roce4(transport(OpRCWriteOnly, make([]byte, 1024))))},
	{"WRITE middle, IPv4", LinkEthernet, ether(0x0800, roce4(transport(OpRCWriteMiddle, make([]byte, 1024))))},
	{"ACK, IPv4", LinkEthernet, ether(0x0800, roce4(transport(OpRCAcknowledge, nil)))},
	{"WRITE only, VLAN", LinkEthernet, ether(0x8100, tag(1, 0x0800, roce4(transport(OpRCWriteOnly, make([]byte, 1024)))))},
	{"WRITE only, IPv6", LinkEthernet, ether(0x86DD, roce6(transport(OpRCWriteOnly, make([]byte, 1024))))},
	{"WRITE only, RoCE v1", LinkEthernet, ether(0x8915, roce1(transport(OpRCWriteOnly, make([]byte, 1024))))},
	{"UD SEND only, IPv4", LinkEthernet, ether(0x0800, roce4(transport(OpUDSendOnly, make([]byte, 1024))))},
	{"CM REQ", LinkEthernet, cmFrame(CMAttrREQ)},
}

// BenchmarkDecode is the whole of Decode without the ICRC: Ethernet to the last
// extension header.
func BenchmarkDecode(b *testing.B) {
	for _, f := range benchFrames {
		b.Run(f.name, func(b *testing.B) {
			var d Decoder
			var p Packet
			b.ReportAllocs()
			for b.Loop() {
				d.Decode(f.link, f.frame, len(f.frame), &p)
			}
		})
	}
}

// BenchmarkDecodeAgainstGopacket decodes the same frame by gopacket's fastest
// way, which knows nothing behind UDP.
func BenchmarkDecodeAgainstGopacket(b *testing.B) {
	frame := benchFrames[0].frame
	b.Run("gopacket DecodingLayerParser, to UDP", func(b *testing.B) {
		var (
			eth     layers.Ethernet
			ip4     layers.IPv4
			udp     layers.UDP
			payload gopacket.Payload
		)
		parser := gopacket.NewDecodingLayerParser(layers.LayerTypeEthernet, &eth, &ip4, &udp, &payload)
		parser.IgnoreUnsupported = true
		found := make([]gopacket.LayerType, 0, 8)
		b.ReportAllocs()
		for b.Loop() {
			if err := parser.DecodeLayers(frame, &found); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("Decode, to RETH", func(b *testing.B) {
		var d Decoder
		var p Packet
		b.ReportAllocs()
		for b.Loop() {
			d.Decode(LinkEthernet, frame, len(frame), &p)
		}
		if !p.Has(LayerRETH) {
			b.Fatal("not decoded")
		}
	})
}

// BenchmarkICRC compares the ICRC of a packet of 1 KiB of payload with a plain
// CRC-32 of the same bytes.
func BenchmarkICRC(b *testing.B) {
	frame := benchFrames[0].frame
	p := decoded(LinkEthernet, frame)
	_, lo, at, _ := p.span()
	covered := frame[lo:at]
	b.Run("crc32.ChecksumIEEE", func(b *testing.B) {
		b.SetBytes(int64(len(covered)))
		b.ReportAllocs()
		var sum uint32
		for b.Loop() {
			sum += crc32.ChecksumIEEE(covered)
		}
	})
	b.Run("ICRC.Verify", func(b *testing.B) {
		var c ICRC
		b.SetBytes(int64(len(covered)))
		b.ReportAllocs()
		for b.Loop() {
			if c.Verify(p, frame) != ICRCValid {
				b.Fatal("not valid")
			}
		}
	})
}

// BenchmarkField is the generic reader, by which tree, columns and filter get
// at a value.
func BenchmarkField(b *testing.B) {
	frame := benchFrames[0].frame
	p := decoded(LinkEthernet, frame)
	f := LookupField("infiniband.bth.psn")[0]
	buf := make([]byte, 0, 64)
	b.Run("Uint", func(b *testing.B) {
		for b.Loop() {
			if _, ok := f.Uint(p, frame); !ok {
				b.Fatal("not there")
			}
		}
	})
	b.Run("AppendText", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			buf, _ = f.AppendText(buf[:0], p, frame)
		}
	})
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	for _, s := range stacks {
		frame := s.build(sample(OpRCWriteOnlyImm))
		for _, check := range []bool{false, true} {
			d := Decoder{CheckICRC: check}
			var p Packet
			if n := testing.AllocsPerRun(100, func() { d.Decode(s.link, frame, len(frame), &p) }); n != 0 {
				t.Errorf("%s, ICRC %v: %v allocations", s.name, check, n)
			}
		}
	}
}

func TestFieldsDoNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for _, b := range benchFrames {
		p := decoded(b.link, b.frame)
		for i := range Fields() {
			f := &Fields()[i]
			if n := testing.AllocsPerRun(10, func() { f.AppendText(buf[:0], p, b.frame) }); n != 0 {
				t.Errorf("%s, %s: %v allocations", b.name, f.Name, n)
			}
		}
	}
}
