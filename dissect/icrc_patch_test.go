package dissect

import (
	"math/rand/v2"
	"testing"
)

// patchFrames are frames of several lengths and layouts with the words that a generator patches in them.
func patchFrames(t testing.TB) (frames [][]byte, words [][]ICRCWord) {
	for _, payload := range []int{0, 1, 64, 1024, 4093, 4096} {
		for _, f := range [][]byte{
			ether(0x0800, roce4(transport(OpRCWriteOnly, make([]byte, payload)))),
			ether(0x8100, tag(5, 0x86DD, roce6(transport(OpRCWriteOnlyImm, make([]byte, payload))))),
			ether(0x0800, roce4(transport(OpRCCompareSwap, nil))),
		} {
			var d Decoder
			var p Packet
			d.Decode(LinkEthernet, f, len(f), &p)
			bth, icrc := p.Offset(LayerBTH), p.Offset(LayerICRC)
			var of []ICRCWord
			for at := bth + 8; at < bth+p.Op().Len; at += 4 {
				w, ok := NewICRCWord(at, icrc)
				if !ok {
					t.Fatalf("no word at %d of %d", at, icrc)
				}
				of = append(of, w)
			}
			frames, words = append(frames, f), append(words, of)
		}
	}
	return frames, words
}

// A million packets get random values in all that a generator patches; each ICRC is that of the whole computation.
func TestICRCPatchIsExact(t *testing.T) {
	n := 1_000_000
	if testing.Short() {
		n = 50_000
	}
	frames, words := patchFrames(t)
	var (
		c    ICRC
		d    Decoder
		p    Packet
		rnd  = rand.New(rand.NewPCG(1, 2))
		base = make([]uint32, len(frames))
	)
	for i, f := range frames {
		for _, w := range words[i] {
			w.Put(f, 0)
		}
		d.Decode(LinkEthernet, f, len(f), &p)
		base[i], _ = c.Compute(&p, f)
	}
	for round := range n {
		i := rnd.IntN(len(frames))
		f, crc := frames[i], base[i]
		for _, w := range words[i] {
			v := rnd.Uint32()
			crc ^= w.Put(f, v)
			if w.Delta(v) != w.Delta(v&^0xFFFF)^w.Delta16(uint16(v)) {
				t.Fatalf("the delta of 0x%x is not that of its halves", v)
			}
		}
		putLE32(f[len(f)-ICRCSize:], crc)
		d.Decode(LinkEthernet, f, len(f), &p)
		if got := c.Verify(&p, f); got != ICRCValid {
			t.Fatalf("patch %d, frame %d: the ICRC is %v", round, i, got)
		}
	}
}

func TestICRCWordKnowsItsReach(t *testing.T) {
	for _, c := range []struct {
		at, icrc int
		ok       bool
	}{
		{0, 4, true},
		{1, 4, false},
		{-1, 40, false},
		{0, ICRCReach, true},
		{0, ICRCReach + 1, false},
	} {
		if _, ok := NewICRCWord(c.at, c.icrc); ok != c.ok {
			t.Errorf("a word at %d of %d: %v, want %v", c.at, c.icrc, ok, c.ok)
		}
	}
}

// BenchmarkICRCPatch sets beside the ICRC of a WRITE of 1 KiB what patching its PSN and VA costs: all bytes of both, and as a
// generator does it that keeps what the upper halves give, since they seldom change.
func BenchmarkICRCPatch(b *testing.B) {
	f := ether(0x0800, roce4(transport(OpRCWriteOnly, make([]byte, 1024))))
	var (
		c ICRC
		d Decoder
		p Packet
	)
	d.Decode(LinkEthernet, f, len(f), &p)
	bth, icrc := p.Offset(LayerBTH), p.Offset(LayerICRC)
	b.Run("full ICRC", func(b *testing.B) {
		for b.Loop() {
			putLE32(f[icrc:], c.Sum(f[14:icrc], LayerIPv4, bth-14))
		}
	})
	psn, _ := NewICRCWord(bth+8, icrc)
	hi, _ := NewICRCWord(bth+12, icrc)
	lo, _ := NewICRCWord(bth+16, icrc)
	var v uint32
	b.Run("patch all of PSN and VA", func(b *testing.B) {
		for b.Loop() {
			v++
			putLE32(f[icrc:], psn.Put(f, v)^hi.Put(f, v>>3)^lo.Put(f, v*0x9E3779B1))
		}
	})
	b.Run("patch PSN and VA", func(b *testing.B) {
		was, delta := uint32(0), uint32(0)
		for b.Loop() {
			v++
			put32(f[bth+8:], v)
			put64(f[bth+12:], 0x7F00<<32|uint64(v*0x9E3779B1))
			if upper := v >> 16; upper != was {
				was, delta = upper, psn.Delta(v&^0xFFFF)^hi.Delta(0x7F00)
			}
			putLE32(f[icrc:], delta^psn.Delta16(uint16(v))^lo.Delta(v*0x9E3779B1))
		}
	})
}
