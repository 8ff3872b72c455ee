package captures

import "io"

// readWindow is a window over a stream: a pipe, a decompressor, a growing file.
type readWindow struct {
	r      io.Reader
	buf    []byte // buf[lo:hi] is what was read and not consumed
	lo, hi int
	err    error // of reading; comes out when the bytes are used up
	closer func() error

	spare [][]byte // buffers that are lent, the one that comes back first in front
	lent  bool     // so is buf
}

func newReadWindow(r io.Reader, closer func() error) *readWindow {
	return &readWindow{r: r, closer: closer}
}

// fill reads until min bytes are there and no further, so that what a pipe has
// is delivered before more is waited for.
func (w *readWindow) fill(consumed int64, min int) ([]byte, error) {
	if w.buf == nil {
		w.buf = make([]byte, readBuffer)
	}
	for consumed > int64(w.hi-w.lo) && w.err == nil {
		w.buf = w.other()
		consumed -= int64(w.hi - w.lo)
		w.lo, w.hi = 0, 0
		w.read()
	}
	if consumed > int64(w.hi-w.lo) {
		consumed = int64(w.hi - w.lo)
	}
	w.lo += int(consumed)
	if w.hi-w.lo < min {
		to := w.other()
		w.hi = copy(to, w.buf[w.lo:w.hi])
		w.buf, w.lo = to, 0
	}
	for w.hi-w.lo < min && w.err == nil {
		if w.hi == len(w.buf) {
			w.buf = append(w.buf, make([]byte, len(w.buf))...)
		}
		w.read()
	}
	if w.hi-w.lo < min {
		return w.buf[w.lo:w.hi], w.err
	}
	return w.buf[w.lo:w.hi], nil
}

// other is a buffer that nobody looks at any more, with room for what is left.
func (w *readWindow) other() []byte {
	if !w.lent {
		return w.buf
	}
	w.lent = false
	to := w.spare[0]
	copy(w.spare, w.spare[1:])
	w.spare[len(w.spare)-1] = w.buf
	if left := w.hi - w.lo; len(to) < left || to == nil {
		to = make([]byte, max(readBuffer, len(w.buf)))
	}
	return to
}

func (w *readWindow) lend(n int) { w.spare = make([][]byte, n-1) }

func (w *readWindow) turn() { w.lent = len(w.spare) > 0 }

// read appends one read's worth of bytes.
func (w *readWindow) read() {
	for range 100 {
		var n int
		n, w.err = w.r.Read(w.buf[w.hi:])
		w.hi += n
		if n > 0 || w.err != nil {
			return
		}
	}
	w.err = io.ErrNoProgress
}

func (w *readWindow) size() (int64, bool) { return 0, false }

func (w *readWindow) close() error { return w.closer() }
