package captures

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// settleTries is how often in a row the end of a capture looks in vain whether
// the last blocks have been handed over; each waits for a block's timeout at most.
const settleTries = 100

// downPoll is how often it is looked whether an interface that is down is still
// there, in milliseconds.
const downPoll = 100

// mostRings is how many rings there are unless somebody asks for more: one reader
// empties them all, and they share the memory.
const mostRings = 8

// For how long a frame may wait in a block that is not full, unless somebody says:
// with several rings, each frame waits that long for those of the other rings.
const (
	oneTimeout     = 20 * time.Millisecond
	severalTimeout = 5 * time.Millisecond
)

// packetSource is a Source over one or several packet rings. Several make a fanout
// group: each frame comes into the ring of the core that got it, so that cores do
// not wait for each other, and leaves this source in the order of time.
type packetSource struct {
	o      LiveOptions
	dev    *device
	rings  []*packetRing
	bell   wakeup
	polls  []unix.PollFd // a ring each, and the bell
	ifaces []Interface
	asked  asked
	// unshared: the kernel shares no frames between rings, as Linux before 4.12 and
	// some sandboxes do not in the way it is asked for.
	unshared bool

	began    time.Time
	patience time.Duration // how long frames wait for older ones in other rings
	newest   int64         // time of the newest frame that was handed out
	down     bool
	tries    int // to settle

	err      error // what ReadBatch returns for ever
	ending   error // what it will, when all frames are out; nil while the capture goes on
	stopping atomic.Bool

	mu     sync.Mutex // of the statistics and of closing
	closed bool
	stats  LiveStats

	hostTimes, late atomic.Uint64
}

func openPacket(o *LiveOptions) (_ *packetSource, err error) {
	dev, err := findDevice(o.Interface)
	if err != nil {
		return nil, err
	}
	s := &packetSource{o: *o, dev: dev, bell: wakeup{-1}, began: time.Now()}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if err := dev.ethernet(); err != nil {
		return nil, err
	}
	if dev.lo && o.Direction == InOut {
		s.o.Direction = In // else each frame comes twice
	}
	if s.bell, err = newWakeup(); err != nil {
		return nil, liveError(dev.name, "make an event", nil, err)
	}
	rings := o.Rings
	if rings == 0 {
		rings = min(dev.queues, len(cores()), mostRings)
	}
	for range max(1, rings) {
		// Protocol 0: nothing comes in before all is set up.
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
		if err != nil {
			return nil, s.refused("open a packet socket", err)
		}
		s.rings = append(s.rings, &packetRing{fd: fd})
		s.polls = append(s.polls, unix.PollFd{Events: unix.POLLIN})
	}
	s.polls = append(s.polls, unix.PollFd{Fd: int32(s.bell.fd), Events: unix.POLLIN})
	if !dev.up {
		return nil, liveError(dev.name, "", ErrInterfaceDown, nil)
	}
	if err := s.setUp(); err != nil {
		if o.Rings == 0 && s.unshared { // nobody asked for it
			s.Close()
			one := *o
			one.Rings = 1
			return openPacket(&one)
		}
		return nil, err
	}
	i := dev.describe(o)
	if n := len(s.rings); n > 1 {
		i.Description += fmt.Sprintf(", %d rings", n)
	}
	s.ifaces = []Interface{i}
	return s, nil
}

// refused gives a system call's error its sentinel.
func (s *packetSource) refused(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return liveError(s.dev.name, doing, ErrPrivilege, err)
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return liveError(s.dev.name, doing, ErrInterfaceGone, err)
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EPROTONOSUPPORT):
		return liveError(s.dev.name, doing, ErrNotOffered, err)
	}
	return liveError(s.dev.name, doing, nil, err)
}

// setUp makes the rings, sets the filter, and begins to capture.
func (s *packetSource) setUp() error {
	code, err := compileFilter(s.o.Filter, uint32(s.o.SnapLen), s.o.Direction)
	if err != nil {
		return err
	}
	if s.o.Timeout == 0 {
		s.o.Timeout = oneTimeout
		if len(s.rings) > 1 {
			s.o.Timeout = severalTimeout
		}
	}
	// The kernel's timer may be late by a tick.
	s.patience = s.o.Timeout + 10*time.Millisecond
	if s.o.Clock == AdapterClock {
		if err := hardwareClock(s.rings[0].fd, s.dev); err != nil {
			return err
		}
	}
	for _, r := range s.rings {
		if doing, err := r.setUp(&s.o, s.o.Ring/len(s.rings)); err != nil {
			return s.refused(doing, err)
		}
		// A socket can join a group only when it is bound, and would get all frames
		// until then.
		if err := r.attach(dropAll); err != nil {
			return s.refused("the capture filter", err)
		}
		if err := unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: hostToNet16(unix.ETH_P_ALL), Ifindex: s.dev.index}); err != nil {
			return s.refused("bind", err)
		}
	}
	if len(s.rings) > 1 {
		if err := s.join(); err != nil {
			return err
		}
	}
	for _, r := range s.rings {
		if err := r.attach(code); err != nil {
			return s.refused("the capture filter", err)
		}
	}
	if len(s.rings) == 1 {
		s.rings[0].watch()
	}
	if !s.o.NoPromiscuous && !s.dev.lo {
		m := unix.PacketMreq{Ifindex: int32(s.dev.index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(s.rings[0].fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			return s.refused("promiscuous mode", err)
		}
	}
	return nil
}

// join makes a fanout group of the rings, whose number the kernel chooses.
func (s *packetSource) join() error {
	const what = "share the frames between several rings"
	const byCore = unix.PACKET_FANOUT_CPU << 16
	group := 0
	err := unix.SetsockoptInt(s.rings[0].fd, unix.SOL_PACKET, unix.PACKET_FANOUT, byCore|unix.PACKET_FANOUT_FLAG_UNIQUEID<<16)
	if err == nil {
		group, err = unix.GetsockoptInt(s.rings[0].fd, unix.SOL_PACKET, unix.PACKET_FANOUT)
	}
	for _, r := range s.rings[1:] {
		if err == nil {
			err = unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_FANOUT, byCore|group&0xffff)
		}
	}
	if err != nil {
		s.unshared = true
		return s.refused(what, err)
	}
	return nil
}

