package index

import (
	"fmt"
	"os"
	"slices"

	"github.com/rocescope/rocescope/captures"
)

// tap is a source that tells the index where frames lie, and of which interfaces.
// With spool it writes those that lie in no file to one.
type tap struct {
	captures.Source
	places *places
	spool  bool
	dir    string

	all []place
	to  *os.File
	at  int64 // length of what was spooled
	buf []byte
	err error
}

// lendingTap is a tap over a source that lends its frames.
type lendingTap struct {
	*tap
	captures.Lender
}

func newTap(src captures.Source, x *Index) captures.Source {
	t := &tap{Source: src, places: x.places, spool: !x.o.Live, dir: x.o.SpoolDir}
	if l, ok := src.(captures.Lender); ok {
		return lendingTap{t, l}
	}
	return t
}

// Progress implements captures.Progresser.
func (t *tap) Progress() (done, total int64) {
	if p, ok := t.Source.(captures.Progresser); ok {
		return p.Progress()
	}
	return 0, 0
}

// Prompt implements captures.Prompter.
func (t *tap) Prompt() bool {
	p, ok := t.Source.(captures.Prompter)
	return ok && p.Prompt()
}

// ReadBatch implements captures.Source.
func (t *tap) ReadBatch(dst []captures.Frame) (int, error) {
	if t.err != nil {
		return 0, t.err
	}
	n, err := t.Source.ReadBatch(dst)
	if n == 0 {
		return n, err
	}
	if t.err = t.take(dst[:n]); t.err != nil {
		return 0, t.err
	}
	return n, err
}

// take spools what has to be. All of it is written when take returns, for readers
// see these frames from then on.
func (t *tap) take(frames []captures.Frame) error {
	faces := t.Source.Interfaces()
	news := len(faces) != len(t.all)
	for _, face := range faces[len(t.all):] {
		t.all = append(t.all, place{face: face})
	}
	if t.spool {
		t.buf = t.buf[:0]
		for i := range frames {
			f := &frames[i]
			if f.Offset != 0 {
				continue
			}
			if t.to == nil {
				var err error
				if t.to, err = temporary(t.dir); err != nil {
					return err
				}
				t.places.keep(t.to)
			}
			if t.all[f.Iface].spool == nil {
				t.all[f.Iface].spool, news = t.to, true
			}
			f.Offset = t.at + int64(len(t.buf))
			t.buf = append(t.buf, f.Data...)
		}
		if len(t.buf) > 0 {
			if _, err := t.to.WriteAt(t.buf, t.at); err != nil {
				return fmt.Errorf("index: packets cannot be spooled (TMPDIR names another folder for that): %w", err)
			}
			t.at += int64(len(t.buf))
			t.places.spooled.Store(t.at)
		}
	}
	if news {
		all := slices.Clone(t.all)
		t.places.known.Store(&all)
	}
	return nil
}
