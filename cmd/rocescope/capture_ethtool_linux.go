package main

import (
	"encoding/binary"
	"unsafe"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// askCard asks the driver of an interface, and devlink.
func askCard(name string) (c card) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return c
	}
	defer unix.Close(fd)
	ask := func(data unsafe.Pointer) bool {
		var ifr struct { // struct ifreq
			name [unix.IFNAMSIZ]byte
			data unsafe.Pointer
			_    [16]byte
		}
		copy(ifr.name[:unix.IFNAMSIZ-1], name)
		ifr.data = data
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), unix.SIOCETHTOOL, uintptr(unsafe.Pointer(&ifr)))
		return errno == 0
	}
	if info, err := unix.IoctlGetEthtoolDrvinfo(fd, name); err == nil {
		c.bus = unix.ByteSliceToString(info.Bus_info[:])
	}

	channels := struct{ cmd, maxRX, maxTX, maxOther, maxCombined, rx, tx, other, combined uint32 }{cmd: unix.ETHTOOL_GCHANNELS}
	if ask(unsafe.Pointer(&channels)) {
		c.rx, c.maxRX, c.combined = channels.rx+channels.combined, max(channels.maxRX, channels.maxCombined), channels.combined
	}
	rings := struct{ cmd, maxRX, maxMini, maxJumbo, maxTX, rx, mini, jumbo, tx uint32 }{cmd: unix.ETHTOOL_GRINGPARAM}
	if ask(unsafe.Pointer(&rings)) {
		c.ring, c.maxRing = rings.rx, rings.maxRX
	}
	pause := struct{ cmd, auto, rx, tx uint32 }{cmd: unix.ETHTOOL_GPAUSEPARAM}
	if ask(unsafe.Pointer(&pause)) {
		c.pauseKnown, c.swallowing = true, pause.rx != 0
	}
	flags := struct{ cmd, data uint32 }{cmd: unix.ETHTOOL_GFLAGS}
	if ask(unsafe.Pointer(&flags)) {
		const rxVLAN, lro = 1 << 8, 1 << 15 // ETH_FLAG_…
		c.rxVLAN, c.lro = flags.data&rxVLAN != 0, flags.data&lro != 0
	}
	// struct ethtool_rxnfc: command, flow type, data, a flow, the number of rules.
	const rulesAt, rxnfcSize, udp4, ports = 184, 192, 0x02, 0x3 << 6
	hash := make([]byte, rxnfcSize)
	binary.NativeEndian.PutUint32(hash, unix.ETHTOOL_GRXFH)
	binary.NativeEndian.PutUint32(hash[4:], udp4)
	if ask(unsafe.Pointer(&hash[0])) {
		c.hashKnown, c.hashPorts = true, binary.NativeEndian.Uint64(hash[8:])&ports == ports
	}
	rules := make([]byte, rxnfcSize)
	binary.NativeEndian.PutUint32(rules, unix.ETHTOOL_GRXCLSRLCNT)
	if ask(unsafe.Pointer(&rules[0])) {
		c.rules = binary.NativeEndian.Uint32(rules[rulesAt:])
	}
	c.speed = askSpeed(ask)
	c.askDevlink()
	return c
}

// askSpeed asks twice: the kernel first says, as a negative number, how long its lists of link modes are.
func askSpeed(ask func(unsafe.Pointer) bool) uint32 {
	const header, wordsAt, unknown = 48, 18, 1<<32 - 1 // struct ethtool_link_settings
	settings := make([]byte, header+3*4*127)
	binary.NativeEndian.PutUint32(settings, unix.ETHTOOL_GLINKSETTINGS)
	if !ask(unsafe.Pointer(&settings[0])) || int8(settings[wordsAt]) >= 0 {
		return 0
	}
	words := -int8(settings[wordsAt])
	clear(settings)
	binary.NativeEndian.PutUint32(settings, unix.ETHTOOL_GLINKSETTINGS)
	settings[wordsAt] = byte(words)
	if !ask(unsafe.Pointer(&settings[0])) {
		return 0
	}
	if speed := binary.NativeEndian.Uint32(settings[4:]); speed != unknown {
		return speed
	}
	return 0
}

// askDevlink asks whether the card does RoCE.
func (c *card) askDevlink() {
	if c.bus == "" {
		return
	}
	p, err := netlink.DevlinkGetDeviceParamByName("pci", c.bus, "enable_roce")
	if err != nil {
		return
	}
	for _, v := range p.Values {
		// The one that counts now, where it is told.
		if on, ok := v.Data.(bool); ok && (!c.roceKnown || v.CMODE == nl.DEVLINK_PARAM_CMODE_RUNTIME) {
			c.roceKnown, c.roce = true, on
		}
	}
}
