package testkit

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/rocescope/rocescope/dissect"
)

// Frame is one frame of a synthetic capture.
type Frame struct {
	Time    int64 // nanoseconds since the Unix epoch
	Data    []byte
	WireLen int
	Link    dissect.LinkType
}

// ExchangeOptions describe two queue pairs and what their packets look like. The zero value is an RC connection with
// path MTU 1024, QPNs 0x11 and 0x12, over IPv4, whose PSNs begin at 0.
type ExchangeOptions struct {
	A, B             string            // addresses; "10.0.0.1" and "10.0.0.2", or 2001:db8::1 and ::2
	IPv6             bool              // which of the two defaults
	RoCEv1           bool              // GRH under EtherType 0x8915
	QPNA, QPNB       uint32            // 0x11 and 0x12
	PSNA, PSNB       dissect.PSN       // first request PSN of each side
	Transport        dissect.Transport // RC, UC, UD, XRC
	MTU              int               // path MTU, 1024
	VLANs            []uint16          // TCIs, outermost first
	SrcPortA         uint16            // 0xC000 | QPNA
	SrcPortB         uint16            // 0xC000 | QPNB
	TrafficClass     uint8             // DSCP << 2 | ECN
	HopLimit         uint8             // 64
	FixedIPID        bool              // IPv4 identification always 0, as much hardware has it; else it counts
	VA               uint64            // where WRITEs, READs and atomics go, unless At says otherwise: 0x7F0000001000
	RKey             uint32            // 0x1234
	QKey             uint32            // UD: 0x11111111
	SRQN             uint32            // XRC: 0x77
	AckReqEvery      int               // AckReq on each n-th packet of a message besides the last; 0 = on the last only
	MigReq           bool              // as hardware sets it
	Credit           uint8             // credit code of ACKs; 0 = no credit information
	Start            time.Time         // of the first frame: 2024-01-02 03:04:05 UTC
	Gap              time.Duration     // between a frame and the next: 1 µs
	PadFramesTo60    bool              // short frames are filled up to Ethernet's least, as captured at a receiver
	ServiceID        uint64            // CM; 0x0000000001064853 (TCP space, port 18515)
	RetryCount       uint8             // CM; 7
	RNRRetryCount    uint8             // CM; 7
	AckTimeout       uint8             // CM; 14
	ReadDepth        uint8             // CM: responder resources and initiator depth; 16
	CMPrivate        []byte            // consumer private data of the REQ
	TransactionID    uint64            // CM; 1
	CommIDA, CommIDB uint32            // CM; 0xA1, 0xB1
}

// Exchange writes down, packet by packet, what two queue pairs say to each other. It is a pencil, not a model: nothing is
// sent that is not asked for, and PSNs and MSNs may be set to any nonsense. (Sim is the model.)
//
//	x := NewExchange(ExchangeOptions{PSNA: 0xFFFFFE})
//	m := x.A.Write(3000)      // three packets
//	m.Packets[1].Drop()       // never reached the tap
//	x.B.NAK(m.First.Add(1), dissect.NAKSequence)
//	m.ResendFrom(1)
//	x.B.Answer(m)
//	frames := x.Frames()
type Exchange struct {
	ExchangeOptions
	A, B *End
	line *timeline
}

// timeline is what exchanges of one capture share.
type timeline struct {
	now     int64
	gap     int64
	packets []*Packet
	craft   dissect.Crafter
}

// End is one of the two queue pairs.
type End struct {
	Addr netip.Addr
	QPN  uint32
	Next dissect.PSN // of the next request
	MSN  dissect.MSN // messages completed as a responder

	x     *Exchange
	peer  *End
	outer dissect.Outer
	gsi   dissect.PSN // of the next management datagram
	tcp   tcpEnd
}

// Side names an end.
type Side uint8

// The sides.
const (
	A Side = iota
	B
)

