//go:build !linux

package route

import "net/netip"

// Find is for Linux only.
func Find(*Path) error { return ErrUnsupported }

// InterfaceTo is for Linux only.
func InterfaceTo(netip.Addr) (string, error) { return "", ErrUnsupported }
