// Package filter is the display filter: one small language wherever a set of
// packets is meant. It is Wireshark's (4.0), with the same names, and with
// words for enumerated values:
//
//	infiniband.bth.opcode == RC_RDMA_WRITE_FIRST && flow.retransmission
//
// What a packet's fields are belongs to dissect, what tracking adds to flows; the
// language knows none of them by heart.
//
// Names are those of dissect's and flows' field tables; "infiniband." in front
// may be left out. A name alone asks whether the packet has the field, the
// protocol (ip, udp, infiniband) or the header (bth, reth, aeth); of the
// booleans that tracking adds (flow.*) it asks whether they are true.
//
//	== eq  != ne  > gt  >= ge  < lt  <= le      comparisons
//	=== all_eq  !== any_ne                      of fields that occur several times
//	contains   matches ~                        bytes and words; a regular expression without regard to case
//	in {1, 2..5}   not in {…}                   sets and ranges
//	and &&   or ||   xor ^^   not !   ( )       "not" binds most strongly, then "and", "xor", "or"
//	eth.src[0:3]   ip.src[0]   payload[-4:]     slices: [start:length] [first-last] [index] [:length] [start:]
//	tcp.flags & 0x02                            bits of a number; alone it asks for one that is set
//	len(payload)   count(ip.addr)               the number of bytes, of occurrences
//	any ip.addr > 10.0.0.9   all ip.addr …      how many occurrences have to pass
//
// Where a field occurs several times, or its name stands for two (ip.addr,
// udp.port), == and the other comparisons ask for one occurrence that passes,
// != for all to differ. A packet without the field passes no comparison.
//
// Values: 10 0x0a 012 0b1010 64KiB 1MB; true false; 10.0.0.0/8 fe80::/10;
// 02:00:00:00:00:01; de:ad 0xdead "text" 'c'; 1.5 (seconds) 50us 3ms
// "2026-01-31 12:00:00"; and the words that a field's values have, without
// regard to case, quoted where they hold spaces: RC_SEND_ONLY, a_to_b,
// IBV_WC_SUCCESS, "PSN sequence error", CE.
//
// A source is lexed (lex.go), parsed into a tree (parse.go), checked against
// the field tables (check.go, literal.go) and compiled to closures
// (compile.go, compile_fast.go) that allocate nothing per packet. An [Error]
// knows its place and what may have been meant.
package filter