// NewExchange begins a capture.
func NewExchange(o ExchangeOptions) *Exchange {
	if o.Start.IsZero() {
		o.Start = time.Date(2024, 1, 2, 3, 4, 5, 0, time.UTC)
	}
	if o.Gap == 0 {
		o.Gap = time.Microsecond
	}
	return newExchange(o, &timeline{now: o.Start.UnixNano(), gap: int64(o.Gap)})
}

// Beside adds another connection to the same capture. change is given the options of this one, QPNs raised by 0x10.
func (x *Exchange) Beside(change func(*ExchangeOptions)) *Exchange {
	o := x.ExchangeOptions
	o.QPNA, o.QPNB, o.SrcPortA, o.SrcPortB = o.QPNA+0x10, o.QPNB+0x10, 0, 0
	if change != nil {
		change(&o)
	}
	return newExchange(o, x.line)
}

// Pairs are n pairs of hosts in one capture, 10.0.i.1 and 10.0.i.2, each with a connection.
func Pairs(n int) (all []*Exchange) {
	for i := range n {
		hosts := func(o *ExchangeOptions) {
			o.A, o.B, o.QPNA, o.QPNB = fmt.Sprintf("10.0.%d.1", i), fmt.Sprintf("10.0.%d.2", i), uint32(0x100+i), uint32(0x200+i)
		}
		if i == 0 {
			var o ExchangeOptions
			hosts(&o)
			all = append(all, NewExchange(o))
			continue
		}
		all = append(all, all[0].Beside(hosts))
	}
	return all
}

func newExchange(o ExchangeOptions, line *timeline) *Exchange {
	v4, v6 := [2]string{"10.0.0.1", "10.0.0.2"}, [2]string{"2001:db8::1", "2001:db8::2"}
	if o.IPv6 {
		v4 = v6
	}
	setDefault(&o.A, v4[0])
	setDefault(&o.B, v4[1])
	setDefault(&o.QPNA, 0x11)
	setDefault(&o.QPNB, 0x12)
	setDefault(&o.MTU, 1024)
	setDefault(&o.SrcPortA, 0xC000|uint16(o.QPNA&0x3FFF))
	setDefault(&o.SrcPortB, 0xC000|uint16(o.QPNB&0x3FFF))
	setDefault(&o.VA, 0x7F0000001000)
	setDefault(&o.RKey, 0x1234)
	setDefault(&o.QKey, 0x11111111)
	setDefault(&o.SRQN, 0x77)
	setDefault(&o.Credit, dissect.NoCreditInfo)
	setDefault(&o.ServiceID, 0x0000000001064853)
	setDefault(&o.RetryCount, 7)
	setDefault(&o.RNRRetryCount, 7)
	setDefault(&o.AckTimeout, 14)
	setDefault(&o.ReadDepth, 16)
	setDefault(&o.TransactionID, 1)
	setDefault(&o.CommIDA, 0xA1)
	setDefault(&o.CommIDB, 0xB1)
	x := &Exchange{ExchangeOptions: o, line: line}
	a, b := netip.MustParseAddr(o.A), netip.MustParseAddr(o.B)
	outer := dissect.Outer{
		VLANs: o.VLANs, RoCEv1: o.RoCEv1, TrafficClass: o.TrafficClass, HopLimit: o.HopLimit,
		CountIPID: !o.FixedIPID, Src: a, Dst: b, SrcMAC: macOf(a), DstMAC: macOf(b), SrcPort: o.SrcPortA,
	}
	if !o.FixedIPID {
		outer.IPID = 0x1001
	}
	x.A = &End{Addr: a, QPN: o.QPNA, Next: o.PSNA, x: x, outer: outer}
	outer.Src, outer.Dst, outer.SrcMAC, outer.DstMAC, outer.SrcPort = b, a, macOf(b), macOf(a), o.SrcPortB
	x.B = &End{Addr: b, QPN: o.QPNB, Next: o.PSNB, x: x, outer: outer}
	x.A.peer, x.B.peer = x.B, x.A
	return x
}

