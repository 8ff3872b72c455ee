package xsk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// Kernel features, each tried once on the loopback interface, where nothing is disturbed. An answer that is not conclusive
// is not kept.
var (
	haveMultiBuffer = once("multi-buffer", "6.6", trial{flags: unix.XDP_COPY | unix.XDP_USE_SG}.bind, "CAP_NET_RAW")
	haveNeedWakeup  = once("need-wakeup", "5.4", trial{flags: unix.XDP_COPY | unix.XDP_USE_NEED_WAKEUP}.bind, "CAP_NET_RAW")
	haveTxBudget    = once("transmit budget", "6.17", trial{budget: 64}.bind, "CAP_NET_RAW")
	haveTxMetadata  = once("transmit metadata", "6.8", trial{metadata: true}.bind, "CAP_NET_RAW")
	haveFrags       = once("fragment-aware XDP programs", "5.18", func() error {
		p, err := passAll(unix.BPF_F_XDP_HAS_FRAGS)
		if err != nil {
			return err
		}
		return p.Close()
	}, "CAP_BPF", "CAP_NET_ADMIN")
)

// HaveMultiBuffer says whether frames may take several descriptors.
func HaveMultiBuffer() error { return haveMultiBuffer() }

// HaveNeedWakeup says whether a driver may tell when it wants a system call.
func HaveNeedWakeup() error { return haveNeedWakeup() }

// HaveTxBudget says whether one call may send more than 32 descriptors.
func HaveTxBudget() error { return haveTxBudget() }

// HaveTxMetadata says whether a sent frame may have a metadata area.
func HaveTxMetadata() error { return haveTxMetadata() }

// HaveFrags says whether XDP programs may be aware of frames of more than one page.
func HaveFrags() error { return haveFrags() }

// haveXDPLink goes by the kernel's version, for attaching by link cannot be tried without attaching.
func haveXDPLink() error {
	if kernelBefore(release(), 5, 9) {
		return &UnsupportedError{Feature: "attaching XDP by link", Since: "5.9"}
	}
	return nil
}

// once keeps the answer of try, which says that the kernel does not know something by EINVAL, ENOPROTOOPT or the like.
func once(feature, since string, try func() error, capabilities ...string) func() error {
	var mu sync.Mutex
	var known bool
	var answer error
	return func() error {
		mu.Lock()
		defer mu.Unlock()
		if known {
			return answer
		}
		err := try()
		switch {
		case err == nil:
		case errors.Is(err, unix.EINVAL), errors.Is(err, unix.ENOPROTOOPT), errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.E2BIG):
			err = &UnsupportedError{Feature: feature, Since: since}
		default: // not an answer: it is asked again
			return failure("probe "+feature, "", err, capabilities...)
		}
		known, answer = true, err
		return answer
	}
}

// trial is a socket with next to nothing, to see what the kernel says.
type trial struct {
	flags    uint16
	metadata bool
	budget   uint32
}

func (t trial) bind() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	mem, err := unix.Mmap(-1, 0, 16*4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return err
	}
	defer unix.Munmap(mem)
	reg := unix.XDPUmemReg{Addr: uint64(uintptr(unsafe.Pointer(unsafe.SliceData(mem)))), Len: uint64(len(mem)), Size: 4096}
	if t.metadata {
		reg.Flags, reg.Tx_metadata_len = unix.XDP_UMEM_TX_METADATA_LEN, uint32(unsafe.Sizeof(TxMetadata{}))
	}
	if err := setsockopt(fd, unix.XDP_UMEM_REG, unsafe.Pointer(&reg), unsafe.Sizeof(reg)); err != nil {
		return err
	}
	if t.metadata {
		return nil
	}
	size := uint32(64)
	for _, ring := range []int{unix.XDP_UMEM_FILL_RING, unix.XDP_UMEM_COMPLETION_RING, unix.XDP_RX_RING, unix.XDP_TX_RING} {
		if err := setsockopt(fd, ring, unsafe.Pointer(&size), 4); err != nil {
			return err
		}
	}
	if t.budget != 0 {
		return setsockopt(fd, unix.XDP_MAX_TX_SKB_BUDGET, unsafe.Pointer(&t.budget), 4)
	}
	err = unix.Bind(fd, &unix.SockaddrXDP{Flags: t.flags, Ifindex: 1}) // lo has this index in every network namespace
	if err == unix.EBUSY {
		return nil // the flags are looked at before the queue
	}
	return err
}

