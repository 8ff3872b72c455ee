package port

import (
	"fmt"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/internal/testkit"
)

// cpuTime is that of the thread, in nanoseconds: what a rate depends on where others use the machine, too.
func cpuTime() int64 {
	var r unix.Rusage
	unix.Getrusage(unix.RUSAGE_THREAD, &r)
	return r.Utime.Nano() + r.Stime.Nano()
}

// BenchmarkSend sends frames that are there already, and counts at the far end's interface.
func BenchmarkSend(b *testing.B) {
	for _, k := range onInterfaces {
		for _, size := range []int{64, 1098, 4096, 4154} {
			b.Run(fmt.Sprint(k.name, " ", size), func(b *testing.B) {
				lab := testkit.NewLab(b, testkit.LabOptions{MTU: 4200})
				p := openIn(b, lab.A, k, Options{SendOnly: true})
				slots, out := make([]uint32, 256), make([]Out, 256)
				for range 4 {
					for i, s := range slots[:p.Take(slots)] {
						out[i] = Out{s, int32(roce(p.Room(s), i, size, false, false))}
					}
					if err := p.Send(out); err != nil {
						b.Fatal(err)
					}
				}
				p.Flush()
				const before = 4 * 256
				wantReceived(b, lab.B, before)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				spent := cpuTime()
				b.ResetTimer()
				for sent := 0; sent < b.N; {
					n := p.Take(slots[:min(len(slots), b.N-sent)])
					for i, s := range slots[:n] {
						out[i].Slot = s
					}
					if err := p.Send(out[:n]); err != nil {
						b.Fatal(err)
					}
					if sent += n; n == 0 {
						p.Flush()
					}
				}
				b.StopTimer()
				b.ReportMetric(float64(cpuTime()-spent)/float64(b.N), "cpu-ns/op")
				p.Flush()
				wantReceived(b, lab.B, before+uint64(b.N))
			})
		}
	}
}

// BenchmarkSendAndReceive sends a batch by AF_XDP and receives it, in turns.
func BenchmarkSendAndReceive(b *testing.B) {
	for _, k := range onInterfaces {
		for _, size := range []int{64, 1098, 4154} {
			b.Run(fmt.Sprint(k.name, " ", size), func(b *testing.B) {
				lab := testkit.NewLab(b, testkit.LabOptions{MTU: 4200})
				from := openIn(b, lab.A, onInterfaces[0], Options{SendOnly: true})
				to := openIn(b, lab.B, k, Options{Ring: 4096})
				slots, out, in := make([]uint32, 64), make([]Out, 64), make([]In, 64)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				spent := cpuTime()
				for sent, received := 0, 0; received < b.N; {
					n := from.Take(slots[:min(len(slots), b.N-sent)])
					for i, s := range slots[:n] {
						out[i] = Out{s, int32(size)}
						if sent < 1024 {
							roce(from.Room(s), i, size, false, false)
						}
					}
					if err := from.Send(out[:n]); err != nil {
						b.Fatal(err)
					}
					sent += n
					got, err := to.Receive(in)
					if err != nil {
						b.Fatal(err)
					}
					if received += got; got == 0 && sent == b.N && to.Stats().RecvLost > 0 {
						b.Fatalf("lost: %+v", to.Stats())
					}
				}
				b.ReportMetric(float64(cpuTime()-spent)/float64(b.N), "cpu-ns/op")
			})
		}
	}
}
