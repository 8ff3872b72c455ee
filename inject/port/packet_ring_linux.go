package port

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/captures"
)

const (
	ringBlock  = 256 << 10              // bytes of the blocks that a ring consists of
	ringMemory = 64 << 20               // bytes of a ring at most
	ringHeader = 128                    // bytes in a slot before the frame, and a few to spare
	ringLook   = 250 * time.Millisecond // after which it is looked whether the interface is still there
	ringNap    = 20 * time.Microsecond
)

// packetRing receives frames, into a ring of slots that the kernel shares (TPACKET_V2). Version 3 costs less per frame, but
// hands over blocks of frames when they are full or a millisecond is over, which is long for who waits for an ACK.
type packetRing struct {
	link      *link
	fd        int
	mem       []byte
	frameSize int
	perBlock  int
	frames    int

	next int // slot to look at
	held int // slots before it that are borrowed

	mu     sync.Mutex // of what follows
	closed bool
	drops  uint64

	cut atomic.Uint64 // frames that did not fit into a slot
}

func openPacketRing(o *Options, l *link) (_ *packetRing, err error) {
	r := &packetRing{link: l}
	if r.fd, err = unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0); err != nil {
		return nil, l.refused("open a packet socket", err)
	}
	defer func() {
		if err != nil {
			r.close()
		}
	}()
	if err := r.filter(o); err != nil {
		return nil, err
	}
	if err := r.share(o); err != nil {
		return nil, err
	}
	// What this host sends, we among others, is kept out by the filter too; this costs less. Linux 4.20.
	_ = unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_IGNORE_OUTGOING, 1)
	if err := unix.Bind(r.fd, &unix.SockaddrLinklayer{Protocol: networkOrder(unix.ETH_P_ALL), Ifindex: l.index}); err != nil {
		return nil, l.refused("bind a packet socket", err)
	}
	if o.All && !l.lo {
		m := unix.PacketMreq{Ifindex: int32(l.index), Type: unix.PACKET_MR_PROMISC}
		if err := unix.SetsockoptPacketMreq(r.fd, unix.SOL_PACKET, unix.PACKET_ADD_MEMBERSHIP, &m); err != nil {
			return nil, l.refused("receive frames for other stations", err)
		}
	}
	return r, nil
}

func networkOrder(v uint16) uint16 {
	var b [2]byte
	binary.BigEndian.PutUint16(b[:], v)
	return binary.NativeEndian.Uint16(b[:])
}

// filter lets in what the options ask for.
func (r *packetRing) filter(o *Options) error {
	terms := []string{"roce"}
	if o.Pause {
		terms = append(terms, "pause")
	}
	for _, n := range o.TCPPorts {
		terms = append(terms, fmt.Sprintf("tcp port %d", n))
	}
	if o.All {
		terms = []string{"none"}
	}
	code, err := captures.CompileFilter(strings.Join(terms, " or "), captures.In)
	if err != nil {
		return err
	}
	raw := make([]unix.SockFilter, len(code))
	for i, c := range code {
		raw[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	if err := unix.SetsockoptSockFprog(r.fd, unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: uint16(len(raw)), Filter: &raw[0]}); err != nil {
		return r.link.refused("set a filter", err)
	}
	return nil
}

// share makes the ring and maps it.
func (r *packetRing) share(o *Options) error {
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return r.link.refused("make a ring to receive", err)
	}
	// Room in front of each frame, so that a tag which the kernel took out can be put back where it was.
	if err := unix.SetsockoptInt(r.fd, unix.SOL_PACKET, unix.PACKET_RESERVE, vlanTag); err != nil {
		return r.link.refused("make room for VLAN tags", err)
	}
	r.frameSize = (ringHeader + r.link.maxFrame() + vlanTag + unix.TPACKET_ALIGNMENT - 1) &^ (unix.TPACKET_ALIGNMENT - 1)
	block := max(ringBlock, (r.frameSize+os.Getpagesize()-1)&^(os.Getpagesize()-1)) // loopback has frames of 64 KiB
	r.perBlock = block / r.frameSize
	blocks := min((o.Ring+r.perBlock-1)/r.perBlock, ringMemory/block)
	r.frames = blocks * r.perBlock
	req := unix.TpacketReq{Block_size: uint32(block), Block_nr: uint32(blocks), Frame_size: uint32(r.frameSize), Frame_nr: uint32(r.frames)}
	if err := unix.SetsockoptTpacketReq(r.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return r.link.refused(fmt.Sprintf("make a ring of %d MiB", blocks*block>>20), err)
	}
	var err error
	if r.mem, err = unix.Mmap(r.fd, 0, blocks*block, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED); err != nil {
		return r.link.refused("map the ring", err)
	}
	return nil
}