// passAll is the smallest XDP program.
func passAll(flags uint32) (*ebpf.Program, error) {
	return ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "pass", Type: ebpf.XDP, AttachType: ebpf.AttachXDP, License: "Apache-2.0", Flags: flags,
		Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, xdpPass), asm.Return()},
	})
}

// Probe finds out what can be known about an interface without disturbing it.
func Probe(name string) (Features, error) {
	f := Features{Kernel: release(), Interface: name, SingleBufferMTU: singleBufferMTU()}
	iface, err := interfaceByName("probe", name)
	if err != nil {
		return f, err
	}
	f.Index, f.MTU, f.Up = iface.Index, iface.MTU, iface.Flags&net.FlagUp != 0
	f.Missing = missing()

	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return f, failure("probe", name, err)
	}
	defer unix.Close(fd)
	f.Queues = queues(fd, name)
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, name); err == nil {
		f.Driver, f.Bus = text(info.Driver[:]), text(info.Bus_info[:])
	}
	if flags, ok := ethtoolValue(fd, name, unix.ETHTOOL_GFLAGS); ok {
		const rxVLAN = 1 << 8 // ETH_FLAG_RXVLAN
		f.RxVLANStripped = flags&rxVLAN != 0
	}
	f.ProgramID = attachedProgram(iface.Index)

	f.AFXDP = haveSockets()
	f.MultiBuffer, f.NeedWakeup, f.TxBudget, f.TxMetadata, f.Frags = HaveMultiBuffer(), HaveNeedWakeup(), HaveTxBudget(), HaveTxMetadata(), HaveFrags()
	f.Generic = haveXDPLink()
	f.HugePagesFree, f.HugePages = hugePages()
	f.driverFeatures()
	return f, nil
}

// Numbers of the kernel's netdev family (include/uapi/linux/netdev.h).
const (
	netdevGet                                                      = 1
	attrIfindex, attrXDPFeatures, attrZeroCopySegments, attrXSKOps = 1, 3, 4, 6

	actBasic, actRedirect, actXmit, actZeroCopy, actFrags = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 5
	xskTimestamp, xskChecksum, xskLaunchTime              = 1 << 0, 1 << 1, 1 << 2
)

// genericHeader is struct genlmsghdr: command, version, and two reserved bytes that the kernel wants to be zero (those of
// nl.Genlmsg are whatever lies behind it in memory).
type genericHeader [4]byte

func (h genericHeader) Len() int          { return len(h) }
func (h genericHeader) Serialize() []byte { return h[:] }

// driverFeatures asks the driver, by way of the kernel (6.3 and later), which uses the same bits when it decides.
func (f *Features) driverFeatures() {
	var xdp, xsk uint64
	known := error(fmt.Errorf("%w: the kernel tells from 6.3 on", ErrUnknown))
	family, err := netlink.GenlFamilyGet("netdev")
	if err == nil {
		req := nl.NewNetlinkRequest(int(family.ID), 0)
		req.AddData(genericHeader{netdevGet, 1, 0, 0})
		req.AddData(nl.NewRtAttr(attrIfindex, nl.Uint32Attr(uint32(f.Index))))
		var answers [][]byte
		if answers, err = req.Execute(unix.NETLINK_GENERIC, 0); err != nil {
			known = fmt.Errorf("%w: the kernel's netdev family says %v", ErrUnknown, err)
		}
		for _, m := range answers {
			if len(m) < len(genericHeader{}) {
				continue
			}
			attrs, bad := nl.ParseRouteAttr(m[len(genericHeader{}):])
			if bad != nil {
				continue
			}
			for _, a := range attrs {
				switch {
				case a.Attr.Type == attrXDPFeatures && len(a.Value) >= 8:
					xdp, known = binary.NativeEndian.Uint64(a.Value), nil
				case a.Attr.Type == attrXSKOps && len(a.Value) >= 8:
					xsk = binary.NativeEndian.Uint64(a.Value)
				case a.Attr.Type == attrZeroCopySegments && len(a.Value) >= 4:
					f.ZeroCopySegments = int(binary.NativeEndian.Uint32(a.Value))
				}
			}
		}
	}
	says := func(feature string, has bool) error {
		switch {
		case known != nil:
			return known
		case !has:
			return &UnsupportedError{Feature: feature, Reason: "driver " + f.Driver + " does not offer it"}
		}
		return nil
	}
	f.Native = says("native XDP", xdp&(actBasic|actRedirect) == actBasic|actRedirect)
	f.NativeFrags = says("native XDP with fragments", xdp&actFrags != 0)
	f.Redirect = says("sending redirected frames", xdp&actXmit != 0)
	if u := (*UnsupportedError)(nil); f.Driver == "veth" && errors.As(f.Redirect, &u) {
		u.Reason = "a virtual link takes them when its far end has a native XDP program, or GRO (ethtool -K PEER gro on)"
	}
	f.ZeroCopy = says("zero-copy", xdp&actZeroCopy != 0)
	f.ZeroCopyMultiBuffer = says("zero-copy multi-buffer", xdp&actZeroCopy != 0 && f.ZeroCopySegments > 1)
	f.TxTimestamp = says("hardware transmit time stamps", xsk&xskTimestamp != 0)
	f.TxChecksum = says("hardware transmit checksums", xsk&xskChecksum != 0)
	f.TxLaunchTime = says("launch time", xsk&xskLaunchTime != 0)
}

