//go:build unix

package measure

import (
	"time"

	"golang.org/x/sys/unix"
)

// Spent is the processor time of this process so far, of all its threads: the garbage collector's is part of the price, and a virtual
// link's receiving half, which runs inside of the sender's system call.
func Spent() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
