package fault

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"slices"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// Where things lie in the frames of writes.
const (
	atIP   = 14
	atUDP  = 34
	atBTH  = 42
	atRETH = 54
)

func be16(b []byte, v uint16) { binary.BigEndian.PutUint16(b, v) }

// TestEdits compares what arrives byte by byte with what is made of the frame by hand, and sealed by the crafter of package
// dissect.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		rule  string
		size  int // of the WRITE's payload
		want  func(f []byte) []byte
		reset bool // seal it
	}{
		{"set bth.psn=0x123456", 64, func(f []byte) []byte { copy(f[atBTH+9:], "\x12\x34\x56"); return f }, true},
		{"set bth.psn=0x123456 icrc=stale", 64, func(f []byte) []byte { copy(f[atBTH+9:], "\x12\x34\x56"); return f }, false},
		{"set bth.psn=-1", 64, func(f []byte) []byte { copy(f[atBTH+9:], "\xff\xff\xff"); return f }, true},
		{"set bth.psn=+0x800000", 64, func(f []byte) []byte { f[atBTH+9] = 0x80; return f }, true},
		{"set bth.opcode=RC_SEND_ONLY", 64, func(f []byte) []byte { f[atBTH] = 4; return f }, true},
		{"set bth.opcode=^0x20", 64, func(f []byte) []byte { f[atBTH] = 0x2a; return f }, true},
		{"set bth.tver=1 bth.m=1 bth.destqp=0xabcdef", 64, func(f []byte) []byte { f[atBTH+1] |= 0x41; copy(f[atBTH+5:], "\xab\xcd\xef"); return f }, true},
		{"set bth.reserved6=0x3f icrc=stale", 64, func(f []byte) []byte { f[atBTH+4] = 0x3f; return f }, true}, // not covered
		{"set bth.reserved7=0x7f", 64, func(f []byte) []byte { f[atBTH+8] |= 0x7f; return f }, true},
		{"set reth.va=+1 reth.r_key=^0xffffff00 reth.dmalen=0x80000001", 64, func(f []byte) []byte {
			f[atRETH+7]++
			for i := range 3 {
				f[atRETH+8+i] ^= 0xff
			}
			binary.BigEndian.PutUint32(f[atRETH+12:], 0x80000001)
			return f
		}, true},
		{"set eth.dst=02:00:00:de:ad:01", 64, func(f []byte) []byte { copy(f, "\x02\x00\x00\xde\xad\x01"); return f }, false},
		{"set ip.src=192.0.2.1", 64, func(f []byte) []byte { copy(f[atIP+12:], "\xc0\x00\x02\x01"); return f }, true},
		{"set ip.ttl=1 icrc=stale", 64, func(f []byte) []byte { f[atIP+8] = 1; return f }, true}, // masked
		{"set ip.dsfield.ecn=3", 64, func(f []byte) []byte { f[atIP+1] |= 3; return f }, true},
		{"ecn", 64, func(f []byte) []byte { f[atIP+1] |= 3; return f }, true},
		{"ecn as=ect1", 64, func(f []byte) []byte { f[atIP+1] = f[atIP+1]&^3 | 1; return f }, true},
		{"set udp.srcport=7", 64, func(f []byte) []byte { be16(f[atUDP:], 7); return f }, true},
		{"set udp.checksum=0xdead", 64, func(f []byte) []byte { be16(f[atUDP+6:], 0xdead); return f }, false},
		{"set udp.checksum=right", 64, func(f []byte) []byte { be16(f[atUDP+6:], 1); return f }, true},
		{"set ip.checksum=0", 64, func(f []byte) []byte { be16(f[atIP+10:], 0); return f }, false},
		{"corrupt bit=9", 64, func(f []byte) []byte { f[atBTH+1] ^= 0x40; return f }, false},
		{"corrupt where=frame bit=0", 64, func(f []byte) []byte { f[0] ^= 0x80; return f }, false},
		{"corrupt where=payload byte=3", 64, func(f []byte) []byte { f[atRETH+16+3] ^= 0xff; return f }, false},
		{"corrupt where=payload byte=3 to=0x5a icrc=ok", 64, func(f []byte) []byte { f[atRETH+16+3] = 0x5a; return f }, true},
		{"corrupt where=icrc byte=1 xor=0x10", 64, func(f []byte) []byte { f[len(f)-3] ^= 0x10; return f }, false},
		{"corrupt where=pad byte=0 to=1 icrc=ok", 63, func(f []byte) []byte { f[len(f)-5] = 1; return f }, true},
		{"icrc bit=0", 64, func(f []byte) []byte { f[len(f)-4] ^= 0x80; return f }, false},
		{"icrc as=swap", 64, func(f []byte) []byte { slices.Reverse(f[len(f)-4:]); return f }, false},
		{"icrc as=zero", 64, func(f []byte) []byte { clear(f[len(f)-4:]); return f }, false},
		{"truncate to=50", 64, func(f []byte) []byte { return f[:50] }, false},
		{"truncate by=4", 64, func(f []byte) []byte { return f[:len(f)-4] }, false},
		{"truncate by=4 lengths=fix icrc=ok", 64, func(f []byte) []byte { return shorten(f[:len(f)-4]) }, true},
		{"truncate where=payload by=3", 64, func(f []byte) []byte {
			f = append(f[:len(f)-4-3], "\x00\x00\x00\x00\x00\x00\x00"...)
			f[atBTH+1] |= 0x30
			return f
		}, true},
		{"truncate where=payload to=0 then set reth.dmalen=0", 64, func(f []byte) []byte {
			clear(f[atRETH+12 : atRETH+16])
			return shorten(f[:atRETH+16+4])
		}, true},
		{"truncate where=reth", 64, func(f []byte) []byte { return shorten(slices.Delete(f, atRETH, atRETH+16)) }, true},
		{"pad n=5 with=0xaa", 64, func(f []byte) []byte {
			f = append(f[:len(f)-4], "\xaa\xaa\xaa\xaa\xaa\x00\x00\x00\x00\x00\x00\x00"...)
			f[atBTH+1] |= 0x30
			return shorten(f)
		}, true},
		{"pad where=frame n=3 with=1", 64, func(f []byte) []byte { return append(f, 1, 1, 1) }, false},
		{"tag id=5 pcp=3", 64, func(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0x60, 5) }, false},
		{"tag id=5 then tag type=0x88a8 id=6 then untag", 64, func(f []byte) []byte { return slices.Insert(f, 12, 0x81, 0, 0, 5) }, false},
		{"options n=8", 64, func(f []byte) []byte {
			f = slices.Insert(f, atUDP, 1, 1, 1, 1, 1, 1, 1, 1)
			f[atIP] = 0x47
			be16(f[atIP+2:], uint16(len(f)-atIP))
			return f
		}, true},
		{"tag id=5 then set bth.psn=9 then corrupt where=bth byte=0 xor=1", 64, func(f []byte) []byte {
			f[atBTH+11] = 9
			seal(t, f)
			f[atBTH] ^= 1
			return slices.Insert(f, 12, 0x81, 0, 0, 5)
		}, false},
	} {
		frame := writes(1, c.size)[0]
		want := c.want(slices.Clone(frame))
		if c.reset {
			seal(t, want)
		}
		got := through(t, [][]byte{frame}, 0, c.rule)
		if len(got) != 1 || !bytes.Equal(got[0], want) {
			t.Errorf("%s:\n%s\nwant\n%s\nof\n%s", c.rule, dump(got), hex.EncodeToString(want), hex.EncodeToString(frame))
		}
	}
}