// ReadBatch implements Source.
func (s *packetSource) ReadBatch(dst []Frame) (int, error) {
	if len(dst) == 0 || s.err != nil {
		return 0, s.err
	}
	for _, r := range s.rings {
		r.release()
	}
	for {
		if n := s.merge(dst); n > 0 {
			s.down, s.tries = false, 0
			return n, nil
		}
		if err := s.wait(); err != nil {
			s.err = err
			return 0, err
		}
	}
}

// Prompt implements Prompter. With several rings, frames wait for older ones in
// the others.
func (s *packetSource) Prompt() bool { return s.err == nil && len(s.rings) == 1 && s.rings[0].prompt() }

// wait returns when there may be frames, and an error when there will be none.
func (s *packetSource) wait() error {
	if s.ending == nil && s.stopping.Load() {
		s.end(io.EOF)
	}
	timeout := -1
	switch {
	case s.ending != nil:
		if s.settled() {
			return s.ending
		}
		timeout = int(max(1, s.o.Timeout.Milliseconds()))
	case s.down:
		timeout = downPoll
	}
	for i, r := range s.rings {
		s.polls[i].Fd = int32(r.fd)
		if r.left > 0 { // it only waits for the others
			s.polls[i].Fd = -1
			timeout = 1
		}
	}
	if timeout < 0 && s.rings[0].await() {
		if s.rings[0].prompt() {
			return nil
		}
		timeout = 0 // what else is there to see?
	}
	watched := s.polls
	if s.ending != nil {
		watched = s.polls[:len(s.rings)] // the bell goes on ringing
	}
	_, err := unix.Poll(watched, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return s.refused("wait for frames", err)
	}
	broken := s.down
	for i := range s.rings {
		broken = broken || s.polls[i].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0
	}
	if s.ending == nil && broken {
		return s.trouble()
	}
	return nil
}

// trouble finds out why the sockets complain.
func (s *packetSource) trouble() error {
	for _, r := range s.rings {
		code, err := unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_ERROR)
		if err != nil {
			return s.refused("ask the socket what is wrong", err)
		}
		switch cause := unix.Errno(code); {
		case cause == unix.ENETDOWN && !s.down:
			s.down = true
			s.mu.Lock()
			s.stats.Downs++
			s.mu.Unlock()
		case cause != 0 && cause != unix.ENETDOWN:
			return s.refused("wait for frames", cause)
		}
	}
	if s.down && !s.dev.exists() {
		s.end(liveError(s.dev.name, "", ErrInterfaceGone, nil))
	}
	return nil
}

// end lets no more frames in. What is in the rings comes out before the reason.
func (s *packetSource) end(reason error) {
	s.ending = reason
	for _, r := range s.rings {
		if err := r.attach(dropAll); err != nil {
			s.ending = errors.Join(s.ending, s.refused("stop", err))
		}
	}
}

// settled says whether all frames that were let in have come out: the kernel
// hands over the last block when its timeout is over.
func (s *packetSource) settled() bool {
	s.tries++
	return s.counts(false).Waiting == 0 || s.tries > settleTries
}

// Stop implements backend.
func (s *packetSource) Stop() {
	s.stopping.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.bell.ring()
		s.rings[0].wake()
	}
}

// Stats implements backend.
func (s *packetSource) Stats() LiveStats { return s.counts(true) }

// counts asks the kernel, and the card too if that is worth a round trip.
func (s *packetSource) counts(card bool) LiveStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count(card)
	st := s.stats
	st.HostTimes, st.Late = s.hostTimes.Load(), s.late.Load()
	for _, r := range s.rings {
		st.add(r.stats())
	}
	return st
}

// count takes over what the kernel has counted since the last time. s.mu is held.
func (s *packetSource) count(card bool) {
	if s.closed {
		return
	}
	for _, r := range s.rings {
		r.count()
	}
	if card {
		s.dev.countDropped(&s.stats)
	}
}

// Interfaces implements Source.
func (s *packetSource) Interfaces() []Interface {
	if s.asked.due(s.err) {
		s.ifaces[0].Stats = s.counts(false).Interface()
	}
	return s.ifaces[:1:1]
}

// Close implements Source.
func (s *packetSource) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.count(true)
	s.closed = true
	if s.err == nil {
		s.err = errClosed
	}
	for _, r := range s.rings {
		r.close()
	}
	s.bell.close()
	s.dev.handle.Close()
	return nil
}

// dropAll is a filter that nothing passes.
var dropAll = []bpf.RawInstruction{{Op: unix.BPF_RET | unix.BPF_K}}
