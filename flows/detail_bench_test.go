package flows

import (
	"testing"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// steady is a long healthy capture of some connections that take turns, in
// batches, beginning with what sets them up.
func steady(conns, rounds int) (batches []Batch) {
	x := testkit.NewExchange(testkit.ExchangeOptions{FixedIPID: true})
	all := []*testkit.Exchange{x}
	for len(all) < conns {
		all = append(all, all[len(all)-1].Beside(nil))
	}
	for _, e := range all {
		e.Connect()
	}
	for range rounds {
		for i, e := range all {
			e.B.Answer(e.A.Write(4096, testkit.At(0x1000*uint64(i), 7)))
			e.B.Answer(e.A.Read(2048, testkit.At(0x1000*uint64(i), 7)))
		}
	}
	testkit.Batches(x.Frames(), 256, func(packets []dissect.Packet, data [][]byte) {
		batches = append(batches, Batch{Packets: packets, Data: data, Marks: make([]Mark, len(packets))})
	})
	return batches
}

// BenchmarkTrack is what following a packet costs: bare, with details, with
// shadow memory. The first part of the capture is not counted: there, tables
// grow.
func BenchmarkTrack(b *testing.B) {
	batches := steady(4, 1600)
	packets := 0
	warm := len(batches) * 15 / 16
	for i := range batches[warm:] {
		packets += len(batches[warm+i].Packets)
	}
	for _, v := range []struct {
		name string
		opt  Options
	}{
		{"bare", Options{MaxDetails: -1}},
		{"details", Options{}},
		{"series", Options{Series: true}},
		{"shadow", Options{Shadow: true}},
	} {
		b.Run(v.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				t := New(v.opt)
				for i := range batches[:warm] {
					t.Track(&batches[i])
				}
				b.StartTimer()
				for i := range batches[warm:] {
					t.Track(&batches[warm+i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(packets), "ns/packet")
		})
	}
}

// TestTrackAllocatesNothing: in the steady state, with details.
func TestTrackAllocatesNothing(t *testing.T) {
	testkit.SkipUnderRace(t)
	batches := steady(4, 3000)
	tr := New(Options{})
	half := len(batches) / 2
	for i := range batches[:half] {
		tr.Track(&batches[i])
	}
	i := half
	if n := testing.AllocsPerRun(len(batches)-half-2, func() {
		tr.Track(&batches[i])
		i++
	}); n != 0 {
		t.Errorf("%v allocations in a batch", n)
	}
}
