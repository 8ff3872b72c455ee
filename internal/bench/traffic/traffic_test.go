package traffic

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/flows"
)

// A benchmark of broken traffic measures something else than it says.
func TestTrafficIsHealthy(t *testing.T) {
	for name, c := range map[string]Config{
		"segments in turn":         {Connections: 5, HostPairs: 2, Payload: 1024},
		"small messages in turn":   {Connections: 5, HostPairs: 2, Payload: 64},
		"segments at random":       {Connections: 70, Payload: 256, Random: true, Seed: 1},
		"small messages at random": {Connections: 70, Payload: 64, Random: true, Seed: 2},
	} {
		t.Run(name, func(t *testing.T) {
			packets := 100 * c.Connections
			tracker := flows.New(flows.Options{})
			dec := dissect.Decoder{CheckICRC: true}
			b := flows.Batch{Packets: make([]dissect.Packet, 64), Data: make([][]byte, 64), Marks: make([]flows.Mark, 64)}
			number := uint64(0)
			track := func(frames []captures.Frame) {
				for i, f := range frames {
					p := &b.Packets[i]
					number++
					p.Number, p.Time = number, f.Time
					dec.Decode(f.Link, f.Data, f.WireLen, p)
					b.Data[i] = f.Data
					if p.ICRC != dissect.ICRCValid || p.Malformed() {
						t.Fatalf("packet %d: ICRC %v, problems %v", number, p.ICRC, p.Problems())
					}
				}
				tracker.Track(&flows.Batch{Packets: b.Packets[:len(frames)], Data: b.Data, Marks: b.Marks})
			}
			path := filepath.Join(t.TempDir(), "t.pcapng")
			if err := New(c).WriteFile(path, packets, true); err != nil {
				t.Fatal(err)
			}
			readAll(t, path, track)
			tracker.Finish()
			s := tracker.Snapshot()
			if want := uint64(packets + 6*c.Connections); s.Packets != want {
				t.Errorf("%d packets, want %d", s.Packets, want)
			}
			if len(s.Connections) != c.Connections {
				t.Errorf("%d connections, want %d", len(s.Connections), c.Connections)
			}
			for i := range s.Connections {
				if k := &s.Connections[i]; k.Evidence != flows.Inferred {
					t.Errorf("connection %d is %v: %s", k.ID, k.Evidence, k.Why)
				}
			}
			for _, f := range s.Findings {
				t.Errorf("frame %d: %s", f.Frame, f.Summary)
			}
		})
	}
}

func readAll(t *testing.T, path string, do func([]captures.Frame)) {
	t.Helper()
	src, err := captures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch := make([]captures.Frame, 64)
	for {
		n, err := src.ReadBatch(batch)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		do(batch[:n])
	}
}

func TestTrafficIsTheSameEachTime(t *testing.T) {
	var files [2][]byte
	for i := range files {
		path := filepath.Join(t.TempDir(), "t.pcapng")
		if err := New(Config{Connections: 9, Payload: 64, Random: true, Seed: 7}).WriteFile(path, 500, true); err != nil {
			t.Fatal(err)
		}
		var err error
		if files[i], err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(files[0], files[1]) {
		t.Error("two files of one configuration differ")
	}
}
