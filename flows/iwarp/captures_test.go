package iwarp

import (
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// gathered is what a tracker said of a capture.
type gathered struct {
	fpdus    []FPDU
	messages []Message
	events   []Event
	conns    []Connection
}

// gather sets up a sink that keeps copies.
func (g *gathered) sink() Sink {
	return Sink{
		FPDU:    func(f *FPDU) { c := *f; c.Data = append([]byte(nil), f.Data...); g.fpdus = append(g.fpdus, c) },
		Message: func(m *Message) { g.messages = append(g.messages, *m) },
		Event:   func(e *Event) { g.events = append(g.events, *e) },
	}
}

func (g *gathered) count(op Op) (n, done int, bytes uint64) {
	for i := range g.messages {
		if m := &g.messages[i]; m.Op == op {
			n++
			bytes += m.Length
			if m.Status == Done {
				done++
			}
		}
	}
	return n, done, bytes
}

func followFile(t testing.TB, file string) *gathered {
	t.Helper()
	src, err := captures.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	g := &gathered{}
	tr := New(Options{Sink: g.sink()})
	var d dissect.Decoder
	var p dissect.Packet
	batch := make([]captures.Frame, 64)
	for {
		n, err := src.ReadBatch(batch)
		for _, f := range batch[:n] {
			p.Number++
			p.Time = f.Time
			d.Decode(f.Link, f.Data, f.WireLen, &p)
			tr.Packet(&p, f.Data)
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.Finish()
	g.conns = tr.Connections()
	return g
}

func TestDebug(t *testing.T) {
	for _, file := range testkit.Files(t, testkit.RXE(t), "iwarp_*.pcap") {
		g := followFile(t, file)
		t.Log(filepath.Base(file), len(g.fpdus), len(g.messages), len(g.events))
		for op := range NumOps {
			n, d, b := g.count(op)
			t.Log(op, n, d, b)
		}
		for _, c := range g.conns {
			t.Logf("%+v", c.Streams[0])
			t.Logf("%+v %+v", c.Request, c.Reply)
		}
		for _, e := range g.events {
			t.Log(e.Rule, e.Frame, e.Args, e.Direction)
		}
	}
}
