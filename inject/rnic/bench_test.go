package rnic

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// duo is two devices on a pair of ports in memory, without a wire between them, as fast as they go.
type duo struct {
	tb   testing.TB
	devs [2]*Device
	pds  [2]*PD
	cqs  [2]*CQ
	mrs  [2]*MR
	qps  [2][]*QP
	room []Completion
	from [1]SGE
}

func newDuo(tb testing.TB, mtu, qps, bytes int, cap QPCap) *duo {
	tb.Helper()
	a, b := port.Pair(port.MemoryOptions{Slots: 2048, MaxFrame: 4096 + maxOverhead})
	return newDuoOn(tb, a, b, mtu, qps, bytes, cap)
}

func newDuoOn(tb testing.TB, a, b port.Port, mtu, qps, bytes int, cap QPCap) *duo {
	tb.Helper()
	d := &duo{tb: tb, room: make([]Completion, 256)}
	for i, p := range []port.Port{a, b} {
		dev, err := Open(p, Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}})
		must(tb, err)
		d.devs[i], d.pds[i] = dev, dev.AllocPD()
		d.cqs[i], err = dev.CreateCQ(1 << 15)
		must(tb, err)
		d.mrs[i], err = d.pds[i].RegMR(make([]byte, bytes), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic)
		must(tb, err)
		for range qps {
			q, err := d.pds[i].CreateQP(QPInit{Type: dissect.RC, SendCQ: d.cqs[i], RecvCQ: d.cqs[i], Cap: cap})
			must(tb, err)
			d.qps[i] = append(d.qps[i], q)
		}
	}
	for i := range d.devs {
		far := d.devs[1-i]
		for n, q := range d.qps[i] {
			a := Attr{
				State: INIT, Port: 1, Access: RemoteWrite | RemoteRead | RemoteAtomic, PathMTU: mtu, DestQPN: d.qps[1-i][n].QPN(), Timeout: 18,
				RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 16, MaxDestRdAtomic: 16, AH: AHAttr{Dst: far.Addrs()[0], DstMAC: far.MAC()},
			}
			must(tb, q.Modify(a, AttrState|AttrPKeyIndex|AttrPort|AttrAccess))
			a.State = RTR
			must(tb, q.Modify(a, AttrState|AttrAV|AttrPathMTU|AttrDestQPN|AttrRQPSN|AttrMaxDestRdAtomic|AttrMinRNRTimer))
			a.State = RTS
			must(tb, q.Modify(a, AttrState|AttrTimeout|AttrRetryCnt|AttrRNRRetry|AttrSQPSN|AttrMaxRdAtomic))
		}
	}
	return d
}

// step steps both devices, and returns how many work requests of the first were completed.
func (d *duo) step() (n int) {
	for i, dev := range d.devs {
		if _, err := dev.Step(); err != nil {
			d.tb.Fatal(err)
		}
		got := d.cqs[i].Poll(d.room)
		for _, c := range d.room[:got] {
			if c.Status != Success {
				d.tb.Fatalf("%v of %v", c.Status, c.Op)
			}
			if i == 0 {
				n++
			}
		}
	}
	return n
}

// post posts a work request of an operation to the n-th queue pair.
func (d *duo) post(n int, op Op, size int) {
	wr := SendWR{Op: op, Flags: Signaled, RemoteVA: d.mrs[1].VA(), RKey: d.mrs[1].RKey()}
	d.from[0] = d.mrs[0].SGE(0, size)
	wr.SGL = d.from[:]
	if op == OpSend {
		into := [1]SGE{d.mrs[1].SGE(0, size)}
		if err := d.qps[1][n].PostRecv(RecvWR{SGL: into[:]}); err != nil {
			d.tb.Fatal(err)
		}
	}
	if err := d.qps[0][n].PostSend(wr); err != nil {
		d.tb.Fatal(err)
	}
}

var bulk = QPCap{MaxSendWR: 16, MaxRecvWR: 16, MaxSGE: 1}

func BenchmarkMessage(b *testing.B) {
	const size = 1 << 20
	for _, mtu := range []int{1024, 4096} {
		for _, op := range []Op{OpWrite, OpRead, OpSend} {
			b.Run(fmt.Sprintf("%v/mtu=%d", op, mtu), func(b *testing.B) {
				d := newDuo(b, mtu, 1, size, bulk)
				b.SetBytes(size)
				b.ReportAllocs()
				posted, done := 0, 0
				for b.Loop() {
					for ; posted < done+8; posted++ {
						d.post(0, op, size)
					}
					for want := done + 1; done < want; {
						done += d.step()
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(size/mtu), "ns/packet")
			})
		}
	}
}

// processTime is what the process has used of processors: on a machine with others on it, a better measure than the clock.
func processTime(tb testing.TB) time.Duration {
	var u unix.Rusage
	must(tb, unix.Getrusage(unix.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkQPs is small messages over that many queue pairs, round robin: one each, or eight each, which one acknowledgement answers.
func BenchmarkQPs(b *testing.B) {
	for _, burst := range []int{1, 8} {
		for _, qps := range []int{1, 100, 10_000} {
			b.Run(fmt.Sprintf("%d/burst=%d", qps, burst), func(b *testing.B) {
				d := newDuo(b, 1024, qps, 4096, QPCap{MaxSendWR: 64, MaxRecvWR: 1, MaxSGE: 1})
				b.ReportAllocs()
				posted, done := 0, 0
				busy := processTime(b)
				for b.Loop() {
					for ; posted < done+64; posted++ {
						d.post(posted/burst%qps, OpWrite, 128)
					}
					for want := done + 1; done < want; {
						done += d.step()
					}
				}
				b.ReportMetric(float64(done)/b.Elapsed().Seconds(), "messages/s")
				b.ReportMetric(float64(processTime(b)-busy)/float64(done), "cpu-ns/message")
			})
		}
	}
}

// BenchmarkStepIdle is what a device costs that has nothing to do, with queue pairs that are set up.
func BenchmarkStepIdle(b *testing.B) {
	for _, qps := range []int{1, 10_000} {
		b.Run(fmt.Sprint(qps), func(b *testing.B) {
			d := newDuo(b, 1024, qps, 4096, QPCap{MaxSendWR: 2, MaxRecvWR: 2, MaxSGE: 1})
			for b.Loop() {
				d.step()
			}
		})
	}
}

func TestThePacketPathAllocatesNothing(t *testing.T) {
	testkit.SkipUnderRace(t)
	const size = 20_000
	d := newDuo(t, 1024, 4, size, bulk)
	round := func() {
		for n := range d.qps[0] {
			for _, op := range []Op{OpWrite, OpRead, OpSend} {
				d.post(n, op, size)
			}
			d.post(n, OpFetchAdd, 8)
		}
		for done := 0; done < 4*len(d.qps[0]); {
			done += d.step()
		}
	}
	round() // scratch grows to its size
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations per round of %d messages", n, 16)
	}
}
