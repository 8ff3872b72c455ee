//go:build linux

// Command rnic measures what the project promises about the software RNIC, over a pair of virtual interfaces in a network namespace
// of its own, and writes docs/performance-rnic.md. Run it as root by `make bench-rnic`.
//
// But for the comparison of threads, both ends run in one thread, in turns, so that the processor time of the process is that of the whole conversation; latencies
// are of the wall's clock, and the median of many. What is compared runs in turn, round by round.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"

	"github.com/rocescope/rocescope/internal/bench/measure"
	"github.com/rocescope/rocescope/internal/bench/page"
)

// parts are the benchmarks, in the order of the table.
var parts = []struct {
	name string
	run  func(rounds int) ([]page.Row, error)
}{
	{"goodput", goodput},
	{"latency", latency},
	{"loss", loss},
	{"qps", manyQPs},
	{"threads", threads},
}

// insideArg says that this is the copy that runs within the namespace.
const insideArg = "-inside"

func main() {
	out := flag.String("out", "", "write the page to this `file`; else to standard output")
	only := flag.String("only", "", "run only these parts, comma-separated: goodput, latency, loss, qps, threads")
	profile := flag.String("cpuprofile", "", "write a processor profile to this `file`")
	rounds := flag.Int("rounds", 11, "rounds of each comparison")
	inside := flag.Bool(insideArg[1:], false, "run in this network namespace, which should have nothing else in it")
	flag.Parse()
	var err error
	if *inside {
		err = run(*out, *only, *profile, *rounds)
	} else {
		err = measure.EnterNamespace(insideArg)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-rnic:", err)
		os.Exit(1)
	}
}

func run(out, only, profile string, rounds int) error {
	runtime.LockOSThread()
	var all []page.Part
	for _, p := range parts {
		all = append(all, page.Part{Name: p.name, Run: func() ([]page.Row, error) { return p.run(rounds) }})
	}
	return whole.Write(page.Options{Out: out, Only: only, Profile: profile}, all)
}

// whole is docs/performance-rnic.md.
var whole = page.Page{
	Title: "Performance of the software RNIC", Command: "make bench-rnic", Source: "internal/bench/rnic", Method: method,
	Ours: "software RNIC", Ratio: "ratio, median [quartiles]", Reading: reading,
}

// method stands above the table.
const method = `Everything happens on a pair of virtual interfaces, one queue each but where threads are compared, in a network namespace that the benchmark makes for itself,
over AF_XDP. But for those of the threads, one thread serves both ends in turn: two devices with a pair of RC queue pairs, or for comparison
two ports with nothing but a loop. Goodput and rates are payload and messages for each second of processor time (user and system, all threads),
which is that of both ends together; so machines that others use as well give nearly the same figures. Latencies are of the wall's
clock, single-threaded: the median of many. What is compared runs in turn, round by round; the table has the median of the
rounds, and of the rounds' ratios the median and the quartiles.

**Open loop** is what the same ports carry with no protocol: the sender copies each packet's payload from memory behind
prepared headers and calculates the whole ICRC; the receiver checks the whole ICRC and copies the payload into memory. No
acknowledgement, no state, no completion.

    sudo make bench-rnic
`

// reading stands below it.
const reading = `
## How to read it

* A message is 1 MiB, eight are under way, and 256 packets at most. The responder asks for nothing: what the requester wants
  acknowledged (every 32nd packet, and a message's last) is.
* The bare ping-pong has the very frames of the operation: a WRITE and its acknowledgement, a READ request and its response. Nobody
  looks into them.
* With loss, the simulated wire drops every hundredth packet, evenly, both ways, and time-outs cost no time: the devices' clock goes on
  to the next one where nothing else is left to do. Go-back-N must send again what was under way behind a lost packet, and no
  window is longer than 256 packets; "again" is what was sent again for each packet that was lost.
* What of a loss remains when the packets that had to be sent again are taken out is the ratio of that row: 1 is nothing.
* One queue pair has 256 messages of 128 bytes under way. 10,000, of which each has some waiting when its turn comes, are served in turn
  as well, 16 packets each: one acknowledgement answers what one turn sent, as on one queue pair. What they cost more is memory that is
  not in the cache.
* With one message under way on each, no acknowledgement answers two: the link carries two frames for a message in place of little more
  than one. That halves the rate of a virtual link, where a frame costs most of the time, whatever the queue pairs cost; so the
  comparison is the link with these very frames.
* Threads: the two ends are what ` + "`serve` and `bench`" + ` are, on interfaces of two queues, eight queue pairs in all, in one process. Each end has
  one thread that gathers both queues, or one for each queue; the wall's rate is in the row too. Two ends with two threads each want four
  processors to gain; with fewer, what the rows say is what a thread for each queue costs: smaller batches, and turns that the threads
  take on a processor; where every packet comes in the other queue, also a copy and a second look at its headers, and a thread to be woken.
`
