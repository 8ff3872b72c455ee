// Package report shows what a tracker found, as a document for programs (schema rocescope.analysis/1, and
// rocescope.message/1 for single messages) and as a text for people. The text is rendered from the document, so that
// it never says what the document does not. What is found, and what it means, is flows' affair; pages belong to package html.
//
// In JSON, queue pair numbers, packet sequence numbers, keys and virtual addresses are numbers; only the text writes
// them in hexadecimal, as people know them from perftest and ibv_devinfo. Addresses are strings. A moment is a string
// in RFC 3339 with nanoseconds, in UTC, and beside it, where programs will calculate, an integer of nanoseconds since
// the Unix epoch with the suffix _ns. What is not known is null, never 0 or -1; a value is never NaN or negative.
package report
