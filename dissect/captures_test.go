package dissect_test

import (
	"errors"
	"io"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
)

// eachFrame decodes every frame of a capture file, with ICRC check.
func eachFrame(t *testing.T, file string, do func(p *dissect.Packet, frame []byte)) {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	d := dissect.Decoder{CheckICRC: true}
	var p dissect.Packet
	batch := make([]captures.Frame, 256)
	for {
		n, err := src.ReadBatch(batch)
		for _, f := range batch[:n] {
			p.Number++
			p.Time = f.Time
			d.Decode(f.Link, f.Data, f.WireLen, &p)
			do(&p, f.Data)
		}
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
