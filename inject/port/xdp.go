package port

import (
	"errors"
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/rocescope/rocescope/internal/xsk"
)

const (
	xdpChunk    = 4096
	xdpBatch    = 256     // packets taken at a time
	xdpLeast    = 2048    // descriptors of a ring to receive
	xdpMost     = 1 << 17 //
	xdpStubborn = 16      // kicks in a row without effect after which Flush returns, with frames left
	xdpRest     = 10 * time.Microsecond
	xdpDrain    = 100 * time.Millisecond
)

// XDP is a port over an AF_XDP socket on one queue of an interface. Frames lie in memory that the kernel or the card sends
// from. A frame that is longer than a page takes several descriptors, whose pages follow each other.
type XDP struct {
	info   Info
	link   *link
	group  *xdpGroup
	umem   *xsk.UMEM
	sock   *xsk.Socket
	rooms  rooms
	counts counts
	quiet  quiet // where nothing is received: the kernel sees all then
	closed bool

	// The sender's.
	free    []uint32 // slots that nobody has
	left    []uint8  // descriptors of each slot that the kernel has
	reaped  []uint64
	flying  int // slots that the kernel has
	flights atomic.Int64

	// The receiver's.
	packets []xsk.Packet
	arena   []byte // frames that came in several parts
}

// xdpGroup is what the ports of one interface share. The last one that is closed closes it.
type xdpGroup struct {
	program *xsk.Program
	attach  *xsk.Attachment
	users   atomic.Int32
}

// OpenXDP opens AF_XDP ports, one for each queue wanted. Unless they only send, they take the frames asked for away from the
// kernel, on their queues.
func OpenXDP(o Options) (ports []*XDP, err error) {
	o.complete()
	l, err := findLink(o.Interface)
	if err != nil {
		return nil, err
	}
	defer l.close() // each port looks for itself
	if o.MaxFrame, err = l.fits(o.MaxFrame); err != nil {
		return nil, err
	}
	if o.Queues <= 0 {
		o.Queues = 1
		if features, err := xsk.Probe(o.Interface); err == nil && !o.SendOnly {
			o.Queues = max(1, features.Queues.RX-o.Queue)
		}
	}
	g := &xdpGroup{}
	defer func() {
		if err != nil {
			for _, p := range ports {
				p.Close()
			}
			g.close()
			ports = nil
		}
	}()
	if !o.SendOnly {
		options := xsk.ProgramOptions{Queues: max(64, o.Queue+o.Queues), Pause: o.Pause, TCPPorts: o.TCPPorts, All: o.All}
		if g.program, err = xsk.LoadProgram(options); err != nil {
			return nil, err
		}
	}
	for q := range o.Queues {
		p, err := openXDP(&o, o.Queue+q, g)
		if err != nil {
			return ports, err
		}
		ports = append(ports, p)
	}
	if !o.SendOnly {
		// Last of all: what came before would find no socket.
		if g.attach, err = g.program.Attach(o.Interface, xsk.AttachAuto); err != nil {
			return ports, err
		}
	}
	for _, p := range ports {
		p.info.Detail = p.detail()
	}
	return ports, nil
}

