//go:build !linux

package connect

import (
	"errors"
	"io"
)

// Quiet keeps the kernel from answering RoCE packets; only on Linux.
func Quiet(string) (io.Closer, error) {
	return nil, errors.New("connect: keeping the kernel quiet on UDP port 4791 needs Linux")
}
