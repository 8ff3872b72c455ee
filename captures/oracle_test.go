package captures

import (
	"bytes"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
	"github.com/rocescope/rocescope/dissect"
)

// packetWriter is what pcapgo's writers have in common.
type packetWriter interface {
	WritePacket(ci gopacket.CaptureInfo, data []byte) error
}

// TestFilesOfPcapgo reads what another implementation wrote.
func TestFilesOfPcapgo(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for _, test := range []struct {
		name  string
		unit  time.Duration
		write func(w io.Writer) (packetWriter, func() error)
	}{
		{"pcap, microseconds", time.Microsecond, func(w io.Writer) (packetWriter, func() error) {
			p := pcapgo.NewWriter(w)
			return p, func() error { return nil }
		}},
		{"pcap, nanoseconds", 1, func(w io.Writer) (packetWriter, func() error) {
			p := pcapgo.NewWriterNanos(w)
			return p, func() error { return nil }
		}},
		{"pcapng", 1, func(w io.Writer) (packetWriter, func() error) {
			p, err := pcapgo.NewNgWriter(w, layers.LinkTypeEthernet)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.AddInterface(pcapgo.NgInterface{Name: "second", LinkType: layers.LinkTypeLinuxSLL, SnapLength: 128}); err != nil {
				t.Fatal(err)
			}
			return p, p.Flush
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			var file bytes.Buffer
			w, flush := test.write(&file)
			links := []dissect.LinkType{dissect.LinkEthernet, dissect.LinkLinuxSLL}
			if p, ok := w.(*pcapgo.Writer); ok {
				links = links[:1]
				if err := p.WriteFileHeader(65535, layers.LinkTypeEthernet); err != nil {
					t.Fatal(err)
				}
			}
			var wants []Frame
			for range 300 {
				data := make([]byte, rng.IntN(300))
				for i := range data {
					data[i] = byte(rng.Uint32())
				}
				stamp := time.Unix(rng.Int64N(1<<32), rng.Int64N(1e9)).Truncate(test.unit)
				wire := len(data) + rng.IntN(2)*1000
				iface := rng.IntN(len(links))
				if err := w.WritePacket(gopacket.CaptureInfo{Timestamp: stamp, CaptureLength: len(data), Length: wire, InterfaceIndex: iface}, data); err != nil {
					t.Fatal(err)
				}
				wants = append(wants, want(stamp.UnixNano(), string(data), wire, iface, links[iface]))
			}
			if err := flush(); err != nil {
				t.Fatal(err)
			}
			g := readEveryWay(t, file.Bytes())
			checkErrors(t, g.errs, nil)
			if diff := cmp.Diff(wants, g.frames); diff != "" {
				t.Error(diff)
			}
		})
	}
}
