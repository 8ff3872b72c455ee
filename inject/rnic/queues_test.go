package rnic

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/internal/testkit"
)

// crossed is two RNICs of two queues each, whose packets always come in the other queue than the one whose number they left through.
type crossed struct {
	t    testing.TB
	devs [2][]*Device
	pds  [2]*PD
	mrs  [2]*MR
	cqs  [2][2]*CQ
	qps  [2][2]*QP
	from [2][1]SGE
}

// newCrossed makes it with so many bytes of memory at each end, and the code of the acknowledgement time-out.
func newCrossed(t testing.TB, bytes int, timeout uint8) *crossed {
	return newCrossedOn(t, bytes, timeout, true)
}

func newCrossedOn(t testing.TB, bytes int, timeout uint8, crossing bool) *crossed {
	t.Helper()
	c := &crossed{t: t}
	var ports [2][]port.Port
	for range 2 {
		a, b := port.Pair(port.MemoryOptions{Slots: 1024, MaxFrame: 4096 + maxOverhead})
		ports[0], ports[1] = append(ports[0], a), append(ports[1], b)
	}
	if crossing {
		slices.Reverse(ports[1])
	}
	for i := range ports {
		var err error
		c.devs[i], err = OpenQueues(ports[i], Options{MAC: [6]byte{2, 0, 0, 0, 0, byte(i + 1)}, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)})}})
		must(t, err)
		c.pds[i] = c.devs[i][0].AllocPD()
		c.mrs[i], err = c.pds[i].RegMR(make([]byte, bytes), LocalWrite|RemoteWrite|RemoteRead|RemoteAtomic)
		must(t, err)
		for k, d := range c.devs[i] {
			c.cqs[i][k], err = d.CreateCQ(1024)
			must(t, err)
			c.qps[i][k], err = c.pds[i].CreateQP(QPInit{Type: dissect.RC, SendCQ: c.cqs[i][k], RecvCQ: c.cqs[i][k], Cap: bulk})
			must(t, err)
		}
	}
	for i := range c.qps {
		for k, q := range c.qps[i] {
			far := c.devs[1-i][k]
			a := Attr{
				Port: 1, Access: RemoteWrite | RemoteRead | RemoteAtomic, PathMTU: 1024, DestQPN: c.qps[1-i][k].QPN(), Timeout: timeout,
				RetryCnt: 7, RNRRetry: 7, MinRNRTimer: 1, MaxRdAtomic: 16, MaxDestRdAtomic: 16, AH: AHAttr{Dst: far.Addrs()[0], DstMAC: far.MAC()},
			}
			for to := INIT; to <= RTS; to++ {
				n, _ := step(dissect.RC, to-1, to)
				a.State = to
				must(t, q.Modify(a, AttrState|n.must))
			}
		}
	}
	return c
}

// post posts a work request of an operation to the first end's k-th queue pair, whose memory lies at a place.
func (c *crossed) post(k int, op Op, at, size int) {
	c.from = [2][1]SGE{{c.mrs[0].SGE(at, size)}, {c.mrs[1].SGE(at, size)}}
	if op == OpSend {
		must(c.t, c.qps[1][k].PostRecv(RecvWR{SGL: c.from[1][:]}))
	}
	wr := SendWR{Op: op, Flags: Signaled, SGL: c.from[0][:], RemoteVA: c.mrs[1].VA() + uint64(at), RKey: c.mrs[1].RKey(), CompareAdd: 1}
	must(c.t, c.qps[0][k].PostSend(wr))
}

// done polls what the first end's k-th queue pair completed.
func (c *crossed) done(k int, room []Completion) int {
	n := c.cqs[0][k].Poll(room)
	for _, e := range room[:n] {
		if e.Status != Success {
			c.t.Errorf("queue pair %d: %v of %v", k, e.Status, e.Op)
		}
	}
	return n
}

// step lets all devices work in turn until a queue pair's n work requests are completed.
func (c *crossed) step(k, n int) {
	var room [64]Completion
	for n > 0 {
		for i := range c.devs {
			for _, d := range c.devs[i] {
				if _, err := d.Step(); err != nil {
					c.t.Fatal(err)
				}
			}
		}
		n -= c.done(k, room[:])
		c.cqs[1][k].Poll(room[:])
	}
}

