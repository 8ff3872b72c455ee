//go:build !linux

package port

import (
	"fmt"
	"runtime"
)

// link is a network interface. Only Linux has the sockets that frames are sent through.
type link struct {
	name  string
	index int
	mtu   int
	kind  string
	lo    bool
}

func findLink(name string) (*link, error) {
	return nil, failed(name, "open", fmt.Errorf("%w: this is %s, and frames are sent through sockets of Linux", ErrNotSupported, runtime.GOOS), "write them to a file")
}

func (l *link) txDropped() uint64 { return 0 }

func (l *link) close() {}
