//go:build linux || darwin || freebsd || netbsd || openbsd || dragonfly

package captures

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// mmapWindow is a window over a regular file: a mapping of mapWindow bytes that
// slides along, so that resident memory does not grow with the file.
type mmapWindow struct {
	f      *os.File
	fd     int
	st     unix.Stat_t // scratch, so that looking at the size allocates nothing
	name   string
	pos    int64   // file offset of the window's start
	length int64   // of the file, as last seen
	cut    bool    // the file was seen to shrink
	m      mapping // what is mapped
	span   int     // bytes to map at a time

	lends int       // turns for which a mapping stays behind the one in which it was in use
	turns int       // so far
	past  []mapping // lent ones
	ends  []int     // the turn at which each of them goes
}

// newMmapWindow refuses files that cannot be mapped; they are read instead.
func newMmapWindow(f *os.File, name string, span int) (*mmapWindow, error) {
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	w := &mmapWindow{f: f, fd: int(f.Fd()), name: name, span: span, length: st.Size()}
	if w.length > 0 {
		if err := w.slide(1); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *mmapWindow) fill(consumed int64, min int) ([]byte, error) {
	w.pos += consumed
	if b := w.bytes(); len(b) >= min {
		return b, nil
	}
	if n, ok := w.size(); ok {
		w.cut = w.cut || n < w.length
		w.length = n
	}
	if err := w.slide(min); err != nil {
		return nil, err
	}
	b := w.bytes()
	switch {
	case len(b) >= min:
		return b, nil
	case w.cut:
		return b, errShrunk
	}
	return b, io.EOF
}

// bytes is the mapping from the window's start on.
func (w *mmapWindow) bytes() []byte {
	if i := w.pos - w.m.offset; i >= 0 && i < int64(len(w.m.data)) {
		return w.m.data[i:]
	}
	return nil
}

// slide maps the file from the page that holds the window's start.
func (w *mmapWindow) slide(need int) error {
	if err := w.retire(); err != nil {
		return err
	}
	page := int64(os.Getpagesize() - 1)
	start := w.pos &^ page
	end := (max(start+int64(w.span), w.pos+int64(need)) + page) &^ page
	if end > w.length {
		end = w.length
	}
	if end <= w.pos {
		return nil
	}
	data, err := unix.Mmap(w.fd, start, int(end-start), unix.PROT_READ, mapFlags)
	if err != nil {
		return os.NewSyscallError("mmap", err)
	}
	advise(data)
	w.m = mapping{file: w.name, offset: start, data: data}
	mappings.add(w.m)
	return nil
}

// retire is done with the mapping, and unmaps it unless it is lent.
func (w *mmapWindow) retire() error {
	if w.lends == 0 {
		return w.unmap()
	}
	if w.m.data != nil {
		w.past, w.ends = append(w.past, w.m), append(w.ends, w.turns+w.lends)
		w.m = mapping{}
	}
	return nil
}

func (w *mmapWindow) lend(n int) { w.lends = n - 1 }

func (w *mmapWindow) turn() {
	w.turns++
	for len(w.ends) > 0 && w.turns >= w.ends[0] {
		w.past[0].unmap() // an address that is not mapped any more is no reason to stop
		w.past, w.ends = append(w.past[:0], w.past[1:]...), append(w.ends[:0], w.ends[1:]...)
	}
}

// unmap unmaps what is mapped now.
func (w *mmapWindow) unmap() error {
	m := w.m
	w.m = mapping{}
	return m.unmap()
}

// unmap forgets the mapping, if it is one.
func (m mapping) unmap() error {
	if m.data == nil {
		return nil
	}
	mappings.remove(m)
	return os.NewSyscallError("munmap", unix.Munmap(m.data))
}

func (w *mmapWindow) size() (int64, bool) {
	if err := unix.Fstat(w.fd, &w.st); err != nil {
		return 0, false
	}
	return w.st.Size, true
}

func (w *mmapWindow) close() error {
	errs := []error{w.unmap()}
	for _, m := range w.past {
		errs = append(errs, m.unmap())
	}
	w.past, w.ends = nil, nil
	return errors.Join(append(errs, w.f.Close())...)
}
