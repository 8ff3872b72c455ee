package port

import (
	"errors"
	"fmt"

	"github.com/rocescope/rocescope/internal/xsk"
)

// What can go wrong with a port, for errors.Is.
var (
	// ErrGone: the interface, or the other end, does not exist any more.
	ErrGone = xsk.ErrGone
	// ErrClosed: the port was closed.
	ErrClosed = xsk.ErrClosed
	// ErrDown: the interface exists but is not up.
	ErrDown = xsk.ErrDown
	// ErrFrameSize: a frame is longer than the port or its interface takes.
	ErrFrameSize = xsk.ErrFrameSize
	// ErrPrivilege: the process may not do this; the error says what it takes.
	ErrPrivilege = xsk.ErrPrivilege
	// ErrBusy: somebody else has the queue, or the interface's XDP program.
	ErrBusy = xsk.ErrBusy
	// ErrNotSupported: this system, kernel, driver or interface does not have it.
	ErrNotSupported = xsk.ErrNotSupported
	// ErrFormat: what came out of a pipe is not what its format says.
	ErrFormat = errors.New("not the pipe's format")
)

// setcap is what to do about ErrPrivilege.
const setcap = "run as root, or give the program its capabilities: setcap " + xsk.SetcapCapabilities + " PROGRAM"

// failed is an error of a port: on what, what was tried, why, and what to do about it.
func failed(where, doing string, why error, hint string) error {
	if hint != "" {
		hint = "; " + hint
	}
	return fmt.Errorf("port: %s: %s: %w%s", where, doing, why, hint)
}
