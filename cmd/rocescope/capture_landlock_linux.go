package main

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fence keeps a command from the file system but for a few files and folders, and from making or taking TCP connections but to a
// few ports (Landlock).
// Whatever packets make this program do, it cannot read or change a file with it. What is open stays open.
type fence struct{ ruleset int }

// Landlock's rights, by the version that brought them. A kernel is only asked for those that it knows.
var landlockRights = []struct {
	since   int
	fs, net uint64
}{
	{1, unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM, 0},
	{2, unix.LANDLOCK_ACCESS_FS_REFER, 0},
	{3, unix.LANDLOCK_ACCESS_FS_TRUNCATE, 0},
	{4, 0, unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP},
	{5, unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, 0},
}

// landlockInFolder is what series of files need: to make them and folders for them, to overwrite and rename them, and to delete
// the oldest.
const landlockInFolder = unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
	unix.LANDLOCK_ACCESS_FS_REMOVE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_MAKE_DIR

// landlockBack is what it takes besides to read what was made there, and to clear it away.
const landlockBack = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR

// landlockVersion is what this kernel has of Landlock, 0 for nothing.
func landlockVersion() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// landlockZones is where the time zones of database servers are looked up.
const landlockZones = "/usr/share/zoneinfo"

// newFence prepares a fence around what stays within reach. A kernel without Landlock gives nil.
func newFence(r reach) (*fence, error) {
	version := landlockVersion()
	if version == 0 {
		return nil, nil
	}
	var handled unix.LandlockRulesetAttr
	for _, r := range landlockRights {
		if r.since <= version {
			handled.Handled_access_fs |= r.fs
			handled.Handled_access_net |= r.net
		}
	}
	ruleset, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&handled)), unsafe.Sizeof(handled), 0)
	if errno != 0 {
		return nil, fmt.Errorf("make rules for Landlock: %w", errno)
	}
	f := &fence{int(ruleset)}
	inFolder := uint64(landlockInFolder)
	if r.back {
		inFolder |= landlockBack
	}
	for _, file := range r.read {
		access := uint64(unix.LANDLOCK_ACCESS_FS_READ_FILE)
		if info, err := os.Stat(file); err == nil && info.IsDir() {
			access |= unix.LANDLOCK_ACCESS_FS_READ_DIR // it is no capture, which is to be said
		}
		// A pipe has no place in the file system, and stays open to whoever has it.
		if err := f.allow(file, access); err != nil && !errors.Is(err, unix.EBADFD) {
			return nil, errors.Join(err, unix.Close(f.ruleset))
		}
	}
	for _, folder := range r.folders {
		if err := f.allow(folder, inFolder&handled.Handled_access_fs); err != nil {
			return nil, errors.Join(err, unix.Close(f.ruleset))
		}
	}
	if len(r.ports) > 0 {
		// Without the zones a server's times would not read; where there are none, no rule is needed.
		_ = f.allow(landlockZones, (unix.LANDLOCK_ACCESS_FS_READ_FILE|unix.LANDLOCK_ACCESS_FS_READ_DIR)&handled.Handled_access_fs)
	}
	for _, port := range r.ports {
		if handled.Handled_access_net == 0 {
			break // this kernel's Landlock does not know networks
		}
		rule := landlockNetPort{allowed: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP, port: uint64(port)}
		if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, ruleset, landlockRuleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
			return nil, errors.Join(fmt.Errorf("a rule of Landlock for port %d: %w", port, errno), unix.Close(f.ruleset))
		}
	}
	return f, nil
}

// landlockNetPort is the kernel's landlock_net_port_attr, of rules of the type LANDLOCK_RULE_NET_PORT.
type landlockNetPort struct{ allowed, port uint64 }

const landlockRuleNetPort = 2

// allow lets a file or a folder stay within reach.
func (f *fence) allow(path string, access uint64) error {
	place, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s for Landlock: %w", path, err)
	}
	defer unix.Close(place)
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access, Parent_fd: int32(place)}
	if _, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(f.ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0); errno != 0 {
		return fmt.Errorf("a rule of Landlock for %s: %w", path, errno)
	}
	return nil
}

// enter closes the fence behind every thread, for good. It takes the promise of noNewPrivileges.
func (f *fence) enter() error {
	if f == nil {
		return nil
	}
	err := allThreads(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(f.ruleset), 0)
	return errors.Join(err, unix.Close(f.ruleset))
}
