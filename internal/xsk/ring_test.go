package xsk

import (
	"math/rand/v2"
	"testing"
)

// newRings makes the two ends of one ring in ordinary memory: what one side produces, the other consumes.
func newRings[T any](size int) (*Producer[T], *Consumer[T]) {
	s := shared[T]{producer: new(uint32), consumer: new(uint32), flags: new(uint32), slots: make([]T, size), mask: uint32(size - 1)}
	return &Producer[T]{shared: s}, &Consumer[T]{shared: s}
}

// start sets both ends to where the 32-bit indices are about to wrap.
func start[T any](p *Producer[T], c *Consumer[T], at uint32) {
	*p.producer, *p.consumer = at, at
	p.next, p.limit, c.next, c.limit = at, at, at, at
}

func TestRingCarriesEverythingInOrder(t *testing.T) {
	p, c := newRings[uint64](64)
	start(p, c, ^uint32(0)-100)
	rng := rand.New(rand.NewPCG(1, 2))
	sent, got := uint64(0), uint64(0)
	for range 20000 {
		want := uint32(rng.IntN(80))
		at, n := p.Reserve(want)
		if rng.IntN(4) == 0 && n > 0 {
			p.Cancel(1)
			n--
		}
		for i := range n {
			*p.Slot(at + i) = sent
			sent++
		}
		p.Submit(n)
		if p.Pending() > 64 || p.Free() < 0 || p.Free()+p.Pending() > 64 {
			t.Fatalf("pending %d, free %d of 64", p.Pending(), p.Free())
		}
		from, have := c.Peek(uint32(rng.IntN(80)))
		if rng.IntN(4) == 0 && have > 0 {
			c.Cancel(1)
			have--
		}
		for i := range have {
			if v := *c.Slot(from + i); v != got {
				t.Fatalf("got %d, want %d", v, got)
			}
			got++
		}
		if rng.IntN(2) == 0 {
			c.Release(uint32(c.Held()))
		}
	}
	if sent-got > 64 || sent < 100000 {
		t.Errorf("sent %d, received %d", sent, got)
	}
}

func TestRingIsNeverFullerThanItIs(t *testing.T) {
	p, c := newRings[Desc](8)
	if _, n := p.Reserve(100); n != 8 {
		t.Errorf("an empty ring of 8 gave %d slots", n)
	}
	if _, n := p.Reserve(1); n != 0 {
		t.Errorf("a reserved ring gave %d more slots", n)
	}
	if _, n := c.Peek(100); n != 0 {
		t.Errorf("%d descriptors seen that were not submitted", n)
	}
	p.Submit(8)
	if _, n := c.Peek(100); n != 8 {
		t.Errorf("%d descriptors of 8 seen", n)
	}
	if _, n := p.Reserve(1); n != 0 {
		t.Errorf("slots given out before they were released: %d", n)
	}
	c.Release(3)
	if _, n := p.Reserve(100); n != 3 {
		t.Errorf("%d slots of the 3 released", n)
	}
}

func TestNoIndexOfTheKernelDoesHarm(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	u := newUMEM(make([]byte, 16*2048), UMEMOptions{Chunks: 16, ChunkSize: 2048})
	for range 20000 {
		s := &Socket{umem: u}
		rx, _ := newRings[Desc](16)
		s.RX.shared = rx.shared
		fill, _ := newRings[uint64](16)
		s.Fill.shared = fill.shared
		tx, _ := newRings[Desc](16)
		s.TX.shared = tx.shared
		completion, _ := newRings[uint64](16)
		s.Completion.shared = completion.shared
		var packets [8]Packet
		var addrs [8]uint64
		for range 8 {
			// Small steps as well as nonsense.
			for _, i := range []index{s.RX.producer, s.Fill.consumer, s.TX.consumer, s.Completion.producer} {
				if rng.IntN(2) == 0 {
					*i += rng.Uint32N(20)
				} else if rng.IntN(4) == 0 {
					*i = rng.Uint32()
				}
			}
			for i := range s.RX.slots {
				s.RX.slots[i] = Desc{Addr: rng.Uint64() >> rng.IntN(64), Len: rng.Uint32() >> rng.IntN(32), Options: rng.Uint32() & 1}
			}
			n := s.Receive(packets[:])
			for _, p := range packets[:n] {
				_ = s.Bytes(p)
				if b := s.Append(nil, p); len(b) > 16*16*2048 {
					t.Fatalf("%d bytes out of a UMEM of %d", len(b), 16*2048)
				}
			}
			if s.RX.Held() > 16 {
				t.Fatalf("%d slots held of a ring of 16", s.RX.Held())
			}
			s.Release()
			s.Queue([]Desc{{Addr: 0, Len: 10, Options: OptionContinued}, {Addr: 2048, Len: 10}})
			if s.TX.Pending() > 16 || s.TX.Free() > 16 {
				t.Fatalf("pending %d, free %d of 16", s.TX.Pending(), s.TX.Free())
			}
			s.Reap(addrs[:])
			s.ReapAll()
		}
	}
}

