package xsk

import (
	"errors"
	"fmt"
	"net"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// busyFor is how long Open tries again where the queue is in use: the kernel frees a closed socket's queue later, on a busy machine much later.
const busyFor = 2 * time.Second

// Open makes a socket and binds it to its queue.
func Open(options Options) (*Socket, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	iface, err := interfaceByName("open a socket on", options.Interface)
	if err != nil {
		return nil, err
	}
	// The longest frame that a virtual link lets through is as long as MTU, Ethernet header and one VLAN tag.
	if limit := iface.MTU + 18; options.MaxFrame > limit {
		return nil, &Error{
			Op: "open a socket on", Where: options.where(), Kind: ErrFrameSize,
			Hint: fmt.Sprintf("a frame of %d bytes is more than the MTU of %d allows: ip link set %s mtu %d", options.MaxFrame, iface.MTU, options.Interface, options.MaxFrame-14),
		}
	}
	s := &Socket{umem: options.UMEM, options: options}
	s.kernel = handle{fd: -1, control: -1, wake: -1}
	s.info = Info{Interface: iface.Name, Index: iface.Index, MTU: iface.MTU, Queue: options.Queue, MultiBuffer: options.MultiBuffer, NeedWakeup: !options.AlwaysKick}
	s.RX.retire()
	s.TX.retire()
	s.Fill.retire()
	s.Completion.retire()
	if err := s.open(); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func interfaceByName(op, name string) (*net.Interface, error) {
	iface, err := net.InterfaceByName(name)
	if err != nil {
		return nil, &Error{Op: op, Where: name, Kind: ErrGone, Hint: "there is no interface of this name in this network namespace"}
	}
	return iface, nil
}

func (s *Socket) open() error {
	k := &s.kernel
	var err error
	if k.fd, err = unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0); err != nil {
		return s.fail("open an AF_XDP socket for", err)
	}
	if k.control, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
		return s.fail("open a control socket for", err)
	}
	if k.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err != nil {
		return s.fail("make an eventfd for", err)
	}
	k.polls = [2]unix.PollFd{{Fd: int32(k.fd)}, {Fd: int32(k.wake), Events: unix.POLLIN}}

	s.umem.opening.Lock()
	defer s.umem.opening.Unlock()
	shared, err := s.umem.join(s)
	if err != nil {
		return err
	}
	if shared == nil {
		if err := s.register(); err != nil {
			return err
		}
	}
	if err := s.mapRings(); err != nil {
		return err
	}
	if err := s.fillUp(); err != nil {
		return err
	}
	if err := s.bind(shared); err != nil {
		return err
	}
	opts, err := unix.GetsockoptInt(k.fd, unix.SOL_XDP, unix.XDP_OPTIONS)
	if err != nil {
		return s.fail("ask for the mode of", err)
	}
	s.info.Mode, k.copies = Copy, true
	if opts&unix.XDP_OPTIONS_ZEROCOPY != 0 {
		s.info.Mode, k.copies = ZeroCopy, false
	}
	s.setBudget()
	return s.setBusyPoll()
}

// register gives the UMEM to the kernel.
func (s *Socket) register() error {
	u := s.umem
	reg := unix.XDPUmemReg{
		Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(u.mem)))), Len: u.size,
		Size: uint32(u.chunk), Headroom: uint32(u.headroom),
	}
	if u.options.TxMetadata {
		reg.Flags |= unix.XDP_UMEM_TX_METADATA_LEN
		reg.Tx_metadata_len = uint32(unsafe.Sizeof(TxMetadata{}))
	}
	err := setsockopt(s.kernel.fd, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg))
	switch {
	case err == nil:
		return nil
	case err == unix.EINVAL && u.options.TxMetadata && HaveTxMetadata() != nil:
		return s.refuse("register the UMEM for", err, HaveTxMetadata())
	case err == unix.ENOBUFS, err == unix.ENOMEM:
		return &Error{
			Op: "register the UMEM for", Where: s.options.where(), Kind: ErrMemory, Err: err,
			Hint: fmt.Sprintf("%d MiB count against RLIMIT_MEMLOCK (ulimit -l): raise it, or have CAP_IPC_LOCK", u.size>>20),
		}
	}
	return s.fail("register the UMEM for", err)
}

