package main

import "fmt"

// The reasons of goals that rows of these pages may miss stand here.
const (
	secondCore = "[why](performance.md#what-a-second-core-brings)"
	ratios     = "[why](performance.md#what-the-machine-does-to-the-ratios)"
	asRoot     = "; as root"
)

// promises are what the program owes, by subject, in the words of who asked for it.
func promises(coverage map[string]string) []section {
	fuzz, err := fuzzing()
	if err != nil {
		fuzz = err.Error()
	}
	return []section{
		{"Speed", []promise{
			{"The engine works across cores, and its results are those of one core", []proof{
				{tests: []string{"internal/engine/TestResultsDoNotDependOnWorkers"}, says: "the same lines and the same result with 1, 2, 3 and 8 workers, with filters and without"},
				{tests: []string{"internal/engine/TestSharesOfManyPairs", "internal/engine/TestSharesOfEveryCapture", "internal/engine/TestWhatCannotBeShared", "flows/TestTogether"}, says: "ordered tracking shared by pairs of addresses: the same result, to the last field, of mixed captures with faults and set-up; what reaches from one worker's pairs to another's is noticed"},
			}},
			{"`analyze` with ICRC ≥ 60 times tshark's field export, without ≥ 85 times", []proof{
				{page: "performance.md", rows: "`analyze`, 4000000 packets|`analyze --no-icrc`, the same file", why: ratios},
			}},
			{"≤ 3 times `tcpdump -r X -w /dev/null`", []proof{{page: "performance.md", rows: "the same again"}}},
			{"Two cores ≥ 1.7 times one in the clock's time: ICRC and a single pair; no ICRC and 64 pairs", []proof{
				{page: "performance.md", rows: "`analyze --workers 2", why: secondCore},
			}},
			{"First result of a 10 GB file within 1 s", []proof{{page: "performance.md", rows: "the first line of `show` of a file of 10 GB"}}},
			{"Beside tshark, tcpdump, capinfos, gopacket, the kernel's own limits, on the same work in one run", []proof{
				{command: "make bench bench-wire", says: "[performance.md](performance.md), [performance-wire.md](performance-wire.md), each with how it was run"},
			}},
		}},
		{"Scale", []promise{
			{"10⁶ connections and 10⁸ messages", []proof{
				{page: "scale.md", rows: "1 000 000 connections, 116 000 000 packets"},
				{tests: []string{"internal/bench/scale/TestManyMessages"}, says: "the same, smaller, on every change"},
			}},
			{"A soak of 24 hours, in simulated time", []proof{
				{page: "scale.md", rows: "24h0m0s of simulated time"},
				{tests: []string{"internal/bench/scale/TestSoak"}, says: "the same, shorter"},
			}},
			{"Memory of an idle connection ≤ 400 bytes", []proof{{page: "scale.md", rows: "memory of an idle connection"}}},
			{"Cost of a packet flat, ≤ 2 times", []proof{{page: "scale.md", rows: "processor time of a packet, ICRC checked, any of"}}},
			{"QPN scans, spoofed floods and adversarial keys do not slow it: bounded tables, seeded hash", []proof{
				{page: "scale.md", rows: "flood,|… beside the scan|… messages of 64 healthy connections"},
				{tests: []string{"flows/TestFloodsStayInBounds", "flows/TestIndexHashIsSeeded"}, says: "what is evicted is counted; two trackers never share a hash"},
			}},
			{"What one probe carries, and how many a fabric needs", []proof{{command: "make bench-scale", says: "[scale.md](scale.md#what-one-probe-carries), from the figures above"}}},
		}},
		{"Hostile input", []promise{
			{"A fuzz target for every decoder, reader, filter, YAML and socket exchange, an hour each, corpus kept", []proof{
				{command: "make fuzz", says: fuzz + ". Inputs that failed once are in testdata/fuzz, and are seeds from then on"},
			}},
			{"Every public malformed file", []proof{
				{tests: []string{"cmd/rocescope/TestHostileCaptures", "cmd/rocescope/TestDamagedCaptures"}, says: "each command reads each of them, and ends with 0 or 4 and a sentence"},
				{tests: []string{"captures/TestPublicCaptures"}, says: "how many packets each has, and where and why reading ends"},
			}},
			{"A file of 1 KB takes no more than a few MB", []proof{
				{tests: []string{"cmd/rocescope/TestMemoryCap"}, says: "at most 8 MiB more than an empty capture, in all"},
				{tests: []string{"captures/TestHostileFilesTakeLittleMemory"}, says: "lengths in files allocate nothing"},
			}},
			{"Counters beyond 2³² packets, by simulation", []proof{{tests: []string{"flows/TestCountersBeyond32Bits"}, says: "they go on"}}},
			{"Integer limits at every length field", []proof{
				{tests: []string{"dissect/TestIntegerLimits"}, says: "least, greatest and the values beside them, in every length"},
				{tests: []string{"flows/TestIntegerLimits"}, says: "the same with the tracker behind it"},
			}},
		}},
		{"Least privilege", []promise{
			{"Capabilities are dropped when sockets are open", []proof{{tests: []string{"cmd/rocescope/TestCaptureDropsPrivileges", "cmd/rocescope/TestCaptureDetachesWithoutPrivileges"}, says: "none on any thread; what was attached still comes off" + asRoot}}},
			{"Landlock, for reading offline and for captures", []proof{
				{tests: []string{"cmd/rocescope/TestReadersStayWithinReach", "cmd/rocescope/TestCaptureStaysInFolder"}, says: "the named input and output alone, where the kernel has it (`rocescope doctor`)"},
			}},
			{"seccomp", []proof{{tests: []string{"cmd/rocescope/TestDeniedCalls"}, says: "each row of the table is refused with EPERM on every thread; who is behind it: [security.md](security.md#privileges). `tui` of files, `test` and `inject --sim` are not: they run programs that you name"}}},
			{"No file is overwritten without being asked", []proof{
				{tests: []string{"cmd/rocescope/TestNothingIsOverwritten", "cmd/rocescope/TestOutputsAreKnown"}, says: "each output that a command line can name; an option that is new has to be in the table"},
			}},
			{"Payload is in no report", []proof{{tests: []string{"cmd/rocescope/TestReportsHoldNoPayload"}, says: "of text, JSON, HTML, events, rows and comparisons. There is no `--payload` to ask for it: `show -x` and `-e infiniband.payload` are what shows it"}}},
			{"`--privacy` masks addresses and rkeys the same way everywhere", []proof{
				{tests: []string{"cmd/rocescope/TestPrivacy", "cmd/rocescope/TestCapturePrivacy"}, says: "no address and no key of the original in anything printed or written; one key, one mask"},
				{tests: []string{"tui/TestPrivacyLeavesNoAddress"}, says: "on the screen"},
			}},
			{"A threat model", []proof{{command: "less docs/security.md", says: "[security.md](security.md#who-could-do-harm)"}}},
		}},
		{"Faults", []promise{
			{"kill -9 at random points of capture, export and spill, 100 rounds: nothing but the unfinished block is lost", []proof{
				{tests: []string{"cmd/rocescope/TestCaptureKilled", "cmd/rocescope/TestExportKilled", "internal/sink/TestSpillKilled"}, command: "make faults", says: "100 moments each; a few of them on every change"},
			}},
			{"Full disk", []proof{{tests: []string{"cmd/rocescope/TestFullDisk", "cmd/rocescope/TestCaptureFullDisk", "captures/TestRecorderFullDisk"}, says: "said in a sentence; the file is whole up to its last block"}}},
			{"Clock steps", []proof{
				{tests: []string{"flows/TestClockSteps"}, says: "the same counts; no time is negative, no step is taken for an error"},
				{tests: []string{"cmd/rocescope/TestClockWatch"}, says: "a live capture says that the clock was set, and by how much"},
				{command: "lab test -only 'clock is set'", says: "in the laboratory's guest, one hour forth and two back while soft-RoCE talks: every packet that Linux counted is in the file. On every change"},
			}},
			{"Interface flaps", []proof{{tests: []string{"cmd/rocescope/TestCaptureThroughFlaps", "captures/TestLiveInterfaceDown", "cmd/rocescope/TestCaptureInterfaceDeleted"}, says: "captures go on, and count them; an interface that is gone ends them well" + asRoot}}},
			{"System suspend", []proof{{command: "lab test -only 'clock is set'", says: "the guest suspends to RAM under a capture, which goes on behind it and says for how long"}}},
			{"Slow consumer of `-w -`", []proof{{tests: []string{"cmd/rocescope/TestCaptureToSlowPipe"}, says: "what does not fit into the queue is lost and counted, and the ring goes on being emptied"}}},
			{"SIGPIPE", []proof{{tests: []string{"cmd/rocescope/TestReaderOfOutputGone"}, says: "each command ends quietly"}}},
			{"Terminal gone", []proof{{tests: []string{"cmd/rocescope/TestTerminalGone", "cmd/rocescope/TestScreenLeavesTheTerminalAsItWas"}, says: "nothing stays behind"}}},
			{"1 % of reads failing", []proof{{tests: []string{"captures/TestReadsFail"}, says: "a source that fails: every frame before the failure, then a sentence"}, {tests: []string{"cmd/rocescope/TestReadFails"}, says: "the same of commands"}}},
		}},
		{"Tidy", []promise{
			{fmt.Sprintf("Coverage of decode, flows and rnic ≥ %.0f %%", coverageGoal), coverageProofs(coverage)},
			{"Assertions that mean something: each check disabled makes a test fail", []proof{
				{tests: []string{"flows/TestEachCheckDisabled", "flows/TestChecksAreWatched"}, says: "every row of the table of checks"},
			}},
			{"`go vet`, staticcheck and the race detector have nothing to say", []proof{{command: "make lint race", says: "on every change"}}},
			{"No circular thoughts: imports go one way", []proof{{tests: []string{"internal/testkit/TestDependencyDirections"}, says: "one table"}}},
			{"The architecture page with one true picture", []proof{
				{tests: []string{"internal/docgen/TestArchitectureIsTheCodes"}, says: "[architecture.md](architecture.md): boxes, their heights and arrows are drawn from the imports, the tables made of package comments; page or picture that differ from the code fail, and so do names in it that are gone"},
				{tests: []string{"internal/docgen/TestPackagesSayWhatIsNotTheirs"}, says: "each package's comment says what it leaves to others"},
			}},
		}},
		{"Contributors", []promise{
			{"`make test`, `make bench`, `make fuzz`, `make lab-test` run from a clean checkout, as the README says", []proof{{command: ".ci/run", says: "a fresh Debian 12: tests, race detector, fuzz targets, pages, laboratory, package, on every change; of the benchmarks, the short versions that are tests"}}},
			{"How to add an opcode, header, check, fault, case, panel; what the targets of make are for", []proof{{command: "less CONTRIBUTING.md", says: "[CONTRIBUTING.md](../CONTRIBUTING.md), each with commits that show it"}}},
			{"Issue templates that ask for a capture", []proof{{command: "ls .github/ISSUE_TEMPLATE", says: "what is [wrong](../.github/ISSUE_TEMPLATE/wrong.md), what is [missing](../.github/ISSUE_TEMPLATE/missing.md)"}}},
		}},
	}
}