func setDefault[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}

// macOf is a local hardware address made of the last bytes of an IP address.
func macOf(a netip.Addr) [6]byte {
	b := a.As16()
	return [6]byte{2, 0, b[12], b[13], b[14], b[15]}
}

// From returns the end of a side, for tests that run both ways.
func (x *Exchange) From(s Side) *End {
	if s == A {
		return x.A
	}
	return x.B
}

// Peer returns the other end.
func (e *End) Peer() *End { return e.peer }

// Wait lets time pass before the next frame.
func (x *Exchange) Wait(d time.Duration) { x.line.now += int64(d) }

// Now returns the time that the next frame will have.
func (x *Exchange) Now() int64 { return x.line.now }

// Frames returns the capture so far, of all connections, in the order of time.
func (x *Exchange) Frames() []Frame {
	var frames []Frame
	for _, p := range x.line.packets {
		if !p.dropped {
			frames = append(frames, p.Frame)
		}
	}
	slices.SortStableFunc(frames, func(a, b Frame) int { return cmp.Compare(a.Time, b.Time) })
	return frames
}

// Packet is a frame on its way into the capture, which may still be changed.
type Packet struct {
	Frame
	end     *End
	body    []byte // from the BTH to the last payload byte
	dropped bool
}

// Build is a transport packet under construction.
type Build struct {
	Outer   dissect.Outer
	Op      *dissect.OpInfo
	Payload []byte
	headers []byte
}

// BTH returns the packet's BTH.
func (b *Build) BTH() dissect.BTH { return b.headers }

// RETH, AETH and so on return the packet's header of that kind, nil where its opcode has none.
func (b *Build) RETH() dissect.RETH { return b.Op.View(b.headers, dissect.LayerRETH) }

// AETH is as RETH.
func (b *Build) AETH() dissect.AETH { return b.Op.View(b.headers, dissect.LayerAETH) }

// DETH is as RETH.
func (b *Build) DETH() dissect.DETH { return b.Op.View(b.headers, dissect.LayerDETH) }

// XRCETH is as RETH.
func (b *Build) XRCETH() dissect.XRCETH { return b.Op.View(b.headers, dissect.LayerXRCETH) }

// AtomicETH is as RETH.
func (b *Build) AtomicETH() dissect.AtomicETH { return b.Op.View(b.headers, dissect.LayerAtomicETH) }

// AtomicAckETH is as RETH.
func (b *Build) AtomicAckETH() dissect.AtomicAckETH {
	return b.Op.View(b.headers, dissect.LayerAtomicAckETH)
}

// ImmDt is as RETH.
func (b *Build) ImmDt() dissect.ImmDt { return b.Op.View(b.headers, dissect.LayerImmDt) }

// IETH is as RETH.
func (b *Build) IETH() dissect.IETH { return b.Op.View(b.headers, dissect.LayerIETH) }

// Packet appends a packet of an opcode from this end to the other. PSN and destination QP are those that fit; set changes
// what it likes.
func (e *End) Packet(op dissect.Opcode, set func(*Build)) *Packet {
	b := Build{Outer: e.outer, Op: op.Info(), headers: dissect.AppendTransport(nil, op)}
	b.BTH().SetDestQP(e.peer.QPN)
	b.BTH().SetPSN(e.Next)
	b.BTH().SetMigReq(e.x.MigReq)
	if h := b.DETH(); h != nil {
		h.SetQKey(e.x.QKey)
		h.SetSrcQP(e.QPN)
	}
	if h := b.XRCETH(); h != nil {
		h.SetSRQ(e.x.SRQN)
	}
	if set != nil {
		set(&b)
	}
	p := e.emit(&b.Outer, append(b.headers, b.Payload...))
	e.outer.IPID = b.Outer.IPID
	return p
}

