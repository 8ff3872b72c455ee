package testkit

import "github.com/rocescope/rocescope/dissect"

// Message is a request as its packets were written, for resending and answering.
type Message struct {
	From        *End
	Family      dissect.Family
	Size        int
	First, Last dissect.PSN // of a READ: the PSNs of its answer
	VA          uint64
	RKey        uint32
	Packets     []*Packet // the request's, as first sent

	rest bool // of a READ that was asked for before: completes nothing new
}

// Req is what can be said of a request besides its size.
type Req func(*request)

type request struct {
	flags    dissect.OpFlags
	imm      uint32
	va       uint64
	rkey     uint32
	solicit  bool
	noAckReq bool
}

// Imm gives the message immediate data.
func Imm(v uint32) Req { return func(r *request) { r.flags |= dissect.WithImm; r.imm = v } }

// Invalidate makes a SEND one with invalidate.
func Invalidate(rkey uint32) Req {
	return func(r *request) { r.flags |= dissect.WithInv; r.imm = rkey }
}

// At says which memory the operation is for.
func At(va uint64, rkey uint32) Req { return func(r *request) { r.va, r.rkey = va, rkey } }

// Solicited sets the solicited event bit on the last packet.
func Solicited() Req { return func(r *request) { r.solicit = true } }

// NoAckReq leaves the acknowledge request bit out.
func NoAckReq() Req { return func(r *request) { r.noAckReq = true } }

// MemoryByte is what every synthetic memory holds at an address: WRITEs and READs carry it, so that they agree.
func MemoryByte(va uint64) byte { return byte(va ^ va>>8*31 ^ va>>16*7) }

func memory(va uint64, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = MemoryByte(va + uint64(i))
	}
	return b
}

// Segments returns the payload sizes of the packets that a message of size bytes takes.
func Segments(size, mtu int) []int {
	s := []int{min(size, mtu)}
	for size -= mtu; size > 0; size -= mtu {
		s = append(s, min(size, mtu))
	}
	return s
}

func position(i, n int) dissect.Position {
	switch {
	case n == 1:
		return dissect.Only
	case i == 0:
		return dissect.First
	case i == n-1:
		return dissect.Last
	}
	return dissect.Middle
}

// Send writes a SEND.
func (e *End) Send(size int, with ...Req) *Message { return e.data(dissect.Send, size, with) }

// Write writes an RDMA WRITE.
func (e *End) Write(size int, with ...Req) *Message { return e.data(dissect.Write, size, with) }

func (e *End) request(with []Req) request {
	r := request{va: e.x.VA, rkey: e.x.RKey}
	for _, w := range with {
		w(&r)
	}
	return r
}

func (e *End) data(f dissect.Family, size int, with []Req) *Message {
	r := e.request(with)
	m := &Message{From: e, Family: f, Size: size, First: e.Next, VA: r.va, RKey: r.rkey}
	sizes := Segments(size, e.x.MTU)
	done := 0
	for i, n := range sizes {
		var flags dissect.OpFlags
		if i == len(sizes)-1 {
			flags = r.flags
		}
		m.Packets = append(m.Packets, e.Packet(e.opcode(f, dissect.Request, position(i, len(sizes)), flags), func(b *Build) {
			b.Payload = memory(r.va+uint64(done), n)
			last := i == len(sizes)-1
			b.BTH().SetSE(last && r.solicit)
			every := e.x.AckReqEvery
			b.BTH().SetAckReq(e.reliable() && !r.noAckReq && (last || every > 0 && i%every == every-1))
			if h := b.RETH(); h != nil {
				h.SetVA(r.va)
				h.SetRKey(r.rkey)
				h.SetDMALen(uint32(size))
			}
			if h := b.ImmDt(); h != nil {
				h.SetData(r.imm)
			}
			if h := b.IETH(); h != nil {
				h.SetRKey(r.imm)
			}
		}))
		done += n
		e.Next = e.Next.Add(1)
	}
	m.Last = e.Next.Add(-1)
	return m
}

func (e *End) reliable() bool {
	return e.x.Transport == dissect.RC || e.x.Transport == dissect.XRC || e.x.Transport == dissect.RD
}

