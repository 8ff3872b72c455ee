// Package iwarp follows iWARP connections: TCP streams put in order, cut into
// MPA's FPDUs, and these joined to RDMAP's messages (RFC 5044, 5041, 5040, 6581,
// 7306).
//
// A Tracker is fed TCP packets in the order of the capture. It takes a
// connection for iWARP by its own signs only: an MPA start-up frame, or a
// segment that is made of FPDUs for certain. It hands finished Messages and
// Events (broken rules, refusals, losses of the capture) to its Sink.
//
// Where the capture lacks bytes of a stream, the next FPDU is found by MPA's
// markers, by CRC-32C, or, where the connection uses neither, by FPDUs that fill
// segments exactly. Memory is bounded: by connections, by messages that are
// open, and by the bytes that wait for the rest of an FPDU or for a late segment.
//
// The package shares dissect's tables and views and knows nothing of the queue
// pairs of InfiniBand transports.
package iwarp
