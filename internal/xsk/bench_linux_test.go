package xsk

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"golang.org/x/sys/unix"
)

// sink drops and counts every frame that an interface receives, in the driver: what a receiver costs at least.
type sink struct {
	counter *ebpf.Map
}

func newSink(t testing.TB, name string) *sink {
	t.Helper()
	counter, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { counter.Close() })
	p, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Apache-2.0", Flags: unix.BPF_F_XDP_HAS_FRAGS,
		Instructions: asm.Instructions{
			asm.StoreImm(asm.RFP, -4, 0, asm.Word),
			asm.LoadMapPtr(asm.R1, counter.FD()),
			asm.Mov.Reg(asm.R2, asm.RFP),
			asm.Add.Imm(asm.R2, -4),
			asm.FnMapLookupElem.Call(),
			asm.JEq.Imm(asm.R0, 0, "drop"),
			asm.LoadMem(asm.R1, asm.R0, 0, asm.DWord),
			asm.Add.Imm(asm.R1, 1),
			asm.StoreMem(asm.R0, 0, asm.R1, asm.DWord),
			asm.Mov.Imm(asm.R0, 1).WithSymbol("drop"), // XDP_DROP
			asm.Return(),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	iface, err := interfaceByName("sink", name)
	if err != nil {
		t.Fatal(err)
	}
	l, err := link.AttachXDP(link.XDPOptions{Program: p, Interface: iface.Index, Flags: link.XDPDriverMode})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return &sink{counter}
}

func (s *sink) count(t testing.TB) (sum uint64) {
	t.Helper()
	var each []uint64
	if err := s.counter.Lookup(uint32(0), &each); err != nil {
		t.Fatal(err)
	}
	for _, n := range each {
		sum += n
	}
	return sum
}

// cpuTime is what this thread has used, in user space and in the kernel. The receiving half of a virtual interface usually
// runs inside of the sender's system call, and is in it unless the kernel keeps a separate account for interrupts.
func cpuTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}

// BenchmarkTX sends constant frames from prepared chunks to a virtual interface whose far end drops and counts them. The rate
// is packets that arrived for each second of CPU time of the loop.
func BenchmarkTX(b *testing.B) {
	for _, c := range []struct {
		length, batch, budget int
		chunk                 int
	}{
		{64, 64, 0, 4096},
		{64, 512, 512, 4096},
		{1024, 64, 0, 4096},
		{1024, 512, 512, 4096},
		{4096, 64, 0, 4096},
		{4096, 512, 1024, 4096}, // one descriptor
		{4200, 64, 0, 4096},
		{4200, 512, 1024, 4096}, // two
		{4200, 512, 1024, 2048}, // three
	} {
		parts := (c.length + c.chunk - 1) / c.chunk
		b.Run(fmt.Sprintf("%dB/descs=%d/batch=%d/budget=%d", c.length, parts, c.batch, c.budget), func(b *testing.B) {
			newWire(b, 9000, 1)
			far := newSink(b, right)
			u := newTestUMEM(b, UMEMOptions{Chunks: 2048, ChunkSize: c.chunk})
			tx := openSocket(b, Options{Interface: left, UMEM: u, TX: 2048, TxBudget: c.budget, MultiBuffer: parts > 1, Mode: Copy})
			frame := frameOptions{length: c.length}.build(nil)
			chunks, _ := u.Take(c.batch * parts)
			var descs []Desc
			for len(chunks) > 0 {
				descs = append(descs, place(u, chunks, frame)...)
				chunks = chunks[parts:]
			}
			runtime.LockOSThread()
			b.SetBytes(int64(c.length))
			b.ReportAllocs()
			b.ResetTimer()
			began := cpuTime()
			for sent := 0; sent < b.N; {
				n := min(c.batch, b.N-sent) * parts
				at, got := tx.TX.Reserve(uint32(n))
				if got < uint32(n) { // whole batches only: a packet must not be torn
					tx.TX.Cancel(got)
				} else {
					for i := range got {
						*tx.TX.Slot(at + i) = descs[i]
					}
					tx.TX.Submit(got)
					sent += n / parts
				}
				if _, err := tx.Kick(); err != nil {
					b.Fatal(err)
				}
				tx.ReapAll()
			}
			if done, err := tx.Drain(5 * time.Second); !done || err != nil {
				b.Fatal(done, err)
			}
			used := cpuTime() - began
			b.StopTimer()
			arrived := far.count(b)
			s := stats(b, tx)
			if arrived+s.TxRefused != uint64(b.N) {
				b.Errorf("%d of %d arrived, %d refused", arrived, b.N, s.TxRefused)
			}
			b.ReportMetric(float64(arrived)/used.Seconds()/1e6, "Mpkt/CPU-s")
			b.ReportMetric(float64(s.TxRefused), "refused")
		})
	}
}

// BenchmarkRX receives what another socket has sent, and looks at each packet's first bytes. ns/pkt is the CPU time of
// receiving alone; Mpkt/CPU-s has sending, the kernel's copies and receiving in it.
func BenchmarkRX(b *testing.B) {
	for _, length := range []int{64, 1024, 4200} {
		b.Run(fmt.Sprintf("%dB", length), func(b *testing.B) {
			newWire(b, 9000, 1)
			p := attachProgram(b, right, ProgramOptions{}, AttachNative)
			rx := receiver(b, p, Options{Interface: right, UMEM: newTestUMEM(b, UMEMOptions{Chunks: 4096}), RX: 4096, MultiBuffer: true, Mode: Copy})
			u := newTestUMEM(b, UMEMOptions{Chunks: 64})
			tx := openSocket(b, Options{Interface: left, UMEM: u, TX: 1024, MultiBuffer: true, TxBudget: 1024, Mode: Copy})
			chunks, _ := u.Take(2)
			descs := place(u, chunks, frameOptions{length: length}.build(nil))
			packets := make([]Packet, 64)
			runtime.LockOSThread()
			b.SetBytes(int64(length))
			b.ReportAllocs()
			b.ResetTimer()
			began, receiving := cpuTime(), time.Duration(0)
			received, sum := 0, 0
			for sent := 0; sent < b.N; {
				for range min(512, b.N-sent) {
					if tx.Queue(descs) == 0 {
						break
					}
					sent++
				}
				if done, err := tx.Drain(5 * time.Second); !done || err != nil {
					b.Fatal(done, err)
				}
				from := cpuTime()
				for n := -1; n != 0; {
					n = rx.Receive(packets)
					for _, p := range packets[:n] {
						sum += int(rx.Bytes(p)[42])
					}
					received += n
					rx.Release()
				}
				receiving += cpuTime() - from
			}
			used := cpuTime() - began
			b.StopTimer()
			if s := stats(b, rx); received != b.N {
				b.Errorf("%d of %d received; %+v", received, b.N, s)
			}
			b.ReportMetric(float64(receiving.Nanoseconds())/float64(b.N), "ns/pkt-receiving")
			b.ReportMetric(float64(received)/used.Seconds()/1e6, "Mpkt/CPU-s")
		})
	}
}
