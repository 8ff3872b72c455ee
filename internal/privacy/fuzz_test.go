package privacy

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
)

// seed adds some frames of each sample capture.
func seed(f *testing.F) {
	for _, s := range samples.List() {
		data, err := samples.Open(s.Name)
		if err != nil {
			f.Fatal(err)
		}
		path := filepath.Join(f.TempDir(), s.Capture.File)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			f.Fatal(err)
		}
		src, err := captures.Open(path)
		if err != nil {
			f.Fatal(err)
		}
		room := make([]captures.Frame, 24)
		n, err := src.ReadBatch(room)
		if err != nil {
			f.Fatal(err)
		}
		for i := range room[:n] {
			f.Add(uint16(room[i].Link), bytes.Clone(room[i].Data), uint16(0))
		}
		src.Close()
	}
}

// FuzzFrame: whatever a frame holds, its mask is as long, says of addresses and keys what the mask of each is and nothing else, has
// zeros for payload, and an ICRC that is right where it was.
func FuzzFrame(f *testing.F) {
	seed(f)
	m := New("of this test")
	f.Fuzz(func(t *testing.T, link uint16, frame []byte, more uint16) {
		d := dissect.Decoder{CheckICRC: true}
		var p, q dissect.Packet
		wire := len(frame) + int(more)
		original := bytes.Clone(frame)
		d.Decode(dissect.LinkType(link), frame, wire, &p)
		p.SetUpper(frame, dissect.UpperNone)
		before := p
		out := bytes.Clone(m.Frame(&p, frame))
		m.Reset()
		if !bytes.Equal(frame, original) {
			t.Fatal("the frame itself was changed")
		}
		if len(out) != len(frame) {
			t.Fatalf("%d bytes became %d", len(frame), len(out))
		}
		if p.Src != m.Addr(before.Src) || p.Dst != m.Addr(before.Dst) {
			t.Errorf("the packet is from %v to %v, was from %v to %v", p.Src, p.Dst, before.Src, before.Dst)
		}
		for l := range layersOf(&before) {
			for _, x := range maskedFields()[l] {
				check(t, m, &before, x, frame, out)
			}
		}
		if shown := before.Payload(out); before.IsTransport() && !before.Has(dissect.LayerMAD) && len(bytes.Trim(shown, "\x00")) > 0 {
			t.Errorf("payload is % x", shown)
		}
		d.Decode(dissect.LinkType(link), out, wire, &q)
		if before.ICRC == dissect.ICRCValid && q.ICRC != dissect.ICRCValid {
			t.Errorf("the ICRC was right and is %v", q.ICRC)
		}
		if again := New("of this test").Frame(&before, frame); !bytes.Equal(again, out) {
			t.Error("the same frame has another mask the second time")
		}
	})
}

// check holds a field's mask to what a number's mask is.
func check(t *testing.T, m *Mask, p *dissect.Packet, f maskedField, frame, out []byte) {
	raw, ok := f.Raw(p, frame)
	if !ok {
		return
	}
	bit, _ := f.Place(p, frame)
	got := out[bit>>3 : bit>>3+len(raw)]
	want := make([]byte, 16)
	switch {
	case f.how == asNothing:
	case len(raw) == 16:
		a := m.Addr(dissect.Addr{Hi: binary.BigEndian.Uint64(raw), Lo: binary.BigEndian.Uint64(raw[8:])})
		binary.BigEndian.PutUint64(want, a.Hi)
		binary.BigEndian.PutUint64(want[8:], a.Lo)
	default:
		v := uint64(0)
		for _, b := range raw {
			v = v<<8 | uint64(b)
		}
		binary.BigEndian.PutUint64(want[8:], m.Value(f.Name, v))
		want = want[16-len(raw):]
	}
	if f.how == asNothing {
		want = make([]byte, len(raw))
	}
	for i := range got {
		if got[i] != want[i] && got[i] != 0 { // another field that lies there too may have left nothing
			t.Fatalf("%s is % x, was % x, and its mask is % x", f.Name, got, raw, want)
		}
	}
}

// FuzzText: whatever a text says, masking it ends, and the mask of an address in it is that of the address.
func FuzzText(f *testing.F) {
	for _, text := range []string{
		"", "10.77.0.1", "from 10.77.0.1: fe80::1ff:fe23:4567:890a to ::ffff:10.1.2.3", "02:00:00:00:00:01", "02-00-00-00-00-01.", "LID 17", "a::b::c:", "1.2.3.4.5",
	} {
		f.Add(text)
	}
	m := New("of this test")
	f.Fuzz(func(t *testing.T, text string) {
		if got := m.Text(text); got != New("of this test").Text(text) {
			t.Errorf("%q becomes %q, then something else", text, got)
		}
		a := dissect.AddrFrom(netip.MustParseAddr("10.77.0.1"))
		if got := m.Text("(" + a.String() + ")"); got != "("+m.Addr(a).String()+")" {
			t.Errorf("an address becomes %s", got)
		}
	})
}
