package flows

import (
	"encoding/binary"
	"math/bits"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// writes returns the frames of a few WRITEs of different lengths, pads and
// headers.
func writes(o testkit.ExchangeOptions) []testkit.Frame {
	o.MTU, o.TrafficClass = 256, 106
	x := testkit.NewExchange(o)
	for _, n := range []int{1, 5, 255, 600, 64, 1021} {
		x.A.Write(n)
	}
	var frames []testkit.Frame
	for _, f := range x.Frames() {
		f.Data = append(append([]byte(nil), f.Data...), 0xDE, 0xAD, 0xBE, 0xEF) // a frame check sequence
		f.WireLen = len(f.Data)
		frames = append(frames, f)
	}
	return frames
}

// solved spoils frames and returns what the solver says of their sender.
func solved(t *testing.T, frames []testkit.Frame, spoil func(p *dissect.Packet, frame []byte)) string {
	t.Helper()
	tr := New(Options{})
	d := dissect.Decoder{CheckICRC: true}
	for i, f := range frames {
		var p dissect.Packet
		p.Number, p.Time = uint64(i+1), f.Time
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		spoil(&p, f.Data)
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		tr.Track(&Batch{Packets: []dissect.Packet{p}, Data: [][]byte{f.Data}, Marks: make([]Mark, 1)})
	}
	tr.Finish()
	for _, f := range tr.Snapshot().Findings {
		if f.ID == findICRCSolved {
			return f.Summary
		}
	}
	return ""
}

func TestICRCMistakesAreNamed(t *testing.T) {
	for _, m := range icrcMistakes {
		t.Run(m.name, func(t *testing.T) {
			var frames []testkit.Frame
			var src dissect.Addr
			all := append(writes(testkit.ExchangeOptions{}), writes(testkit.ExchangeOptions{IPv6: true})...)
			for _, f := range all { // only those that the mistake can strike
				tr := &Tracker{icrcSenders: map[dissect.Addr]*icrcSender{}}
				var p dissect.Packet
				new(dissect.Decoder).Decode(f.Link, f.Data, f.WireLen, &p)
				tr.keepICRC(&p, f.Data)
				s := &tr.icrcSenders[p.Src].samples[0]
				crc, ok := m.sum(s)
				if !ok || crc == s.right() || len(frames) > 0 && p.Src != src {
					continue
				}
				src = p.Src
				binary.LittleEndian.PutUint32(f.Data[p.Offset(dissect.LayerICRC):], crc)
				frames = append(frames, f)
			}
			if len(frames) == 0 {
				t.Fatal("no frame of the exchanges shows the mistake")
			}
			if got := solved(t, frames, func(*dissect.Packet, []byte) {}); !strings.Contains(got, m.name) {
				t.Errorf("solver says %q, want %q", got, m.name)
			}
		})
	}
}

func TestICRCMistakesByHand(t *testing.T) {
	wire := func(p *dissect.Packet, frame []byte) []byte { return frame[p.Offset(dissect.LayerICRC):] }
	for _, c := range []struct {
		want  string
		spoil func(p *dissect.Packet, frame []byte)
	}{
		{"because its bytes are in the wrong order", func(p *dissect.Packet, frame []byte) {
			b := wire(p, frame)
			binary.LittleEndian.PutUint32(b, bits.ReverseBytes32(binary.LittleEndian.Uint32(b)))
		}},
		{"because it is always zero", func(p *dissect.Packet, frame []byte) { copy(wire(p, frame), make([]byte, 4)) }},
		{"because the final inversion is left out", func(p *dissect.Packet, frame []byte) {
			b := wire(p, frame)
			binary.LittleEndian.PutUint32(b, ^binary.LittleEndian.Uint32(b))
		}},
		{"an address was rewritten on the way: it was computed for source 10.0.0.1, or", func(p *dissect.Packet, frame []byte) { // translated on the way
			copy(frame[p.Offset(dissect.LayerIPv4)+12:], []byte{192, 0, 2, 77})
		}},
		{"the UDP source port was rewritten on the way: it was computed for port 49169", func(p *dissect.Packet, frame []byte) {
			copy(frame[p.Offset(dissect.LayerUDP):], []byte{0x12, 0x34})
		}},
		{"", func(p *dissect.Packet, frame []byte) { // damage, different in each packet
			frame[p.Offset(dissect.LayerBTH)+9+int(p.Number)%3] ^= byte(1 << (p.Number % 7))
			frame[p.Offset(dissect.LayerIPv4)+12+int(p.Number)%3] ^= byte(p.Number)
		}},
	} {
		t.Run(c.want, func(t *testing.T) {
			got := solved(t, writes(testkit.ExchangeOptions{}), c.spoil)
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("solver says %q, want %q", got, c.want)
			}
		})
	}
}