// mapRings makes the four rings and maps them.
func (s *Socket) mapRings() error {
	fd, o := s.kernel.fd, &s.options
	for _, r := range []struct{ option, size int }{
		{unix.XDP_UMEM_FILL_RING, o.Fill}, {unix.XDP_UMEM_COMPLETION_RING, o.Completion}, {unix.XDP_RX_RING, o.RX}, {unix.XDP_TX_RING, o.TX},
	} {
		if r.size == 0 {
			continue
		}
		size := uint32(r.size)
		if err := setsockopt(fd, r.option, unsafe.Pointer(&size), 4); err != nil {
			return s.fail(fmt.Sprintf("make a ring of %d slots for", r.size), err)
		}
	}
	var off unix.XDPMmapOffsets
	length := uint32(unsafe.Sizeof(off))
	if _, _, errno := unix.Syscall6(unix.SYS_GETSOCKOPT, uintptr(fd), unix.SOL_XDP, unix.XDP_MMAP_OFFSETS,
		uintptr(unsafe.Pointer(&off)), uintptr(unsafe.Pointer(&length)), 0); errno != 0 {
		return s.fail("ask for the rings' layout for", errno)
	}
	if length < uint32(unsafe.Sizeof(off)) { // before 5.4 there were no flags
		return s.refuse("map the rings for", nil, &UnsupportedError{Feature: "need-wakeup", Since: "5.4"})
	}
	err := mapRing(&s.Fill.shared, fd, unix.XDP_UMEM_PGOFF_FILL_RING, &off.Fr, o.Fill)
	if err == nil {
		s.Fill.retired = false
		err = mapRing(&s.Completion.shared, fd, unix.XDP_UMEM_PGOFF_COMPLETION_RING, &off.Cr, o.Completion)
	}
	if err == nil && o.RX > 0 {
		err = mapRing(&s.RX.shared, fd, unix.XDP_PGOFF_RX_RING, &off.Rx, o.RX)
	}
	if err == nil && o.TX > 0 {
		err = mapRing(&s.TX.shared, fd, unix.XDP_PGOFF_TX_RING, &off.Tx, o.TX)
		s.TX.retired = err != nil
	}
	if err != nil {
		return s.fail("map the rings for", err)
	}
	return nil
}

func mapRing[T any](r *shared[T], fd int, offset int64, at *unix.XDPRingOffset, size int) error {
	var slot T
	length := at.Desc + uint64(size)*uint64(unsafe.Sizeof(slot))
	mem, err := unix.Mmap(fd, offset, int(length), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return err
	}
	if max(at.Producer, at.Consumer, at.Flags) > length-4 || at.Desc%8 != 0 || (at.Producer|at.Consumer|at.Flags)%4 != 0 {
		return errors.Join(errors.New("the layout makes no sense"), unix.Munmap(mem))
	}
	base := unsafe.Pointer(unsafe.SliceData(mem))
	r.producer = (*uint32)(unsafe.Add(base, at.Producer))
	r.consumer = (*uint32)(unsafe.Add(base, at.Consumer))
	r.flags = (*uint32)(unsafe.Add(base, at.Flags))
	r.slots = unsafe.Slice((*T)(unsafe.Add(base, at.Desc)), size)
	r.mask, r.mem = uint32(size-1), mem
	return nil
}

// fillUp gives the kernel the chunks to receive into.
func (s *Socket) fillUp() error {
	n := s.options.RXChunks
	var ok bool
	if s.rxs, ok = s.umem.Take(n); !ok {
		return &Error{
			Op: "open a socket on", Where: s.options.where(), Kind: ErrMemory,
			Hint: fmt.Sprintf("%d chunks were wanted to receive into, and the UMEM has fewer free ones: make it larger, or set RXChunks", n),
		}
	}
	at, got := s.Fill.Reserve(uint32(n))
	for i := range got {
		*s.Fill.Slot(at + i) = s.rxs[i]
	}
	s.Fill.Submit(got)
	return nil
}

// bind takes the queue. With a socket to share with, that socket's flags hold, and none may be given.
func (s *Socket) bind(shared *Socket) error {
	o := &s.options
	address := unix.SockaddrXDP{Ifindex: uint32(s.info.Index), QueueID: uint32(o.Queue)}
	op := "bind to"
	if shared != nil {
		address.Flags, address.SharedUmemFD = unix.XDP_SHARED_UMEM, uint32(shared.kernel.fd)
		if o.MultiBuffer != shared.options.MultiBuffer {
			return &Error{Op: op, Where: o.where(), Hint: "all sockets on one UMEM have MultiBuffer, or none"}
		}
		op = "bind with a shared UMEM to"
		s.info.NeedWakeup = shared.info.NeedWakeup
	} else {
		switch o.Mode {
		case Copy:
			address.Flags |= unix.XDP_COPY
		case ZeroCopy:
			address.Flags |= unix.XDP_ZEROCOPY
			op = "bind in zero-copy mode to"
		}
		if !o.AlwaysKick {
			address.Flags |= unix.XDP_USE_NEED_WAKEUP
		}
		if o.MultiBuffer {
			address.Flags |= unix.XDP_USE_SG
		}
	}
	err := unix.Bind(s.kernel.fd, &address)
	for until := time.Now().Add(busyFor); err == unix.EBUSY && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
		err = unix.Bind(s.kernel.fd, &address)
	}
	if err == nil {
		return nil
	}
	switch err {
	case unix.EBUSY:
		return &Error{
			Op: op, Where: o.where(), Kind: ErrBusy, Err: err,
			Hint: "another AF_XDP socket has this queue: end the program that owns it, or use another queue",
		}
	case unix.EINVAL:
		if n := queues(s.kernel.control, o.Interface); n.known() && o.Queue >= max(n.RX, n.TX) {
			return &Error{Op: op, Where: o.where(), Kind: ErrQueue, Err: err, Hint: fmt.Sprintf("it has %d", max(n.RX, n.TX))}
		}
		if why := HaveMultiBuffer(); o.MultiBuffer && why != nil {
			return s.refuse(op, err, why)
		}
	case unix.EOPNOTSUPP:
		return s.refuse(op, err, &UnsupportedError{Feature: "zero-copy", Reason: "driver " + driver(s.kernel.control, o.Interface) + " does not offer it for this queue"})
	}
	return s.fail(op, err)
}

