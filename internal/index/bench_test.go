package index

import (
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
)

// batches are what a healthy capture of 64 connections looks like to the index.
func batches() (all []engine.Batch) {
	var n uint32
	offset := int64(60)
	for range 64 {
		var b engine.Batch
		for range engine.BatchSize {
			m := flows.Mark{Conn: n%64 + 1, Bits: flows.MarkRequest | flows.MarkPSN | flows.MarkMessage, PSNOffset: n / 64, Message: n / 512}
			size := uint32(1098)
			if n%9 == 8 {
				m.Bits, m.Direction, size = flows.MarkResponse|flows.MarkPSN|flows.MarkMessage, flows.BToA, 62
			}
			b.Marks = append(b.Marks, m)
			b.Packets = append(b.Packets, dissect.Packet{Number: uint64(n) + 1, Time: int64(n) * 90, CapLen: size, WireLen: size})
			b.Frames = append(b.Frames, captures.Frame{Offset: offset})
			b.Data = append(b.Data, make([]byte, size))
			offset += 32 + int64(size+3)&^3
			n++
		}
		all = append(all, b)
	}
	return all
}

func BenchmarkAdd(b *testing.B) {
	all := batches()
	r, err := newRing(&Options{})
	if err != nil {
		b.Fatal(err)
	}
	for name, s := range map[string]store{"file": newWhole(), "ring": r} {
		b.Run(name, func(b *testing.B) {
			for i := range 4 * len(all) { // once round the ring
				if err := s.add(&all[i%len(all)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				if err := s.add(&all[i%len(all)]); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed())/float64(b.N)/engine.BatchSize, "ns/packet")
		})
	}
}

func BenchmarkEach(b *testing.B) {
	x, w := &Index{}, newWhole()
	x.store = w
	for i, all := 0, batches(); i < len(all); i++ {
		if err := w.add(&all[i]); err != nil {
			b.Fatal(err)
		}
	}
	first, last := w.bounds()
	x.first.Store(first)
	x.frames.Store(last)
	r := x.NewReader()
	for b.Loop() {
		if err := r.Each(b.Context(), 1, func(*Entry) bool { return true }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(last), "ns/packet")
}
