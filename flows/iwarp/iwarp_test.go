package iwarp

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

func follow(frames []testkit.Frame) *gathered { return followWith(Options{}, frames) }

func followWith(o Options, frames []testkit.Frame) *gathered {
	g := &gathered{}
	o.Sink = g.sink()
	tr := New(o)
	var d dissect.Decoder
	var p dissect.Packet
	for i, f := range frames {
		p.Number, p.Time = uint64(i+1), f.Time
		d.Decode(f.Link, f.Data, f.WireLen, &p)
		tr.Packet(&p, f.Data)
	}
	g.conns = tr.Connections()
	tr.Finish()
	if tr.bytes != 0 {
		panic(fmt.Sprintf("%d bytes are still held", tr.bytes))
	}
	return g
}

// rules lists the events but for losses.
func (g *gathered) rules() (names []string) {
	for _, e := range g.events {
		if e.Rule != Lost {
			names = append(names, fmt.Sprint(e.Rule, e.Args))
		}
	}
	return names
}

// story is a connection's messages in brief.
func (g *gathered) story() (lines []string) {
	for _, m := range g.messages {
		lines = append(lines, fmt.Sprintf("%v %d %v: STag 0x%x at 0x%x, %d bytes, MSN %d", m.Op, m.Direction, m.Status, m.STag, m.Offset, m.Length, m.MSN))
	}
	slices.Sort(lines)
	return lines
}

type mode struct {
	name         string
	markers, crc bool
}

var modes = []mode{{"plain", false, false}, {"CRC", false, true}, {"markers", true, false}, {"markers and CRC", true, true}}

func (m mode) flags() (f byte) {
	if m.markers {
		f |= 0x80
	}
	if m.crc {
		f |= 0x40
	}
	return f
}

func bytesOf(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i*7 + 1)
	}
	return b
}

// half is what one side sends behind the start-up frame: FPDUs and where they
// begin.
type half struct {
	mpa    testkit.MPA
	stream []byte
	begins []int
}

func (h *half) add(ulpdus ...[]byte) {
	for _, u := range ulpdus {
		h.begins = append(h.begins, len(h.stream))
		h.stream = append(h.stream, h.mpa.FPDU(u)...)
	}
}

// talk is a conversation with a message of each kind: what A sends, then what B
// sends.
func talk(m mode) (a, b half) {
	a.mpa, b.mpa = testkit.MPA{Markers: m.markers, CRC: m.crc}, testkit.MPA{Markers: m.markers, CRC: m.crc}
	data := bytesOf(5000)
	a.add(testkit.Untagged(3, true, 0, 0, 1, 0, data[:30]))
	for at := 0; at < 5000; at += 1000 { // a WRITE of five segments
		a.add(testkit.Tagged(0, at == 4000, 0xABCD01, 0x7000+uint64(at), data[at:at+1000]))
	}
	a.add(
		testkit.Untagged(5, false, 0, 0, 2, 0, data[:1001]), testkit.Untagged(5, true, 0, 0, 2, 1001, data[:500]), // SEND with SE, two segments
		testkit.Untagged(4, true, 0xDEAD, 0, 3, 0, data[:1]),
		testkit.ReadRequest(1, 0x51, 0x100, 2500, 0x52, 0x200),
		testkit.Untagged(8, true, 0, 0, 4, 0, data[:8]),
		testkit.Untagged(10, true, 0, 1, 2, 0, append([]byte{0, 0, 0, 0, 0, 0, 0, 77, 0, 0, 0, 0x53}, make([]byte, 40)...)),
	)
	for at := 0; at < 2500; at += 1250 {
		b.add(testkit.Tagged(2, at == 1250, 0x51, 0x100+uint64(at), data[at:at+1250]))
	}
	b.add(testkit.Untagged(11, true, 0, 3, 1, 0, append([]byte{0, 0, 0, 77}, data[:8]...)), testkit.Untagged(3, true, 0, 0, 1, 0, data[:64]))
	return a, b
}

// story of talk where nothing is lost.
var whole = []string{
	"atomic 0 done: STag 0x53 at 0x0, 8 bytes, MSN 2",
	"immediate 0 done: STag 0x0 at 0x0, 8 bytes, MSN 4",
	"read 0 done: STag 0x52 at 0x200, 2500 bytes, MSN 1",
	"send 0 done: STag 0x0 at 0x0, 1 bytes, MSN 3",
	"send 0 done: STag 0x0 at 0x0, 1501 bytes, MSN 2",
	"send 0 done: STag 0x0 at 0x0, 30 bytes, MSN 1",
	"send 1 done: STag 0x0 at 0x0, 64 bytes, MSN 1",
	"write 0 done: STag 0xabcd01 at 0x7000, 5000 bytes, MSN 0",
}

func open(m mode) *testkit.Duplex {
	d := testkit.NewDuplex()
	d.Send(0, testkit.MPAFrame("Req", m.flags(), 1, nil))
	d.Ack(1)
	d.Send(1, testkit.MPAFrame("Rep", m.flags(), 1, []byte("hello")))
	d.Ack(0)
	return d
}

// segments sends a stream in pieces of so many bytes.
func segments(d *testkit.Duplex, side int, stream []byte, size int) {
	for len(stream) > 0 {
		n := min(size, len(stream))
		d.Send(side, stream[:n])
		stream = stream[n:]
	}
	d.Ack(1 - side)
}

