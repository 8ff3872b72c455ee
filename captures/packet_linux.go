package captures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
)

// tagLength is how much room is kept in front of each frame, so that a VLAN tag
// which the kernel took out can be put back where it was.
const tagLength = 4

// settleTries is how often the end of a capture looks whether the last block has
// been handed over; each waits for a block's timeout at most.
const settleTries = 100

// downPoll is how often it is looked whether an interface that is down is still
// there, in milliseconds.
const downPoll = 100

// packetSource is a Source over a TPACKET_V3 ring: blocks that the kernel fills
// with frames and hands over whole, when they are full or a timeout is over.
type packetSource struct {
	o         LiveOptions
	dev       *device
	fd        int
	bell      wakeup
	ring      []byte
	blocks    int
	blockSize int
	ifaces    []Interface

	at    int    // block that is read
	left  uint32 // frames of it that are not handed out
	next  uint32 // offset in the block of the next one
	held  bool   // the block is ours
	down  bool
	tries int // to settle

	err      error // what ReadBatch returns for ever
	ending   error // what it will, when all frames are out; nil while the capture goes on
	stopping atomic.Bool

	mu     sync.Mutex // of the statistics and of closing
	closed bool
	stats  LiveStats

	delivered, hostTimes atomic.Uint64
}

func openPacket(o *LiveOptions) (_ *packetSource, err error) {
	dev, err := findDevice(o.Interface)
	if err != nil {
		return nil, err
	}
	s := &packetSource{o: *o, dev: dev, fd: -1, bell: wakeup{-1}}
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
	// Protocol 0: nothing comes in before all is set up.
	if s.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, s.refused("open a packet socket", err)
	}
	if !dev.up {
		return nil, liveError(dev.name, "", ErrInterfaceDown, nil)
	}
	if err := s.setUp(); err != nil {
		return nil, err
	}
	s.ifaces = []Interface{dev.describe(o)}
	return s, nil
}

// refused gives a system call's error its sentinel.
func (s *packetSource) refused(doing string, err error) error {
	switch {
	case errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES):
		return liveError(s.dev.name, doing, ErrPrivilege, err)
	case errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENXIO):
		return liveError(s.dev.name, doing, ErrInterfaceGone, err)
	case errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.ENOPROTOOPT) || errors.Is(err, unix.EPROTONOSUPPORT):
		return liveError(s.dev.name, doing, ErrNotOffered, err)
	}
	return liveError(s.dev.name, doing, nil, err)
}

// setUp makes the ring, sets the filter, and begins to capture.
func (s *packetSource) setUp() error {
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return s.refused("a TPACKET_V3 ring", err)
	}
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_RESERVE, tagLength); err != nil {
		return s.refused("room for VLAN tags", err)
	}
	page := os.Getpagesize()
	s.blockSize = max(page, s.o.Block/page*page)
	s.blocks = max(2, s.o.Ring/s.blockSize)
	if s.blocks > math.MaxUint32/s.blockSize {
		return liveError(s.dev.name, "a ring of 4 GiB or more", ErrNotOffered, nil)
	}
	req := unix.TpacketReq3{
		Block_size: uint32(s.blockSize), Block_nr: uint32(s.blocks),
		// Frames lie as close as they can; this only has to divide the block.
		Frame_size: uint32(page), Frame_nr: uint32(s.blocks * (s.blockSize / page)),
		Retire_blk_tov: uint32(max(1, s.o.Timeout.Milliseconds())),
	}
	if err := unix.SetsockoptTpacketReq3(s.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return s.refused(fmt.Sprintf("a ring of %d MiB", s.o.Ring>>20), err)
	}
	var err error
	if s.ring, err = unix.Mmap(s.fd, 0, s.blocks*s.blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return s.refused("map the ring", err)
	}
	code, err := compileFilter(s.o.Filter, uint32(s.o.SnapLen), s.o.Direction)
	if err != nil {
		return err
	}
	if err := s.attach(code); err != nil {
		return s.refused("the capture filter", err)
	}
	if s.o.Clock == AdapterClock {
		if err := hardwareClock(s.fd, s.dev); err != nil {
			return err
		}
		if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_TIMESTAMP, unix.SOF_TIMESTAMPING_RAW_HARDWARE); err != nil {
			return s.refused("hardware time stamps", err)
		}
	}
	if err := unix.Bind(s.fd, &unix.SockaddrLinklayer{Protocol: hostToNet16(unix.ETH_P_ALL), Ifindex: s.dev.index}); err != nil {
		return s.refused("bind", err)
	}
	if !s.o.NoPromiscuous && !s.dev.lo {
		m := unix.PacketMreq{Ifindex: int32(s.dev.index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(s.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			return s.refused("promiscuous mode", err)
		}
	}
	return nil
}

func hostToNet16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

func (s *packetSource) attach(code []bpf.RawInstruction) error {
	raw := make([]unix.SockFilter, len(code))
	for i, c := range code {
		raw[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	return unix.SetsockoptSockFprog(s.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]})
}

// header is that of a block.
func (s *packetSource) header(block int) *unix.TpacketHdrV1 {
	const inDesc = 8 // behind version and offset to private data
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&s.ring[block*s.blockSize+inDesc]))
}

