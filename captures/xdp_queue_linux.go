package captures

import (
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/xsk"
)

const (
	xdpPackets = 512 // packets taken at a time, at most
	xdpBatches = 4   // pieces of so many packets that go round between a thread and the reader

	// When less than xdpFew packets came at a time, the next ones get xdpPause to
	// come together: to be woken for each costs more than all the rest.
	xdpFew   = 128
	xdpPause = 200 * time.Microsecond
	// xdpDown is how long it takes to look again at an interface that is down.
	xdpDown = 10 * time.Millisecond
)

// xdpQueue is a queue's socket, and the thread that takes frames from it. The
// thread fills batches, which the reader borrows from and gives back in the same
// order; frames lie in the socket's memory until then. Of a single queue the reader
// is the thread: nothing has to be handed over.
type xdpQueue struct {
	sock    *xsk.Socket
	umem    *xsk.UMEM
	packets []xsk.Packet
	polls   [2]unix.PollFd
	snap    int

	full, free chan *xdpBatch
	idle       []*xdpBatch   // the thread's
	quit       chan struct{} // nobody gives batches back any more
	done       chan struct{} // the thread has ended; nil where there is none

	received atomic.Uint64
	// The reader's:
	cur       *xdpBatch // being handed out
	at        int
	spent     []*xdpBatch // from which frames are borrowed until the next ReadBatch
	delivered atomic.Uint64
	dropped   uint64 // the source's mutex is held
}

// xdpBatch is frames that came together.
type xdpBatch struct {
	frames []Frame
	arena  []byte // frames that came in several parts
	slots  uint32 // of the socket's ring
}

// newXDPQueue makes a queue without a socket. Its batches hold a small part of the
// ring, which they keep from being filled.
func newXDPQueue(umem *xsk.UMEM, size, snap int) *xdpQueue {
	packets := min(xdpPackets, size/(4*xdpBatches))
	q := &xdpQueue{
		umem: umem, snap: snap, packets: make([]xsk.Packet, packets),
		full: make(chan *xdpBatch, xdpBatches), free: make(chan *xdpBatch, xdpBatches), quit: make(chan struct{}),
	}
	for range xdpBatches {
		q.free <- &xdpBatch{frames: make([]Frame, 0, packets)}
	}
	return q
}

// start starts the thread, on a core of its own.
func (q *xdpQueue) start(s *xdpSource, core int) {
	q.done = make(chan struct{})
	go func() {
		defer close(q.done)
		defer crash.Guard()
		pin(core)
		q.run(s)
	}()
}

// priority is that of threads which take frames, by setpriority(2): when they get
// their turn late on a busy machine, frames are lost.
const priority = -10

// allowPriority lets threads of this process have the priority, also when its
// privileges are dropped. Without privileges they do without.
func allowPriority() {
	const base = 20 // RLIMIT_NICE counts from there
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NICE, &limit) == nil && limit.Cur < base-priority {
		limit.Cur = base - priority
		limit.Max = max(limit.Max, limit.Cur)
		_ = unix.Setrlimit(unix.RLIMIT_NICE, &limit)
	}
}

// pin keeps the goroutine on a thread, and the thread on a core, as long as the
// goroutine lives: the thread ends with it.
func pin(core int) {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, 0, priority)
	var set unix.CPUSet
	set.Set(core)
	_ = unix.SchedSetaffinity(0, &set) // a core that was just taken away is no reason to stop
}

func (q *xdpQueue) run(s *xdpSource) {
	for {
		b := q.take()
		if b == nil {
			return
		}
		n := q.sock.Receive(q.packets)
		for n == 0 {
			// As long as the reader borrows frames, poll finds the ring not empty.
			if q.reclaim(); q.sock.RX.Held() > 0 {
				pause()
			} else if rang, _ := q.sleep(s.bell, -1); rang {
				return
			}
			n = q.sock.Receive(q.packets)
		}
		q.fill(b, q.packets[:n])
		q.full <- b
		s.ring()
		if n < xdpFew {
			pause()
		}
	}
}

// pause lets frames come together. The thread itself sleeps: a goroutine that is
// bound to its thread is dear to put aside.
func pause() {
	t := unix.NsecToTimespec(int64(xdpPause))
	_ = unix.Nanosleep(&t, nil)
}