func haveSockets() error {
	fd, err := unix.Socket(unix.AF_XDP, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failure("open an AF_XDP socket", "", err, "CAP_NET_RAW")
	}
	return unix.Close(fd)
}

// QueuesOf is how many queues an interface uses; zero where its driver does not say.
func QueuesOf(name string) Queues {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return Queues{}
	}
	defer unix.Close(fd)
	return queues(fd, name)
}

// queues asks the driver how many queues it uses.
func queues(fd int, name string) (q Queues) {
	var c struct{ cmd, maxRX, maxTX, maxOther, maxCombined, rx, tx, other, combined uint32 }
	c.cmd = unix.ETHTOOL_GCHANNELS
	if ethtool(fd, name, unsafe.Pointer(&c)) != nil {
		return Queues{}
	}
	return Queues{RX: int(c.rx + c.combined), TX: int(c.tx + c.combined)}
}

func driver(fd int, name string) string {
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, name); err == nil {
		return text(info.Driver[:])
	}
	return "of " + name
}

func ethtoolValue(fd int, name string, cmd uint32) (uint32, bool) {
	v := struct{ cmd, data uint32 }{cmd: cmd}
	err := ethtool(fd, name, unsafe.Pointer(&v))
	return v.data, err == nil
}

func ethtool(fd int, name string, data unsafe.Pointer) error {
	var ifr struct { // struct ifreq
		name [unix.IFNAMSIZ]byte
		data unsafe.Pointer
		_    [16]byte
	}
	copy(ifr.name[:unix.IFNAMSIZ-1], name)
	ifr.data = data
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr))); errno != 0 {
		return errno
	}
	return nil
}

func text(b []byte) string {
	before, _, _ := bytes.Cut(b, []byte{0})
	return string(before)
}

// missing lists the capabilities that this thread's effective set lacks.
func missing() (names []string) {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return nil
	}
	has := func(c int) bool { return data[c/32].Effective&(1<<(c%32)) != 0 }
	for _, c := range []struct {
		bit  int
		name string
	}{
		{unix.CAP_NET_RAW, "CAP_NET_RAW"}, {unix.CAP_NET_ADMIN, "CAP_NET_ADMIN"}, {unix.CAP_BPF, "CAP_BPF"}, {unix.CAP_IPC_LOCK, "CAP_IPC_LOCK"},
	} {
		// Before 5.8 CAP_SYS_ADMIN stood for CAP_BPF, and it still does.
		if !has(c.bit) && !(c.bit == unix.CAP_BPF && has(unix.CAP_SYS_ADMIN)) {
			names = append(names, c.name)
		}
	}
	return names
}

func hugePages() (free int, err error) {
	b, err := os.ReadFile("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
	if err != nil {
		return 0, &UnsupportedError{Feature: "huge pages", Reason: "this kernel has none of 2 MiB"}
	}
	if free, err = strconv.Atoi(strings.TrimSpace(string(b))); err != nil || free == 0 {
		return 0, &UnsupportedError{Feature: "huge pages", Reason: "none are free: sysctl vm.nr_hugepages=64"}
	}
	return free, nil
}

// singleBufferMTU is the page without XDP's headroom, the shared info behind the data, and the Ethernet header.
func singleBufferMTU() int { return os.Getpagesize() - xdpHeadroom - 320 - 14 }

func release() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return ""
	}
	return text(u.Release[:])
}

func kernelBefore(release string, major, minor int) bool {
	var a, b int
	if n, _ := fmt.Sscanf(release, "%d.%d", &a, &b); n != 2 {
		return false
	}
	return a < major || a == major && b < minor
}
