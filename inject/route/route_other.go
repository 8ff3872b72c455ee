//go:build !linux

package route

// Find is for Linux only.
func Find(*Path) error { return ErrUnsupported }
