package captures

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
)

// tagLength is how much room is kept in front of each frame, so that a VLAN tag
// which the kernel took out can be put back where it was.
const tagLength = 4

// packetRing is a packet socket and its TPACKET_V3 ring: blocks that the kernel
// fills with frames and hands over whole, when they are full or a timeout is over.
type packetRing struct {
	fd        int
	file      *os.File           // the same, where the runtime watches it: see watch
	look      func(uintptr) bool // for await; made once, for it allocates
	conn      syscall.RawConn
	woken     bool
	mem       []byte
	blocks    int
	blockSize int

	at   int           // block that is read
	held bool          // it is ours
	kept int           // blocks before it from which a batch still borrows
	left uint32        // frames of the block at hand that are not handed out
	next uint32        // offset in it of the next one
	head int64         // that one's time
	took time.Duration // when the block was taken over, since the capture began

	seen, dropped uint64 // by the kernel's count; the source's mutex is held
	delivered     atomic.Uint64
}

// setUp makes the ring, and says what failed.
func (r *packetRing) setUp(o *LiveOptions, size int) (doing string, err error) {
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V3); err != nil {
		return "a TPACKET_V3 ring", err
	}
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_RESERVE, tagLength); err != nil {
		return "room for VLAN tags", err
	}
	block := o.Block
	if block == 0 {
		block = min(1<<20, size/4)
	}
	page := os.Getpagesize()
	r.blockSize = max(page, block/page*page)
	r.blocks = max(2, size/r.blockSize)
	if uint64(r.blocks) > math.MaxUint32/uint64(r.blockSize) {
		return "a ring of 4 GiB or more", errors.ErrUnsupported
	}
	req := unix.TpacketReq3{
		Block_size: uint32(r.blockSize), Block_nr: uint32(r.blocks),
		// Frames lie as close as they can; this only has to divide the block.
		Frame_size: uint32(page), Frame_nr: uint32(r.blocks * (r.blockSize / page)),
		Retire_blk_tov: uint32(max(1, o.Timeout.Milliseconds())),
	}
	if err := unix.SetsockoptTpacketReq3(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Sprintf("a ring of %d MiB", size>>20), err
	}
	if r.mem, err = unix.Mmap(r.fd, 0, r.blocks*r.blockSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return "map the ring", err
	}
	if o.Clock == AdapterClock {
		if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_TIMESTAMP, unix.SOF_TIMESTAMPING_RAW_HARDWARE); err != nil {
			return "hardware time stamps", err
		}
	}
	return "", nil
}

func hostToNet16(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// attach sets the filter.
func (r *packetRing) attach(code []bpf.RawInstruction) error {
	raw := make([]unix.SockFilter, len(code))
	for i, c := range code {
		raw[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	return unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]})
}

// header is that of a block.
func (r *packetRing) header(block int) *unix.TpacketHdrV1 {
	const inDesc = 8 // behind version and offset to private data
	return (*unix.TpacketHdrV1)(unsafe.Pointer(&r.mem[block*r.blockSize+inDesc]))
}

// ready says whether the kernel has handed over a block.
func (r *packetRing) ready(block int) bool {
	return atomic.LoadUint32(&r.header(block).Block_status)&unix.TP_STATUS_USER != 0
}

// prompt says whether open would find a frame.
func (r *packetRing) prompt() bool {
	at := r.at
	switch {
	case r.left > 0:
		return true
	case r.held:
		at = (at + 1) % r.blocks
	}
	return r.ready(at) && r.header(at).Num_pkts > 0
}

// open takes over the next block where nothing is left of the one at hand, and
// says whether there is a frame now.
func (r *packetRing) open(now time.Duration) bool {
	for r.left == 0 {
		r.leave()
		if r.kept == r.blocks || !r.ready(r.at) {
			return false
		}
		h := r.header(r.at)
		r.held, r.left, r.next, r.took = true, h.Num_pkts, h.Offset_to_first_pkt, now
		if r.left > 0 {
			r.head = frameTime(r.frame())
		}
	}
	return true
}

// leave is done with a block of which nothing is left.
func (r *packetRing) leave() {
	if r.held {
		r.held = false
		r.kept++
		r.at = (r.at + 1) % r.blocks
	}
}

// release gives blocks back of which nothing is left.
func (r *packetRing) release() {
	if r.left == 0 {
		r.leave()
	}
	for ; r.kept > 0; r.kept-- {
		atomic.StoreUint32(&r.header((r.at-r.kept+r.blocks)%r.blocks).Block_status, unix.TP_STATUS_KERNEL)
	}
}

// crowded says whether half of the ring waits to be read.
func (r *packetRing) crowded() bool { return r.ready((r.at + r.blocks/2) % r.blocks) }

// frame is the header of the next frame.
func (r *packetRing) frame() *unix.Tpacket3Hdr {
	return (*unix.Tpacket3Hdr)(unsafe.Pointer(&r.mem[r.at*r.blockSize+int(r.next)]))
}

func frameTime(h *unix.Tpacket3Hdr) int64 { return int64(h.Sec)*nanosPerSecond + int64(h.Nsec) }