// openXDP opens the port of a queue.
func openXDP(o *Options, queue int, g *xdpGroup) (_ *XDP, err error) {
	l, err := findLink(o.Interface)
	if err != nil {
		return nil, err
	}
	p := &XDP{
		info: Info{
			Via: ViaXDP, Interface: l.name, Queue: queue, MTU: l.mtu, MaxFrame: o.MaxFrame, Slots: o.Slots, Receives: !o.SendOnly,
		},
		link: l, group: g, rooms: newRooms(o.Slots, o.MaxFrame),
		left: make([]uint8, o.Slots), free: make([]uint32, 0, o.Slots), reaped: make([]uint64, 256),
	}
	g.users.Add(1)
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	perSlot := p.rooms.descs
	s := xsk.Options{Interface: o.Interface, Queue: queue, TX: powerOfTwo(o.Slots * perSlot), MultiBuffer: perSlot > 1}
	s.TxBudget = min(max(o.Batch*perSlot, 32), s.TX)
	if !o.SendOnly {
		s.RX = min(max(powerOfTwo(o.Ring/o.Queues), xdpLeast), xdpMost)
		p.packets = make([]xsk.Packet, xdpBatch)
		p.arena = make([]byte, 0, xdpBatch*(l.maxFrame()+vlanTag))
	}
	send := p.rooms.chunks()
	if p.umem, err = xsk.NewUMEM(xsk.UMEMOptions{Chunks: send + s.RX, ChunkSize: xdpChunk}); err != nil {
		return nil, err
	}
	if !o.SendOnly && l.maxFrame() > p.umem.RxFrameSize() && xsk.HaveMultiBuffer() == nil {
		s.MultiBuffer = true
	}
	// The first chunks, which lie beside each other: a slot's must.
	if chunks, ok := p.umem.Take(send); !ok || chunks[0] != 0 || chunks[send-1] != uint64(send-1)*xdpChunk {
		return nil, failed(l.name, "divide the memory of frames", errors.New("its chunks are not in order"), "")
	}
	p.rooms.mem = p.umem.Bytes(0, uint32(send)*xdpChunk)
	for slot := range o.Slots {
		p.free = append(p.free, uint32(slot))
	}
	s.UMEM = p.umem
	if p.sock, err = xsk.Open(s); err != nil {
		return nil, err
	}
	if o.SendOnly {
		p.quiet = l.quiet()
		return p, nil
	}
	if err := g.program.Register(p.sock); err != nil {
		return nil, err
	}
	return p, nil
}

// powerOfTwo is the next one from n on.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(max(n, 2)-1)) }

func (p *XDP) detail() string {
	i := p.sock.Info()
	text := i.Mode.String()
	if a := p.group.attach; a != nil {
		text += fmt.Sprintf(", %v XDP", a.Mode)
	}
	if n := p.rooms.descs; n > 1 {
		text += fmt.Sprintf(", up to %d descriptors a frame", n)
	}
	if i.Mode == xsk.Copy {
		text += fmt.Sprintf(", %d descriptors a call", i.TxBudget)
	}
	return text
}

// Info implements Port.
func (p *XDP) Info() Info { return p.info }

// Take implements Port.
func (p *XDP) Take(slots []uint32) int {
	if len(p.free) < len(slots) {
		p.reap()
	}
	n := min(len(slots), len(p.free))
	copy(slots[:n], p.free[len(p.free)-n:])
	p.free = p.free[:len(p.free)-n]
	return n
}

// reap takes back the slots that the kernel is done with.
func (p *XDP) reap() {
	before := p.flying
	for {
		n := p.sock.Reap(p.reaped)
		for _, addr := range p.reaped[:n] {
			slot := p.rooms.slot(addr)
			if int(slot) >= len(p.left) || p.left[slot] == 0 {
				continue // not one of ours
			}
			if p.left[slot]--; p.left[slot] == 0 {
				p.free = append(p.free, slot)
				p.flying--
			}
		}
		if n < len(p.reaped) {
			break
		}
	}
	if p.flying != before {
		p.flights.Store(int64(p.flying))
	}
}

// Room implements Port.
func (p *XDP) Room(slot uint32) []byte { return p.rooms.room(slot) }

// Send implements Port.
func (p *XDP) Send(frames []Out) error {
	// There is room: TX is as large as all slots, each of which is in it at most once.
	tx := &p.sock.TX
	first, got := tx.Reserve(uint32(len(frames) * p.rooms.descs))
	if int(got) < len(frames) {
		tx.Cancel(got)
		return failed(p.info.Interface, "send", ErrClosed, "")
	}
	at, bytes, plain := first, uint64(0), p.info.plain()
	for i := range frames {
		f := frames[i]
		if !p.info.sound(f, plain) || p.left[f.Slot] != 0 {
			if err := p.odd(f); err != nil {
				for _, f := range frames[:i] {
					p.left[f.Slot] = 0
				}
				tx.Cancel(got)
				return err
			}
		}
		addr, rest, descs := p.rooms.at[f.Slot], uint32(f.Len), uint8(1)
		for ; rest > xdpChunk; descs++ {
			*tx.Slot(at) = xsk.Desc{Addr: uint64(addr), Len: xdpChunk, Options: xsk.OptionContinued}
			addr, rest, at = addr+xdpChunk, rest-xdpChunk, at+1
		}
		*tx.Slot(at) = xsk.Desc{Addr: uint64(addr), Len: rest}
		at++
		p.left[f.Slot] = descs
		bytes += uint64(f.Len)
	}
	tx.Cancel(got - (at - first))
	tx.Submit(at - first)
	p.flying += len(frames)
	p.flights.Store(int64(p.flying))
	p.counts.hand(len(frames), bytes)
	return p.kick(1)
}

