package xsk

import (
	"fmt"
	"sync"
	"unsafe"
)

// xdpHeadroom is what the kernel keeps free at the beginning of a chunk that it receives into.
const xdpHeadroom = 256

// UMEMOptions says what memory is wanted. The zero value is 4096 chunks of 4 KiB.
type UMEMOptions struct {
	Chunks    int  // how many; default 4096
	ChunkSize int  // 2048 or 4096; default 4096
	Headroom  int  // further bytes to keep free before each received frame
	HugePages bool // from the kernel's pool of huge pages, which must have enough
	// TxMetadata reserves the area before each sent frame that carries time stamps, launch times and checksum requests.
	TxMetadata bool
}

// UMEM is the memory that frames live in. Its chunks are numbered by address: chunk i begins at i×ChunkSize.
type UMEM struct {
	mem      []byte
	size     uint64 // of mem
	chunk    uint64
	mask     uint64 // of a chunk's address
	headroom uint64
	options  UMEMOptions

	opening sync.Mutex // one socket joins at a time
	mu      sync.Mutex // of what follows
	free    []uint64   // chunks that nobody has
	sockets []*Socket  // those bound to it; the first of them registered it, and the others share its registration
	closed  bool
}

func (o *UMEMOptions) complete() error {
	if o.Chunks == 0 {
		o.Chunks = 4096
	}
	if o.ChunkSize == 0 {
		o.ChunkSize = 4096
	}
	bad := ""
	switch {
	case o.ChunkSize != 2048 && o.ChunkSize != 4096:
		bad = fmt.Sprintf("chunks of %d bytes: the kernel takes 2048 or 4096, and longer frames go over several", o.ChunkSize)
	case o.Chunks < 1 || o.Chunks > 1<<24:
		bad = fmt.Sprintf("%d chunks: 1 to %d are possible", o.Chunks, 1<<24)
	case o.Headroom < 0 || o.Headroom > o.ChunkSize-xdpHeadroom-64:
		bad = fmt.Sprintf("a headroom of %d bytes does not leave room for frames in chunks of %d", o.Headroom, o.ChunkSize)
	}
	if bad != "" {
		return &Error{Op: "make a UMEM of " + bad}
	}
	return nil
}

// newUMEM makes the bookkeeping for mem.
func newUMEM(mem []byte, o UMEMOptions) *UMEM {
	u := &UMEM{
		mem: mem, size: uint64(o.Chunks) * uint64(o.ChunkSize),
		chunk: uint64(o.ChunkSize), mask: ^uint64(o.ChunkSize - 1), headroom: uint64(o.Headroom), options: o,
	}
	u.free = make([]uint64, o.Chunks)
	for i := range u.free { // so that Take gives them out from the lowest on
		u.free[i] = uint64(o.Chunks-1-i) * u.chunk
	}
	return u
}

// ChunkSize is the length of a chunk.
func (u *UMEM) ChunkSize() int { return int(u.chunk) }

// Chunks is the number of chunks.
func (u *UMEM) Chunks() int { return u.options.Chunks }

// RxFrameSize is how much of a frame fits into one chunk when the kernel copies it there: of a longer frame, that much comes
// in each chunk but the last.
func (u *UMEM) RxFrameSize() int { return RxFrameSize(int(u.chunk)) - int(u.headroom) }

// RxFrameSize is the same of a chunk of a size, without further headroom.
func RxFrameSize(chunk int) int { return chunk - xdpHeadroom }

// TxDataOffset is where in a chunk the earliest frame to send may begin: behind the metadata area, if there is one.
func (u *UMEM) TxDataOffset() int {
	if u.options.TxMetadata {
		return 64 // a cache line, although the area is 24 bytes
	}
	return 0
}

// Take gives n chunks to the caller, or none and false if there are not as many.
func (u *UMEM) Take(n int) (addrs []uint64, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n < 0 || n > len(u.free) {
		return nil, false
	}
	addrs = make([]uint64, n)
	for i := range addrs {
		addrs[i] = u.free[len(u.free)-1-i]
	}
	u.free = u.free[:len(u.free)-n]
	return addrs, true
}

