// Package annotate writes a capture anew with comments on its packets: each
// finding on the frame that proves it, and on the first packet of each stream
// who its queue pairs are.
//
// pcapng is copied block by block, and nothing in it is changed but that packet
// blocks get comments, in front of the options that they have. pcap becomes
// pcapng, frame by frame. What was found, and what it means, is flows' affair.
package annotate
