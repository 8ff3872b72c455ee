package rnic

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// onVeth opens a port at each end of a virtual link.
func onVeth(tb testing.TB, via string, mtu int) (ports [2]port.Port) {
	tb.Helper()
	lab := testkit.NewLab(tb, testkit.LabOptions{MTU: mtu})
	for i, n := range []*testkit.Namespace{lab.A, lab.B} {
		var list []port.Port
		var err error
		n.Do(func() { list, _, err = port.Open(port.Options{Via: via, Interface: n.Iface, Queues: 1, Slots: 2048}) })
		if errors.Is(err, port.ErrNotSupported) || errors.Is(err, port.ErrPrivilege) {
			tb.Skip(err)
		}
		must(tb, err)
		tb.Cleanup(func() { list[0].Close() })
		ports[i] = list[0]
	}
	return ports
}

// TestOverVeth: the two devices over real interfaces, each driven by a goroutine of its own.
func TestOverVeth(t *testing.T) {
	testkit.SkipUnderRace(t) // that a WRITE's data is there when its completion is, the kernel brings about, and the detector cannot see
	for _, via := range []string{"xdp", "packet"} {
		t.Run(via, func(t *testing.T) {
			const size = 1<<20 + 3
			ports := onVeth(t, via, 4500)
			d := newDuoOn(t, ports[0], ports[1], 4096, 2, size, bulk)
			ctx, stop := context.WithCancel(context.Background())
			var running sync.WaitGroup
			for _, dev := range d.devs {
				running.Go(func() {
					if err := dev.Run(ctx); err != nil {
						t.Error(err)
					}
				})
			}
			defer running.Wait()
			defer stop()
			for round, op := range []Op{OpWrite, OpRead, OpSend, OpWrite} {
				from, to := d.mrs[0].Bytes(), d.mrs[1].Bytes()
				if op == OpRead {
					from, to = to, from
				}
				for i := range from {
					from[i] = byte(i*7 + i>>8 + round)
				}
				d.post(round%2, op, size)
				var c [2]Completion
				for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(time.Millisecond) {
					if n := d.cqs[0].Poll(c[:]); n > 0 {
						break
					}
					if time.Now().After(deadline) {
						t.Fatalf("%v did not end; %+v", op, d.devs[0].Counters())
					}
				}
				if c[0].Status != Success || !bytes.Equal(from, to) {
					t.Fatalf("%v: %v, data right: %v", op, c[0].Status, bytes.Equal(from, to))
				}
				d.cqs[1].Poll(c[:])
			}
		})
	}
}

// BenchmarkVeth is messages over a virtual link, both ends driven by one goroutine.
func BenchmarkVeth(b *testing.B) {
	const size = 1 << 20
	for _, mtu := range []int{1024, 4096} {
		for _, op := range []Op{OpWrite, OpRead, OpSend} {
			b.Run(fmt.Sprintf("%v/mtu=%d", op, mtu), func(b *testing.B) {
				ports := onVeth(b, "xdp", 4500)
				d := newDuoOn(b, ports[0], ports[1], mtu, 1, size, bulk)
				b.SetBytes(size)
				posted, done := 0, 0
				busy := processTime(b)
				for b.Loop() {
					for ; posted < done+8; posted++ {
						d.post(0, op, size)
					}
					for want := done + 1; done < want; {
						done += d.step()
					}
				}
				b.ReportMetric(float64(processTime(b)-busy)/float64(done)/float64(size/mtu), "cpu-ns/packet")
				b.ReportMetric(float64(d.devs[0].Counters().GoBack)/float64(done), "resends/op")
			})
		}
	}
}