// TestEveryPacketInTheWrongQueue: all operations, of which no packet comes in where its queue pair is.
func TestEveryPacketInTheWrongQueue(t *testing.T) {
	const size = 20_001
	c := newCrossed(t, 4*size, 20)
	for k := range 2 {
		for n, op := range []Op{OpWrite, OpRead, OpSend} {
			from, to := c.mrs[0].Bytes()[k*size:][:size], c.mrs[1].Bytes()[k*size:][:size]
			if op == OpRead {
				from, to = to, from
			}
			for i := range from {
				from[i] = byte(i*7 + i>>8 + n + k)
			}
			c.post(k, op, k*size, size)
			c.step(k, 1)
			if !bytes.Equal(from, to) {
				t.Errorf("queue pair %d: %v: other data than was there", k, op)
			}
		}
	}
	for i := range c.devs {
		for k, d := range c.devs[i] {
			n := d.Counters()
			if n.HandedOver != n.RxFrames || n.RxFrames == 0 || n.Dropped != [numDrops]uint64{} {
				t.Errorf("end %d, queue %d: %+v", i, k, n)
			}
			if d.QPs() != 1 || d.QP(c.qps[i][1-k].QPN()) != c.qps[i][1-k] {
				t.Errorf("end %d, queue %d: %d queue pairs", i, k, d.QPs())
			}
		}
	}
}

// TestAtomicsOfTwoQueues has the queue pairs of both queues add to one word at once, with a thread for each queue: none is lost, and each
// saw another value.
func TestAtomicsOfTwoQueues(t *testing.T) {
	const each, together, word = 1600, 16, 64
	c := newCrossed(t, 4096, 20)
	var threads, posters sync.WaitGroup
	stop := make(chan struct{})
	for i := range c.devs {
		for _, d := range c.devs[i] {
			threads.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					if busy, err := d.Step(); err != nil {
						t.Error(err)
						return
					} else if !busy {
						if err := d.Wait(napLeast); err != nil {
							t.Error(err)
							return
						}
					}
				}
			})
		}
	}
	seen := make([][]uint64, 2)
	for k := range 2 {
		posters.Go(func() {
			var room [together]Completion
			at := 1024 * (k + 1)
			for range each / together {
				for n := range together {
					into := [1]SGE{c.mrs[0].SGE(at+8*n, 8)}
					wr := SendWR{Op: OpFetchAdd, Flags: Signaled, SGL: into[:], RemoteVA: c.mrs[1].VA() + word, RKey: c.mrs[1].RKey(), CompareAdd: 1}
					if err := c.qps[0][k].PostSend(wr); err != nil {
						t.Error(err)
						return
					}
				}
				for n := 0; n < together; n += c.done(k, room[:]) {
					time.Sleep(20 * time.Microsecond)
				}
				for n := range together {
					seen[k] = append(seen[k], binary.NativeEndian.Uint64(c.mrs[0].Bytes()[at+8*n:]))
				}
			}
		})
	}
	posters.Wait()
	close(stop)
	threads.Wait()
	if got := binary.NativeEndian.Uint64(c.mrs[1].Bytes()[word:]); got != 2*each {
		t.Errorf("%d were added to the word, want %d", got, 2*each)
	}
	all := map[uint64]bool{}
	for k := range seen {
		for _, v := range seen[k] {
			all[v] = true
		}
	}
	if len(all) != 2*each {
		t.Errorf("%d different values were seen, want %d", len(all), 2*each)
	}
}

// TestQueuesShare: a region and its key are the same in all queues, and gone from all at once; queues of different devices do not go
// together.
func TestQueuesShare(t *testing.T) {
	c := newCrossed(t, 4096, 20)
	if _, err := c.pds[0].CreateQP(QPInit{Type: dissect.RC, SendCQ: c.cqs[0][0], RecvCQ: c.cqs[0][1]}); err == nil {
		t.Error("a queue pair completes in two queues")
	}
	if _, err := c.pds[0].CreateQP(QPInit{Type: dissect.RC, SendCQ: c.cqs[1][0], RecvCQ: c.cqs[1][0]}); err == nil {
		t.Error("a queue pair completes in another RNIC")
	}
	must(t, c.mrs[1].Deregister())
	for k := range 2 {
		must(t, c.qps[0][k].PostSend(SendWR{Op: OpWrite, Flags: Signaled, SGL: []SGE{c.mrs[0].SGE(0, 8)}, RemoteVA: c.mrs[1].VA(), RKey: c.mrs[1].RKey()}))
		var e [1]Completion
		for c.cqs[0][k].Poll(e[:]) == 0 {
			for i := range c.devs {
				for _, d := range c.devs[i] {
					_, err := d.Step()
					must(t, err)
				}
			}
		}
		if e[0].Status != RemAccessErr {
			t.Errorf("queue pair %d: %v", k, e[0].Status)
		}
	}
	for n := range 300 { // the table grows
		mr, err := c.pds[1].RegMR(make([]byte, 8), LocalWrite)
		must(t, err)
		for _, d := range c.devs[1] {
			if d.region(mr.LKey(), c.pds[1]) != mr {
				t.Fatalf("region %d is not found", n)
			}
		}
	}
}

