package captures

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/xsk"
)

func openBackend(o *LiveOptions) (backend, error) {
	// The filter first: to be told that it is wrong takes no privilege.
	if err := CheckFilter(o.Filter); err != nil {
		return nil, err
	}
	switch o.Engine {
	case EnginePacket:
		return openPacket(o)
	case EngineXDP:
		return openXDP(o)
	}
	return nil, liveError(o.Interface, fmt.Sprintf("engine %q", o.Engine), ErrNotOffered, nil)
}

func liveInterfaces() ([]LiveInterface, error) {
	links, err := netlink.LinkList()
	if err != nil {
		return nil, fmt.Errorf("captures: list the interfaces: %w", err)
	}
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		defer unix.Close(fd)
	}
	var all []LiveInterface
	for _, l := range links {
		a := l.Attrs()
		i := LiveInterface{
			Name: a.Name, Index: a.Index, MTU: a.MTU, Kind: l.Type(),
			Up: a.Flags&net.FlagUp != 0, Loopback: a.Flags&net.FlagLoopback != 0,
			Hardware: a.HardwareAddr.String(), Driver: driverOf(fd, a.Name),
		}
		if i.Kind == "device" {
			i.Kind = ""
		}
		addrs, err := netlink.AddrList(l, netlink.FAMILY_ALL)
		for _, a := range addrs {
			if err == nil && a.IPNet != nil {
				i.Addresses = append(i.Addresses, a.IPNet.String())
			}
		}
		all = append(all, i)
	}
	slices.SortFunc(all, func(a, b LiveInterface) int { return a.Index - b.Index })
	return all, nil
}

// driverOf is the name of an interface's driver, empty where nobody knows it.
func driverOf(fd int, name string) string {
	info, err := unix.IoctlGetEthtoolDrvinfo(fd, name)
	if err != nil {
		return ""
	}
	return unix.ByteSliceToString(info.Driver[:])
}

// device is the interface of a capture, and what has to be known of it.
type device struct {
	name   string
	index  int
	up     bool
	lo     bool
	kind   uint16 // ARPHRD_…
	driver string
	mtu    int
	queues int             // that it receives on; 0 where the driver does not say
	handle *netlink.Handle // in the interface's network namespace
	missed uint64          // rx_missed when the capture began
}

// findDevice looks an interface up.
func findDevice(name string) (*device, error) {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return nil, liveError(name, "look it up", nil, err)
	}
	l, err := h.LinkByName(name)
	if err != nil {
		h.Close()
		var absent netlink.LinkNotFoundError
		if errors.As(err, &absent) || errors.Is(err, unix.ENODEV) {
			return nil, liveError(name, "", ErrNoInterface, nil)
		}
		return nil, liveError(name, "look it up", nil, err)
	}
	a := l.Attrs()
	d := &device{
		name: a.Name, index: a.Index, mtu: a.MTU, handle: h,
		up: a.Flags&net.FlagUp != 0, lo: a.Flags&net.FlagLoopback != 0,
	}
	d.kind = hardwareType(a.EncapType)
	if a.Statistics != nil {
		d.missed = a.Statistics.RxMissedErrors
	}
	if fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err == nil {
		d.driver = driverOf(fd, name)
		unix.Close(fd)
	}
	d.queues = xsk.QueuesOf(name).RX
	return d, nil
}

// cores are the cores that this process may run on.
func cores() (list []int) {
	var set unix.CPUSet
	if unix.SchedGetaffinity(0, &set) != nil {
		return []int{0}
	}
	for core := 0; len(list) < set.Count(); core++ {
		if set.IsSet(core) {
			list = append(list, core)
		}
	}
	return list
}

// hardwareType is the number of the few hardware types that matter.
func hardwareType(encap string) uint16 {
	switch encap {
	case "ether":
		return unix.ARPHRD_ETHER
	case "loopback":
		return unix.ARPHRD_LOOPBACK
	case "infiniband":
		return unix.ARPHRD_INFINIBAND
	}
	return unix.ARPHRD_VOID
}