func (e *End) opcode(f dissect.Family, r dissect.Role, p dissect.Position, flags dissect.OpFlags) dissect.Opcode {
	op, ok := dissect.OpcodeOf(e.x.Transport, f, r, p, flags)
	if !ok {
		panic("testkit: " + e.x.Transport.String() + " has no such " + f.String())
	}
	return op
}

// Read writes an RDMA READ request; it takes as many PSNs as its answer has packets.
func (e *End) Read(size int, with ...Req) *Message {
	r := e.request(with)
	m := &Message{From: e, Family: dissect.Read, Size: size, First: e.Next, VA: r.va, RKey: r.rkey}
	m.Packets = []*Packet{e.readRequest(m.First, r.va, r.rkey, size, !r.noAckReq)}
	e.Next = e.Next.Add(len(Segments(size, e.x.MTU)))
	m.Last = e.Next.Add(-1)
	return m
}

func (e *End) readRequest(psn dissect.PSN, va uint64, rkey uint32, size int, ackReq bool) *Packet {
	return e.Packet(e.opcode(dissect.Read, dissect.Request, dissect.Only, 0), func(b *Build) {
		b.BTH().SetPSN(psn)
		b.BTH().SetAckReq(ackReq)
		b.RETH().SetVA(va)
		b.RETH().SetRKey(rkey)
		b.RETH().SetDMALen(uint32(size))
	})
}

// ReadRest asks again for what a READ lacks from a segment on: a new request with PSN, address and length moved on. The
// message returned stands for that rest.
func (m *Message) ReadRest(segment int) *Message {
	skip := segment * m.From.x.MTU
	rest := *m
	rest.First, rest.VA, rest.Size = m.First.Add(segment), m.VA+uint64(skip), m.Size-skip
	rest.rest = true
	rest.Packets = []*Packet{m.From.readRequest(rest.First, rest.VA, rest.RKey, rest.Size, true)}
	return &rest
}

// CompareSwap writes an atomic.
func (e *End) CompareSwap(compare, swap uint64, with ...Req) *Message {
	return e.atomic(dissect.CompareSwap, swap, compare, with)
}

// FetchAdd writes an atomic.
func (e *End) FetchAdd(add uint64, with ...Req) *Message {
	return e.atomic(dissect.FetchAdd, add, 0, with)
}

func (e *End) atomic(f dissect.Family, swapAdd, compare uint64, with []Req) *Message {
	r := e.request(with)
	m := &Message{From: e, Family: f, Size: 8, First: e.Next, Last: e.Next, VA: r.va, RKey: r.rkey}
	m.Packets = []*Packet{e.Packet(e.opcode(f, dissect.Request, dissect.Only, 0), func(b *Build) {
		b.BTH().SetAckReq(!r.noAckReq)
		b.AtomicETH().SetVA(r.va)
		b.AtomicETH().SetRKey(r.rkey)
		b.AtomicETH().SetSwapAdd(swapAdd)
		b.AtomicETH().SetCompare(compare)
	})}
	e.Next = e.Next.Add(1)
	return m
}

// ResendFrom sends the message's packets again, from a segment on, as go-back-N does. A READ is asked for whole.
func (m *Message) ResendFrom(segment int) []*Packet {
	var again []*Packet
	for _, p := range m.Packets[segment:] {
		again = append(again, p.SendAgain())
	}
	return again
}

// Ack acknowledges up to a PSN, with any MSN.
func (e *End) Ack(psn dissect.PSN, msn dissect.MSN) *Packet {
	return e.Acknowledge(psn, dissect.Syndrome(e.x.Credit&0x1F), msn)
}

// NAK refuses a PSN (for NAKSequence: asks for it), with the MSN as it stands.
func (e *End) NAK(psn dissect.PSN, code dissect.NAKCode) *Packet {
	return e.Acknowledge(psn, dissect.Syndrome(0x60|uint8(code)), e.MSN)
}

// RNR asks to wait with a PSN for the time of a timer code, with the MSN as it stands.
func (e *End) RNR(psn dissect.PSN, timer uint8) *Packet {
	return e.Acknowledge(psn, dissect.Syndrome(0x20|timer&0x1F), e.MSN)
}

