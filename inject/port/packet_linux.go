package port

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// packetBatch is how many frames one system call sends.
const packetBatch = 64

// Packet is a port over AF_PACKET sockets: on every interface, at the cost of the kernel's own stack seeing what arrives, too.
// What is sent goes around the queueing discipline straight to the driver. A TX ring was measured slower than sendmmsg.
type Packet struct {
	info   Info
	link   *link
	counts counts
	rx     *packetRing // nil if nothing is to be received
	quiet  quiet

	// The sender's.
	fd       int
	rooms    []byte
	free     []uint32
	queue    []Out // handed over, and not yet to the kernel
	messages [packetBatch]message
	vectors  [packetBatch]unix.Iovec
	waiting  atomic.Int64 // frames in queue
	closed   bool
}

// message is struct mmsghdr.
type message struct {
	header unix.Msghdr
	_      uint32 // bytes sent
	_      uint32
}

// OpenPacket opens an AF_PACKET port.
func OpenPacket(o Options) (_ *Packet, err error) {
	o.complete()
	l, err := findLink(o.Interface)
	if err != nil {
		return nil, err
	}
	p := &Packet{link: l, fd: -1}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if o.MaxFrame, err = l.fits(o.MaxFrame); err != nil {
		return nil, err
	}
	p.info = Info{
		Via: ViaPacket, Interface: l.name, MTU: l.mtu, MaxFrame: o.MaxFrame, Slots: o.Slots, Receives: !o.SendOnly,
		Detail: fmt.Sprintf("%d frames a call, around the queueing discipline", packetBatch),
	}
	// Protocol 0: this socket receives nothing.
	if p.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return nil, l.refused("open a packet socket", err)
	}
	if err = unix.SetsockoptInt(p.fd, unix.SOL_PACKET, unix.PACKET_QDISC_BYPASS, 1); err != nil {
		return nil, l.refused("go around the queueing discipline", err)
	}
	if err = unix.Bind(p.fd, &unix.SockaddrLinklayer{Ifindex: l.index}); err != nil {
		return nil, l.refused("bind a packet socket", err)
	}
	if !o.SendOnly {
		if p.rx, err = openPacketRing(&o, l); err != nil {
			return nil, err
		}
	}
	p.quiet = l.quiet()
	p.rooms = make([]byte, o.Slots*o.MaxFrame)
	p.queue = make([]Out, 0, o.Slots)
	p.free = make([]uint32, 0, o.Slots)
	for slot := range o.Slots {
		p.free = append(p.free, uint32(o.Slots-1-slot))
	}
	for i := range p.messages {
		p.messages[i].header.Iov = &p.vectors[i]
		p.messages[i].header.SetIovlen(1)
	}
	return p, nil
}

// Info implements Port.
func (p *Packet) Info() Info { return p.info }

// Take implements Port.
func (p *Packet) Take(slots []uint32) int {
	n := min(len(slots), len(p.free))
	copy(slots[:n], p.free[len(p.free)-n:])
	p.free = p.free[:len(p.free)-n]
	return n
}

// Room implements Port.
func (p *Packet) Room(slot uint32) []byte {
	at, n := int(slot)*p.info.MaxFrame, p.info.MaxFrame
	return p.rooms[at : at+n : at+n]
}

// Send implements Port.
func (p *Packet) Send(frames []Out) error {
	if err := p.info.check(p, frames); err != nil {
		return err
	}
	if len(p.queue)+len(frames) > cap(p.queue) {
		return failed(p.info.Interface, "send", fmt.Errorf("more frames than there are slots"), "a slot that Take gave may be sent once")
	}
	p.queue = append(p.queue, frames...)
	p.counts.hand(len(frames), lengths(frames))
	return p.Flush()
}

// Flush implements Port. Frames stay where the socket has no room for them.
func (p *Packet) Flush() error {
	done, full, again, err := 0, false, false, error(nil)
	for done < len(p.queue) && !full && err == nil {
		n := min(len(p.queue)-done, packetBatch)
		for i, f := range p.queue[done : done+n] {
			v := &p.vectors[i]
			v.Base = &p.rooms[int(f.Slot)*p.info.MaxFrame]
			v.SetLen(int(f.Len))
		}
		r, _, errno := unix.Syscall6(unix.SYS_SENDMMSG, uintptr(p.fd), uintptr(unsafe.Pointer(&p.messages[0])), uintptr(n), unix.MSG_DONTWAIT, 0, 0)
		sent := int(r)
		switch errno {
		case 0:
		case unix.EINTR:
			continue
		case unix.ENETDOWN: // that it was down is told once more when it is up again
			if !again && p.link.up() {
				again = true
				continue
			}
			full, sent, err = true, 0, p.link.refused("send", errno)
		case unix.EAGAIN: // the socket's buffer
			full, sent = true, 0
		case unix.ENOBUFS: // the first frame was dropped: the driver, or the far end of a virtual link, had no room
			p.counts.sendLost.Add(1)
			sent = 1
		default:
			// None of them will go out any more.
			p.counts.sendLost.Add(uint64(len(p.queue) - done))
			sent = len(p.queue) - done
			err = p.broken(errno)
		}
		for _, f := range p.queue[done : done+sent] {
			p.free = append(p.free, f.Slot)
		}
		done += sent
	}
	p.queue = p.queue[:copy(p.queue, p.queue[done:])]
	p.waiting.Store(int64(len(p.queue)))
	return err
}

func (p *Packet) broken(errno unix.Errno) error {
	switch errno {
	case unix.EBADF:
		return failed(p.info.Interface, "send", ErrClosed, "")
	case unix.EMSGSIZE:
		return failed(p.info.Interface, "send", fmt.Errorf("%w: the MTU was lowered since the port was opened", ErrFrameSize), "")
	}
	return p.link.refused("send", errno)
}

// Receive implements Port.
func (p *Packet) Receive(in []In) (int, error) {
	if p.rx == nil {
		return 0, nil
	}
	n := p.rx.receive(in)
	if n > 0 {
		p.counts.receive(in[:n])
	}
	return n, nil
}

// Wait implements Port.
func (p *Packet) Wait(timeout time.Duration) error {
	if p.rx == nil {
		time.Sleep(timeout)
		return nil
	}
	return p.rx.wait(timeout)
}

// Stats implements Port.
func (p *Packet) Stats() Stats {
	s := p.counts.stats()
	s.Outstanding = int(p.waiting.Load())
	s.LinkDropped = p.link.txDropped()
	if p.rx != nil {
		s.RecvLost = p.rx.lost()
	}
	return s
}

// Close implements Port.
func (p *Packet) Close() error {
	if p.closed {
		return nil
	}
	p.closed, p.free = true, nil
	if p.rx != nil {
		p.rx.close()
	}
	if p.fd >= 0 {
		unix.Close(p.fd)
		p.fd = -1
	}
	p.quiet.close()
	p.link.close()
	return nil
}
