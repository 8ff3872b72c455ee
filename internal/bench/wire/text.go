//go:build linux

package main

import "github.com/rocescope/rocescope/internal/bench/page"

// whole is docs/performance-wire.md.
var whole = page.Page{
	Title: "Performance on the wire", Command: "make bench-wire", Source: "internal/bench/wire", Method: method, Ours: "rocescope",
	Ratio: "ratio, median [quartiles]", Reading: reading,
}

// method stands above the table.
const method = `Machines are noisy, so every time is processor time of the loop alone (getrusage before and after, all threads of the
process, the kernel's work within it), never the wall's: M/CPU-s is a million packets for each second of one whole core. On a
virtual link the receiving half runs inside of the sender's system call, and is in the figure. Packets are counted where they
arrive, by an XDP program that drops them or by the capture, never where they were handed over. What is compared runs in turn,
round by round; the table has the median of the rounds and, for ratios, median and quartiles of the rounds' ratios.

Everything happens on a pair of virtual interfaces, one queue each, in a network namespace that the benchmark makes for itself.
All senders over AF_XDP hand over 512 frames at a time and have a budget (XDP_MAX_TX_SKB_BUDGET) as large; constant frames come
from a loop that does nothing else, in Go on the same rings, and in C with none of our code. Constant live frames are made by a
program that does nothing but redirect them. As a frame's length is 4n + 2 bytes with RoCE v2 over IPv4, the smallest one here
has 66.

    sudo make bench-wire
`

// reading stands below it.
const reading = `
## How to read it

* A virtual link builds a socket buffer for each frame that AF_XDP sends, half a microsecond here. What the sender itself does for
  a frame (whose turn it is, which slot, what differs) shows beside that. On a card with zero-copy nothing is built, and it would
  show more ([line-rate.md](line-rate.md)).
* Live frames are made inside the kernel, in pages that are used again. They are of up to a page less headers (3408 bytes on
  Linux 6.18 with pages of 4 KiB), the same messages again and again, and lost without a word if the far end is too slow.
* What a capture costs is mostly the kernel's: the row with a loop that does nothing but receive says how much. It copies each
  frame into the socket's memory, 32 MiB for 16384 frames of up to 1792 bytes (twice as much where they can be longer), which no
  cache holds: two thirds of the kernel's part is that copy. A smaller ring would cost less, and lose frames when the receiver gets
  its turn late. XDP_DROP touches nothing but the headers, and the less a machine takes for it, the larger the ratio.
* Messages that nobody acknowledges are remembered by the tracker until they are too many, which costs more than traffic with
  answers does; what tracking costs there is in [performance.md](performance.md).
* On two processors that others use too, a receiver gets its turn late, although it asks for priority: a ring of 16384 frames is
  full after 35 ms at 450000 packets a second. So "none lost" can be met on a calm machine only. Besides, what takes the frames
  tracks them, and nobody acknowledges these.
* Patching an ICRC takes a look-up for each byte that changes. Packets of a stream follow each other, so that what the upper halves
  of PSN and address make of the ICRC is kept while they stay the same: six look-ups remain. The random patches change everything.
* A frame of RoCE MTU 4096 never fits into one chunk of AF_XDP, so that it takes two descriptors.
`
