package captures

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPrioritize looks at a process in a session of its own, for the priority does
// not go away again.
func TestPrioritize(t *testing.T) {
	if os.Getenv("PRIORITIZED") == "" {
		if nice, err := unix.Getpriority(unix.PRIO_PROCESS, 0); err != nil || unix.Setpriority(unix.PRIO_PROCESS, 0, 20-nice-1) != nil {
			t.Skip("needs CAP_SYS_NICE")
		}
		child := exec.Command(os.Args[0], "-test.run", "^TestPrioritize$", "-test.v")
		child.Env = append(os.Environ(), "PRIORITIZED=1")
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		out, err := child.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestPrioritize") {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	group := func() string {
		text, err := os.ReadFile("/proc/self/autogroup")
		if err != nil {
			return "" // this kernel has none
		}
		words := strings.Fields(string(text))
		return words[len(words)-1]
	}
	before := group()
	restore := Prioritize()
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil || len(threads) < 2 {
		t.Fatalf("%d threads, %v", len(threads), err)
	}
	for _, thread := range threads {
		var id int
		_, _ = fmt.Sscan(thread.Name(), &id)
		if nice, err := unix.Getpriority(unix.PRIO_PROCESS, id); err == nil && 20-nice != priority { // the kernel counts from 1 to 40
			t.Errorf("thread %d: nice %d", id, 20-nice)
		}
	}
	if before != "" && group() != fmt.Sprint(priority) {
		t.Errorf("the session: nice %s", group())
	}
	if restore(); group() != before {
		t.Errorf("behind it the session has nice %s, %s before", group(), before)
	}
}