// TestHandover fills the way of frames from one queue to another, and goes around its end.
func TestHandover(t *testing.T) {
	var h handover
	frame := bytes.Repeat([]byte{1}, 3000)
	room := make([]port.In, 300)
	next, due := 0, 0
	for round := range 7 {
		wrote := 0
		for h.put(&port.In{Data: frame[:100+next*37%2900], Time: int64(next)}) {
			next++
			wrote++
		}
		if due += h.take(room[:1]); h.put(&port.In{Data: frame}) {
			t.Fatal("there was room for a frame where another is lent")
		}
		if round == 0 && wrote < 300 {
			t.Errorf("%d frames had room", wrote)
		}
		for h.waiting() {
			n := h.take(room)
			for _, in := range room[:n] {
				if in.Time != int64(due) || len(in.Data) != 100+due*37%2900 || !bytes.Equal(in.Data, frame[:len(in.Data)]) {
					t.Fatalf("frame %d came as %d, of %d bytes", due, in.Time, len(in.Data))
				}
				due++
			}
			h.giveBack()
			if round%2 == 0 {
				break // the rest is taken below
			}
		}
		for h.waiting() {
			for _, in := range room[:h.take(room)] {
				if in.Time != int64(due) {
					t.Fatalf("frame %d came as %d", due, in.Time)
				}
				due++
			}
			h.giveBack()
		}
	}
	if due != next || next < 1500 {
		t.Errorf("%d of %d frames came", due, next)
	}
}

// TestHandoverFull: what finds no room stays in the port until there is some. Nothing is lost, nor sent again.
func TestHandoverFull(t *testing.T) {
	const size = 64 << 10
	c := newCrossed(t, 16*size, 0)
	owner, other := c.devs[1][0], c.devs[1][1]
	for owner.handed[1].put(&port.In{Data: make([]byte, 8000)}) { // nonsense, which it drops
	}
	c.post(0, OpWrite, 0, size)
	for range 20 {
		for _, d := range []*Device{c.devs[0][0], c.devs[0][1], other} {
			_, err := d.Step()
			must(t, err)
		}
	}
	if n := other.Counters(); n.RxFrames != 0 {
		t.Errorf("%d frames were received that there is no room for", n.RxFrames)
	}
	c.step(0, 1)
	if n := other.Counters(); n.Dropped[DropHandover] != 0 || n.HandedOver == 0 {
		t.Errorf("%+v", n)
	}
	if n := c.devs[0][0].Counters(); n.GoBack != 0 {
		t.Errorf("sent again %d times", n.GoBack)
	}
	if other.handOver(owner, &port.In{Data: make([]byte, handoverBytes)}); other.Counters().Dropped[DropHandover] != 1 {
		t.Error("a frame that never has room is not counted")
	}
}

func TestHandingOverAllocatesNothing(t *testing.T) {
	testkit.SkipUnderRace(t)
	const size = 20_000
	c := newCrossed(t, size, 20)
	round := func() {
		for k := range 2 {
			for _, op := range []Op{OpWrite, OpRead, OpSend} {
				c.post(k, op, 0, size)
			}
			c.step(k, 3)
		}
	}
	round() // scratch grows to its size
	if n := testing.AllocsPerRun(50, round); n != 0 {
		t.Errorf("%v allocations a round", n)
	}
}

func TestOpenQueuesRefuses(t *testing.T) {
	o := Options{Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 0, 1})}}
	for _, n := range []int{0, MaxQueues + 1} {
		if _, err := OpenQueues(make([]port.Port, n), o); err == nil {
			t.Error(fmt.Sprint(n), "queues are taken")
		}
	}
}

// BenchmarkQueues is small WRITEs on the queue pairs of two queues, all devices driven by one goroutine: packets come in where they belong,
// or all in the other queue.
func BenchmarkQueues(b *testing.B) {
	for _, crossing := range []bool{false, true} {
		b.Run(fmt.Sprintf("crossed=%v", crossing), func(b *testing.B) {
			c := newCrossedOn(b, 1<<16, 20, crossing)
			b.ReportAllocs()
			for b.Loop() {
				for k := range 2 {
					for range 8 {
						c.post(k, OpWrite, 0, 128)
					}
				}
				c.step(0, 8)
				c.step(1, 8)
			}
		})
	}
}
