package captures

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// fileList is a Source over several files, one after the other.
type fileList struct {
	paths []string
	sizes []int64 // for Progress; 0 for what has none
	next  int     // index in paths of the file to open next
	cur   *reader
	base  int         // index of cur's first interface
	past  []Interface // of the files behind us
	err   error

	lends int // see Lend; 0 is 1
	calls int
	left  []*reader // files whose frames are lent
	until []int     // the call at which each of them is closed

	done  atomic.Int64 // bytes of the files behind us
	live  atomic.Pointer[reader]
	total int64
}

// OpenFiles reads several files one after the other, in the order given. They
// are not merged: where their times overlap, times go back at a file's start.
// Interfaces are numbered through. Each file may have a format of its own; "-"
// is standard input.
//
// All files are looked at first, so that one that cannot be read is refused
// before hours go into the others; after that one is open at a time. An error in
// one file is Resumable as long as others follow: the next ReadBatch goes on with
// the rest of the file or with the next one.
func OpenFiles(paths []string) (Source, error) {
	if len(paths) == 0 {
		return nil, errors.New("captures: no file was named")
	}
	if len(paths) == 1 {
		return Open(paths[0])
	}
	l := &fileList{paths: paths, sizes: make([]int64, len(paths))}
	for i, path := range paths {
		st, err := os.Stat(path)
		if path == "-" {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("captures: %w", err)
		}
		if st.IsDir() || st.Mode().IsRegular() {
			r, err := open(path, &openOptions{way: byReading})
			if err != nil {
				return nil, err
			}
			if err := r.Close(); err != nil {
				return nil, fmt.Errorf("captures: %w", err)
			}
			l.sizes[i] = st.Size()
			l.total += st.Size()
		}
	}
	return l, nil
}

// ReadBatch implements Source.
func (l *fileList) ReadBatch(dst []Frame) (int, error) {
	if l.err != nil {
		return 0, l.err
	}
	l.calls++
	for len(l.until) > 0 && l.calls >= l.until[0] {
		l.left[0].Close() // everything was read
		l.left, l.until = l.left[1:], l.until[1:]
	}
	for {
		if l.cur == nil {
			if l.next == len(l.paths) {
				l.err = io.EOF
				return 0, l.err
			}
			path := l.paths[l.next]
			l.next++
			r, err := open(path, &openOptions{})
			if err != nil {
				return 0, l.failed(err)
			}
			if l.lends > 1 {
				r.Lend(l.lends)
			}
			l.cur, l.base = r, len(l.past)
			l.live.Store(r)
		}
		n, err := l.cur.ReadBatch(dst)
		for i := range dst[:n] {
			dst[i].Iface += l.base
		}
		var fe *FileError
		switch {
		case err == nil || errors.As(err, &fe) && fe.Resumable:
			return n, err
		case errors.Is(err, io.EOF):
			err = l.leave()
		default:
			l.leave() // the first error is the one that matters
		}
		if err != nil {
			return 0, l.failed(err)
		}
	}
}

// failed marks the error of a file as one that reading goes on behind, or as
// the last where no file follows.
func (l *fileList) failed(err error) error {
	var fe *FileError
	if l.next == len(l.paths) || !errors.As(err, &fe) {
		l.err = err
		return err
	}
	more := *fe
	more.Resumable = true
	return &more
}

// leave closes the file at hand.
func (l *fileList) leave() error {
	l.past = append(l.past, l.cur.Interfaces()...)
	l.live.Store(nil)
	l.done.Add(l.sizes[l.next-1])
	cur := l.cur
	l.cur = nil
	if l.lends > 1 && l.err == nil {
		l.left, l.until = append(l.left, cur), append(l.until, l.calls+l.lends-1)
		return nil
	}
	if err := cur.Close(); err != nil {
		return fmt.Errorf("captures: %w", err)
	}
	return nil
}

// Interfaces implements Source.
func (l *fileList) Interfaces() []Interface {
	all := l.past[:len(l.past):len(l.past)]
	if l.cur != nil {
		all = append(all, l.cur.Interfaces()...)
	}
	return all
}

// Lend implements Lender.
func (l *fileList) Lend(n int) { l.lends = n }

// Progress implements Progresser.
func (l *fileList) Progress() (done, total int64) {
	done = l.done.Load()
	if r := l.live.Load(); r != nil {
		now, _ := r.Progress()
		done += now
	}
	return min(done, l.total), l.total
}

// Close implements Source.
func (l *fileList) Close() error {
	l.next, l.err = len(l.paths), errClosed
	var errs []error
	for _, r := range l.left {
		errs = append(errs, r.Close())
	}
	l.left, l.until = nil, nil
	if l.cur != nil {
		errs = append(errs, l.leave())
	}
	return errors.Join(errs...)
}
