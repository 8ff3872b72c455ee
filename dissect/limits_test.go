package dissect

import (
	"encoding/binary"
	"slices"
	"testing"
)

// TestIntegerLimits sets every byte, every 16-bit and every 32-bit word of every header to 0, 1, the greatest number and the one
// before: among them are all lengths, counts and offsets. Nothing may panic, and what the packet says lies in the frame.
func TestIntegerLimits(t *testing.T) {
	type seed struct {
		link  LinkType
		frame []byte
	}
	var seeds []seed
	for _, s := range stacks {
		seeds = append(seeds, seed{s.link, s.build(sample(OpRCWriteOnly))})
	}
	for i := range 256 {
		if _, ok := specHeaders(Opcode(i)); ok {
			seeds = append(seeds, seed{LinkRaw, roce4(sample(Opcode(i)))})
		}
	}
	for a := CMAttrREQ; a <= CMAttrAPR; a++ {
		seeds = append(seeds, seed{LinkEthernet, cmFrame(a)})
	}
	inner := ether(0x0800, roce4(transport(OpRCWriteOnly, make([]byte, 16))))
	for _, udp := range [][]byte{
		append([]byte{0xC1, 0, 0x12, 0xB5, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 9, 0}, inner...),                   // VXLAN
		append([]byte{0xC1, 0, 0x17, 0xC1, 0, 0, 0, 0, 1, 0, 0x65, 0x58, 0, 0, 9, 0, 0, 0, 0, 0}, inner...), // GENEVE with an option
	} {
		put16(udp[4:], uint16(len(udp)))
		seeds = append(seeds, seed{LinkRaw, ip4(17, 0, nil, udp)})
	}
	seeds = append(seeds,
		seed{LinkRaw, ip4(47, 0, nil, append([]byte{0xB0, 0, 0x65, 0x58, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2}, inner...))},
		seed{LinkEthernet, ether(0x8847, append([]byte{0, 6, 0x40, 9, 0, 6, 0x41, 9}, inner[14:]...))},
		seed{LinkEthernet, ether(0x8864, append([]byte{0x11, 0, 0, 1, 0, 80, 0, 0x21}, inner[14:]...))},
		seed{LinkEthernet, ether(0x8808, make([]byte, 46))},
		seed{LinkERF, append([]byte{0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0}, inner...)})
	tcp := make([]byte, 20, 64)
	tcp[12] = 0x50
	seeds = append(seeds,
		seed{LinkRaw, ip4(6, 0, nil, append(slices.Clone(tcp), MPARequestKey+"\x50\x02\x00\x04\x00\x01\x00\x01"...))},
		seed{LinkRaw, ip4(6, 0, nil, append(slices.Clone(tcp), append([]byte{0, 20, 0x41, 0x43}, make([]byte, 24)...)...))})

	const headers = 160 // bytes of a frame that are tried
	d := Decoder{CheckICRC: true}
	var p Packet
	tried := 0
	for _, s := range seeds {
		for at := range min(len(s.frame), headers) {
			for _, width := range []int{1, 2, 4} {
				if at+width > len(s.frame) {
					continue
				}
				for _, v := range []uint32{0, 1, 1<<(8*width) - 2, 1<<(8*width) - 1} {
					frame := slices.Clone(s.frame)
					var word [4]byte
					binary.BigEndian.PutUint32(word[:], v)
					copy(frame[at:], word[4-width:])
					d.Decode(s.link, frame, len(frame), &p)
					checkConsistent(t, &p, frame)
					if tried++; tried%16 == 0 || width == 2 && at%2 == 0 && v > 1 {
						checkReadable(t, &p, frame)
					}
				}
			}
		}
	}
	if tried < 100_000 {
		t.Errorf("only %d frames were tried", tried)
	}
}
