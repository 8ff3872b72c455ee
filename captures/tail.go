package captures

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// tailInterval is how often a file that one waits for is looked at. It is
// polled, for that works on every file system.
const tailInterval = 100 * time.Millisecond

// tail reads a growing file: it has no end until ctx is done.
type tail struct {
	f   *os.File
	ctx context.Context
	off int64
}

func (t *tail) Read(p []byte) (int, error) {
	for {
		n, err := t.f.Read(p)
		t.off += int64(n)
		if n > 0 || !errors.Is(err, io.EOF) {
			return n, err
		}
		if st, err := t.f.Stat(); err == nil && st.Size() < t.off {
			return 0, errShrunk
		}
		select {
		case <-t.ctx.Done():
			return 0, io.EOF
		case <-time.After(tailInterval):
		}
	}
}