// ReadBatch implements Source.
func (s *packetSource) ReadBatch(dst []Frame) (int, error) {
	if len(dst) == 0 || s.err != nil {
		return 0, s.err
	}
	for {
		if s.held && s.left == 0 {
			atomic.StoreUint32(&s.header(s.at).Block_status, unix.TP_STATUS_KERNEL)
			s.held = false
			s.at = (s.at + 1) % s.blocks
		}
		if !s.held {
			h := s.header(s.at)
			if atomic.LoadUint32(&h.Block_status)&unix.TP_STATUS_USER == 0 {
				if err := s.wait(); err != nil {
					s.err = err
					return 0, err
				}
				continue
			}
			s.held, s.left, s.next = true, h.Num_pkts, h.Offset_to_first_pkt
		}
		if n := s.frames(dst); n > 0 {
			s.down = false
			return n, nil
		}
	}
}

// frames hands out what is left of the block at hand.
func (s *packetSource) frames(dst []Frame) int {
	block := s.ring[s.at*s.blockSize:][:s.blockSize:s.blockSize]
	n := min(len(dst), int(s.left))
	for i := range dst[:n] {
		h := (*unix.Tpacket3Hdr)(unsafe.Pointer(&block[s.next]))
		start := int(s.next) + int(h.Mac)
		captured, wire := int(h.Snaplen), int(h.Len)
		if h.Status&unix.TP_STATUS_VLAN_VALID != 0 && captured >= 12 {
			start -= tagLength
			captured, wire = captured+tagLength, wire+tagLength
			restoreTag(block[start:], h)
		}
		end := start + min(captured, s.o.SnapLen)
		f := &dst[i]
		f.Time = int64(h.Sec)*nanosPerSecond + int64(h.Nsec)
		f.Data = block[start:end:end]
		f.WireLen = wire
		f.Iface = 0
		f.Link = dissect.LinkEthernet
		f.HasTime = true
		if s.o.Clock == AdapterClock && h.Status&tsRawHardware == 0 {
			s.hostTimes.Add(1)
		}
		s.next += h.Next_offset
	}
	s.left -= uint32(n)
	s.delivered.Add(uint64(n))
	return n
}

// tsRawHardware is TP_STATUS_TS_RAW_HARDWARE: the time is the card's.
const tsRawHardware = 1 << 31

// restoreTag moves the addresses back over the room in front of the frame, and
// puts the VLAN tag behind them.
func restoreTag(b []byte, h *unix.Tpacket3Hdr) {
	copy(b[:12], b[tagLength:tagLength+12])
	protocol := uint16(etherVLAN)
	if h.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		protocol = h.Hv1.Vlan_tpid
	}
	binary.BigEndian.PutUint16(b[12:], protocol)
	binary.BigEndian.PutUint16(b[14:], uint16(h.Hv1.Vlan_tci))
}

// wait returns when there may be a block, and an error when there will be none.
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
	fds := [2]unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}, {Fd: int32(s.bell.fd), Events: unix.POLLIN}}
	watched := fds[:]
	if s.ending != nil {
		watched = fds[:1] // the bell goes on ringing
	}
	_, err := unix.Poll(watched, timeout)
	if err != nil && !errors.Is(err, unix.EINTR) {
		return s.refused("wait for frames", err)
	}
	if s.ending == nil && (fds[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) != 0 || s.down) {
		return s.trouble()
	}
	return nil
}

// trouble finds out why the socket complains.
func (s *packetSource) trouble() error {
	code, err := unix.GetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_ERROR)
	if err != nil {
		return s.refused("ask the socket what is wrong", err)
	}
	switch cause := unix.Errno(code); {
	case cause == unix.ENETDOWN:
		s.down = true
		s.mu.Lock()
		s.stats.Downs++
		s.mu.Unlock()
	case cause != 0:
		return s.refused("wait for frames", cause)
	}
	if s.down && !s.dev.exists() {
		s.end(liveError(s.dev.name, "", ErrInterfaceGone, nil))
	}
	return nil
}

// end lets no more frames in. What is in the ring comes out before the reason.
func (s *packetSource) end(reason error) {
	s.ending = reason
	code, err := bpf.Assemble([]bpf.Instruction{bpf.RetConstant{Val: 0}})
	if err == nil {
		err = s.attach(code)
	}
	if err != nil {
		s.ending = errors.Join(reason, s.refused("stop", err))
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
	st.Delivered, st.HostTimes = s.delivered.Load(), s.hostTimes.Load()
	// Frames that came in meanwhile may have been delivered already.
	st.Seen = max(st.Seen, st.Delivered+st.RingDropped)
	st.Waiting = st.Seen - st.Delivered - st.RingDropped
	return st
}

// count takes over what the kernel has counted since the last time. s.mu is held.
func (s *packetSource) count(card bool) {
	if s.closed || s.fd < 0 {
		return
	}
	if k, err := unix.GetsockoptTpacketStatsV3(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		s.stats.Seen += uint64(k.Packets) // dropped ones among them
		s.stats.RingDropped += uint64(k.Drops)
	}
	if !card {
		return
	}
	if n, ok := s.dev.cardDropped(); ok {
		s.stats.CardDropped = n
	}
}

// Interfaces implements Source.
func (s *packetSource) Interfaces() []Interface {
	s.ifaces[0].Stats = s.counts(false).Interface()
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
	s.held, s.left = false, 0
	if s.err == nil {
		s.err = errClosed
	}
	if s.ring != nil {
		_ = unix.Munmap(s.ring)
		s.ring = nil
	}
	for _, fd := range []int{s.fd, s.bell.fd} {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
	s.dev.handle.Close()
	return nil
}
