package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

var mounts = []struct{ what, where string }{
	{"proc", "/proc"},
	{"sysfs", "/sys"},
	{"devtmpfs", "/dev"},
	{"tmpfs", "/dev/shm"},
	{"tmpfs", "/run"},
	{"tmpfs", "/tmp"},
}

// settings of the kernel: what is on the wire shall be what the programs send.
var settings = []string{
	"net/ipv6/conf/all/accept_dad=0",
	"net/ipv6/conf/default/accept_dad=0",
	"net/ipv6/conf/default/router_solicitations=0",
	"net/ipv6/conf/default/mldv1_unsolicited_report_interval=0",
}

func prepare() error {
	for _, m := range mounts {
		if err := os.MkdirAll(m.where, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(m.what, m.where, m.what, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.where, err)
		}
	}
	os.Setenv("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
	os.Setenv("HOME", "/")
	os.Setenv("LC_ALL", "C")
	if err := loadModules(); err != nil {
		return err
	}
	infinite := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &infinite); err != nil {
		return err
	}
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		_ = os.WriteFile("/proc/sys/"+name, []byte(value), 0) // not every kernel has every one
	}
	return network()
}

// loadModules loads what the image lists, each after those that it needs. A module whose hardware or CPU feature is
// missing is none that the guest needs.
func loadModules() error {
	list, err := os.Open("/modules/order")
	if err != nil {
		return err
	}
	defer list.Close()
	for in := bufio.NewScanner(list); in.Scan(); {
		if err := loadModule(filepath.Join("/modules", in.Text())); err != nil {
			return err
		}
	}
	return nil
}

func loadModule(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	err = unix.FinitModule(int(f.Fd()), "", 0)
	if err == nil || errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	return fmt.Errorf("loading %s: %w", filepath.Base(file), err)
}

// network gives the card its addresses and the RDMA device, as the kernel's command line says.
func network() error {
	given := map[string]string{}
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	for _, word := range strings.Fields(string(line)) {
		if name, value, ok := strings.Cut(word, "="); ok {
			given[name] = value
		}
	}
	commands := []string{
		"ip link set lo up",
		"ethtool -K eth0 tx off rx off tso off gso off gro off",
		"ip link set eth0 mtu " + given["lab.mtu"] + " up",
		"ip addr add " + given["lab.ip4"] + " dev eth0",
		"ip addr add " + given["lab.ip6"] + " dev eth0 nodad",
		"rdma link add rxe0 type rxe netdev eth0",
	}
	for _, c := range commands {
		words := strings.Fields(c)
		if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w: %s", c, err, bytes.TrimSpace(out))
		}
	}
	return nil
}
