//go:build unix

package main

// method stands above the table.
const method = `Machines are noisy, so every time is processor time (user and system, all threads of the process), never the wall's.
What is compared runs in turn, round by round; the table has the median of the rounds, and for ratios the median of the
rounds' ratios. Whole processes are measured from outside, their peak memory is the kernel's, mapped pages included. The
captures are made by internal/bench/traffic: healthy RC traffic with valid ICRCs, the same each time. All lie in the page cache.

    make bench
`

// readPath stands below it.
const readPath = ``
