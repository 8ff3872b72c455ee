//go:build !linux

package captures

import "runtime"

func openBackend(o *LiveOptions) (backend, error) {
	return nil, liveError(o.Interface, "capture on "+runtime.GOOS, ErrNotOffered, nil)
}

func liveInterfaces() ([]LiveInterface, error) {
	return nil, liveError("interfaces", "list", ErrNotOffered, nil)
}
