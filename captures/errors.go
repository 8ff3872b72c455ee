package captures

import (
	"errors"
	"fmt"
)

// What can be wrong with a file; test with errors.Is.
var (
	// ErrTruncated: the input ends inside a header, a record or a block.
	ErrTruncated = errors.New("cut off")
	// ErrFormat: this is no capture file, or none that we know.
	ErrFormat = errors.New("not a capture file")
	// ErrUnsupported: a capture file, of a version or kind that we do not read.
	ErrUnsupported = errors.New("not supported")
	// ErrMalformed: contents that contradict the format.
	ErrMalformed = errors.New("damaged")
)

// FileError is what is wrong with an input, and where.
type FileError struct {
	File string // path, or "standard input"
	// Unit is what Block counts: "block" in pcapng, "record" in pcap. It is
	// "file header" or (from Guard) "mapped data" with Block 0, or empty where
	// the error has no place.
	Unit   string
	Block  int   // number of the block or record, from 1
	Offset int64 // bytes from the start of the file
	// Decompressed says that Offset counts in the decompressed stream.
	Decompressed bool
	// Resumable says that the next ReadBatch goes on behind the damage.
	Resumable bool
	Err       error // wraps one of the sentinels, or an error of reading
}

// Error is one sentence: file, place, what is wrong.
func (e *FileError) Error() string {
	where := ""
	if e.Unit != "" {
		where = e.Unit
		if e.Block > 0 {
			where = fmt.Sprintf("%s %d", e.Unit, e.Block)
		}
		where = fmt.Sprintf("%s at offset %#x", where, e.Offset)
		if e.Decompressed {
			where += " (decompressed)"
		}
		where += ": "
	}
	return fmt.Sprintf("captures: %s: %s%v", e.File, where, e.Err)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }

// errShrunk is how a file that loses its end under a reader shows.
var errShrunk = fmt.Errorf("%w: the file was cut while it was read; read it again when its writer is done", ErrTruncated)
