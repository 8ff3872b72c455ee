// Package dissect turns the bytes of a frame into meaning, and meaning into
// bytes: opcodes, headers, lengths, padding, the invariant CRC, field names
// and 24-bit serial arithmetic of RoCE v2, RoCE v1 and InfiniBand.
//
// It is built on two tables. The opcode table (opcodes.go) says for each BTH
// opcode which extension headers follow, what payload it may carry and where
// in a message it stands; the field tables (one beside each header) say where
// each field lies, what Wireshark calls it and how it is shown. Decoder,
// crafter, detail tree, display filter, tracker and generator read the same
// rows.
//
// A header is a view: a byte slice with getters and setters (BTH, RETH, AETH
// …) over the frame's own bytes, in network byte order. Decode fills a
// reusable, pointer-free Packet with the offsets of all layers and with the
// values that tracking needs; it never fails and never panics: what is wrong
// with a frame is recorded on the packet as a Problem.
//
// The package does not know files, sockets, clocks or goroutines, and imports
// the standard library only. What packets mean over time belongs to flows.
//
// References: IBTA InfiniBand Architecture Specification Volume 1 (cited as
// IBA with a chapter), its annexes A16 (RoCE) and A17 (RoCE v2).
package dissect
