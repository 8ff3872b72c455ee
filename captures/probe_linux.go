package captures

import (
	"os"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

const (
	probeSize  = 1 << 20
	probeTries = 3
	// mapMargin is how much cheaper a mapping has to be, in percent of reading,
	// to be worth that a file which is cut under it faults.
	mapMargin = 20
)

// mappingPays says whether it takes less processor time to map f than to read
// it, by doing both to the first piece of it. Mapping saves the copy that
// read(2) makes, and costs page faults; which is dearer hangs on the machine, and
// by a lot: where a hypervisor mirrors page tables, a mapped page costs several
// copies of its bytes. Trying takes a millisecond or two.
func mappingPays(f *os.File) bool {
	runtime.LockOSThread() // whose clock it is
	defer runtime.UnlockOSThread()
	buf := make([]byte, readBuffer)
	read := func() bool {
		for at := int64(0); at < probeSize; at += readBuffer {
			if n, _ := f.ReadAt(buf, at); n < len(buf) {
				return false
			}
			touch(buf)
		}
		return true
	}
	mapped := func() bool {
		w, err := newMmapWindow(f, f.Name(), probeSize)
		if err != nil {
			return false
		}
		defer w.unmap()
		return Guard(func() error { touch(w.bytes()); return nil }) == nil
	}
	if !read() { // the first time, it may have to come from a disk
		return false
	}
	var least [2]time.Duration
	for try := range probeTries {
		for i, way := range [...]func() bool{read, mapped} {
			before := threadTime()
			if !way() {
				return false
			}
			if took := threadTime() - before; try == 0 || took < least[i] {
				least[i] = took
			}
		}
	}
	return least[1]*100 < least[0]*(100-mapMargin)
}

// touch reads one byte of each line of the cache, as whoever looks at frames will.
func touch(b []byte) {
	var sum byte
	for i := 0; i < len(b); i += 64 {
		sum += b[i]
	}
	runtime.KeepAlive(sum)
}

// threadTime is the processor time of this thread so far.
func threadTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
