package captures

import (
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// readCached reads what is in the page cache from f's position on, and never waits: it enters the kernel without a word to
// Go's scheduler, which would otherwise take each read of a hundred microseconds for one that may block, and call another
// thread in. It returns 0 where the next byte is not in the cache, at the end, and where the file system cannot tell; an
// ordinary read says more then.
func readCached(f *os.File, p []byte) int {
	vector := unix.Iovec{Base: unsafe.SliceData(p)}
	vector.SetLen(len(p))
	const current = ^uintptr(0) // the file's position, which moves on
	n, _, errno := unix.RawSyscall6(unix.SYS_PREADV2, f.Fd(), uintptr(unsafe.Pointer(&vector)), 1, current, current, unix.RWF_NOWAIT)
	if errno != 0 {
		return 0
	}
	return int(n)
}
