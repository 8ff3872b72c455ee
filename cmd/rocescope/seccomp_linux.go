package main

import (
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// deniedCalls are the system calls that a process gives up for good (seccomp), by what is left for it to do: once its sockets are
// open, and where it only reads files. Whatever a packet or a file makes it do, it is not one of these. The capture engine xdp
// reads its counters by bpf, which is why that is only for those who read files.
var deniedCalls = []struct {
	name string
	call uint32
	live bool // denied to those with sockets, too
}{
	{"execve", unix.SYS_EXECVE, true},
	{"execveat", unix.SYS_EXECVEAT, true},
	{"ptrace", unix.SYS_PTRACE, true},
	{"process_vm_readv", unix.SYS_PROCESS_VM_READV, true},
	{"process_vm_writev", unix.SYS_PROCESS_VM_WRITEV, true},
	{"mount", unix.SYS_MOUNT, true},
	{"umount2", unix.SYS_UMOUNT2, true},
	{"move_mount", unix.SYS_MOVE_MOUNT, true},
	{"open_tree", unix.SYS_OPEN_TREE, true},
	{"fsopen", unix.SYS_FSOPEN, true},
	{"pivot_root", unix.SYS_PIVOT_ROOT, true},
	{"chroot", unix.SYS_CHROOT, true},
	{"unshare", unix.SYS_UNSHARE, true},
	{"setns", unix.SYS_SETNS, true},
	{"init_module", unix.SYS_INIT_MODULE, true},
	{"finit_module", unix.SYS_FINIT_MODULE, true},
	{"delete_module", unix.SYS_DELETE_MODULE, true},
	{"kexec_load", unix.SYS_KEXEC_LOAD, true},
	{"perf_event_open", unix.SYS_PERF_EVENT_OPEN, true},
	{"userfaultfd", unix.SYS_USERFAULTFD, true},
	{"io_uring_setup", unix.SYS_IO_URING_SETUP, true},
	{"keyctl", unix.SYS_KEYCTL, true},
	{"add_key", unix.SYS_ADD_KEY, true},
	{"request_key", unix.SYS_REQUEST_KEY, true},
	{"open_by_handle_at", unix.SYS_OPEN_BY_HANDLE_AT, true},
	{"bpf", unix.SYS_BPF, false},
	{"socket", unix.SYS_SOCKET, false},
	{"socketpair", unix.SYS_SOCKETPAIR, false},
	{"connect", unix.SYS_CONNECT, false},
	{"bind", unix.SYS_BIND, false},
	{"listen", unix.SYS_LISTEN, false},
	{"accept", unix.SYS_ACCEPT, false},
	{"accept4", unix.SYS_ACCEPT4, false},
}

// ownProcess says that the program is the process, and not a test within one, which has more to do afterwards.
var ownProcess bool

// denyCalls makes the kernel refuse deniedCalls to every thread, from now on; live says that sockets are still in use. A kernel
// without seccomp refuses nothing, and nothing else is different there.
func denyCalls(live bool) error {
	if !ownProcess {
		return nil
	}
	code, err := deniedProgram(live)
	if err != nil || code == nil {
		return err
	}
	filters := make([]unix.SockFilter, len(code))
	for i, c := range code {
		filters[i] = unix.SockFilter{Code: c.Op, Jt: c.Jt, Jf: c.Jf, K: c.K}
	}
	program := unix.SockFprog{Len: uint16(len(filters)), Filter: &filters[0]}
	runtime.LockOSThread() // the promise below is of the thread that asks
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("promise to need no more privileges: %w", err)
	}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&program)))
	switch {
	case errno != 0:
		return fmt.Errorf("give up system calls: %w", errno)
	case thread != 0:
		return fmt.Errorf("give up system calls: thread %d has rules of its own", thread)
	}
	return nil
}

// haveSeccomp says whether denyCalls has an effect here: the kernel has filters, and their program is for this processor. It asks
// for one without installing it: a filter at no address.
func haveSeccomp() bool {
	_, known := auditArch[runtime.GOARCH]
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, 0)
	return known && errno == unix.EFAULT
}

// auditArch are the processors whose numbers of system calls deniedProgram knows.
var auditArch = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// foreignCalls is where amd64's second set of numbers begins, of programs with small pointers. On arm64 there are none.
const foreignCalls = 0x40000000

// deniedProgram is the filter: numbers of another architecture are refused whatever they are. It is nil on other processors.
func deniedProgram(live bool) ([]bpf.RawInstruction, error) {
	arch, ok := auditArch[runtime.GOARCH]
	if !ok {
		return nil, nil
	}
	const offsetNumber, offsetArch = 0, 4 // in the kernel's seccomp_data
	deny := bpf.RetConstant{Val: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)}
	code := []bpf.Instruction{
		bpf.LoadAbsolute{Off: offsetArch, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpEqual, Val: arch, SkipTrue: 1},
		deny,
		bpf.LoadAbsolute{Off: offsetNumber, Size: 4},
		bpf.JumpIf{Cond: bpf.JumpLessThan, Val: foreignCalls, SkipTrue: 1},
		deny,
	}
	for _, d := range deniedCalls {
		if d.live || !live {
			code = append(code, bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: d.call, SkipTrue: 1}, deny)
		}
	}
	return bpf.Assemble(append(code, bpf.RetConstant{Val: unix.SECCOMP_RET_ALLOW}))
}
