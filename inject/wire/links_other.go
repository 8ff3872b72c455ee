//go:build !linux

package wire

import (
	"fmt"

	"github.com/rocescope/rocescope/inject/port"
)

// links are the two interfaces.
type links struct{}

func findLinks([2]string) (*links, error) {
	return nil, fmt.Errorf("wire: %w: interfaces are joined on Linux only", port.ErrNotSupported)
}

func (*links) down() []string { return nil }
func (*links) close()         {}
