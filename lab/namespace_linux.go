package lab

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const inside = "ROCESCOPE_LAB_INSIDE"

// Enter puts the rest of the program into a network namespace that has nothing but the program's own, by running the
// program anew in it. In the outer program it does not return; in the inner one it does at once. The namespace has no
// name: with its last process it is gone, and so are its taps.
func Enter() error {
	if os.Getenv(inside) != "" {
		return enterSys()
	}
	if os.Geteuid() != 0 {
		return errors.New("the laboratory makes a network namespace and a tap, for which it must be root")
	}
	runtime.LockOSThread() // the child ends with the thread that started it
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS,
		Pdeathsig:  syscall.SIGKILL,
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("a network namespace for the laboratory: %w", err)
	}
	go func() {
		for s := range signals {
			_ = cmd.Process.Signal(s)
		}
	}()
	_ = cmd.Wait()
	os.Exit(max(cmd.ProcessState.ExitCode(), 0) | exitOfSignal(cmd.ProcessState))
	return nil
}

func exitOfSignal(s *os.ProcessState) int {
	if s.ExitCode() < 0 {
		return 1
	}
	return 0
}

// enterSys gives the namespace its own view of /sys, where interfaces are looked up, and its loopback.
func enterSys() error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping the laboratory's mounts to itself: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("/sys of the laboratory's namespace: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}

// Tap is the host's end of the guest's cable.
type Tap struct {
	Name string
	MAC  [6]byte
}

// newTap makes a tap with the addresses of Host, quiet but for what is sent on purpose.
func newTap(name string) (*Tap, error) {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = name
	link := &netlink.Tuntap{LinkAttrs: attrs, Mode: netlink.TUNTAP_MODE_TAP, Flags: netlink.TUNTAP_NO_PI | netlink.TUNTAP_VNET_HDR}
	if err := netlink.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("a tap for the guest: %w; is /dev/net/tun there?", err)
	}
	for _, setting := range []string{"accept_dad", "router_solicitations", "mldv1_unsolicited_report_interval"} {
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+name+"/"+setting, []byte("0"), 0) // less noise; not every kernel has each
	}
	made, err := netlink.LinkByName(name)
	if err != nil {
		return nil, err
	}
	for _, text := range []string{Host.IP4.String(), Host.IP6.String()} {
		addr, err := netlink.ParseAddr(text)
		if err != nil {
			return nil, err
		}
		addr.Flags = unix.IFA_F_NODAD
		if err := netlink.AddrAdd(made, addr); err != nil {
			return nil, fmt.Errorf("address %s for the tap: %w", text, err)
		}
	}
	if err := netlink.LinkSetMTU(made, MTU); err != nil {
		return nil, err
	}
	if err := netlink.LinkSetUp(made); err != nil {
		return nil, err
	}
	t := &Tap{Name: name}
	copy(t.MAC[:], made.Attrs().HardwareAddr)
	return t, nil
}