// sleep returns when there may be frames, when the bell rings, or when the time is
// over (in milliseconds; -1 is never). It says whether the interface is well.
func (q *xdpQueue) sleep(bell wakeup, timeout int) (rang, well bool) {
	q.polls = [2]unix.PollFd{{Fd: int32(q.sock.FD()), Events: unix.POLLIN}, {Fd: int32(bell.fd), Events: unix.POLLIN}}
	n, err := unix.Poll(q.polls[:], timeout)
	switch {
	case q.polls[1].Revents != 0:
		return true, true
	case err == nil && n > 0 && q.polls[0].Revents&unix.POLLIN == 0:
		time.Sleep(xdpDown)
		return false, false
	}
	return false, true
}

// reclaim gives the kernel the chunks of all batches that came back.
func (q *xdpQueue) reclaim() {
	for {
		select {
		case b := <-q.free:
			q.reuse(b)
		default:
			return
		}
	}
}

func (q *xdpQueue) reuse(b *xdpBatch) {
	q.sock.ReleaseFirst(b.slots)
	b.slots = 0
	q.idle = append(q.idle, b)
}

// take returns a batch to fill, when there is one; nil at the end.
func (q *xdpQueue) take() *xdpBatch {
	q.reclaim()
	if len(q.idle) == 0 {
		select {
		case b := <-q.free:
			q.reuse(b)
		case <-q.quit:
			return nil
		}
	}
	last := len(q.idle) - 1
	b := q.idle[last]
	q.idle = q.idle[:last]
	return b
}

// fill makes frames of packets. AF_XDP has no time of arrival, so they get that of
// now.
func (q *xdpQueue) fill(b *xdpBatch, packets []xsk.Packet) {
	now := time.Now().UnixNano()
	b.frames, b.arena, b.slots = b.frames[:len(packets)], b.arena[:0], 0
	for i, p := range packets {
		data := q.sock.Bytes(p)
		if p.Descs > 1 {
			at := len(b.arena)
			b.arena = q.sock.Append(b.arena, p)
			data = b.arena[at:]
		}
		b.slots += p.Descs
		snap := min(len(data), q.snap)
		b.frames[i] = Frame{
			Time: now, Data: data[:snap:snap], WireLen: int(p.Len), Link: dissect.LinkEthernet, HasTime: true, Direction: In,
		}
	}
	q.received.Add(uint64(len(packets)))
}

// open says whether there is a frame.
func (q *xdpQueue) open() bool {
	switch {
	case q.cur != nil:
	case q.done == nil:
		if len(q.spent) > 0 {
			return false // all there is, is borrowed
		}
		b := q.take()
		n := q.sock.Receive(q.packets)
		if n == 0 {
			q.idle = append(q.idle, b)
			return false
		}
		q.fill(b, q.packets[:n])
		q.cur, q.at = b, 0
	default:
		select {
		case q.cur = <-q.full:
			q.at = 0
		default:
			return false
		}
	}
	return true
}

// head is the time of the next frame.
func (q *xdpQueue) head() int64 { return q.cur.frames[q.at].Time }

// handOut hands out frames of the batch at hand until one is younger than until.
func (q *xdpQueue) handOut(dst []Frame, until int64) (n int) {
	left := q.cur.frames[q.at:]
	for n < min(len(dst), len(left)) && left[n].Time <= until {
		dst[n] = left[n]
		n++
	}
	if q.at += n; q.at == len(q.cur.frames) {
		q.spent, q.cur = append(q.spent, q.cur), nil
	}
	q.delivered.Add(uint64(n))
	return n
}

// giveBack gives batches back to the thread.
func (q *xdpQueue) giveBack() {
	for _, b := range q.spent {
		q.free <- b
	}
	q.spent = q.spent[:0]
}

// close ends the thread, which the source has told to, and closes the socket.
func (q *xdpQueue) close() error {
	if q.done != nil {
		close(q.quit)
		<-q.done
	}
	var err error
	if q.sock != nil {
		err = q.sock.Close()
	}
	return errors.Join(err, q.umem.Close())
}