// Give takes chunks back. Any address within a chunk names it.
func (u *UMEM) Give(addrs []uint64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range addrs {
		if a &= u.mask; a < u.size && len(u.free) < u.options.Chunks {
			u.free = append(u.free, a)
		}
	}
}

// Bytes are the n bytes at an address, and nil where that is not inside of the UMEM. They may go over the end of a chunk.
func (u *UMEM) Bytes(addr uint64, n uint32) []byte {
	end := addr + uint64(n)
	if end > u.size || end < addr || u.mem == nil {
		return nil
	}
	return u.mem[addr:end:end]
}

// Chunk is all of the chunk that an address is in, and nil where that is not inside of the UMEM.
func (u *UMEM) Chunk(addr uint64) []byte { return u.Bytes(addr&u.mask, uint32(u.chunk)) }

// What a TxMetadata may ask for.
const (
	TxTimestamp  = 1 << 0 // the time at which the frame was sent
	TxChecksum   = 1 << 1 // a checksum from CsumStart on, to be put CsumOffset behind that
	TxLaunchTime = 1 << 2 // not to be sent before LaunchTime
)

// TxMetadata lies directly before a frame whose descriptor has OptionTxMetadata (the first one, if there are several). A
// driver does what [Features] says; in copy mode there are checksums, and time stamps of the moment of completion. A flag
// that the driver does not know blocks the ring for good: every Kick then fails, and sends nothing.
type TxMetadata struct {
	Flags uint64
	// request is the two checksum offsets and two unused words, and after completion the time stamp in their place.
	request    uint64
	LaunchTime uint64
}

// SetChecksum asks for the checksum of the frame's bytes from start on, to be stored offset bytes behind start.
func (m *TxMetadata) SetChecksum(start, offset uint16) {
	m.Flags |= TxChecksum
	r := (*[2]uint16)(unsafe.Pointer(&m.request))
	r[0], r[1] = start, offset
}

// Timestamp is when the frame was sent, once it has come back by Completion, in nanoseconds of the clock that the driver
// uses (in copy mode TAI).
func (m *TxMetadata) Timestamp() uint64 { return m.request }

// TxMetadata is the area before the frame at addr, and nil where the UMEM has no such areas or the frame begins too early in
// its chunk.
func (u *UMEM) TxMetadata(addr uint64) *TxMetadata {
	const size = uint64(unsafe.Sizeof(TxMetadata{}))
	if !u.options.TxMetadata || addr%8 != 0 || addr&^u.mask < size {
		return nil
	}
	b := u.Bytes(addr-size, uint32(size))
	if b == nil {
		return nil
	}
	return (*TxMetadata)(unsafe.Pointer(unsafe.SliceData(b)))
}

// join adds a socket, unless the UMEM is closed. The socket returned is one whose registration of the UMEM it must share,
// and nil if it is the first.
func (u *UMEM) join(s *Socket) (with *Socket, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil, &Error{Op: "open a socket on a UMEM", Kind: ErrClosed}
	}
	if len(u.sockets) > 0 {
		with = u.sockets[0]
	}
	u.sockets = append(u.sockets, s)
	return with, nil
}

func (u *UMEM) leave(s *Socket) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for i, other := range u.sockets {
		if other == s {
			u.sockets = append(u.sockets[:i], u.sockets[i+1:]...)
			return
		}
	}
}

// Close gives the memory back. The sockets on it must be closed before.
func (u *UMEM) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.closed {
		return nil
	}
	if n := len(u.sockets); n > 0 {
		return &Error{Op: "close a UMEM", Kind: ErrBusy, Hint: fmt.Sprintf("close the %d sockets on it before", n)}
	}
	u.closed = true
	mem := u.mem
	u.mem, u.size = nil, 0
	return unmap(mem)
}
