//go:build darwin || freebsd || netbsd || openbsd || dragonfly

package captures

import "golang.org/x/sys/unix"

// mapFlags share the page cache's own pages.
const mapFlags = unix.MAP_SHARED

// advise does nothing here: only Linux was measured.
func advise([]byte) {}