// slot is the memory of slot i.
func (r *packetRing) slot(i int) []byte {
	block := len(r.mem) / (r.frames / r.perBlock)
	return r.mem[i/r.perBlock*block+i%r.perBlock*r.frameSize:][:r.frameSize]
}

func status(slot []byte) *uint32 { return (*uint32)(unsafe.Pointer(&slot[0])) }

// receive hands out the frames that are there, and gives back those that it handed out before.
func (r *packetRing) receive(in []In) (n int) {
	for i := r.next - r.held; r.held > 0; r.held-- {
		atomic.StoreUint32(status(r.slot((i+r.frames)%r.frames)), unix.TP_STATUS_KERNEL)
		i++
	}
	for n < len(in) && r.held < r.frames {
		slot := r.slot(r.next)
		if atomic.LoadUint32(status(slot))&unix.TP_STATUS_USER == 0 {
			break
		}
		h := (*unix.Tpacket2Hdr)(unsafe.Pointer(&slot[0]))
		start, length := int(h.Mac), int(h.Snaplen)
		if h.Snaplen < h.Len || length < minFrame {
			r.cut.Add(1)
		} else {
			if h.Status&unix.TP_STATUS_VLAN_VALID != 0 {
				start, length = start-vlanTag, length+vlanTag
				restoreTag(slot[start:], h)
			}
			in[n] = In{Data: slot[start : start+length : start+length], Time: int64(h.Sec)*1e9 + int64(h.Nsec)}
			n++
		}
		r.next = (r.next + 1) % r.frames
		r.held++
	}
	return n
}

// restoreTag moves the addresses into the room in front of the frame, and puts the tag behind them.
func restoreTag(b []byte, h *unix.Tpacket2Hdr) {
	copy(b[:12], b[vlanTag:vlanTag+12])
	protocol := uint16(0x8100)
	if h.Status&unix.TP_STATUS_VLAN_TPID_VALID != 0 {
		protocol = h.Vlan_tpid
	}
	binary.BigEndian.PutUint16(b[12:], protocol)
	binary.BigEndian.PutUint16(b[14:], h.Vlan_tci)
}

// wait returns when there is a frame or the time is over. While the interface is down it goes on waiting.
func (r *packetRing) wait(timeout time.Duration) error {
	end := time.Now().Add(timeout)
	for !r.ready() {
		slice := max(0, min(time.Until(end), ringLook))
		fds := [1]unix.PollFd{{Fd: int32(r.fd), Events: unix.POLLIN}}
		at := unix.NsecToTimespec(int64(slice))
		n, err := unix.Ppoll(fds[:], &at, nil)
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return r.link.refused("wait for frames", err)
		case fds[0].Revents&unix.POLLNVAL != 0:
			return failed(r.link.name, "receive", ErrClosed, "")
		case fds[0].Revents&unix.POLLERR != 0 || n == 0 && slice == ringLook:
			if !r.link.exists() {
				return r.link.refused("receive", unix.ENODEV)
			}
			_, _ = unix.GetsockoptInt(r.fd, unix.SOL_SOCKET, unix.SO_ERROR) // it is down; take note
		case n > 0:
			time.Sleep(ringNap) // the kernel takes frames that are borrowed for new ones
		}
		if !time.Now().Before(end) {
			break
		}
	}
	return nil
}

// ready says whether there is a frame.
func (r *packetRing) ready() bool {
	return atomic.LoadUint32(status(r.slot(r.next)))&unix.TP_STATUS_USER != 0
}

// lost is how many frames found no room.
func (r *packetRing) lost() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.closed {
		var k unix.TpacketStats // the wrapper would allocate it
		length := uint32(unsafe.Sizeof(k))
		if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(r.fd), unix.SOL_PACKET, unix.PACKET_STATISTICS,
			uintptr(unsafe.Pointer(&k)), uintptr(unsafe.Pointer(&length)), 0); errno == 0 {
			r.drops += uint64(k.Drops) // since the last time that the kernel was asked
		}
	}
	return r.drops + r.cut.Load()
}

func (r *packetRing) close() {
	r.lost() // the last ones
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return
	}
	r.closed = true
	if r.mem != nil {
		_ = unix.Munmap(r.mem)
	}
	unix.Close(r.fd)
	r.fd = -1
}
