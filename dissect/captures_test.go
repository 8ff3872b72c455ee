package dissect_test

import (
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
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

// Every packet of the real captures has a valid ICRC, except for those that
// were damaged on purpose.
func TestICRCOfRealCaptures(t *testing.T) {
	manifest := testkit.RXEManifest(t)
	damaged := map[string]int{}
	for _, file := range testkit.Files(t, testkit.RXE(t), "*.pcap") {
		name := filepath.Base(file)
		if strings.HasPrefix(name, "iwarp_") {
			continue
		}
		var got [4]int
		eachFrame(t, file, func(p *dissect.Packet, _ []byte) {
			if p.Has(dissect.LayerBTH) {
				got[p.ICRC]++
			}
		})
		want := manifest.Entry(t, name).Observed
		if got[dissect.ICRCValid] != want.ICRCOK || got[dissect.ICRCInvalid] != want.ICRCBad || got[dissect.ICRCNotCaptured]+got[dissect.ICRCUnchecked] != 0 {
			t.Errorf("%s: %d valid, %d invalid, %d others; the manifest has %d and %d", name,
				got[dissect.ICRCValid], got[dissect.ICRCInvalid], got[dissect.ICRCNotCaptured]+got[dissect.ICRCUnchecked], want.ICRCOK, want.ICRCBad)
		}
		if n := got[dissect.ICRCInvalid]; n > 0 {
			damaged[name] = n
		}
	}
	if len(damaged) != 2 || damaged["netem_corrupt_write_at_server.pcap"] != 4 || damaged["probe_hand_made_rc.pcap"] != 1 {
		t.Errorf("damaged packets in %v", damaged)
	}
}

// Other people's packets: RoCE v1, and a CNP from hardware.
func TestICRCOfPublicVectors(t *testing.T) {
	for _, file := range testkit.Files(t, testkit.Public(t), "vector_*.pcap") {
		n := 0
		eachFrame(t, file, func(p *dissect.Packet, _ []byte) {
			n++
			if p.ICRC != dissect.ICRCValid || len(p.Problems()) != 0 {
				t.Errorf("%s, frame %d: ICRC %v, problems %v", filepath.Base(file), p.Number, p.ICRC, p.Problems())
			}
		})
		if n == 0 {
			t.Errorf("%s is empty", filepath.Base(file))
		}
	}
}