func dump(frames [][]byte) (text string) {
	for _, f := range frames {
		text += hex.EncodeToString(f) + "\n"
	}
	return text
}

// shorten makes IP and UDP lengths those of a frame.
func shorten(f []byte) []byte {
	be16(f[atIP+2:], uint16(len(f)-atIP))
	be16(f[atUDP+4:], uint16(len(f)-atUDP))
	return f
}

func seal(t *testing.T, f []byte) {
	t.Helper()
	var c dissect.Crafter
	if err := c.Reseal(dissect.LinkEthernet, f); err != nil {
		t.Fatalf("%v: %x", err, f)
	}
}

// TestLyingLengths: lengths that no decoder believes, with an ICRC that is right over what is there. A plain CRC over the masked
// packet, made here, tells.
func TestLyingLengths(t *testing.T) {
	for _, c := range []struct {
		rule string
		at   int // of the ICRC from the end of the frame
		len  int // difference to the frame's length
	}{
		{"set ip.len=+64", 4, 0},
		{"set udp.length=+64", 4, 0},
		{"set udp.length=20", 4, 0},
		{"set ip.version=5", 4, 0},
		{"set ip.ihl=4", 4, 0},
		{"set ip.proto=6", 4, 0},
		{"set udp.dstport=4792", 4, 0},
		{"set ip.flags.mf=1", 4, 0},
		{"set bth.padcnt=3", 4, 0},
		{"pad where=ip n=8", 12, 8},
		{"pad n=1 align=no", 4, 1},
	} {
		frame := writes(1, 64)[0]
		got := through(t, [][]byte{frame}, 0, c.rule)
		if len(got) != 1 || len(got[0]) != len(frame)+c.len {
			t.Errorf("%s: %s", c.rule, dump(got))
			continue
		}
		f := got[0]
		at := len(f) - c.at
		if icrc := plainICRC(f[atIP:at]); icrc != binary.LittleEndian.Uint32(f[at:]) {
			t.Errorf("%s: the ICRC is %08x, want %08x", c.rule, binary.LittleEndian.Uint32(f[at:]), icrc)
		}
	}
}

