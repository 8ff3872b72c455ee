package main

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// dropPrivileges gives up every capability, on all threads and for good: what is open stays open, and nothing that
// packets make this program do can need more. It is called once sockets and files are open.
func dropPrivileges() error {
	if err := noNewPrivileges(); err != nil {
		return err
	}
	if err := allThreads(unix.SYS_PRCTL, unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none[0])), 0)
	if errno != 0 {
		return threadsError(errno)
	}
	_ = denyCalls(true) // on top, where the kernel can
	return nil
}

// noNewPrivileges promises, for every thread, that neither exec nor anything else gives privileges back.
func noNewPrivileges() error { return allThreads(unix.SYS_PRCTL, unix.PR_SET_NO_NEW_PRIVS, 1) }

// allThreads makes a system call on each thread. A build with C has threads that Go does not know, and is refused.
func allThreads(call, a, b uintptr) error {
	_, _, errno := syscall.AllThreadsSyscall6(call, a, b, 0, 0, 0, 0)
	return threadsError(errno)
}

func threadsError(errno syscall.Errno) error {
	switch {
	case errno == 0:
		return nil
	case errno == syscall.ENOTSUP:
		return errors.New("this program was built with C; build it with CGO_ENABLED=0")
	}
	return errno
}

// asInvoker opens files as the user who called sudo, to whom they then belong, and goes on so: files of a series are
// opened when there are no capabilities any more. Where that user may not, it is tried as root.
func asInvoker(open func() error) error {
	uid, err := strconv.Atoi(os.Getenv("SUDO_UID"))
	gid, gerr := strconv.Atoi(os.Getenv("SUDO_GID"))
	if err != nil || gerr != nil || os.Geteuid() != 0 || uid <= 0 {
		return open()
	}
	if err := setFS(uid, gid); err != nil {
		return open()
	}
	err = open()
	if errors.Is(err, os.ErrPermission) && setFS(0, 0) == nil {
		return open()
	}
	return err
}

// setFS changes as whom files are opened.
func setFS(uid, gid int) error {
	if err := allThreads(unix.SYS_SETFSGID, uintptr(gid), 0); err != nil {
		return err
	}
	return allThreads(unix.SYS_SETFSUID, uintptr(uid), 0)
}