func TestReceiveLeavesAHalfPacket(t *testing.T) {
	u := newUMEM(make([]byte, 16*4096), UMEMOptions{Chunks: 16, ChunkSize: 4096})
	kernel, rx := newRings[Desc](8)
	s := &Socket{umem: u}
	s.RX = *rx
	fill, _ := newRings[uint64](16)
	s.Fill = *fill
	put := func(descs ...Desc) {
		at, n := kernel.Reserve(uint32(len(descs)))
		for i := range n {
			*kernel.Slot(at + i) = descs[i]
		}
		kernel.Submit(n)
	}
	var packets [4]Packet

	put(Desc{Addr: 256, Len: 60}, Desc{Addr: 4096 + 256, Len: 3840, Options: OptionContinued})
	if n := s.Receive(packets[:]); n != 1 || packets[0] != (Packet{At: 0, Descs: 1, Len: 60}) {
		t.Fatalf("first: %d packets, %+v", n, packets[0])
	}
	s.Release()
	if n := s.Receive(packets[:]); n != 0 {
		t.Fatalf("half of a packet was given out: %+v", packets[:n])
	}
	put(Desc{Addr: 2*4096 + 256, Len: 358})
	if n := s.Receive(packets[:]); n != 1 || packets[0] != (Packet{At: 1, Descs: 2, Len: 4198}) {
		t.Fatalf("then: %d packets, %+v", n, packets[0])
	}
	if b := s.Append(nil, packets[0]); len(b) != 4198 {
		t.Errorf("%d bytes", len(b))
	}
	s.Release()
	if got := s.Fill.slots[:3]; got[0] != 0 || got[1] != 4096 || got[2] != 2*4096 {
		t.Errorf("chunks given back: %v", got)
	}

	for range 8 {
		put(Desc{Len: 1, Options: OptionContinued})
	}
	if n := s.Receive(packets[:]); n != 0 {
		t.Fatalf("%d packets out of a ring without an end", n)
	}
	s.Release()
	if got := s.counts.rxBroken.Load(); got != 1 || kernel.Pending() != 0 {
		t.Errorf("%d broken, %d slots still taken", got, kernel.Pending())
	}
}

func TestQueueTakesWholePacketsOnly(t *testing.T) {
	tx, kernel := newRings[Desc](8)
	s := &Socket{TX: *tx}
	two := []Desc{{Len: 1, Options: OptionContinued}, {Len: 2}}
	three := []Desc{{Len: 1, Options: OptionContinued}, {Len: 2, Options: OptionContinued}, {Len: 3}}
	if n := s.Queue(append(append([]Desc{}, three...), three...)); n != 6 {
		t.Fatalf("%d of 6 descriptors queued", n)
	}
	if n := s.Queue(three); n != 0 {
		t.Errorf("%d descriptors queued into the last 2 slots", n)
	}
	if n := s.Queue(two); n != 2 {
		t.Errorf("%d of 2 descriptors queued", n)
	}
	if _, n := kernel.Peek(100); n != 8 {
		t.Errorf("%d of 8 descriptors arrived", n)
	}
	if got := s.counts.txPackets.Load(); got != 3 {
		t.Errorf("%d packets counted", got)
	}
}

