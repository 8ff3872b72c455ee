package iwarp

import (
	"encoding/binary"
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// FuzzStream: whatever two sides send, in whatever pieces and order, nothing
// panics, what is held is bounded and given back, and what is told lies within
// the bytes that were sent.
func FuzzStream(f *testing.F) {
	for _, m := range modes {
		a, b := talk(m)
		f.Add(m.flags(), a.stream, b.stream, []byte{100, 7, 200, 3, 9})
		f.Add(m.flags(), a.stream[3:], b.stream, []byte{255, 1, 130})
	}
	f.Fuzz(func(t *testing.T, flags byte, a, b, pieces []byte) {
		if len(a)+len(b) > 1<<16 || len(pieces) == 0 {
			return
		}
		d := testkit.NewDuplex()
		d.Send(0, testkit.MPAFrame("Req", flags, 1+flags&1, nil))
		d.Send(1, testkit.MPAFrame("Rep", flags, 1+flags&1, nil))
		rest := [2][]byte{a, b}
		for i := 0; (len(rest[0]) > 0 || len(rest[1]) > 0) && i < 4000; i++ {
			p := pieces[i%len(pieces)]
			side := int(p & 1)
			if len(rest[side]) == 0 {
				side = 1 - side
			}
			n := min(1+int(p)*7, len(rest[side]))
			switch {
			case p%13 == 5: // lost in the capture
				d.Seq[side] += uint32(n)
			case p%17 == 3: // once more
				d.At(side, d.Seq[side], rest[side][:n])
				d.Send(side, rest[side][:n])
			case p%19 == 7 && len(d.Frames) > 5: // overtaken
				d.Send(side, rest[side][:n])
				k := len(d.Frames) - 1
				d.Frames[k], d.Frames[k-1] = d.Frames[k-1], d.Frames[k]
			default:
				d.Send(side, rest[side][:n])
			}
			rest[side] = rest[side][n:]
			if p%3 == 0 {
				d.Ack(1 - side)
			}
		}
		var told [2]uint64
		o := Options{MaxBytes: 1 << 20}
		o.Sink.FPDU = func(f *FPDU) {
			if len(f.Data) > f.ULPDU || f.Whole && len(f.Data) != f.ULPDU {
				t.Fatalf("%d bytes of a ULPDU of %d, whole %v", len(f.Data), f.ULPDU, f.Whole)
			}
			told[f.Direction] += uint64(len(f.Data))
		}
		tr := New(o)
		var dec dissect.Decoder
		var p dissect.Packet
		sent := uint64(0)
		for i, fr := range d.Frames {
			p.Number, p.Time = uint64(i+1), fr.Time
			dec.Decode(fr.Link, fr.Data, fr.WireLen, &p)
			sent += uint64(p.PayloadLen())
			tr.Packet(&p, fr.Data)
			if tr.bytes < 0 || tr.bytes > 1<<20 {
				t.Fatalf("%d bytes are held", tr.bytes)
			}
		}
		tr.Finish()
		if tr.bytes != 0 {
			t.Fatalf("%d bytes are held at the end", tr.bytes)
		}
		if told[0]+told[1] > sent {
			t.Fatalf("%d bytes were told of %d sent", told[0]+told[1], sent)
		}
	})
}

// With the snap length cutting every segment, the headers still tell the
// messages.
func TestCut(t *testing.T) {
	d := open(modes[1])
	a, b := talk(modes[1])
	for side, h := range []half{a, b} {
		for i, at := range h.begins {
			end := len(h.stream)
			if i+1 < len(h.begins) {
				end = h.begins[i+1]
			}
			d.Send(side, h.stream[at:end])
			d.Ack(1 - side)
		}
	}
	for i := range d.Frames {
		d.Frames[i].Data = d.Frames[i].Data[:min(len(d.Frames[i].Data), 54+80)]
	}
	g := follow(d.Frames)
	if got := len(g.fpdus); got != len(a.begins)+len(b.begins) || len(g.events) > 0 {
		t.Errorf("%d FPDUs, events %v", got, g.rules())
	}
	if n, done, bytes := g.count(Write); n != 1 || done != 1 || bytes != 5000 {
		t.Errorf("%d WRITEs, %d done, %d bytes", n, done, bytes)
	}
	if n, done, bytes := g.count(Read); n != 1 || done != 1 || bytes != 2500 {
		t.Errorf("%d READs, %d done, %d bytes", n, done, bytes)
	}
}

// A capture that begins in the middle of a connection: FPDUs that fill their
// segments, or have a CRC, are known for certain.
func TestBegunBefore(t *testing.T) {
	for _, m := range modes[:2] {
		d := open(m)
		a, b := talk(m)
		for side, h := range []half{a, b} {
			for i, at := range h.begins {
				end := len(h.stream)
				if i+1 < len(h.begins) {
					end = h.begins[i+1]
				}
				d.Send(side, h.stream[at:end])
				d.Ack(1 - side)
			}
		}
		g := follow(d.Frames[9:])
		if want := len(a.begins) + len(b.begins) - 1; len(g.fpdus) != want || len(g.events) > 0 {
			t.Errorf("%s: %d FPDUs of %d, events %v", m.name, len(g.fpdus), want, g.rules())
		}
		if n, done, _ := g.count(Read); n != 1 || done != 1 {
			t.Errorf("%s: %d READs, %d done", m.name, n, done)
		}
	}
}

// Whatever comes, the connections and the bytes that are held are bounded.
func TestBounds(t *testing.T) {
	var frames []testkit.Frame
	for i := range 300 {
		d := testkit.NewDuplex()
		d.Send(0, testkit.MPAFrame("Req", 0, 1, nil))
		d.Send(1, testkit.MPAFrame("Rep", 0, 1, nil))
		d.Send(0, append([]byte{0xFF, 0xF0, 0x41, 0x43}, make([]byte, 1400)...)) // an FPDU whose rest never comes
		d.Seq[0] += 5000
		for range 20 { // behind a hole that nobody fills
			d.At(0, d.Seq[0], make([]byte, 1400))
			d.Seq[0] += 1400
		}
		for _, f := range d.Frames {
			f.Data = append([]byte(nil), f.Data...)
			port := 34
			if f.Data[29] == 2 { // from the responder
				port = 36
			}
			binary.BigEndian.PutUint16(f.Data[port:], uint16(20000+i))
			frames = append(frames, f)
		}
	}
	tr := New(Options{MaxConnections: 100, MaxBytes: 200 << 10})
	var dec dissect.Decoder
	var p dissect.Packet
	for i, f := range frames {
		p.Number, p.Time = uint64(i+1), f.Time
		dec.Decode(f.Link, f.Data, f.WireLen, &p)
		tr.Packet(&p, f.Data)
		if tr.bytes > 200<<10 || len(tr.table) > 100 {
			t.Fatalf("%d bytes in %d connections", tr.bytes, len(tr.table))
		}
	}
	if tr.Finish(); tr.bytes != 0 {
		t.Errorf("%d bytes are held", tr.bytes)
	}
}

// In order and whole in its segment, an FPDU costs no memory.
func TestNoAllocation(t *testing.T) {
	d := open(modes[1])
	mpa := testkit.MPA{CRC: true}
	d.Send(0, mpa.FPDU(testkit.Tagged(0, false, 1, 0, make([]byte, 1000))))
	write := d.Frames[len(d.Frames)-1]
	tr := New(Options{})
	var dec dissect.Decoder
	var p dissect.Packet
	seq, to := binary.BigEndian.Uint32(write.Data[38:]), uint64(0)
	for _, f := range d.Frames[:len(d.Frames)-1] {
		dec.Decode(f.Link, f.Data, f.WireLen, &p)
		tr.Packet(&p, f.Data)
	}
	size := uint32(len(write.Data) - 54)
	next := func() {
		binary.BigEndian.PutUint32(write.Data[38:], seq)
		binary.BigEndian.PutUint64(write.Data[62:], to)
		end := len(write.Data) - 4
		binary.LittleEndian.PutUint32(write.Data[end:], dissect.FPDUCRC(write.Data[54:end]))
		seq, to = seq+size, to+1000
		dec.Decode(write.Link, write.Data, write.WireLen, &p)
		if !tr.Packet(&p, write.Data) {
			t.Fatal("not taken")
		}
	}
	next()
	if n := testing.AllocsPerRun(200, next); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if s := tr.Connections()[0].Streams[0]; s.FPDUs < 200 || s.BadCRC+s.Resyncs+s.Lost != 0 {
		t.Errorf("%+v", s)
	}
}
