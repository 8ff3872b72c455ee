// Package events writes and reads the event log: one JSON object a line for
// each thing that happened in a capture, typed, in a form that has a version.
//
// [Types] is the table of all events and their fields; the documentation is made
// from it. A [Writer] is a sink of the pipeline: packet events and states come in
// the order of the capture, messages and findings when the tracker is sure of
// them, and what only the whole capture tells (connections, verdicts) at its end,
// each with the frame and the time that prove it. [Read] reads a log again.
//
// The package tracks nothing itself, and knows no files.
package events
