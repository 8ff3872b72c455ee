package xsk

import "sync/atomic"

// Stats is what became of a socket's packets. The first group is the kernel's own count, the second is ours.
type Stats struct {
	RxDropped   uint64 // packets dropped because Fill was empty, or the packet too long for the socket
	RxRingFull  uint64 // packets dropped because RX was full
	FillEmpty   uint64 // times that the kernel found Fill empty; a reason behind RxDropped, not a further loss
	RxInvalid   uint64 // addresses in Fill that were not usable
	TxInvalid   uint64 // descriptors in TX that were not usable; the whole packet is thrown away
	TxRingEmpty uint64 // times that the kernel found TX empty

	RxPackets   uint64 // packets that Receive gave out
	RxDescs     uint64 // descriptors they came in
	RxBroken    uint64 // runs of descriptors without an end, thrown away
	TxPackets   uint64 // packets handed to the kernel by Queue; those put into TX by hand are the caller's to count
	TxDescs     uint64 // descriptors they went in
	TxCompleted uint64 // descriptors that came back: the kernel is done with them, sent or not
	Kicks       uint64 // system calls to send
	TxAgain     uint64 // kicks that left something to do: budget used up, Completion full, or device busy
	TxRefused   uint64 // packets completed and yet dropped by the interface: its far end was too slow, or the frame too long
}

// RxLost is how many packets were redirected to the socket and lost.
func (s Stats) RxLost() uint64 { return s.RxDropped + s.RxRingFull }

// counts is our part of Stats. Each is written by one goroutine, once a batch, and read by any.
type counts struct {
	rxPackets, rxDescs, rxBroken  atomic.Uint64
	txPackets, txDescs, completed atomic.Uint64
	kicks, again, refused         atomic.Uint64
}

func (c *counts) into(s *Stats) {
	s.RxPackets, s.RxDescs, s.RxBroken = c.rxPackets.Load(), c.rxDescs.Load(), c.rxBroken.Load()
	s.TxPackets, s.TxDescs, s.TxCompleted = c.txPackets.Load(), c.txDescs.Load(), c.completed.Load()
	s.Kicks, s.TxAgain, s.TxRefused = c.kicks.Load(), c.again.Load(), c.refused.Load()
}
