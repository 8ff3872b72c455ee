// Package flows turns packets into queue pairs: who talks to whom, what each
// queue pair asked for, what became of it, and what went wrong on the way.
//
// A stream is one direction between two queue pairs, a connection both, a
// message one work request as the wire shows it, a finding something that an
// engineer should know. A Tracker is fed decoded packets in the order of the
// capture. For each it fills a Mark (what the packet is to its connection),
// hands finished Messages and Findings to its Sink, and at any time gives a
// Snapshot of all connections.
//
// The wire shows only part of the truth. What is concluded here, and what is
// not, follows rules that the checks cite: a wrong ICRC moves nothing; loss is
// told from reordering, from duplication and from holes in the capture only by
// evidence of its own; where the wire cannot tell, the answer is "ambiguous".
//
// Several trackers can share a capture by pairs of addresses (Share); Together
// says what one would know that had seen all of it.
//
// Time comes from the packets' time stamps only. The package does not know
// where packets came from, nor how results are shown.
package flows