func TestRetiredRingsAreEmpty(t *testing.T) {
	s := &Socket{umem: newUMEM(make([]byte, 4096), UMEMOptions{Chunks: 1, ChunkSize: 4096})}
	s.RX.retire()
	s.TX.retire()
	s.Fill.retire()
	s.Completion.retire()
	var packets [4]Packet
	if n := s.Receive(packets[:]); n != 0 {
		t.Errorf("received %d", n)
	}
	s.Release()
	if n := s.Queue([]Desc{{Len: 1}}); n != 0 {
		t.Errorf("queued %d", n)
	}
	if n := s.ReapAll(); n != 0 || s.TX.Free() != 0 {
		t.Errorf("reaped %d, free %d", n, s.TX.Free())
	}
}

func TestUMEMGivesOutEachChunkOnce(t *testing.T) {
	u := newUMEM(make([]byte, 64*2048), UMEMOptions{Chunks: 64, ChunkSize: 2048})
	a, ok := u.Take(40)
	if !ok || a[0] != 0 || a[1] != 2048 {
		t.Fatalf("%v %v", ok, a)
	}
	if _, ok := u.Take(25); ok {
		t.Error("25 chunks of the last 24")
	}
	b, _ := u.Take(24)
	seen := map[uint64]bool{}
	for _, c := range append(a, b...) {
		if seen[c] || c%2048 != 0 || u.Chunk(c) == nil {
			t.Errorf("chunk %d", c)
		}
		seen[c] = true
	}
	u.Give([]uint64{2048*7 + 300, 1 << 40})
	if c, ok := u.Take(1); !ok || c[0] != 2048*7 {
		t.Errorf("the chunk given back: %v", c)
	}
	if _, ok := u.Take(1); ok {
		t.Error("a chunk beyond the end was taken in")
	}
}

func TestBytesOutsideOfTheUMEM(t *testing.T) {
	u := newUMEM(make([]byte, 4*4096), UMEMOptions{Chunks: 4, ChunkSize: 4096})
	for _, c := range []struct {
		addr uint64
		n    uint32
		want int
	}{{0, 4096, 4096}, {3 * 4096, 4096, 4096}, {3*4096 + 1, 4096, 0}, {1 << 63, 1, 0}, {^uint64(0), 2, 0}, {4 * 4096, 0, 0}, {100, ^uint32(0), 0}} {
		if got := len(u.Bytes(c.addr, c.n)); got != c.want {
			t.Errorf("%d bytes at %#x: got %d", c.n, c.addr, got)
		}
	}
}

func TestOptionsThatCannotBe(t *testing.T) {
	u := newUMEM(make([]byte, 4*4096), UMEMOptions{Chunks: 4, ChunkSize: 4096})
	for name, o := range map[string]Options{
		"no interface":     {UMEM: u, RX: 64},
		"no UMEM":          {Interface: "x", RX: 64},
		"no ring":          {Interface: "x", UMEM: u},
		"odd ring":         {Interface: "x", UMEM: u, RX: 100},
		"negative queue":   {Interface: "x", UMEM: u, RX: 64, Queue: -1},
		"too many chunks":  {Interface: "x", UMEM: u, RX: 64, RXChunks: 65},
		"budget too small": {Interface: "x", UMEM: u, TX: 64, TxBudget: 16},
		"budget too large": {Interface: "x", UMEM: u, TX: 64, TxBudget: 128},
		"frame too long":   {Interface: "x", UMEM: u, RX: 64, MaxFrame: 3841},
	} {
		if err := o.complete(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	fits := Options{Interface: "x", UMEM: u, TX: 64, MaxFrame: 4096}
	if err := fits.complete(); err != nil {
		t.Error(err)
	}
	for name, o := range map[string]UMEMOptions{"chunk of a page and more": {ChunkSize: 8192}, "negative": {Chunks: -1}, "headroom": {ChunkSize: 2048, Headroom: 1900}} {
		if err := o.complete(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