func (s *Socket) setBudget() {
	o := &s.options
	if o.TX > 0 {
		s.info.TxBudget = 32
	}
	if o.TxBudget == 0 {
		return
	}
	budget := uint32(o.TxBudget)
	switch err := setsockopt(s.kernel.fd, unix.XDP_MAX_TX_SKB_BUDGET, unsafe.Pointer(&budget), 4); err {
	case nil:
		s.info.TxBudget = o.TxBudget
	case unix.ENOPROTOOPT:
		s.info.NoBudget = HaveTxBudget()
	default: // EACCES, where it is out of range, is not about privilege
		s.info.NoBudget = &Error{Op: "set the transmit budget of", Where: o.where(), Err: err}
	}
}

func (s *Socket) setBusyPoll() error {
	b := s.options.BusyPoll
	if b.Microseconds == 0 {
		return nil
	}
	if b.Budget == 0 {
		b.Budget = 64
	}
	for _, opt := range []struct {
		name       string
		opt, value int
		use        bool
	}{
		{"SO_PREFER_BUSY_POLL", unix.SO_PREFER_BUSY_POLL, 1, b.Prefer},
		{"SO_BUSY_POLL", unix.SO_BUSY_POLL, b.Microseconds, true},
		{"SO_BUSY_POLL_BUDGET", unix.SO_BUSY_POLL_BUDGET, b.Budget, true},
	} {
		if !opt.use {
			continue
		}
		err := unix.SetsockoptInt(s.kernel.fd, unix.SOL_SOCKET, opt.opt, opt.value)
		if err == unix.ENOPROTOOPT {
			return s.refuse("set "+opt.name+" on", err, &UnsupportedError{Feature: "preferred busy polling", Since: "5.11"})
		}
		if err != nil {
			return s.fail("set "+opt.name+" on", err)
		}
	}
	return nil
}

// refuse is the error of something that is not supported.
func (s *Socket) refuse(op string, err, why error) error {
	if errors.Is(why, ErrNotSupported) {
		return &Error{Op: op, Where: s.options.where(), Err: why}
	}
	return s.fail(op, err)
}

// fail gives an error number of the kernel its meaning, if it has one that does not depend on what was tried.
func (s *Socket) fail(op string, err error) error {
	return failure(op, s.options.where(), err, "CAP_NET_RAW")
}

func failure(op, where string, err error, capabilities ...string) error {
	e := &Error{Op: op, Where: where, Err: err}
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		e.Kind, e.Capabilities = ErrPrivilege, capabilities
		e.Hint = "run as root, or give the program its capabilities: setcap " + SetcapCapabilities + " PROGRAM"
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENXIO):
		e.Kind = ErrGone
	case errors.Is(err, unix.ENETDOWN):
		e.Kind = ErrDown
	case errors.Is(err, unix.EBUSY):
		e.Kind = ErrBusy
	case errors.Is(err, unix.ENOMEM), errors.Is(err, unix.ENOBUFS):
		e.Kind = ErrMemory
	case errors.Is(err, unix.EAFNOSUPPORT):
		e.Err = &UnsupportedError{Feature: "AF_XDP", Since: "4.18", Reason: "this kernel was built without it"}
	}
	return e
}

func setsockopt(fd, option int, value unsafe.Pointer, length uintptr) error {
	if _, _, errno := unix.Syscall6(unix.SYS_SETSOCKOPT, uintptr(fd), unix.SOL_XDP, uintptr(option), uintptr(value), length, 0); errno != 0 {
		return errno
	}
	return nil
}
