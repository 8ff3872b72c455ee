package diff

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// twoPlaces writes a long exchange as two captures, of which the second lacks each
// n-th packet and has another clock.
func twoPlaces(tb testing.TB, messages, every int) (a, b string, packets, lost int) {
	tb.Helper()
	dir := tb.TempDir()
	a, b = filepath.Join(dir, "a.pcapng"), filepath.Join(dir, "b.pcapng")
	var w [2]*captures.Writer
	for i, path := range []string{a, b} {
		f, err := os.Create(path)
		if err != nil {
			tb.Fatal(err)
		}
		defer f.Close()
		w[i] = captures.NewWriter(f, captures.WriterOptions{Interfaces: []captures.Interface{{Link: dissect.LinkEthernet}}})
	}
	x := testkit.NewExchange(testkit.ExchangeOptions{})
	var (
		dec dissect.Decoder
		p   dissect.Packet
	)
	at := int64(1_700_000_000_000_000_000)
	for range messages {
		x.B.Answer(x.A.Write(8 * 1024))
	}
	for _, frame := range x.Frames() {
		f := captures.Frame{Time: at, HasTime: true, Link: dissect.LinkEthernet, Data: frame.Data, WireLen: len(frame.Data)}
		dec.Decode(dissect.LinkEthernet, frame.Data, len(frame.Data), &p)
		back := p.Op().Role == dissect.Response
		late := f
		late.Time += 7_000_000_000
		if back { // it passes b first
			f.Time += 5000
		} else {
			late.Time += 5000
		}
		if err := w[0].Write(&f); err != nil {
			tb.Fatal(err)
		}
		if packets++; packets%every != 0 || back {
			if err := w[1].Write(&late); err != nil {
				tb.Fatal(err)
			}
		} else {
			lost++
		}
		at += 10_000
	}
	for i := range w {
		if err := w[i].Flush(); err != nil {
			tb.Fatal(err)
		}
	}
	return a, b, packets, lost
}

// TestWindow compares captures that are longer than the window.
func TestWindow(t *testing.T) {
	a, b, packets, lost := twoPlaces(t, 2000, 97)
	r, err := Packets(context.Background(), side(a), side(b), Options{Window: 1024})
	if err != nil {
		t.Fatal(err)
	}
	if int(r.Matched) != packets-lost || int(r.Totals[Lost]) != lost || len(r.Packets) != lost {
		t.Errorf("%d matched, %+v, of %d packets and %d lost", r.Matched, r.Totals, packets, lost)
	}
}

// BenchmarkPackets compares captures packet by packet, all readings included.
func BenchmarkPackets(b *testing.B) {
	one, two, packets, _ := twoPlaces(b, 20_000, 1000)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Packets(context.Background(), side(one), side(two), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(packets), "ns/packet")
}