// plainICRC is the ICRC of an IPv4 packet, the long way.
func plainICRC(b []byte) uint32 {
	b = append(bytes.Repeat([]byte{0xff}, 8), b...)
	for _, i := range []int{1, 8, 10, 11, 26, 27, 32} {
		b[8+i] = 0xff
	}
	return crc32.ChecksumIEEE(b)
}

func TestBareICRC(t *testing.T) {
	f := through(t, writes(1, 64), 0, "icrc as=bare")[0]
	b := slices.Clone(f[atIP : len(f)-4])
	for _, i := range []int{1, 8, 10, 11, 26, 27, 32} {
		b[i] = 0xff
	}
	if want := crc32.ChecksumIEEE(b); want != binary.LittleEndian.Uint32(f[len(f)-4:]) {
		t.Errorf("%x, want %08x", f[len(f)-4:], want)
	}
}

// TestRandomBits: as many bits differ as were asked for, where they were asked for.
func TestRandomBits(t *testing.T) {
	for _, n := range []int{1, 2, 5, 96} {
		frames := writes(50, 64)
		got := through(t, frames, 0, "corrupt where=bth n="+string(rune('0'+n%10)), "corrupt n=1")
		if n == 96 {
			got = through(t, frames, 0, "corrupt where=bth n=96")
		}
		for i, f := range got {
			differ := 0
			for k := range f {
				x := f[k] ^ frames[i][k]
				for ; x != 0; x &= x - 1 {
					differ++
					if k < atBTH || k >= atBTH+12 {
						t.Errorf("byte %d differs", k)
					}
				}
			}
			if differ != n {
				t.Errorf("%d bits differ, want %d", differ, n)
			}
		}
	}
}

// TestIPv6: sealing, options and ECN over IPv6, behind a tag.
func TestIPv6(t *testing.T) {
	frames := exchange(testkit.ExchangeOptions{IPv6: true, VLANs: []uint16{0x6005}}, 1, 100)
	for _, rule := range []string{"set bth.psn=77", "set ipv6.src=2001:db8::77", "ecn", "set ipv6.flow=random", "options", "truncate where=payload by=5", "pad n=9", "untag"} {
		got := through(t, frames, 0, rule)
		if len(got) != 1 || bytes.Equal(got[0], frames[0]) {
			t.Fatalf("%s: %s", rule, dump(got))
		}
		p := decode(got[0])
		if p.ICRC != dissect.ICRCValid || p.Malformed() {
			t.Errorf("%s: ICRC %v, problems %v", rule, p.ICRC, p.Problems())
		}
		switch rule {
		case "ecn":
			if p.ECN() != 3 {
				t.Errorf("%s: %d", rule, p.ECN())
			}
		case "options":
			if len(got[0]) != len(frames[0])+8 || got[0][18+6] != dissect.ExtDestination {
				t.Errorf("%s: %x", rule, got[0])
			}
		}
	}
}
