package captures

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"unsafe"
)

// Guard runs fn and returns its error. Where fn touches the Data of a frame
// whose file lost its end meanwhile (memory that is mapped and no longer backed
// by the file), Guard returns a *FileError wrapping ErrTruncated instead of
// letting the program die of SIGBUS. All other panics pass through.
//
// Whoever touches Frame.Data of a Source from Open, on any goroutine, does so
// inside Guard, best a whole batch at a time: it costs tens of nanoseconds. It
// protects the goroutine that calls it only. What fn was doing stays half done.
// System calls given such memory return EFAULT by themselves. A write to Data,
// which nobody may do, looks the same.
func Guard(fn func() error) (err error) {
	old := debug.SetPanicOnFault(true)
	defer func() {
		debug.SetPanicOnFault(old)
		if r := recover(); r != nil {
			if err = faultError(r); err == nil {
				panic(r)
			}
		}
	}()
	return fn()
}

// faultError turns a recovered memory fault in one of our mappings into the
// error that it stands for, and returns nil for everything else.
func faultError(r any) error {
	fault, ok := r.(interface {
		runtime.Error
		Addr() uintptr // see debug.SetPanicOnFault
	})
	if !ok {
		return nil
	}
	m, at, ok := mappings.find(fault.Addr())
	if !ok {
		return nil
	}
	return &FileError{File: m.file, Unit: "mapped data", Offset: at, Err: fmt.Errorf("%w", errShrunk)}
}

// mapping is a stretch of a file in memory.
type mapping struct {
	file   string
	offset int64 // in the file, of data[0]
	data   []byte
}

func (m *mapping) start() uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(m.data))) }

// mappingSet knows what this package has mapped, all sources together: a fault
// has an address only, and may come up on any goroutine. This is the one place
// where that needs state of the whole process; it changes once in 16 MiB.
type mappingSet struct {
	mu  sync.Mutex
	all []mapping
}

var mappings mappingSet

func (s *mappingSet) add(m mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, m)
}

func (s *mappingSet) remove(m mapping) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.all {
		if s.all[i].start() == m.start() {
			s.all[i] = s.all[len(s.all)-1]
			s.all[len(s.all)-1] = mapping{}
			s.all = s.all[:len(s.all)-1]
			return
		}
	}
}

// find returns the mapping that addr lies in, and the file offset there.
func (s *mappingSet) find(addr uintptr) (m mapping, offset int64, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.all {
		// The last page is mapped whole, though the file ends inside it.
		if i := addr - m.start(); addr >= m.start() && i < uintptr(len(m.data)) {
			return m, m.offset + int64(i), true
		}
	}
	return mapping{}, 0, false
}
