//go:build unix

package page

import (
	"fmt"
	"os"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// machine says what all this ran on, as far as it matters.
func machine() string {
	cpu, kind := runtime.GOARCH, ""
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(info)) {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				cpu = strings.TrimSpace(v)
				break
			}
		}
		if strings.Contains(string(info), " hypervisor") {
			kind = ", a virtual machine"
		}
	}
	system := ""
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		release, _, _ := strings.Cut(unix.ByteSliceToString(u.Release[:]), "-") // without what its builder added
		system = ", " + unix.ByteSliceToString(u.Sysname[:]) + " " + release
	}
	load := ""
	if avg, err := os.ReadFile("/proc/loadavg"); err == nil {
		first, _, _ := strings.Cut(string(avg), " ")
		load = fmt.Sprintf(" The load was %s at the end; 1 is what this takes by itself.", first)
	}
	return fmt.Sprintf("Measured on %s/%s, %d processors (%s)%s%s, with %s.%s",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), cpu, kind, system, runtime.Version(), load)
}
