// Package shadow gives what a captured responder was asked to rocescope's own RNIC, and finds the first answer where the two differ.
//
// It owns the comparison, and what of an answer is a responder's choice. Reading the capture belongs to
// inject/replay, the protocol to inject/rnic.
package shadow
