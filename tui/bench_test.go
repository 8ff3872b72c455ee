package tui

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/tui/cells"
)

// BenchmarkList is a frame of the packet list in which everything has changed, as
// it is while the list follows a live capture.
func BenchmarkList(b *testing.B) {
	data, err := samples.Open(samples.Default)
	if err != nil {
		b.Fatal(err)
	}
	path := filepath.Join(b.TempDir(), "sample.pcap")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		b.Fatal(err)
	}
	ses, err := NewSession(context.Background(), Input{
		Again: true, Open: func(context.Context) (captures.Source, error) { return captures.Open(path) },
	})
	if err != nil {
		b.Fatal(err)
	}
	defer ses.Close()
	<-ses.index.Done()
	s, err := newScreen(Options{Depth: cells.Color256, View: "packets"}, ses)
	if err != nil {
		b.Fatal(err)
	}
	defer s.giveUp()
	s.resize(120, 40)
	s.tick()
	s.draw()
	v := s.top().(*packetsView)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		n := 50 + i%(v.list.n-50)
		v.list.cur, v.list.anchor = n, uint64(n+1)
		var numbers []uint64
		for k := n - 30; k < n; k++ {
			numbers = append(numbers, uint64(k+2))
		}
		v.list.cache = ses.rows(numbers)
		s.text()
	}
}
