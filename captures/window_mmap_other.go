//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package captures

import (
	"errors"
	"os"
)

// newMmapWindow has no mapping to offer here; files are read instead.
func newMmapWindow(*os.File, string, int) (window, error) {
	return nil, errors.ErrUnsupported
}
