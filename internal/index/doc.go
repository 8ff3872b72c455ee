// Package index gives any packet of a capture by its number, while the capture
// is still being read and behind it: decoded, with its bytes, and with what
// tracking said of it. It serves whoever shows lists of packets.
//
// A capture runs through the engine once, on a goroutine of its own, so that
// what is shown agrees with what `analyze` says. Of each packet about ten bytes
// are kept: where its bytes lie, its time, and its flows.Mark. Filters that ask
// of nothing but these are answered without the file; others read it again, and
// never track it again.
//
// The bytes stay where they are: in the capture file; of input that cannot be
// read again (compressed files, pipes) in a temporary file that has no name any
// more; of a live capture in a ring in memory that holds the newest packets, and
// in a spool file if that was asked for. The side that reads the capture takes
// no lock and waits for nobody: it publishes by atomic pointers, once a batch.
//
// The package does not know what is on a screen.
package index