// odd looks closer at a frame: it may be tagged, or its sender is wrong about something.
func (p *XDP) odd(f Out) error {
	if !p.info.sound(f, p.info.plain()) {
		if err := p.info.checkOne(p, f); err != nil {
			return err
		}
	}
	if p.left[f.Slot] != 0 {
		return failed(p.info.Interface, "send", fmt.Errorf("slot %d is on its way already", f.Slot), "a slot that Take gave may be sent once")
	}
	return nil
}

// Flush implements Port. Where the interface takes nothing for a while, something may be left.
func (p *XDP) Flush() error {
	err := p.kick(xdpStubborn)
	p.reap()
	return err
}

// kick makes the kernel send until there is nothing left, or so many times in a row had no effect.
func (p *XDP) kick(stubborn int) error {
	pending := p.sock.TX.Pending()
	for idle := 0; ; {
		more, err := p.sock.Kick()
		if err != nil || !more {
			return err
		}
		if now := p.sock.TX.Pending(); now < pending {
			pending, idle = now, 0
			continue
		}
		if idle++; idle >= stubborn {
			return nil
		}
		p.reap()            // it may be the completions that have no room,
		time.Sleep(xdpRest) // or the far end that has no core
	}
}

// Receive implements Port.
func (p *XDP) Receive(in []In) (int, error) {
	if p.packets == nil {
		return 0, nil
	}
	p.sock.Release()
	n := p.sock.Receive(p.packets[:min(len(in), len(p.packets))])
	if n == 0 {
		return 0, nil
	}
	at := now() // AF_XDP has no time of arrival
	p.arena = p.arena[:0]
	for i, packet := range p.packets[:n] {
		data := p.sock.Bytes(packet)
		if packet.Descs > 1 {
			from := len(p.arena)
			p.arena = p.sock.Append(p.arena, packet)
			data = p.arena[from:len(p.arena):len(p.arena)]
		}
		in[i] = In{Data: data, Time: at}
	}
	p.counts.receive(in[:n])
	return n, nil
}

// Wait implements Port.
func (p *XDP) Wait(timeout time.Duration) error {
	_, err := p.sock.Wait(timeout)
	return err
}

// Wake implements Waker.
func (p *XDP) Wake() { p.sock.Interrupt() }

// Stats implements Port.
func (p *XDP) Stats() Stats {
	s := p.counts.stats()
	k, _ := p.sock.Stats() // what cannot be read any more was read before
	s.SendLost = min(k.TxRefused+k.TxInvalid, s.Sent)
	s.Sent -= s.SendLost
	s.RecvLost = k.RxLost() + k.RxBroken
	s.Outstanding = int(p.flights.Load())
	s.LinkDropped = p.link.txDropped()
	return s
}

// Close implements Port. What was handed over gets a moment to leave.
func (p *XDP) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.free = true, nil
	var errs []error
	if p.sock != nil {
		p.sock.Drain(xdpDrain) // it may not be possible any more
		errs = append(errs, p.sock.Close())
	}
	if p.umem != nil {
		errs = append(errs, p.umem.Close())
	}
	if p.group.users.Add(-1) == 0 {
		errs = append(errs, p.group.close())
	}
	p.quiet.close()
	p.link.close()
	return errors.Join(errs...)
}

func (g *xdpGroup) close() error {
	var errs []error
	if g.attach != nil {
		g.attach.Close() // it may be gone with the interface
	}
	if g.program != nil {
		errs = append(errs, g.program.Close())
	}
	g.attach, g.program = nil, nil
	return errors.Join(errs...)
}
