package xsk

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// hugePage is the alignment of a length that is mapped from huge pages: the usual size on x86-64 and arm64. Where huge
// pages are larger, the mapping is refused and the error says so.
const hugePage = 2 << 20

// NewUMEM maps memory for frames. Sockets register it with the kernel when they are opened.
func NewUMEM(options UMEMOptions) (*UMEM, error) {
	if err := options.complete(); err != nil {
		return nil, err
	}
	size := options.Chunks * options.ChunkSize
	flags := unix.MAP_PRIVATE | unix.MAP_ANONYMOUS
	what := fmt.Sprintf("map %d KiB", size>>10)
	if options.HugePages {
		size = (size + hugePage - 1) &^ (hugePage - 1)
		flags |= unix.MAP_HUGETLB | 21<<unix.MAP_HUGE_SHIFT
		what += " of huge pages"
	}
	mem, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE, flags)
	if err != nil {
		e := &Error{Op: what, Err: err}
		if errors.Is(err, unix.ENOMEM) || errors.Is(err, unix.EAGAIN) {
			e.Kind = ErrMemory
		}
		if options.HugePages {
			e.Hint = fmt.Sprintf("reserve them: sysctl vm.nr_hugepages=%d", size/hugePage)
		}
		return nil, e
	}
	if !options.HugePages && size >= hugePage {
		_ = unix.Madvise(mem, unix.MADV_HUGEPAGE) // where the kernel gives some: frames lie all over the memory, at a TLB miss each
	}
	if unix.Madvise(mem, unix.MADV_POPULATE_WRITE) != nil { // Linux 5.14
		for i := 0; i < size; i += os.Getpagesize() {
			mem[i] = 0
		}
	}
	return newUMEM(mem, options), nil
}

func unmap(mem []byte) error {
	if mem == nil {
		return nil
	}
	return unix.Munmap(mem)
}