// Acknowledge writes an acknowledge packet with any syndrome.
func (e *End) Acknowledge(psn dissect.PSN, s dissect.Syndrome, msn dissect.MSN) *Packet {
	return e.Packet(e.opcode(dissect.Acknowledge, dissect.Response, dissect.Only, 0), func(b *Build) {
		b.BTH().SetPSN(psn)
		b.AETH().SetSyndrome(s)
		b.AETH().SetMSN(msn)
	})
}

// Complete counts a message as completed by this responder, and sends nothing: the MSN of what follows covers it.
func (e *End) Complete(*Message) { e.MSN = e.MSN.Add(1) }

// Answer does what a healthy responder does with a message: it completes it and sends the ACK, the READ responses or the
// answer to an atomic (whose original value is 0). UC and UD have no answer.
func (e *End) Answer(m *Message) []*Packet {
	if !e.reliable() {
		return nil
	}
	if !m.rest {
		e.Complete(m)
	}
	switch m.Family {
	case dissect.Read:
		return e.ReadResponses(m)
	case dissect.CompareSwap, dissect.FetchAdd:
		return []*Packet{e.AtomicAck(m, 0)}
	}
	return []*Packet{e.Ack(m.Last, e.MSN)}
}

// ReadResponses writes a READ's whole answer, with the MSN as it stands.
func (e *End) ReadResponses(m *Message) []*Packet {
	var sent []*Packet
	sizes := Segments(m.Size, e.x.MTU)
	done := 0
	for i, n := range sizes {
		sent = append(sent, e.Packet(e.opcode(dissect.Read, dissect.Response, position(i, len(sizes)), 0), func(b *Build) {
			b.BTH().SetPSN(m.First.Add(i))
			b.Payload = memory(m.VA+uint64(done), n)
			if h := b.AETH(); h != nil {
				h.SetSyndrome(dissect.Syndrome(e.x.Credit & 0x1F))
				h.SetMSN(e.MSN)
			}
		}))
		done += n
	}
	return sent
}

// AtomicAck answers an atomic with the value that the memory held, and the MSN as it stands.
func (e *End) AtomicAck(m *Message, orig uint64) *Packet {
	return e.Packet(e.opcode(dissect.AtomicAcknowledge, dissect.Response, dissect.Only, 0), func(b *Build) {
		b.BTH().SetPSN(m.First)
		b.AETH().SetSyndrome(dissect.Syndrome(e.x.Credit & 0x1F))
		b.AETH().SetMSN(e.MSN)
		b.AtomicAckETH().SetOrig(orig)
	})
}

// CNP asks the other end's queue pair to slow down, with DSCP 48 as hardware does.
func (e *End) CNP() *Packet {
	o := e.outer
	o.TrafficClass, o.SrcPort = 48<<2|2, 0
	p := e.emit(&o, dissect.AppendCNP(nil, e.peer.QPN))
	e.outer.IPID = o.IPID
	return p
}

// Pause stops the other end's link for a time in units of 512 bit times; 0 lets it go on (802.3x).
func (e *End) Pause(quanta uint16) *Packet {
	return e.macControl(append([]byte{0, 1}, byte(quanta>>8), byte(quanta)))
}

// PFC stops single priorities of the other end (802.1Qbb): a priority that the map names is stopped for so many units of
// 512 bit times, or let go where 0.
func (e *End) PFC(quanta map[int]uint16) *Packet {
	b := append([]byte{1, 1}, make([]byte, 18)...)
	for priority, q := range quanta {
		b[3] |= 1 << priority
		b[4+2*priority], b[5+2*priority] = byte(q>>8), byte(q)
	}
	return e.macControl(b)
}

func (e *End) macControl(b []byte) *Packet {
	frame := append([]byte{0x01, 0x80, 0xC2, 0, 0, 1}, e.outer.SrcMAC[:]...)
	frame = append(append(frame, 0x88, 0x08), b...)
	return e.raw(append(frame, make([]byte, 60-len(frame))...))
}
