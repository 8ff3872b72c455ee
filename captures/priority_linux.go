package captures

import (
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Prioritize gives all threads of this process, and so those that they start, a
// higher priority (nice -10), as far as it is allowed to: a reader that shares its
// cores with the traffic's sender and gets its turn late loses frames when the
// ring is full. Kernels that share cores among sessions first, and among the
// processes of a session then (CONFIG_SCHED_AUTOGROUP), are told it of the session;
// restore takes that back. Privileges must not have been dropped before.
func Prioritize() (restore func()) {
	for range 2 { // a thread may begin while they are counted
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			if id, err := strconv.Atoi(t.Name()); err == nil {
				_ = unix.Setpriority(unix.PRIO_PROCESS, id, priority)
			}
		}
	}
	group, err := os.OpenFile("/proc/self/autogroup", os.O_RDWR, 0)
	if err != nil {
		return func() {}
	}
	text := make([]byte, 64)
	n, _ := group.Read(text) // "/autogroup-17 nice 0"
	words := strings.Fields(string(text[:n]))
	if _, err := group.WriteString(strconv.Itoa(priority)); err != nil || len(words) == 0 {
		_ = group.Close()
		return func() {}
	}
	return func() {
		_, _ = group.WriteString(words[len(words)-1])
		_ = group.Close()
	}
}
