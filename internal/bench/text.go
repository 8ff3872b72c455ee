//go:build unix

package main

import "github.com/rocescope/rocescope/internal/bench/page"

// whole is docs/performance.md.
var whole = page.Page{
	Title: "Performance", Command: "make bench", Source: "internal/bench", Method: method, Ours: "rocescope", Ratio: "ratio", Reading: readPath,
}

// method stands above the table.
const method = `Machines are noisy, so every time is processor time (user and system, all threads of the process), never the wall's
but where a row says so. What is compared runs in turn, round by round; the table has the median of the rounds, and for ratios the median of the
rounds' ratios. Whole processes are measured from outside, their peak memory is the kernel's, mapped pages included. The
captures are made by internal/bench/traffic: healthy RC traffic with valid ICRCs, the same each time: WRITEs of 8 segments
and their ACK, READs of 4 responses, SENDs and their ACK, over 64 connections packet by packet unless a row says otherwise.
All files lie in the page cache.

Of whole processes, the larger capture says what a packet costs, the smaller one also what it costs to start the program. The
program is built by make, with the profile in cmd/rocescope.

    make bench
`

// readPath stands below it.
const readPath = `
## What a second core brings

Each of two workers reads eight buffers, decodes what it read, and tracks it when its turn has come: packets stay in one core's cache, and what goes from core to core is the turn, and with it
the one tracker. Of the time of a packet, reading (a third to a half of it without ICRC) is done by one at a time, and so is tracking; while one does either, the other decodes. A worker looks again
for a part of a millisecond before it sleeps: to be woken costs more than that, and the kernel likes to put who is woken on the core of who wakes it, which had made two workers no faster than one without ICRC.

From three workers on the one tracker would be what all wait for. Where no ICRC is to be checked and the file's beginning shows many pairs of hosts, each then has a tracker of its own, for some of the
pairs: whoever has little left to go through reads, and notes whose each frame is; each decodes and tracks its own; at the end the trackers are put together. What reaches across (a stranger's packet for
somebody's queue pair, set-up that names others', pause frames, tunnels, a bound that is near) is noticed, and then the file is read again by turns, so that the result is always that of one worker. Two workers
would be slower that way (0.76 s against 0.72 s of the capture in the table, 0.49 s against 0.40 s of one with 256 bytes in a packet), for half of what one reads has to come over to the other, and more with
ICRCs (0.96 s against 0.75 s). What it brings on three cores or more is not measured: this machine has two.

The row below each has what two programs get that share nothing but the machine, and with it the host's memory: that is the most that could be had here.

## What the machine does to the ratios

tshark takes 11.9 µs a packet on the machine of this page. On that of the page before (30 November: other cores, and a hypervisor that mirrors page tables) it took 17.2 µs, and the
ratios were 62 × with ICRC and 85 × without, which are the goals. Faster cores make tshark and tracking faster alike (the row of tracking went from 210 ns to 100 ns); the copy of 1,100 bytes a packet out of the
page cache takes 0.1 µs on both, for it waits for memory, and is half of what a packet takes here without ICRC. A mapping saves the copy, and waits for the same memory line by line: 8 % less without ICRC, a quarter
more with it.

## What tracking costs

The goal of 120 ns a packet is our own. The row swings with the machine more than any other, for tracking waits for memory where decoding computes: the same program
showed 132 ns and 210 ns on one day, while the row of gopacket went from 59 to 83 ns, and 100 ns on another machine. Profiles have no single place left in it: finding the queue pair is a seventh, the rest is the
state of requests, answers and messages, a few lines of cache for each.

## How files are read

Mapping a file saves the copy that read(2) makes, and costs page faults. In a virtual machine whose hypervisor mirrors page
tables a fault costs several copies of its page; elsewhere it costs less than one. So captures.Open tries both on the first
half MiB of files of 64 MiB and more, takes the shortest of three tries, maps where that takes less than three fifths of
reading, and reads otherwise. Smaller files are always read. The table has both figures for this machine. Frames and errors are the same either
way; a file that is cut while it is read ends with exit code 4, also under a mapping.

## Where rows go

Tracking finds more messages a second than any place takes, and the table says how many each takes: a row of messages has 37
columns, some 250 bytes. To make rows costs less than to track what they are of. From there on the encoding is what takes the time:
text by its digits, Parquet by its dictionaries, page statistics and zstd, which several files share between processors, ClickHouse
in the server, which sorts each block by the table's key, compresses it, and merges it with others later: that is where the time goes, not in
what sends. A live capture never waits for any of them: what a server does not take in time goes into the spill file, and
what finds no room there is lost and counted. More shards, or only the tables that are needed (` + "`--tables`" + `), are what helps.
`
