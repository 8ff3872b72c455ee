package dissect

import (
	"encoding/hex"
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
