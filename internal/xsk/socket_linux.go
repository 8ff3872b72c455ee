package xsk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// handle is the kernel's side of a socket.
type handle struct {
	fd      int
	control int // an ordinary socket of the same network namespace, to ask about the interface
	wake    int // an eventfd: Interrupt
	polls   [2]unix.PollFd
	copies  bool

	mu     sync.Mutex // of what follows, and of Close against Stats and Interrupt
	closed bool
	last   Stats
}

// lookEvery is how long Wait sleeps before it looks whether the interface is still there: the kernel does not tell.
const lookEvery = 250 * time.Millisecond

// Kick makes the kernel send what is in TX. In copy mode it does so itself, during the call, and more says that there is
// something left to kick for: the budget was used up, Completion is full (Reap then), or the device was busy. A zero-copy
// driver goes on by itself unless it asks for a wake-up, and more is false.
//
// After one of its errors it does not help to kick again at once: ErrGone, ErrDown, or a descriptor that the kernel refuses.
func (s *Socket) Kick() (more bool, err error) {
	k := &s.kernel
	if !k.copies && s.info.NeedWakeup && !s.TX.NeedWakeup() {
		return false, nil
	}
	s.counts.kicks.Add(1)
	_, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(k.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		s.counts.again.Add(1)
	case unix.EBUSY:
		if k.copies { // one packet was completed, and dropped by the interface
			s.counts.refused.Add(1)
		} else {
			s.counts.again.Add(1)
		}
	default:
		return false, s.broken("send on", errno)
	}
	return k.copies && s.TX.Pending() > 0, nil
}

// WakeRX tells a zero-copy driver that there is something in Fill, where it asks for that. Wait does it by itself; a caller
// who polls the ring without sleeping needs it.
func (s *Socket) WakeRX() error {
	if !s.Fill.NeedWakeup() {
		return nil
	}
	_, _, errno := unix.RawSyscall6(unix.SYS_RECVFROM, uintptr(s.kernel.fd), 0, 0, unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.EBUSY, unix.EINTR, unix.ENOBUFS:
		return nil
	}
	return s.broken("wake the receiver of", errno)
}

