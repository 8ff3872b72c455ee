package captures

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// failing is a reader of which one read in a hundred fails, as on a disk that dies.
type failing struct {
	r   io.Reader
	rng *rand.Rand
}

func (f *failing) Read(p []byte) (int, error) {
	if f.rng.IntN(100) == 0 {
		return 0, syscall.EIO
	}
	return f.r.Read(p[:min(len(p), 1+f.rng.IntN(64))])
}

// TestReadsFail reads captures of which one read in a hundred fails: all frames before it are there and as they were, and what ends
// reading is that one error, with the place.
func TestReadsFail(t *testing.T) {
	failed := 0
	for name, file := range everything() {
		whole := readEveryWay(t, file)
		for seed := range uint64(200) {
			src, err := openStream(&failing{bytes.NewReader(file), rand.New(rand.NewPCG(seed, seed))})
			if err != nil {
				if !errors.Is(err, syscall.EIO) {
					t.Errorf("%s, seed %d: %v", name, seed, err)
				}
				continue
			}
			g := drain(t, src, 2)
			if diff := cmp.Diff(whole.frames[:len(g.frames)], g.frames); len(g.frames) > 0 && diff != "" {
				t.Errorf("%s, seed %d: other frames:\n%s", name, seed, diff)
			}
			if len(g.errs) == 0 {
				if len(g.frames) != len(whole.frames) {
					t.Errorf("%s, seed %d: %d frames of %d, and no error", name, seed, len(g.frames), len(whole.frames))
				}
				continue
			}
			failed++
			var fe *FileError
			if len(g.errs) != 1 || !errors.Is(g.errs[0], syscall.EIO) || !errors.As(g.errs[0], &fe) {
				t.Errorf("%s, seed %d: %v", name, seed, g.errs)
			}
		}
	}
	if failed < 10 {
		t.Errorf("only %d runs met a read that fails", failed)
	}
}
