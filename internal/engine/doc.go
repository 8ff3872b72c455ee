// Package engine is the pipeline: it takes frames from a captures.Source,
// decodes and checks them, tracks them, and hands them batch by batch to sinks.
// It knows no protocol and shows nothing.
//
//	source → stage 1: decode, ICRC, packet filter → stage 2: tracking, in order → sinks, in order
//
// Stage 1 looks at one packet at a time and keeps nothing, so any worker may
// take any part of what was read. Stage 2 is one tracker that sees every packet
// in the order of the capture, whatever the filter says: filtering before
// tracking would invent losses. What stage 2 gets does not depend on how many
// workers stage 1 has, so results do not either. With several workers each
// carries what it read through both stages, and they take turns at the second:
// the tracker goes from core to core, not the packets (relay).
//
// Where there are no sinks and no ICRCs to check, and all that is wanted is what
// the tracker knows at the end, each of three workers or more has a tracker of its own for some of the pairs of
// addresses in the capture, and goes through both stages with their packets
// (shards). What they know is put together at the end; where that would not be
// what one tracker knows, the pass is done again as a relay.
//
// Frames are borrowed from the source. One worker decodes, tracks and hands out
// one read's frames before it asks for more; several have a bounded number of
// reads under way, which the source lends for as long. That is also the
// back-pressure: a slow sink makes the source wait. Nothing is allocated per
// packet.
//
// A frame may lie in a mapped file that somebody cuts short while it is read.
// Each goroutine that touches frames does so inside captures.Guard, sinks
// included, so that this is an error like any other.
package engine
