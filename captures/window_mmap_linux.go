package captures

import "golang.org/x/sys/unix"

// mapFlags share the page cache's own pages.
const mapFlags = unix.MAP_SHARED

// advise tells the kernel that data is read once, from front to back, and has
// it map all pages at once: faults one by one cost more, above all in a virtual
// machine. Kernels before 5.14 cannot do the second and need not.
func advise(data []byte) {
	_ = unix.Madvise(data, unix.MADV_SEQUENTIAL)
	_ = unix.Madvise(data, unix.MADV_POPULATE_READ)
}
