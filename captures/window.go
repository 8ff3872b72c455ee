package captures

// window is the input as the parsers see it: a stretch of contiguous bytes that
// moves forward. One implementation maps a file, the other reads a stream.
type window interface {
	// fill moves the window consumed bytes on (which may lie behind its end)
	// and returns at least min bytes from there. With less, it returns what
	// there is and why: io.EOF, errShrunk, or an error of reading. Slices
	// returned earlier are invalid afterwards, but for what is lent.
	fill(consumed int64, min int) ([]byte, error)

	// lend makes what was shown at a turn stay valid until the n-th turn behind
	// it; 1 before it is called.
	lend(n int)

	// turn says that what was shown before is lent from now on.
	turn()

	// size returns the bytes of input there are at this moment, to find that a
	// mapped file shrank; ok is false where nothing can shrink.
	size() (n int64, ok bool)

	close() error
}

const (
	// mapWindow is how much of a file is mapped at a time: far more than a
	// batch, little enough to stay in a large cache and out of the way.
	mapWindow = 16 << 20
	// readBuffer is the first size of a read window's buffer. It grows only
	// for a record that does not fit, as that record's bytes arrive.
	readBuffer = 256 << 10
	// maxBlock bounds one pcapng block that has to be seen as a whole, and one
	// pcap record. Blocks that are skipped may have any length.
	maxBlock = 16 << 20
)
