// Package convert turns what is not a capture into one, and captures from one
// file format into another.
//
// A core's own view of the network is an AXI-Stream: tdata, tkeep, tlast,
// tvalid and tready, clock cycle by clock cycle, as a logic analyzer writes it
// to CSV ([CSV]) or a simulator to a value change dump ([VCD]). Both become
// frames with the time and the number of the cycle in which their first beat
// was taken. Formats of captures are written by [NewOutput].
//
// Inputs are read as a stream: what is kept is the frame being put together
// and the few signals that are looked at. What is wrong with an input is an
// error with its line number, and what came before it has been handed out.
//
// What frames mean is dissect's affair, and comparing them belongs to
// internal/diff.
package convert
