package engine

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/testkit"
)

// BenchmarkPipeline is the whole way of a capture of 400 000 packets of 1 KiB and their answers, from 16 connections.
// cpu-ns/packet is processor time of all goroutines, kernel included; ns/packet is the wall's.
func BenchmarkPipeline(b *testing.B) {
	const packets = 400_000
	file := filepath.Join(b.TempDir(), "big.pcapng")
	if err := writeLong(file, packets); err != nil {
		b.Fatal(err)
	}
	nothing := []Sink{SinkFunc(func(*Batch) error { return nil })}
	for _, c := range []struct {
		name string
		o    Options
	}{
		{"read+decode", Options{}},
		{"read+decode+filter", Options{Filter: compile(b, "infiniband.bth.opcode == RC_ACKNOWLEDGE")}},
		{"read+decode+track", Options{Track: true}},
		{"read+decode+icrc", Options{CheckICRC: true}},
		{"read+decode+icrc+track", Options{CheckICRC: true, Track: true}},
	} {
		for _, workers := range []int{1, 2} {
			o := c.o
			o.Workers, o.Sinks = workers, nothing
			b.Run(fmt.Sprintf("%s/workers=%d", c.name, workers), func(b *testing.B) {
				b.ReportAllocs()
				before := cpuTime(b)
				for b.Loop() {
					src, err := captures.Open(file)
					if err != nil {
						b.Fatal(err)
					}
					r, err := New(o).Run(b.Context(), src)
					if err != nil || r.Frames < packets {
						b.Fatal(r.Frames, err)
					}
				}
				per := float64(b.N) * packets
				b.ReportMetric(float64(cpuTime(b)-before)/per, "cpu-ns/packet")
				b.ReportMetric(float64(b.Elapsed())/per, "ns/packet")
			})
		}
	}
}

// writeLong writes a healthy conversation of 16 connections, n packets long: one round over and over, with the PSNs and
// MSNs of each round behind those of the one before.
func writeLong(file string, n int) error {
	x := testkit.NewExchange(testkit.ExchangeOptions{PSNA: 0xFF0000, PSNB: 0x1234})
	all := []*testkit.Exchange{x}
	for len(all) < 16 {
		all = append(all, all[len(all)-1].Beside(nil))
	}
	for _, c := range all {
		c.Connect()
	}
	once := len(x.Frames())
	const messages = 8 // of each side of a connection and round
	for range messages {
		for _, c := range all {
			c.B.Answer(c.A.Write(8 << 10))
			c.A.Answer(c.B.Send(100))
		}
	}
	frames := x.Frames()
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	buf := bufio.NewWriterSize(f, 1<<20)
	w, err := pcapgo.NewNgWriter(buf, layers.LinkTypeEthernet)
	if err != nil {
		return err
	}
	var d dissect.Decoder
	var craft dissect.Crafter
	var p dissect.Packet
	at := frames[0].Time
	for i := range n {
		frame := &frames[min(i, once+(i-once)%(len(frames)-once))]
		if i >= len(frames) {
			d.Decode(frame.Link, frame.Data, frame.WireLen, &p)
			psns := messages // of B's SENDs and what answers them
			if (p.Op().Role == dissect.Request) == (p.Op().Family == dissect.Write) {
				psns *= 8
			}
			if p.Has(dissect.LayerAETH) {
				h := dissect.AETH(p.View(frame.Data, dissect.LayerAETH))
				if psns = messages; p.Src == dissect.AddrFrom(x.B.Addr) {
					psns *= 8
				}
				h.SetMSN(h.MSN().Add(messages))
			}
			h := p.BTH(frame.Data)
			h.SetPSN(h.PSN().Add(psns))
			if err := craft.Reseal(frame.Link, frame.Data); err != nil {
				return err
			}
		}
		at += 100
		info := gopacket.CaptureInfo{Timestamp: time.Unix(0, at).UTC(), CaptureLength: len(frame.Data), Length: frame.WireLen}
		if err := w.WritePacket(info, frame.Data); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return buf.Flush()
}

// cpuTime is what the process has used so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
