package captures

import (
	"os"
	"runtime"
	"time"
)

const (
	probeSize  = 2 * readBuffer
	probeChunk = 64 << 10
	probeTries = 3
	// mapMargin is how much cheaper a mapping has to be in the trial, in percent of reading, to be worth it. The trial flatters it: the
	// file's bytes are in the processor's cache by then. Where it was a fifth cheaper, checking the ICRCs of a mapped capture of 4 GB
	// took a quarter longer, and without them it was no faster.
	mapMargin = 40
)

// mappingPays says whether it takes less time to map f than to read
// it, by doing both to the first piece of it. Mapping saves the copy that
// read(2) makes, and costs page faults; which is dearer hangs on the machine, and
// by a lot: where a hypervisor mirrors page tables, a mapped page costs several
// copies of its bytes. Trying takes a part of a millisecond.
// The shortest of several tries is what it takes when nobody is in the way.
func mappingPays(f *os.File) bool {
	buf := make([]byte, probeChunk)
	read := func() bool {
		for at := int64(0); at < probeSize; at += probeChunk {
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
			before := time.Now()
			if !way() {
				return false
			}
			if took := time.Since(before); try == 0 || took < least[i] {
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
