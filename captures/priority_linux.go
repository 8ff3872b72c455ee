package captures

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Prioritize gives all threads of this process, and so those that they start, a
// higher priority (setpriority(2), -10), as far as it is allowed to: a reader that
// shares its cores with the traffic's sender and gets its turn late loses frames
// when the ring is full.
func Prioritize() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		if id, err := strconv.Atoi(t.Name()); err == nil {
			_ = unix.Setpriority(unix.PRIO_PROCESS, id, priority)
		}
	}
}
