package html

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/bench/traffic"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// analyze looks at a capture twice, as the program does.
func analyze(t testing.TB, name string, open func() captures.Source) *Analysis {
	t.Helper()
	o := engine.Options{Track: true, CheckICRC: true, Workers: 1}
	o.Tracker.Series = true
	got, err := engine.New(o).Run(context.Background(), open())
	if err != nil {
		t.Fatal(err)
	}
	d := report.NewDocument(got.Snapshot, report.Capture{
		Files: []string{name}, Packets: got.Frames, Bytes: got.Bytes, CapturedBytes: got.Captured, First: got.First, Last: got.Last, Matched: got.Matched,
		LinkTypes: []string{"Ethernet"},
	})
	c := NewCollector(d, got.Snapshot)
	o.Tracker.Sink.Message = c.Message
	o.Sinks = []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error {
		c.Packets(&b.Batch)
		return nil
	})}
	if _, err := engine.New(o).Run(context.Background(), open()); err != nil {
		t.Fatal(err)
	}
	return &Analysis{Document: d, Snapshot: got.Snapshot, Collector: c, Version: "test"}
}

func sample(t testing.TB, name string) *Analysis {
	t.Helper()
	data, err := samples.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), name+".pcap")
	if err := os.WriteFile(file, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return analyze(t, name+".pcap", func() captures.Source {
		src, err := captures.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		return src
	})
}

// generated is healthy traffic that is in no file.
type generated struct {
	g      *traffic.Generator
	left   int
	opened bool
	buf    []byte
}

func (s *generated) ReadBatch(dst []captures.Frame) (int, error) {
	s.buf = s.buf[:0]
	n := 0
	ends := make([]int, 0, len(dst))
	for ; n < len(dst) && s.left > 0; n++ {
		var frame []byte
		var at int64
		if !s.opened {
			frame, at = s.g.Establish()
			s.opened = frame == nil
		}
		if frame == nil {
			frame, at = s.g.Next()
		}
		s.buf = append(s.buf, frame...)
		ends = append(ends, len(s.buf))
		dst[n] = captures.Frame{Time: at, HasTime: true, WireLen: len(frame), Link: dissect.LinkEthernet}
		s.left--
	}
	if n == 0 && len(dst) > 0 {
		return 0, io.EOF
	}
	from := 0
	for i, end := range ends {
		dst[i].Data, from = s.buf[from:end:end], end
	}
	return n, nil
}

func (s *generated) Interfaces() []captures.Interface { return nil }
func (s *generated) Close() error                     { return nil }

// million is a capture of a million packets.
func million(t testing.TB) *Analysis {
	return analyze(t, "million.pcapng", func() captures.Source {
		return &generated{g: traffic.New(traffic.Config{Connections: 64, HostPairs: 8, Payload: 256}), left: 1_000_000}
	})
}

func write(t testing.TB, page interface{ Write(io.Writer) error }) string {
	t.Helper()
	var b bytes.Buffer
	if err := page.Write(&b); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// run is a conformance run with a case of each status.
func run() *Suite {
	s := &Suite{
		Name: "conformance of a core", Version: "test", Verdict: "1 of 8 cases failed, 1 hung, 1 in error", About: "10.0.0.2 over veth0, 8 cases in 1.20 s",
		Facts: []Fact{{"Target", "10.0.0.2"}, {"Tier", "basic"}, {"Seed", "1"}},
	}
	for i, status := range statuses {
		c := Case{
			ID: "psn-gap-" + string(rune('a'+i)), Title: "A request is lost before the device", Group: "responder", Status: status.status, Took: "12.1 ms",
			Required: "a NAK of PSN sequence error for the PSN that is missing, once", Seen: "an ACK of the packet behind the gap", Rule: "IBA Vol 1, 9.7.5.1.1",
			Again: "rocescope test --target 10.0.0.2 --case psn-gap --seed 1", Left: "rocescope", Right: "device",
			Packets: []CasePacket{
				{Frame: 1, At: 0, Label: "RDMA WRITE First · PSN 0x000010", Class: "request"},
				{Frame: 2, At: 12_000, Label: "RDMA WRITE Last · PSN 0x000012", Note: "PSN 0x000011 left out", Class: "request"},
				{Frame: 3, At: 31_000, FromDevice: true, Label: "Acknowledge · PSN 0x000012", Class: "answer", Decides: status.status == Failed},
			},
		}
		if status.status == Failed {
			c.Problems = []Problem{{Required: "NAK: PSN sequence error", Seen: "ACK of PSN 0x000012", Deciding: "frame 3"}}
		}
		s.Cases = append(s.Cases, c)
	}
	return s
}
