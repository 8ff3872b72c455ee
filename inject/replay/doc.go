// Package replay plays what a captured queue pair asked for again, on a live connection: the same packets, with QPN, PSN, rkey, address
// and ICRC of that connection, each as soon as as much was acknowledged as in the capture.
//
// It owns the reading of one conversation out of a capture (Conversation, also for inject/shadow), what it says of memory, and the sending.
// Connections belong to inject/peer. It prints nothing.
package replay
