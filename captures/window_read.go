package captures

import "io"

// readWindow is a window over a stream: a pipe, a decompressor, a growing file.
type readWindow struct {
	r      io.Reader
	buf    []byte // buf[lo:hi] is what was read and not consumed
	lo, hi int
	err    error // of reading; comes out when the bytes are used up
	closer func() error
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
		consumed -= int64(w.hi - w.lo)
		w.lo, w.hi = 0, 0
		w.read()
	}
	if consumed > int64(w.hi-w.lo) {
		consumed = int64(w.hi - w.lo)
	}
	w.lo += int(consumed)
	if w.hi-w.lo < min {
		w.hi = copy(w.buf, w.buf[w.lo:w.hi])
		w.lo = 0
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
