package dissect

import (
	"encoding/hex"
	"math/rand/v2"
	"strings"
	"testing"
)

// The packets of the two published vectors, from the network header to the
// ICRC: both were captured on hardware.
var icrcVectors = []struct{ name, packet, icrc string }{
	{
		"CNP from a ConnectX-4 Lx",
		"45c2003c718c4000401191610a0011010a001201 000012b700280000 8100ffff4000011800000000 00000000000000000000000000000000",
		"82fd002a",
	},
	{
		"UC SEND Only with a UDP checksum and two pad bytes",
		"45010040047840004011b4d5c0a80007c0a80007 c00012b7002caca2 2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000",
		"78f353f3",
	},
}

func TestICRCVectors(t *testing.T) {
	for _, v := range icrcVectors {
		t.Run(v.name, func(t *testing.T) {
			frame, err := hex.DecodeString(strings.ReplaceAll(v.packet, " ", "") + v.icrc)
			if err != nil {
				t.Fatal(err)
			}
			d := Decoder{CheckICRC: true}
			var p Packet
			d.Decode(LinkRaw, frame, len(frame), &p)
			if p.ICRC != ICRCValid {
				t.Errorf("ICRC is %v, want valid", p.ICRC)
			}
			for _, i := range []int{1, 8, 10, 11, 26, 27, 32} { // fields that may change on the way
				changed := append([]byte(nil), frame...)
				changed[i] ^= 0x01
				d.Decode(LinkRaw, changed, len(changed), &p)
				if p.ICRC != ICRCValid {
					t.Errorf("with byte %d changed on the way: ICRC is %v, want valid", i, p.ICRC)
				}
			}
			for _, i := range []int{4, 12, 21, 29, 36, 45} {
				changed := append([]byte(nil), frame...)
				changed[i] ^= 0x01
				d.Decode(LinkRaw, changed, len(changed), &p)
				if p.ICRC != ICRCInvalid {
					t.Errorf("with byte %d damaged: ICRC is %v, want invalid", i, p.ICRC)
				}
			}
		})
	}
}

// The ICRC equals that of a bit by bit computation for packets of every kind,
// whatever their bytes are.
func TestICRCAgainstSlowReference(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	var c ICRC
	for _, k := range []struct {
		kind string
		l    Layer
		bth  int
	}{
		{"ip4", LayerIPv4, 28},
		{"ip4", LayerIPv4, 28 + 40},
		{"ip6", LayerIPv6, 48},
		{"ip6", LayerIPv6, 48 + 8},
		{"ip6", LayerIPv6, 48 + 400},
		{"ip6", LayerIPv6, 48 + 2048},
		{"grh", LayerGRH, 40},
		{"lrh", LayerLRH, 8},
		{"lrh grh", LayerLRH, 48},
	} {
		for range 60 {
			b := make([]byte, k.bth+12+r.IntN(200))
			fill(r, b)
			switch k.kind {
			case "lrh":
				b[1] = b[1]&^3 | 2
			case "lrh grh":
				b[1] |= 3
			}
			before := string(b)
			if got, want := c.Sum(b, k.l, k.bth), slowICRC(k.kind, b, k.bth); got != want {
				t.Fatalf("%s, %d bytes: %#08x, want %#08x", k.kind, len(b), got, want)
			}
			if string(b) != before {
				t.Fatal("Sum changed the packet")
			}
		}
	}
}

// Every bit of a packet is either one that may change on the way, or its
// damage is seen.
func TestICRCSeesEveryBit(t *testing.T) {
	for _, s := range stacks {
		t.Run(s.name, func(t *testing.T) {
			frame := s.build(sample(OpRCAtomicAcknowledge))
			p := decoded(s.link, frame)
			l, lo, at, ok := p.span()
			if !ok {
				t.Fatal("no ICRC")
			}
			kind := map[Layer]string{LayerIPv4: "ip4", LayerIPv6: "ip6", LayerGRH: "grh", LayerLRH: "lrh"}[l]
			if l == LayerLRH && p.Has(LayerGRH) {
				kind = "lrh grh"
			}
			bth := p.Offset(LayerBTH) - lo
			var c ICRC
			for bit := lo * 8; bit < at*8; bit++ {
				if l == LayerLRH && bit/8 == lo+1 {
					continue // what the LRH announces
				}
				damaged := append([]byte(nil), frame...)
				damaged[bit/8] ^= 0x80 >> (bit % 8)
				same := slowICRC(kind, damaged[lo:at], bth) == slowICRC(kind, frame[lo:at], bth)
				if got := c.Verify(p, damaged) == ICRCValid; got != same {
					t.Fatalf("bit %d of byte %d damaged: valid is %v", bit%8, bit/8-lo, got)
				}
			}
			if crc, ok := c.Compute(p, frame); !ok || crc != le32(frame[at:]) {
				t.Errorf("Compute is %#x, %v", crc, ok)
			}
			if _, ok := c.Compute(p, frame[:at-1]); ok {
				t.Error("computed the ICRC of a cut packet")
			}
			damaged := append([]byte(nil), frame...)
			damaged[at+2] ^= 4
			if c.Verify(p, damaged) != ICRCInvalid {
				t.Error("a damaged ICRC is valid")
			}
		})
	}
}