// coverageProofs are a line for each package.
func coverageProofs(coverage map[string]string) (proofs []proof) {
	for _, p := range covered {
		var got float64
		_, _ = fmt.Sscanf(coverage[p], "%g", &got)
		met := "met"
		if got < coverageGoal {
			met = "**missed**"
		}
		proofs = append(proofs, proof{command: "go test -cover " + p, says: fmt.Sprintf("%.1f %% of statements, by the package's own tests: %s", got, met)})
	}
	return proofs
}

// notReached is what no figure shows.
const notReached = `
## What was not reached otherwise

* An hour of each fuzz target is a command, and no part of any run that is kept: a run of all of them takes days of processor time.
* Links with a million queue pairs, cards of 100 Gbit/s and more, and their drivers' own AF_XDP were not at hand: what is said of them is arithmetic
  ([scale.md](scale.md)) or the makers' word ([nics.md](nics.md)). All live figures are of virtual interfaces on one machine.
* xdp-trafficgen is not run: its UDP packets are none of RoCE. What it does it with, live frames (BPF_PROG_RUN), sends ours in
  [performance-wire.md](performance-wire.md), and a bare XDP_DROP behind them is what captures are compared with.
* The day of the soak is simulated. No capture has run for a day of the clock's time.
* seccomp filters know amd64 and arm64; Landlock and seccomp are Linux's. On other systems files are read with the reach of the user.
* The kernel in which a clock is set and a machine sleeps is that of the laboratory's guest, by the engine packet; the engine xdp stamps packets when a batch
  is read, and was not tried there.
`