// broken is the error of a socket that worked before. An interface goes down before it vanishes, so that it is looked at
// for some time until one or the other is certain.
func (s *Socket) broken(op string, err error) error {
	if s.kernel.fd < 0 {
		return &Error{Op: op, Where: s.options.where(), Kind: ErrClosed}
	}
	switch err {
	case unix.ENETDOWN:
		for range 10 {
			if !s.exists() {
				err = unix.ENODEV
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	case unix.ENXIO:
		if s.exists() && s.kernel.copies { // still bound, or bound to something that has moved on
			if n := queues(s.kernel.control, s.options.Interface); n.known() && s.options.Queue >= n.TX {
				return &Error{Op: op, Where: s.options.where(), Kind: ErrQueue, Err: err, Hint: fmt.Sprintf("the interface sends on %d queues", n.TX)}
			}
		}
	case unix.EINVAL:
		return &Error{Op: op, Where: s.options.where(), Err: err, Hint: "a descriptor's metadata asks for what the driver does not know"}
	}
	return s.fail(op, err)
}

// exists says whether the interface is still there.
func (s *Socket) exists() bool {
	ifr, err := unix.NewIfreq("?")
	if err != nil {
		return true
	}
	ifr.SetUint32(uint32(s.info.Index))
	return unix.IoctlIfreq(s.kernel.control, unix.SIOCGIFNAME, ifr) != unix.ENODEV
}

// Wait sleeps until there is something in RX, Interrupt was called, or the time is over (0: do not sleep; negative: no limit).
// It says whether there is something in RX.
//
// In copy mode it also sends what it finds in TX, and then nobody counts what the interface refuses: Kick until nothing is
// left before.
func (s *Socket) Wait(timeout time.Duration) (ready bool, err error) {
	if s.RX.Available() > 0 {
		return true, nil
	}
	err = s.poll(unix.POLLIN, timeout)
	return s.RX.Available() > 0, err
}

// WaitTX sleeps until TX has room, Interrupt was called, or the time is over.
func (s *Socket) WaitTX(timeout time.Duration) error {
	if s.TX.Free() > 0 {
		return nil
	}
	return s.poll(unix.POLLOUT, timeout)
}

func (s *Socket) poll(events int16, timeout time.Duration) error {
	k := &s.kernel
	if k.fd < 0 {
		return s.broken("wait for", unix.EBADF)
	}
	polls := k.polls // a copy: both halves of the socket may wait at once
	polls[0].Events = events
	end := time.Now().Add(timeout)
	for first := true; ; first = false {
		slice := lookEvery
		if timeout >= 0 {
			slice = min(slice, time.Until(end))
			if slice <= 0 && !first {
				return nil
			}
			slice = max(slice, 0)
		}
		polls[0].Revents, polls[1].Revents = 0, 0
		n, err := ppoll(&polls, slice)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return s.broken("wait for", err)
		case polls[1].Revents != 0:
			var b [8]byte
			unix.Read(k.wake, b[:])
			return nil
		case polls[0].Revents&events != 0:
			return nil
		case n != 0 || slice == lookEvery: // an error, or nothing for a while
			if !s.exists() {
				return s.broken("wait for", unix.ENODEV)
			}
			if n != 0 {
				if so, _ := unix.GetsockoptInt(k.fd, unix.SOL_SOCKET, unix.SO_ERROR); so != 0 {
					return s.broken("wait for", unix.Errno(so))
				}
				time.Sleep(time.Millisecond) // an event that means nothing to us must not make a busy loop
			}
		}
	}
}

func ppoll(polls *[2]unix.PollFd, timeout time.Duration) (int, error) {
	at := unix.NsecToTimespec(int64(timeout))
	return unix.Ppoll(polls[:], &at, nil)
}

// Interrupt ends a Wait or WaitTX that sleeps now, or else the next one.
func (s *Socket) Interrupt() {
	k := &s.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.closed {
		unix.Write(k.wake, binary.NativeEndian.AppendUint64(nil, 1))
	}
}

// Drain kicks and reaps until everything that was submitted is completed, and drops the addresses. It says whether that came
// about within the time.
func (s *Socket) Drain(timeout time.Duration) (done bool, err error) {
	end := time.Now().Add(timeout)
	sent := *s.TX.producer
	for {
		more, err := s.Kick()
		s.ReapAll()
		if err != nil {
			return false, err
		}
		// Completions are as many as descriptors taken, in the end.
		if s.TX.Pending() == 0 && *s.Completion.consumer == sent {
			return true, nil
		}
		if time.Now().After(end) {
			return false, nil
		}
		if !more {
			time.Sleep(50 * time.Microsecond)
		}
	}
}

// Stats says what became of the socket's packets so far; after Close, until then.
func (s *Socket) Stats() (Stats, error) {
	k := &s.kernel
	k.mu.Lock()
	defer k.mu.Unlock()
	stats := k.last
	if !k.closed {
		var x unix.XDPStatistics
		length := uint32(unsafe.Sizeof(x))
		if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(k.fd), unix.SOL_XDP, unix.XDP_STATISTICS,
			uintptr(unsafe.Pointer(&x)), uintptr(unsafe.Pointer(&length)), 0); errno != 0 {
			return stats, s.fail("read the statistics of", errno)
		}
		stats = Stats{
			RxDropped: x.Rx_dropped, RxRingFull: x.Rx_ring_full, FillEmpty: x.Rx_fill_ring_empty_descs,
			RxInvalid: x.Rx_invalid_descs, TxInvalid: x.Tx_invalid_descs, TxRingEmpty: x.Tx_ring_empty_descs,
		}
		k.last = stats
	}
	s.counts.into(&stats)
	return stats, nil
}

// FD is the socket's file descriptor, for setsockopt and the like. It is the socket's to close.
func (s *Socket) FD() int { return s.kernel.fd }

// Close frees the queue. The frames in TX that were not sent are lost, and those in RX too. In copy mode the chunks that
// Open took go back to the UMEM; a zero-copy driver may go on writing for a moment, so that they are not used again.
func (s *Socket) Close() error {
	k := &s.kernel
	if !k.closed && k.fd >= 0 {
		s.Stats() // the last ones
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	fds := []int{k.fd, k.control, k.wake}
	k.fd, k.control, k.wake = -1, -1, -1
	var errs []error
	for _, fd := range fds {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	errs = append(errs, unmap(s.RX.mem), unmap(s.TX.mem), unmap(s.Fill.mem), unmap(s.Completion.mem))
	s.RX.retire()
	s.TX.retire()
	s.Fill.retire()
	s.Completion.retire()
	s.umem.leave(s)
	if k.copies || s.info.Mode == Auto { // Auto: it was never bound
		s.umem.Give(s.rxs)
	}
	s.rxs = nil
	return errors.Join(errs...)
}
