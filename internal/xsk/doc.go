// Package xsk sends and receives whole Ethernet frames through AF_XDP sockets, and loads the XDP program that gives them
// RoCE traffic. It does not know what frames mean; who they are for belongs to captures and inject/port.
//
// # The model
//
// A [UMEM] is memory that this process and the kernel share, cut into chunks of 2 or 4 KiB. A [Socket] is bound to one
// queue of one interface and owns four rings: it hands empty chunks to the kernel through Fill and finds them again, with a
// frame inside, in RX; it hands frames to the kernel through TX and finds the chunks again in Completion. Fill and
// Completion carry addresses (offsets into the UMEM), RX and TX carry descriptors: address, length, options.
//
// At any time a chunk has exactly one owner: the caller, or the kernel while it is in Fill or TX. Nothing enforces that. A
// chunk which is in Fill twice will be overwritten while it is read; a frame which is changed between Submit and its
// completion goes out changed.
//
//	caller ── Fill ──► kernel ── RX ──► caller          caller ── TX ──► kernel ── Completion ──► caller
//
// Several sockets may share one UMEM (one for each queue, or for each side of a bridge), so that a frame received on one
// goes out through another without being copied. Each has its own Fill and Completion.
//
// A frame that does not fit into one chunk (every RoCE packet of path MTU 4096) takes several descriptors; all but the last
// have [OptionContinued]. Both sides need [Options.MultiBuffer] for that. In copy mode a received chunk holds
// [UMEM.RxFrameSize] bytes at most, so that such a frame arrives as 3840 bytes and the rest.
//
// A socket receives only what an XDP program redirects to it. [LoadProgram] assembles one for RoCE, [Program.Attach] binds
// it to an interface by a BPF link, which the kernel removes with the process, and [Program.Register] adds a socket. What
// the program does not want goes on to the kernel's own stack.
//
// # The hot path
//
// Receive side:
//
//	for {
//		n := s.Receive(packets)            // whole packets, borrowed
//		for _, p := range packets[:n] { use(s.Bytes(p)) }
//		s.Release()                        // the chunks go back to Fill
//		if n == 0 { s.Wait(time.Second) }
//	}
//
// Send side:
//
//	at, n := s.TX.Reserve(64)
//	for i := range n { *s.TX.Slot(at + i) = xsk.Desc{Addr: …, Len: …} }
//	s.TX.Submit(n)
//	s.Kick()
//	n = s.Reap(addresses)                      // which chunks are ours again
//
// None of it allocates. One goroutine may use a socket's RX and Fill while another uses its TX and Completion; Stats and
// Interrupt may be called from anywhere. Close only when both have stopped. A goroutine that sends in earnest should lock its
// thread (runtime.LockOSThread): Kick enters the kernel without telling Go's scheduler, for up to a millisecond or so with
// a large budget.
//
// # Pitfalls
//
//   - A completion is not a delivery. It says that the kernel is done with the chunk. A virtual link whose far end is too
//     slow drops frames that were completed: the kernel says so by EBUSY, which is counted in [Stats.TxRefused], and a frame
//     longer than the MTU is dropped in the same way. Tests count at the receiver.
//   - In copy mode one Kick handles 32 descriptors, and then returns with more to do; [Options.TxBudget] raises that.
//     In copy mode the socket's send buffer (SO_SNDBUF) also limits what is on its way; Kick then says that there is more.
//   - The rings' size, not speed, decides whether a busy machine loses frames: use 16384 descriptors to receive.
//   - One queue is one socket. A NIC spreads flows over its queues, so that a capture needs a socket on each.
//   - An interface that vanishes wakes nobody who sleeps in poll(2); Wait looks from time to time and returns [ErrGone].
//   - A NIC that strips VLAN tags does so before XDP, and the tag is then nowhere (see [Features.RxVLANStripped]).
//   - A descriptor that the kernel cannot use ends that Kick, is completed like a sent one, and counts in [Stats.TxInvalid]:
//     keep chunks' bounds.
//   - Once everything is open, privileges can be dropped: sending, receiving, counters (Linux 5.19) and Close need none.
//   - A queue is free again a moment after the socket that had it was closed: Open tries for a tenth of a second.
package xsk
