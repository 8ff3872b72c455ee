package captures

import "golang.org/x/sys/unix"

// mapFlags share the page cache's own pages.
const mapFlags = unix.MAP_SHARED

// advise tells the kernel that data is read once, from front to back.
func advise(data []byte) {
	_ = unix.Madvise(data, unix.MADV_SEQUENTIAL)
}