func TestMessages(t *testing.T) {
	for _, m := range modes {
		for _, size := range []int{1, 3, 7, 100, 512, 1460, 9000, 60000} {
			t.Run(fmt.Sprintf("%s, segments of %d", m.name, size), func(t *testing.T) {
				d := open(m)
				a, b := talk(m)
				segments(d, 0, a.stream, size)
				segments(d, 1, b.stream, size)
				g := follow(d.Frames)
				if diff := cmp.Diff(whole, g.story()); diff != "" {
					t.Error(diff)
				}
				if len(g.events) != 0 {
					t.Errorf("events %v", g.rules())
				}
				for _, f := range g.fpdus {
					if want := map[bool]dissect.ICRCStatus{true: dissect.ICRCValid}[m.crc]; f.Checked != want || !f.Whole {
						t.Fatalf("FPDU in frame %d: CRC %v, whole %v", f.Frame, f.Checked, f.Whole)
					}
				}
				c := g.conns[0]
				if c.CRC != m.crc || c.Request.Markers != m.markers || c.Reply.Private != 5 || c.Streams[0].Again != 0 || c.Streams[0].Lost != 0 {
					t.Errorf("%+v", c)
				}
			})
		}
	}
}

// TestOrder: however TCP's segments come, in whatever order and how often, the
// messages are the same.
func TestOrder(t *testing.T) {
	for _, m := range modes {
		for seed := range int64(40) {
			r := rand.New(rand.NewSource(seed))
			d := open(m)
			a, b := talk(m)
			for side, stream := range [][]byte{a.stream, b.stream} {
				type piece struct {
					seq  uint32
					data []byte
				}
				var all []piece
				for at := 0; at < len(stream); {
					n := min(1+r.Intn(1500), len(stream)-at)
					all = append(all, piece{d.Seq[side] + uint32(at), stream[at : at+n]})
					if r.Intn(4) == 0 { // sent again, with more
						n2 := min(n+r.Intn(100), len(stream)-at)
						all = append(all, piece{d.Seq[side] + uint32(at), stream[at : at+n2]})
					}
					at += n
				}
				for i := range all[1:] { // the first one tells where the stream is
					if j := min(i+1+r.Intn(4), len(all)-1); j > 0 {
						all[i+1], all[j] = all[j], all[i+1]
					}
				}
				for _, p := range all {
					d.At(side, p.seq, p.data)
				}
				d.Seq[side] += uint32(len(stream))
				d.Ack(1 - side)
			}
			g := follow(d.Frames)
			if diff := cmp.Diff(whole, g.story()); diff != "" {
				t.Fatalf("%s, seed %d: %s", m.name, seed, diff)
			}
			if len(g.events) != 0 {
				t.Fatalf("%s, seed %d: events %v", m.name, seed, g.rules())
			}
		}
	}
}

// TestLoss takes each segment of A away in turn. All messages that it has no
// part of are told right, and no rule is called broken.
func TestLoss(t *testing.T) {
	for _, m := range modes {
		for _, size := range []int{700, 1460, 0} { // 0: one FPDU a segment
			a, b := talk(m)
			var cuts []int
			if size == 0 {
				cuts = append(cuts, a.begins...)
			} else {
				for at := 0; at < len(a.stream); at += size {
					cuts = append(cuts, at)
				}
			}
			cuts = append(cuts, len(a.stream))
			for lost := range cuts[1:] {
				d := open(m)
				for i := range cuts[1:] {
					at := d.Send(0, a.stream[cuts[i]:cuts[i+1]])
					if i == lost {
						d.Frames = slices.Delete(d.Frames, at, at+1)
					}
					d.Ack(1)
				}
				segments(d, 1, b.stream, 1460)
				name := fmt.Sprintf("%s, segments of %d, number %d of %d lost", m.name, size, lost, len(cuts)-1)
				g := follow(d.Frames)
				if rules := g.rules(); len(rules) != 0 {
					t.Errorf("%s: %v", name, rules)
				}
				// The FPDUs that begin and end outside the hole are all there.
				got := map[int]bool{}
				base := d.Seq[0] - uint32(len(a.stream))
				for _, f := range g.fpdus {
					if f.Direction == AToB && f.Whole {
						got[int(f.Seq-base)] = true
					}
				}
				for i, at := range a.begins {
					end := len(a.stream)
					if i+1 < len(a.begins) {
						end = a.begins[i+1]
					}
					outside := end <= cuts[lost] || at >= cuts[lost+1]
					if outside != got[at] && !(at >= cuts[lost+1] && tooSoon(m, a.stream, at, cuts[lost+1])) {
						t.Errorf("%s: FPDU %d at %d: found %v", name, i, at, got[at])
					}
				}
				if g.conns[0].Streams[0].Lost != uint64(cuts[lost+1]-cuts[lost]) && lost < len(cuts)-2 {
					t.Errorf("%s: %d bytes lost", name, g.conns[0].Streams[0].Lost)
				}
			}
		}
	}
}

// tooSoon reports whether an FPDU behind a hole may be missed: by markers it is
// found from the first one that points at an FPDU behind the hole.
func tooSoon(m mode, stream []byte, at, from int) bool {
	if !m.markers {
		return false
	}
	next := (from + 511) / 512 * 512
	back := func(at int) int { return int(stream[at+2])<<8 | int(stream[at+3]) }
	for next+4 <= len(stream) && next-back(next) < from {
		next += 512
	}
	return next+4 > len(stream) || at < next-back(next)
}
