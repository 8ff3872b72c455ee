package xsk

import (
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// sendAll sends n frames of one chunk through a socket, constant but for their mark.
func sendAll(t testing.TB, tx *Socket, n, length int) {
	t.Helper()
	u := tx.UMEM()
	free, ok := u.Take(64)
	if !ok {
		t.Fatal("no chunks to send from")
	}
	for sent := 0; sent < n; {
		for _, a := range free[:min(len(free), n-sent)] {
			tx.Queue(place(u, []uint64{a}, frameOptions{mark: uint32(sent), length: length}.build(nil)))
			sent++
		}
		if done, err := tx.Drain(3 * time.Second); !done || err != nil {
			t.Fatalf("drained: %v, %v", done, err)
		}
	}
	u.Give(free)
}

// TestOverflow fills a receiver that does not look, and one that gives no chunks: what it lost, and what it has, add up.
func TestOverflow(t *testing.T) {
	t.Run("ring full", func(t *testing.T) {
		newWire(t, 1500, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		rx := receiver(t, p, Options{Interface: right, RX: 64, Fill: 1024, RXChunks: 1024})
		sendAll(t, openSocket(t, Options{Interface: left, TX: 64}), 300, 100)
		waitFor(t, "the frames", func() bool { return counters(t, p)[RedirectedRoCEv2] == 300 })
		got := collect(t, rx, 300, func([]byte) {})
		s := stats(t, rx)
		t.Logf("%+v", s)
		if got != 64 || s.RxRingFull != 236 || s.RxLost() != 236 || s.RxPackets != 64 {
			t.Errorf("received %d of 300; %+v", got, s)
		}
	})
	t.Run("fill empty", func(t *testing.T) {
		newWire(t, 1500, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		rx := receiver(t, p, Options{Interface: right, RX: 512, Fill: 64, RXChunks: 40})
		sendAll(t, openSocket(t, Options{Interface: left, TX: 64}), 300, 100)
		waitFor(t, "the frames", func() bool { return counters(t, p)[RedirectedRoCEv2] == 300 })
		got := collect(t, rx, 300, func([]byte) {})
		s := stats(t, rx)
		t.Logf("%+v", s)
		if got != 40 || s.RxLost() != 260 || s.FillEmpty == 0 {
			t.Errorf("received %d of 300; %+v", got, s)
		}
	})
	t.Run("frame longer than a chunk, without multi-buffer", func(t *testing.T) {
		w := newWire(t, 9000, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		rx := receiver(t, p, Options{Interface: right, RX: 64})
		send(t, w.left, frameOptions{length: 4198}.build(nil))
		send(t, w.left, frameOptions{length: 100}.build(nil))
		got := collect(t, rx, 2, func([]byte) {})
		if s := stats(t, rx); got != 1 || s.RxDropped != 1 || s.RxLost() != 1 {
			t.Errorf("received %d of 2; %+v", got, s)
		}
	})
	t.Run("multi-buffer, ring full", func(t *testing.T) {
		newWire(t, 9000, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		rx := receiver(t, p, Options{Interface: right, RX: 64, Fill: 512, RXChunks: 512, MultiBuffer: true})
		u := newTestUMEM(t, UMEMOptions{Chunks: 64})
		tx := openSocket(t, Options{Interface: left, UMEM: u, TX: 64, MultiBuffer: true})
		chunks, _ := u.Take(2)
		for range 100 {
			tx.Queue(place(u, chunks, frameOptions{length: 4198}.build(nil)))
			if done, err := tx.Drain(time.Second); !done || err != nil {
				t.Fatal(done, err)
			}
		}
		waitFor(t, "the frames", func() bool { return counters(t, p)[RedirectedRoCEv2] == 100 })
		got := collect(t, rx, 100, func(b []byte) {
			if len(b) != 4198 {
				t.Errorf("%d bytes", len(b))
			}
		})
		s := stats(t, rx)
		t.Logf("%+v", s)
		if got != 32 || s.RxLost() != 68 || s.RxDescs != 64 {
			t.Errorf("received %d of 100; %+v", got, s)
		}
	})
	t.Run("invalid descriptors", func(t *testing.T) {
		newWire(t, 1500, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		tx := openSocket(t, Options{Interface: left, TX: 64})
		tx.Queue([]Desc{{Addr: 1 << 40, Len: 100}, {Addr: 0, Len: 5000}, {Addr: 0, Len: 100, Options: 1 << 31}, {Addr: 0, Len: 100}})
		// Those that are thrown away are completed too.
		if done, err := tx.Drain(time.Second); !done || err != nil {
			t.Error(done, err)
		}
		waitFor(t, "the valid one", func() bool { return counters(t, p)[PassedOther] == 1 })
		if s := stats(t, tx); s.TxInvalid != 3 || tx.TX.Pending() != 0 {
			t.Errorf("%+v, pending %d", s, tx.TX.Pending())
		}
	})
}

// TestRefusedByTheInterface: a frame that is too long for the wire, and a far end that is too slow, are completed like any
// other. Only the receiver's count and TxRefused tell.
func TestRefusedByTheInterface(t *testing.T) {
	t.Run("longer than the MTU", func(t *testing.T) {
		newWire(t, 1500, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		tx := openSocket(t, Options{Interface: left, TX: 64})
		sendAll(t, tx, 10, 1500+14)
		sendAll(t, tx, 10, 1500+18)
		sendAll(t, tx, 10, 1500+19)
		waitFor(t, "the frames", func() bool { return counters(t, p)[RedirectedRoCEv2]+counters(t, p)[PassedNoSocket] == 20 })
		if s := stats(t, tx); s.TxCompleted != 30 || s.TxRefused != 10 {
			t.Errorf("%+v", s)
		}
	})
	t.Run("far end too slow", func(t *testing.T) {
		newWire(t, 1500, 1)
		p := attachProgram(t, right, ProgramOptions{}, AttachNative)
		threaded(t, right)
		tx := openSocket(t, Options{Interface: left, TX: 2048, TxBudget: 2048})
		// Usually the socket's own buffer limit holds it back just before the far end's ring of 256 is full.
		if err := unix.SetsockoptInt(tx.FD(), unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, 64<<20); err != nil {
			t.Skip(err)
		}
		chunks, _ := tx.UMEM().Take(1)
		descs := place(tx.UMEM(), chunks, frameOptions{}.build(nil))
		const frames = 20000
		for sent := 0; sent < frames; {
			for tx.Queue(descs) > 0 {
				if sent++; sent == frames {
					break
				}
			}
			if _, err := tx.Kick(); err != nil {
				t.Fatal(err)
			}
			tx.ReapAll()
		}
		if done, err := tx.Drain(5 * time.Second); !done || err != nil {
			t.Fatal(done, err)
		}
		var arrived uint64
		waitFor(t, "quiet", func() bool {
			before := arrived
			time.Sleep(20 * time.Millisecond)
			arrived = counters(t, p)[PassedNoSocket]
			return arrived == before
		})
		s := stats(t, tx)
		t.Logf("%d of %d arrived; %+v", arrived, frames, s)
		if s.TxCompleted != frames || arrived+s.TxRefused != frames {
			t.Errorf("%d completed, %d refused, %d arrived", s.TxCompleted, s.TxRefused, arrived)
		}
	})
}

// TestSharedUMEM receives on two queues and sends on two, all on one UMEM, and forwards without copying.
func TestSharedUMEM(t *testing.T) {
	newWire(t, 9000, 2)
	u := newTestUMEM(t, UMEMOptions{Chunks: 2048})
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	var rx, tx [2]*Socket
	for q := range 2 {
		tx[q] = openSocket(t, Options{Interface: left, UMEM: u, Queue: q, TX: 64, RX: 64, MultiBuffer: true})
		rx[q] = receiver(t, p, Options{Interface: right, UMEM: u, Queue: q, TX: 64, RX: 256, MultiBuffer: true})
		if q == 1 && !rx[q].Info().MultiBuffer {
			t.Error("no multi-buffer on the second queue")
		}
	}
	for q := range 2 {
		chunks, _ := u.Take(2)
		for range 50 {
			tx[q].Queue(place(u, chunks, frameOptions{length: 4198, mark: uint32(q)}.build(nil)))
			if done, err := tx[q].Drain(time.Second); !done || err != nil {
				t.Fatal(done, err)
			}
		}
	}
	for q := range 2 {
		got := collect(t, rx[q], 50, func(b []byte) {
			if len(b) != 4198 || b[len(b)-1] != byte(q) {
				t.Errorf("queue %d: %d bytes, mark %d", q, len(b), b[len(b)-1])
			}
		})
		if s := stats(t, rx[q]); got != 50 || s.RxLost() != 0 {
			t.Errorf("queue %d: received %d, %+v", q, got, s)
		}
	}

	// And back: the chunks that a frame came in go out again.
	back := attachProgram(t, left, ProgramOptions{}, AttachNative)
	if err := back.Register(tx[0]); err != nil {
		t.Fatal(err)
	}
	chunks, _ := u.Take(2)
	tx[0].Queue(place(u, chunks, frameOptions{length: 4198, mark: 77}.build(nil)))
	if done, err := tx[0].Drain(time.Second); !done || err != nil {
		t.Fatal(done, err)
	}
	if ready, err := rx[0].Wait(time.Second); !ready {
		t.Fatal("nothing to forward", err)
	}
	at, n := rx[0].RX.Peek(64)
	if n != 2 {
		t.Fatalf("%d descriptors", n)
	}
	to, room := rx[0].TX.Reserve(n)
	for i := range room {
		*rx[0].TX.Slot(to + i) = *rx[0].RX.Slot(at + i)
	}
	rx[0].TX.Submit(room)
	rx[0].RX.Release(n)
	if done, err := rx[0].Drain(time.Second); !done || err != nil {
		t.Fatal(done, err)
	}
	if got := collect(t, tx[0], 1, func(b []byte) {
		if len(b) != 4198 || b[len(b)-1] != 77 {
			t.Errorf("%d bytes came back, mark %d", len(b), b[len(b)-1])
		}
	}); got != 1 {
		t.Errorf("%d frames came back", got)
	}

	if _, err := Open(Options{Interface: left, UMEM: u, Queue: 0, RX: 64, RXChunks: 8}); err == nil {
		t.Error("a second socket on a queue, sharing its UMEM")
	}
	if err := u.Close(); err == nil {
		t.Error("a UMEM was closed under its sockets")
	}
	// The one that registered the UMEM goes; another can still join.
	if err := tx[0].Close(); err != nil {
		t.Fatal(err)
	}
	again := openSocket(t, Options{Interface: left, UMEM: u, Queue: 0, TX: 64, MultiBuffer: true})
	again.Queue(place(u, chunks, frameOptions{length: 4198}.build(nil)))
	if done, err := again.Drain(time.Second); !done || err != nil {
		t.Fatal(done, err)
	}
	if got := collect(t, rx[0], 1, func([]byte) {}); got != 1 {
		t.Errorf("received %d from the socket that came later", got)
	}
}

// TestNeedWakeup: in copy mode the kernel always wants to be kicked, and says so where it was asked to.
func TestNeedWakeup(t *testing.T) {
	newWire(t, 1500, 1)
	if err := HaveNeedWakeup(); err != nil {
		t.Skip(err)
	}
	s := openSocket(t, Options{Interface: left, TX: 64, RX: 64})
	if !s.Info().NeedWakeup || !s.TX.NeedWakeup() {
		t.Errorf("asked for: %v, says: %v", s.Info().NeedWakeup, s.TX.NeedWakeup())
	}
	if err := s.WakeRX(); err != nil {
		t.Error(err)
	}
	s.Close()
	s = openSocket(t, Options{Interface: left, TX: 64, RX: 64, AlwaysKick: true})
	if s.Info().NeedWakeup {
		t.Error("need-wakeup although it was not asked for")
	}
	sendAll(t, s, 10, 100)
	if x := stats(t, s); x.Kicks == 0 || x.TxCompleted != 10 {
		t.Errorf("%+v", x)
	}
}

func TestTxBudget(t *testing.T) {
	newWire(t, 1500, 1)
	s := openSocket(t, Options{Interface: left, TX: 1024, TxBudget: 512})
	if why := s.Info().NoBudget; why != nil {
		t.Skip(why)
	}
	chunks, _ := s.UMEM().Take(1)
	descs := place(s.UMEM(), chunks, frameOptions{}.build(nil))
	for range 600 {
		s.Queue(descs)
	}
	more, err := s.Kick()
	// On a busy machine the far end's half runs later, and the socket's buffer limit may stop the kernel before the budget does.
	if sent := 600 - s.TX.Pending(); err != nil || !more || sent <= 32 || sent > 512 || s.Info().TxBudget != 512 {
		t.Errorf("after one kick of 600 with a budget of 512: more %v, %d sent, %v", more, sent, err)
	}
	if x := stats(t, s); x.TxAgain != 1 {
		t.Errorf("%+v", x)
	}
}

func TestTxTimestamp(t *testing.T) {
	newWire(t, 1500, 1)
	if err := HaveTxMetadata(); err != nil {
		t.Skip(err)
	}
	if n := unsafe.Sizeof(TxMetadata{}); n != 24 {
		t.Fatalf("TxMetadata has %d bytes", n)
	}
	u := newTestUMEM(t, UMEMOptions{Chunks: 64, TxMetadata: true})
	s := openSocket(t, Options{Interface: left, UMEM: u, TX: 64})
	chunks, _ := u.Take(1)
	if u.TxMetadata(chunks[0]) != nil {
		t.Error("a metadata area before the beginning of the chunk")
	}
	var stamps []uint64
	for range 3 {
		descs := place(u, chunks, frameOptions{}.build(nil))
		m := u.TxMetadata(descs[0].Addr)
		*m = TxMetadata{Flags: TxTimestamp}
		descs[0].Options |= OptionTxMetadata
		s.Queue(descs)
		if done, err := s.Drain(time.Second); !done || err != nil {
			t.Fatal(done, err)
		}
		stamps = append(stamps, m.Timestamp())
	}
	if stamps[0] == 0 || stamps[0] >= stamps[1] || stamps[1] >= stamps[2] {
		t.Errorf("time stamps %v", stamps)
	}
}

func TestBusyPoll(t *testing.T) {
	newWire(t, 1500, 1)
	s := openSocket(t, Options{Interface: left, RX: 64, BusyPoll: BusyPoll{Microseconds: 20, Prefer: true}})
	if _, err := s.Wait(time.Millisecond); err != nil {
		t.Error(err)
	}
}

// TestNothingIsAllocated sends and receives in the way that package documentation shows.
func TestNothingIsAllocated(t *testing.T) {
	newWire(t, 9000, 1)
	p := attachProgram(t, right, ProgramOptions{}, AttachNative)
	rx := receiver(t, p, Options{Interface: right, RX: 1024, MultiBuffer: true})
	tx := openSocket(t, Options{Interface: left, TX: 256, MultiBuffer: true})
	u := tx.UMEM()
	chunks, _ := u.Take(2)
	long := place(u, chunks, frameOptions{length: 4198}.build(nil))
	packets, addrs, buffer := make([]Packet, 64), make([]uint64, 64), make([]byte, 0, 8192)
	received := 0
	allocs := testing.AllocsPerRun(50, func() {
		for range 8 {
			tx.Queue(long)
		}
		at, n := tx.TX.Reserve(8)
		for i := range n {
			*tx.TX.Slot(at + i) = Desc{Addr: long[0].Addr, Len: 100}
		}
		tx.TX.Submit(n)
		for more := true; more; {
			more, _ = tx.Kick()
			tx.Reap(addrs)
		}
		tx.ReapAll()
		rx.Wait(time.Millisecond)
		for n := -1; n != 0; {
			n = rx.Receive(packets)
			for _, p := range packets[:n] {
				_ = rx.Bytes(p)
				buffer = rx.Append(buffer[:0], p)
			}
			received += n
			rx.Release()
		}
	})
	if allocs != 0 || received < 50*16 {
		t.Errorf("%v allocations in sending and receiving 16 packets; %d received", allocs, received)
	}
}
