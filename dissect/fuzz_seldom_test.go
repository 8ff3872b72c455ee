package dissect

import (
	"bytes"
	"encoding/hex"
	"strings"
	"testing"
)

// FuzzLLDP: whatever the elements are, nothing panics, and what is read lies in the data unit.
func FuzzLLDP(f *testing.F) {
	for _, u := range []string{
		"0207040200000000aa 0409054574683130 2f3100 06020078 0000",
		"fe190080c20984012345670a141e050f050f0f0202000202020002 fe060080c20b8808 fe0e0080c20c006189156312b7c5001a 0000",
		"fe3d001b2102 020a00000000000500000004 041100008000000100023c2800000000000003 06060100c0001808 0810000080008915001b210812b7011b2118",
	} {
		b, err := hex.DecodeString(strings.ReplaceAll(u, " ", ""))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		f.Add(b[:len(b)/2])
	}
	f.Fuzz(func(t *testing.T, unit []byte) {
		frame := append([]byte{1, 0x80, 0xC2, 0, 0, 0x0E, 2, 0, 0, 0, 0, 1, 0x88, 0xCC}, unit...)
		d := Decoder{CheckICRC: true}
		var p Packet
		d.Decode(LinkEthernet, frame, len(frame), &p)
		checkConsistent(t, &p, frame)
		checkReadable(t, &p, frame)
		if p.Malformed() && len(unit) >= 2 {
			t.Fatalf("called malformed: %v", p.Problems())
		}
		h := p.LLDP(frame)
		h.PFC()
		m := h.Priorities()
		for dscp := range uint8(64) {
			if v, ok := m.Of(dscp, true); ok && v > 7 {
				t.Fatalf("DSCP %d travels in priority %d", dscp, v)
			}
		}
		for i := range Fields() {
			if x := &Fields()[i]; x.Part != nil {
				if raw, ok := x.Raw(&p, frame); ok && !bytes.Contains(unit, raw) {
					t.Fatalf("%s lies outside", x.Name)
				}
			}
		}
	})
}

// FuzzManagement: whatever a datagram of a management class holds, nothing panics, and it has the fields of one attribute.
func FuzzManagement(f *testing.F) {
	for i := range attributes {
		a := &attributes[i]
		b := make([]byte, madSize)
		b[0], b[1], b[2], b[3] = 1, byte(a.class), 1, byte(MethodGetResp)
		put16(b[16:], a.id)
		f.Add(byte(1), b)
		f.Add(byte(0), b[:100])
	}
	f.Fuzz(func(t *testing.T, qp byte, mad []byte) {
		tr := transport(OpUDSendOnly, mad[:min(len(mad), 1024)])
		tr[5], tr[6], tr[7] = 0, 0, qp&1
		frame := ether(0x0800, roce4(tr))
		d := Decoder{CheckICRC: true}
		var p Packet
		d.Decode(LinkEthernet, frame, len(frame), &p)
		checkConsistent(t, &p, frame)
		checkReadable(t, &p, frame)
	})
}