// kindOffset is where the kind of a frame lies (sll_pkttype), from its header on.
const kindOffset = unix.SizeofTpacket3Hdr + unsafe.Offsetof(unix.RawSockaddrLinklayer{}.Pkttype)

// take hands out frames of the block at hand until one is younger than until.
func (r *packetRing) take(s *packetSource, dst []Frame, until int64) (n int) {
	block := r.mem[r.at*r.blockSize:][:r.blockSize:r.blockSize]
	most := min(len(dst), int(r.left))
	late, hostTimes := uint64(0), uint64(0)
	for n < most && r.head <= until {
		h := r.frame()
		start := int(r.next) + int(h.Mac)
		captured, wire := int(h.Snaplen), int(h.Len)
		if h.Status&unix.TP_STATUS_VLAN_VALID != 0 && captured >= 12 {
			start -= tagLength
			captured, wire = captured+tagLength, wire+tagLength
			restoreTag(block[start:], h)
		}
		end := start + min(captured, s.o.SnapLen)
		f := &dst[n]
		f.Time = r.head
		f.Data = block[start:end:end]
		f.WireLen = wire
		f.Iface = 0
		f.Link = dissect.LinkEthernet
		f.HasTime = true
		f.Direction = In
		if block[int(r.next)+int(kindOffset)] == packetOutgoing {
			f.Direction = Out
		}
		if h.Status&tsRawHardware == 0 {
			hostTimes++
		}
		if isLate(r.head, s.newest) {
			late++
		} else {
			s.newest = r.head
		}
		n++
		r.left--
		if r.left > 0 {
			r.next += h.Next_offset
			r.head = frameTime(r.frame())
		}
	}
	r.delivered.Add(uint64(n))
	if late > 0 {
		s.late.Add(late)
	}
	if hostTimes > 0 && s.o.Clock == AdapterClock {
		s.hostTimes.Add(hostTimes)
	}
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

// count takes over what the kernel has counted since the last time.
func (r *packetRing) count() {
	if k, err := unix.GetsockoptTpacketStatsV3(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
		r.seen += uint64(k.Packets) // dropped ones among them
		r.dropped += uint64(k.Drops)
	}
}

func (r *packetRing) stats() RingStats {
	return RingStats{Seen: r.seen, Delivered: r.delivered.Load(), Dropped: r.dropped}
}

func (r *packetRing) close() {
	r.held, r.left, r.kept = false, 0, 0
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
		r.mem = nil
	}
	if r.file != nil {
		r.file.Close()
	} else {
		unix.Close(r.fd)
	}
}

// watch lets Go's runtime watch the socket together with all else that it waits for. A thread that sleeps in poll instead is taken
// for one that is late: the runtime's monitor then looks every 20 µs, which costs as much as half of what is done to packets.
func (r *packetRing) watch() {
	r.file = os.NewFile(uintptr(r.fd), "packet socket")
	r.conn, _ = r.file.SyscallConn() // it fails only without a file
	r.look = func(uintptr) bool {
		over := r.woken || r.ready(r.at) || r.rings()
		r.woken = true
		return over
	}
}

// rings says whether poll would return at once. The runtime tells of what happens from now on; this tells of what has.
func (r *packetRing) rings() bool {
	p := unix.PollFd{Fd: int32(r.fd), Events: unix.POLLIN}
	var now unix.Timespec
	n, _, _ := unix.RawSyscall6(unix.SYS_PPOLL, uintptr(unsafe.Pointer(&p)), 1, uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	return int(n) > 0
}

// await returns when there may be frames or an error, or wake was called. It says whether it could wait at all.
func (r *packetRing) await() bool {
	if r.file == nil {
		return false
	}
	r.woken = false
	return r.conn.Read(r.look) == nil
}

// wake ends await, for good.
func (r *packetRing) wake() {
	if r.file != nil {
		_ = r.file.SetReadDeadline(time.Unix(1, 0)) // it fails only where it is closed
	}
}

// merge hands out frames in the order of time. A frame is handed out when no ring
// can have an older one: all others have a younger one, or those that are empty
// have had the time to hand over a block in which there was one. It waits no longer
// when half of its ring is full.
func (s *packetSource) merge(dst []Frame) (n int) {
	if r := s.rings[0]; len(s.rings) == 1 {
		if !r.open(0) {
			return 0
		}
		return r.take(s, dst, math.MaxInt64)
	}
	now := time.Since(s.began)
	for _, r := range s.rings {
		r.open(now)
	}
	for n < len(dst) {
		var first *packetRing
		others, empty := int64(math.MaxInt64), false
		for _, r := range s.rings {
			switch {
			case r.left == 0:
				empty = true
			case first == nil:
				first = r
			case r.head < first.head:
				first, others = r, first.head
			default:
				others = min(others, r.head)
			}
		}
		if first == nil || empty && now-first.took < s.patience && !first.crowded() {
			break
		}
		n += first.take(s, dst[n:], others)
		first.open(now)
	}
	return n
}
