//go:build linux

package main

import "github.com/rocescope/rocescope/internal/bench/page"

// whole is docs/performance-tui.md.
var whole = page.Page{
	Title: "Performance of the screen", Command: "make bench-tui", Source: "internal/bench/screen", Method: method, Ours: "rocescope",
	Ratio: "ratio", Reading: reading,
}

// method stands above the table.
const method = `What a person waits for is the wall's time, so most rows are: they depend on what else the machine does, and a loaded machine
shows larger figures for all programs alike. Processor time (user and system, all threads) is said to be so. The capture is made
by internal/bench/traffic: 5 million packets, healthy RC traffic over 64 connections, with valid ICRCs; it lies in the page cache.

Programs run in tmux, in a window of 120 by 40 cells; a screen is there when its text is, looked for every 5 ms. Memory is what
the kernel says of the process and its children at their highest (VmHWM). What the index itself does is measured in this
process, without a terminal.

Live captures are of one end of a pair of virtual interfaces in a network namespace, where inject sends into the other with
writes of 1024 bytes over 16 queue pairs. What the screen costs is the difference to the same capture with a frozen screen; beside it
stands what capturing and tracking cost alone, in a process without an index and without a screen, and what is lost so.

At the highest rate of inject, sender and reader have a processor each on this machine, and the reader needs all of its own: 1.4 µs a packet for the copy into the ring
of packets, the index, ICRC and tracking. Where the host gives its processors less (on the day of this page tshark took 21 s and, an hour later, 31 s for the same file), it falls behind, and when the
kernel's ring of a third of a second is full, packets are lost and counted: none in 99 runs before, and in 4 of 13 behind that. No pause of the reader is longer than 25 ms meanwhile.

    make bench-tui
`

// reading stands below it.
const reading = `
## What is kept

Of each packet the index keeps where its bytes lie, its time, its lengths, and what tracking said of it: connection, message,
PSN, what it is to its stream. That is written as differences from the packet before in the same stream, in blocks of 256 packets,
so that any packet is a few microseconds away. The packets themselves stay in the file; of compressed files and pipes, in a
temporary file without a name. Live captures keep the newest in a ring of a size that one chooses (--ring), and on disk what is
asked for (--spool).
`
