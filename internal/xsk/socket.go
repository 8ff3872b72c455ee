package xsk

// Socket is an AF_XDP socket on one queue of one interface. Its rings may be used directly; Receive, Release, Queue and Reap
// do the usual things with them.
type Socket struct {
	RX         Consumer[Desc]
	TX         Producer[Desc]
	Fill       Producer[uint64]
	Completion Consumer[uint64]

	umem    *UMEM
	options Options
	info    Info
	counts  counts
	rxs     []uint64 // the chunks that Open took for Fill
	kernel  handle
}

// Info is what a socket turned out to be.
type Info struct {
	Interface   string
	Index       int // of the interface
	MTU         int // when the socket was opened
	Queue       int
	Mode        Mode // Copy or ZeroCopy, as the kernel says
	MultiBuffer bool
	NeedWakeup  bool
	TxBudget    int   // descriptors a Kick may send in copy mode
	NoBudget    error // why TxBudget is not what was asked for
}

// Info says what the socket is.
func (s *Socket) Info() Info { return s.info }

// UMEM is where its frames are.
func (s *Socket) UMEM() *UMEM { return s.umem }

// Packet is a received packet: which slots of RX it takes, and its length.
type Packet struct {
	At    uint32 // index of its first slot
	Descs uint32
	Len   uint32
}

// Receive fills packets with what has arrived, and says how many there were. They are borrowed: their bytes are valid until
// Release. A packet that has not arrived as a whole stays for the next call.
func (s *Socket) Receive(packets []Packet) int {
	size := uint32(s.RX.Size())
	at, got := s.RX.Peek(size)
	n, used := 0, uint32(0) // packets; slots that they take
	for n < len(packets) && used < got {
		p := Packet{At: at + used}
		whole := false
		for used+p.Descs < got && !whole {
			d := s.RX.Slot(p.At + p.Descs)
			p.Descs++
			p.Len += d.Len
			whole = d.Options&OptionContinued == 0
		}
		if !whole {
			if p.Descs == size { // a full ring without an end of packet: it would block for ever
				used += p.Descs
				s.counts.rxBroken.Add(1)
			}
			break
		}
		packets[n] = p
		n++
		used += p.Descs
	}
	s.RX.Cancel(got - used)
	if n > 0 {
		s.counts.rxPackets.Add(uint64(n))
		s.counts.rxDescs.Add(uint64(used))
	}
	return n
}

// Bytes is the first chunk's part of a packet: all of it if it has one descriptor, its headers in any case.
func (s *Socket) Bytes(p Packet) []byte {
	d := s.RX.Slot(p.At)
	return s.umem.Bytes(d.Addr, d.Len)
}

// Part is the packet's i-th part, of p.Descs.
func (s *Socket) Part(p Packet, i uint32) []byte {
	d := s.RX.Slot(p.At + i)
	return s.umem.Bytes(d.Addr, d.Len)
}

// Append appends all bytes of a packet to dst.
func (s *Socket) Append(dst []byte, p Packet) []byte {
	for i := range p.Descs {
		dst = append(dst, s.Part(p, i)...)
	}
	return dst
}

// Release gives the chunks of all packets that Receive gave out back to Fill.
func (s *Socket) Release() { s.ReleaseFirst(uint32(s.RX.Held())) }

// ReleaseFirst gives back the chunks of the oldest packets only, whose Descs add up to slots.
func (s *Socket) ReleaseFirst(slots uint32) {
	if slots == 0 {
		return
	}
	at, n := s.Fill.Reserve(slots)
	first := s.RX.next - uint32(s.RX.Held())
	for i := range n {
		*s.Fill.Slot(at + i) = s.RX.Slot(first+i).Addr & s.umem.mask
	}
	s.Fill.Submit(n)
	// There is always room, for no more chunks circulate than Fill has slots, unless somebody filled it by hand.
	if n < slots {
		s.giveBack(first+n, slots-n)
	}
	s.RX.Release(slots)
}

func (s *Socket) giveBack(first, n uint32) {
	for i := range n {
		s.umem.Give([]uint64{s.RX.Slot(first + i).Addr})
	}
}

// Queue puts as many of the descriptors into TX as there is room for, whole packets only, and says how many. They go out by
// Kick.
func (s *Socket) Queue(descs []Desc) int {
	at, got := s.TX.Reserve(uint32(len(descs)))
	used, packets := 0, uint64(0)
	for i := range int(got) {
		*s.TX.Slot(at + uint32(i)) = descs[i]
		if descs[i].Options&OptionContinued == 0 {
			used = i + 1
			packets++
		}
	}
	s.TX.Cancel(got - uint32(used))
	if used > 0 {
		s.TX.Submit(uint32(used))
		s.counts.txPackets.Add(packets)
		s.counts.txDescs.Add(uint64(used))
	}
	return used
}

// Reap takes addresses out of Completion, up to len(addrs), and says how many. The chunks are the caller's again. Chunks are
// only usually completed in the order that they were sent in.
func (s *Socket) Reap(addrs []uint64) int {
	at, got := s.Completion.Peek(uint32(len(addrs)))
	for i := range got {
		addrs[i] = *s.Completion.Slot(at + i)
	}
	return s.reaped(got)
}

// ReapAll empties Completion for a caller to whom it does not matter which chunks come back, because their frames do not
// change, and says how many did.
func (s *Socket) ReapAll() int {
	_, got := s.Completion.Peek(uint32(s.Completion.Size()))
	return s.reaped(got)
}

func (s *Socket) reaped(n uint32) int {
	if n > 0 {
		s.Completion.Release(n)
		s.counts.completed.Add(uint64(n))
	}
	return int(n)
}
