package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func kernelRelease() string {
	var u unix.Utsname
	if unix.Uname(&u) != nil {
		return "unknown"
	}
	return "Linux " + unix.ByteSliceToString(u.Release[:])
}

// capabilityNames are those that matter here, by their numbers.
var capabilityNames = map[uint]string{
	unix.CAP_NET_ADMIN: "CAP_NET_ADMIN", unix.CAP_NET_RAW: "CAP_NET_RAW", unix.CAP_IPC_LOCK: "CAP_IPC_LOCK", unix.CAP_BPF: "CAP_BPF",
}

// effectiveCapabilities are those of capabilityNames that this process has.
func effectiveCapabilities() (names []string) {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(text), "\nCapEff:\t")
	line, _, _ := strings.Cut(rest, "\n")
	set, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return nil
	}
	for bit, name := range capabilityNames {
		if set&(1<<bit) != 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

const rdmaClass = "/sys/class/infiniband"

// rdmaDevices are the RDMA devices that are bound to an interface: those of its card, and software ones above it.
func rdmaDevices(name string) (devices []string) {
	all, err := os.ReadDir(rdmaClass)
	if err != nil {
		return nil
	}
	for _, d := range all {
		dir := filepath.Join(rdmaClass, d.Name())
		parent, _ := os.ReadFile(filepath.Join(dir, "parent"))
		_, err := os.Stat(filepath.Join(dir, "device", "net", name))
		bound, _ := filepath.Glob(filepath.Join(dir, "ports", "*", "gid_attrs", "ndevs", "0"))
		is := err == nil || strings.TrimSpace(string(parent)) == name
		for _, file := range bound {
			ndev, err := os.ReadFile(file)
			is = is || err == nil && strings.TrimSpace(string(ndev)) == name
		}
		if is {
			devices = append(devices, d.Name())
		}
	}
	return devices
}

// isSoftRDMA says whether an RDMA device is software: those have no device of the bus below them.
func isSoftRDMA(device string) bool {
	_, err := os.Stat(filepath.Join(rdmaClass, device, "device"))
	return os.IsNotExist(err)
}

// hardwareTimes says whether the card can stamp every packet that arrives, and by which clock.
func hardwareTimes(name string) (offered bool, phc int32) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, -1
	}
	defer unix.Close(fd)
	info, err := unix.IoctlGetEthtoolTsInfo(fd, name)
	if err != nil {
		return false, -1
	}
	const needs = unix.SOF_TIMESTAMPING_RX_HARDWARE | unix.SOF_TIMESTAMPING_RAW_HARDWARE
	return info.So_timestamping&needs == needs && info.Rx_filters&(1<<unix.HWTSTAMP_FILTER_ALL) != 0, info.Phc_index
}