// emit seals body into a frame and puts it on the timeline.
func (e *End) emit(o *dissect.Outer, body []byte) *Packet {
	data, err := e.x.line.craft.Seal(o, append(o.AppendTo(nil), body...))
	if err != nil {
		panic("testkit: " + err.Error()) // the test asked for a packet that cannot be
	}
	p := e.raw(data)
	p.body = body
	return p
}

// raw puts a frame on the timeline as it is.
func (e *End) raw(data []byte) *Packet {
	if e.x.PadFramesTo60 && len(data) < 60 {
		data = append(data, make([]byte, 60-len(data))...)
	}
	l := e.x.line
	p := &Packet{Frame: Frame{Time: l.now, Data: data, WireLen: len(data), Link: dissect.LinkEthernet}, end: e}
	l.packets = append(l.packets, p)
	l.now += l.gap
	return p
}

// Drop takes the packet out of the capture.
func (p *Packet) Drop() { p.dropped = true }

// Delay moves the packet to a later time.
func (p *Packet) Delay(d time.Duration) *Packet {
	p.Time += int64(d)
	return p
}

// Duplicate adds a copy, byte for byte, as a network or a mirror makes it.
func (p *Packet) Duplicate(after time.Duration) *Packet {
	c := *p
	c.Data = slices.Clone(p.Data)
	c.Time += int64(after)
	p.end.x.line.packets = append(p.end.x.line.packets, &c)
	return &c
}

// SendAgain appends the packet anew, as its sender does in a retry: the same packet in a new IP datagram.
func (p *Packet) SendAgain() *Packet { return p.end.emit(&p.end.outer, slices.Clone(p.body)) }

// MarkCE sets congestion experienced, as a switch does.
func (p *Packet) MarkCE() *Packet {
	return p.Edit(func(q *dissect.Packet, data []byte) {
		if h := q.IPv4(data); h != nil {
			h.SetTOS(h.TOS() | 3)
		} else if h := q.IPv6(data); h != nil {
			h.SetTrafficClass(h.TrafficClass() | 3)
		}
	})
}

// BreakICRC damages the packet's ICRC.
func (p *Packet) BreakICRC() *Packet {
	var d dissect.Decoder
	var q dissect.Packet
	d.Decode(p.Link, p.Data, p.WireLen, &q)
	p.Data[q.Offset(dissect.LayerICRC)] ^= 0x55
	return p
}

// Snap cuts the packet to a snap length.
func (p *Packet) Snap(n int) *Packet {
	if n < len(p.Data) {
		p.Data = p.Data[:n]
	}
	return p
}

// Edit changes the packet's bytes and makes checksums and ICRC right again.
func (p *Packet) Edit(change func(q *dissect.Packet, data []byte)) *Packet {
	var d dissect.Decoder
	var q dissect.Packet
	d.Decode(p.Link, p.Data, p.WireLen, &q)
	change(&q, p.Data)
	if err := p.end.x.line.craft.Reseal(p.Link, p.Data); err != nil {
		panic("testkit: " + err.Error())
	}
	return p
}

// Decode decodes a capture: what a batch for the tracker is made of. Packets get their numbers and times, and verdicts on
// their ICRCs.
func Decode(frames []Frame) (packets []dissect.Packet, data [][]byte) {
	d := dissect.Decoder{CheckICRC: true}
	packets, data = make([]dissect.Packet, len(frames)), make([][]byte, len(frames))
	for i, f := range frames {
		p := &packets[i]
		d.Decode(f.Link, f.Data, f.WireLen, p)
		p.Number, p.Time, p.Base, p.Prev = uint64(i+1), f.Time, frames[0].Time, frames[max(i-1, 0)].Time
		data[i] = f.Data
	}
	return packets, data
}

// Batches calls each with what Decode makes of the frames, size packets at a time.
func Batches(frames []Frame, size int, each func(packets []dissect.Packet, data [][]byte)) {
	packets, data := Decode(frames)
	for len(packets) > 0 {
		n := min(size, len(packets))
		each(packets[:n:n], data[:n:n])
		packets, data = packets[n:], data[n:]
	}
}
