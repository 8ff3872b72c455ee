package captures

import "golang.org/x/net/bpf"

// CompileFilter makes the kernel's program of a capture filter (see FilterHelp), for sockets that are not a capture's.
// Frames that pass are kept whole.
func CompileFilter(filter string, d Direction) ([]bpf.RawInstruction, error) {
	return compileFilter(filter, maxSnap, d)
}