// ethernet refuses what is no Ethernet.
func (d *device) ethernet() error {
	switch d.kind {
	case unix.ARPHRD_ETHER, unix.ARPHRD_LOOPBACK:
		return nil
	case unix.ARPHRD_INFINIBAND:
		return liveError(d.name, "it is an InfiniBand interface, whose RDMA traffic no socket sees", ErrNotOffered, nil)
	}
	return liveError(d.name, "it carries no Ethernet frames; capture on the interface below it", ErrNotOffered, nil)
}

// exists says whether the interface is still there, in its namespace.
func (d *device) exists() bool {
	_, err := d.handle.LinkByIndex(d.index)
	var absent netlink.LinkNotFoundError
	return err == nil || !errors.As(err, &absent) && !errors.Is(err, unix.ENODEV)
}

// countDropped notes how many frames the card dropped since the capture began, where it tells.
func (d *device) countDropped(s *LiveStats) {
	if l, err := d.handle.LinkByIndex(d.index); err == nil && l.Attrs().Statistics != nil {
		now := l.Attrs().Statistics.RxMissedErrors
		s.CardDropped = now - min(now, d.missed)
	}
}

// describe is what a capture file says of the interface.
func (d *device) describe(o *LiveOptions) Interface {
	filter := o.Filter
	if strings.TrimSpace(filter) == "" {
		filter = DefaultFilter
	}
	i := Interface{
		Name: d.name, Filter: filter, Hardware: d.driver, Link: dissect.LinkEthernet,
		SnapLen: o.SnapLen, FCSLen: -1, Resolution: resolutionText(9), UnitsPerSecond: nanosPerSecond,
		Description: fmt.Sprintf("engine %s, times by the %s's clock", o.Engine, o.Clock),
		Stats:       noStats,
	}
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		i.OS = unix.ByteSliceToString(u.Sysname[:]) + " " + unix.ByteSliceToString(u.Release[:]) + " " + unix.ByteSliceToString(u.Machine[:])
	}
	return i
}

// askEvery is how often the kernel is asked for the statistics of an interface that is described: whoever reads asks for the
// interfaces at every batch.
const askEvery = 100 * time.Millisecond

// asked is when it was.
type asked time.Time

// due says whether it is time to ask again: it always is when the capture is over, for then that is what is kept.
func (a *asked) due(over error) bool {
	now := time.Now()
	if over == nil && now.Sub(time.Time(*a)) < askEvery {
		return false
	}
	*a = asked(now)
	return true
}

// wakeup is an event that ends a poll from another goroutine.
type wakeup struct{ fd int }

func newWakeup() (wakeup, error) {
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	return wakeup{fd}, err
}

func (w wakeup) ring() {
	one := [8]byte{1}
	_, _ = unix.Write(w.fd, one[:]) // it fails only where it rings already
}

// close closes it, where it was opened at all.
func (w wakeup) close() {
	if w.fd >= 0 {
		unix.Close(w.fd)
	}
}

// setBack is a time that no ring is behind another: a frame that seems to be so late came after the clock was set back.
const setBack = int64(time.Second)

// isLate reports whether a frame of that time is handed out behind later ones.
func isLate(frame, newest int64) bool { return frame < newest && newest-frame < setBack }

// hardwareClock makes a card stamp every frame that arrives.
func hardwareClock(fd int, d *device) error {
	info, err := unix.IoctlGetEthtoolTsInfo(fd, d.name)
	const needs = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	if err != nil || info.So_timestamping&needs != needs {
		return liveError(d.name, "hardware time stamps", ErrNotOffered, err)
	}
	now, err := unix.IoctlGetHwTstamp(fd, d.name)
	if err == nil && now.Rx_filter == unix.HWTSTAMP_FILTER_ALL {
		return nil
	}
	if info.Rx_filters&(1<<unix.HWTSTAMP_FILTER_ALL) == 0 {
		return liveError(d.name, "the card stamps only some kinds of frames", ErrNotOffered, nil)
	}
	want := unix.HwTstampConfig{Rx_filter: unix.HWTSTAMP_FILTER_ALL}
	if now != nil {
		want.Tx_type = now.Tx_type
	}
	if err := unix.IoctlSetHwTstamp(fd, d.name, &want); err != nil {
		if errors.Is(err, unix.EPERM) {
			return liveError(d.name, "switch hardware time stamps on", ErrPrivilege, err)
		}
		return liveError(d.name, "switch hardware time stamps on", ErrNotOffered, err)
	}
	return nil
}
