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
// program anew in it, and returns the guest that is to run there. In the outer program, which has the network that building
// the guest may need, it does not return. The namespace has no name: with its last process it is gone, and so are its taps.
func Enter(build func() (*Image, error)) (*Image, error) {
	if folder := os.Getenv(inside); folder != "" {
		image, err := open(folder)
		if err != nil {
			return nil, err
		}
		return image, enterMounts(image)
	}
	if os.Geteuid() != 0 {
		return nil, errors.New("the laboratory makes a network namespace and a tap, for which it must be root")
	}
	image, err := build()
	if err != nil {
		return nil, err
	}
	return nil, again(image)
}

// again runs this program once more, in a namespace of its own, and ends with it.
func again(image *Image) error {
	runtime.LockOSThread() // the child ends with the thread that started it
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"="+image.Folder)
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
	code := cmd.ProcessState.ExitCode()
	if code < 0 { // a signal
		code = 1
	}
	os.Exit(code)
	return nil
}

// enterMounts gives the namespace its own view of /sys, where interfaces are looked up, a place for files that ends with it,
// and its loopback.
func enterMounts(image *Image) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keeping the laboratory's mounts to itself: %w", err)
	}
	if err := unix.Mount("sysfs", "/sys", "sysfs", 0, ""); err != nil {
		return fmt.Errorf("/sys of the laboratory's namespace: %w", err)
	}
	if err := os.MkdirAll(image.Scratch(), 0o755); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", image.Scratch(), "tmpfs", 0, ""); err != nil {
		return fmt.Errorf("a place for the laboratory's files: %w", err)
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	return netlink.LinkSetUp(lo)
}
