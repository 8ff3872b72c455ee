package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/rocescope/rocescope/flows"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
)

// analyzeOptions are the options of `rocescope analyze`. The zero value is a text summary of everything.
type analyzeOptions struct {
	live     liveFlags
	read     []string // -r
	filter   string   // -Y
	json     bool
	messages bool
	failOn   failOn
	noICRC   bool
	workers  int
	count    uint64 // -c
	top      uint
	verbose  bool
	qps      []string
	series   bool
	shadow   bool
	shadowQP qpnFlag
	speed    linkSpeed
	cnpDSCP  uint8
	counters counterOptions
	exchange exchangeFiles
	privacy  privacyOptions
	decodeAs decodeAs
	html     string
	events   string
}

// defaultTop is how many connections and findings the text shows. A person reads no more; --json has all.
const defaultTop = 20

func newAnalyzeCommand(a *app) *cobra.Command {
	var o analyzeOptions
	cmd := &cobra.Command{
		Use:   "analyze FILE... | -i IFACE",
		Short: "Say what happened on each queue pair, and what is wrong",
		Long: `Say what happened on each queue pair: who talked to whom, in which state each QP
is, what it asked for and what became of it, what was lost, resent and refused,
and who broke the rules. Findings come first, gravest first, each with the frame
that proves it and with what to try.

Several files are read one after the other, as one capture. With -Y the result
is about what has packets that the filter selects: the counts of protocols,
opcodes and ICRCs are those of these packets; connections, messages and findings
are left out where none of their packets is selected, and whole where one is.
Every packet is followed all the same, so that a filter never makes up a loss.

With --counters, the counters of a NIC are compared with what the capture says
that they should have counted, for one host. The two readings, from before the
capture and from behind it, may be the output of ethtool -S, of rdma statistic
show, of grep -H . /sys/class/infiniband/*/ports/*/hw_counters/*, copies of that
folder, or lines of name,value. Counters of soft-RoCE, mlx5, bnxt_re and irdma
are known.

A file that is cut off or damaged is reported as far as it can be read; so is
one whose reading is interrupted by Ctrl-C.`,
		Example: `  rocescope analyze trace.pcapng
  rocescope analyze trace.pcapng --messages            one line for each work request
  rocescope analyze trace.pcapng -Y 'ip.addr == 10.0.0.7 and flow.retransmission'
  rocescope analyze --json run-*.pcap | jq '.findings[] | .summary'
  rocescope analyze trace.pcapng --html report.html    a page with plots, for a browser
  rocescope analyze trace.pcapng --events run.jsonl    a log of what happened, to compare by rocescope diff
  rocescope analyze nightly.pcapng --fail-on warning   exit code 3 if there is one
  ssh host tcpdump -U -w - udp port 4791 | rocescope analyze -
  rocescope analyze -i eth1 -a duration:10               what is on the wire now, as root
  rocescope analyze trace.pcapng --counters before.txt,after.txt
  rocescope analyze trace.pcapng --messages -d 0x12,nvme   queue pair 0x12 carries NVMe`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if o.shadowQP != 0 {
				if o.privacy.mask() != nil {
					return errUsage("--shadow-responder shows what was answered, which --privacy hides: choose one")
				}
				return a.shadowResponder(append(o.read, args...), uint32(o.shadowQP), o.json)
			}
			in, err := o.live.input(cmd, append(o.read, args...), &o.count)
			if err != nil {
				return err
			}
			return runAnalyze(cmd.Context(), a, in, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.live.add(cmd)
	f.StringArrayVarP(&o.read, "read", "r", nil, "a `file` to read, as an argument is")
	f.StringVarP(&o.filter, "filter", "Y", "", "only what has packets that this display `filter` selects")
	f.BoolVar(&o.json, "json", false, "the analysis as one JSON document (rocescope.analysis/1)")
	f.BoolVar(&o.messages, "messages", false, "a line for each work request as it ends; with --json an object each (rocescope.message/1)")
	f.StringVar(&o.html, "html", "", "a report to hand on, with plots and ladder diagrams, into this `file`; reads the capture twice")
	f.StringVar(&o.events, "events", "", "a log of what happened, a JSON object a line (rocescope.events/1), into this `file`; \"rocescope diff\" compares two")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "notes in full, and of each queue pair its states, queues and settings")
	f.StringSliceVar(&o.qps, "qp", nil, "only the connections of the queue pair with this `number` (20, 0x14), with what -v shows")
	f.BoolVar(&o.series, "series", false, "how each connection went over time")
	f.BoolVar(&o.shadow, "shadow", false, "rebuild the responders' memory from WRITEs, and compare what READs and atomics answer with it")
	f.Var(&o.shadowQP, "shadow-responder", "give what the queue pair with this `QPN` was asked to a software RNIC, and show the first answer that differs")
	f.Var(&o.speed, "link-speed", "of paused links, for how long a pause lasts: 25G, 100G, 400G; 100G if not given")
	f.Uint8Var(&o.cnpDSCP, "cnp-dscp", 0, "the `DSCP` that CNPs should have: one with another is a finding")
	f.Var(&o.failOn, "fail-on", "exit code 3 if there is a finding at least as grave: note, warning or error")
	f.IntVar(&o.workers, "workers", 1, "cores that share the work on a file: less time to wait, about the same processor time")
	f.BoolVar(&o.noICRC, "no-icrc", false, "do not check invariant CRCs: faster, but damaged packets pass for good ones")
	f.Uint64VarP(&o.count, "count", "c", 0, "stop after reading `n` packets")
	o.decodeAs.add(cmd)
	o.exchange.add(f)
	o.privacy.add(f)
	f.UintVar(&o.top, "top", defaultTop, "show at most `n` connections and findings in the text; 0 is all")
	f.StringSliceVar(&o.counters.readings, "counters", nil, "compare a NIC's counters with the capture: two `files` or folders, before,after")
	f.StringSliceVar(&o.counters.host, "counters-host", nil, "whose counters they are, where they do not tell: the NIC's `address`, or several")
	_ = cmd.RegisterFlagCompletionFunc("filter", completeFilter)
	_ = cmd.RegisterFlagCompletionFunc("fail-on",
		cobra.FixedCompletions([]string{"note", "warning", "error"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// failOn is the value of --fail-on.
type failOn struct {
	set   bool
	least flows.Severity
}

func (f *failOn) Type() string { return "severity" }

func (f *failOn) String() string {
	if !f.set {
		return ""
	}
	return f.least.String()
}

func (f *failOn) Set(value string) error {
	s, ok := flows.ParseSeverity(value)
	if !ok {
		return errors.New("must be note, warning or error")
	}
	f.set, f.least = true, s
	return nil
}

// judge is the verdict: nil, or an error with exit code 3.
func (f *failOn) judge(d *report.Document) error {
	if !f.set {
		return nil
	}
	var n uint64
	for i := range d.Findings {
		if s, ok := flows.ParseSeverity(d.Findings[i].Severity); ok && s >= f.least {
			n++
		}
	}
	switch {
	case n == 0:
		return nil
	case f.least == flows.Error:
		return errJudged("%s (--fail-on error)", report.Plural(n, "error"))
	}
	return errJudged("%s of severity %s or graver (--fail-on %s)", report.Plural(n, "finding"), f.least, f.least)
}

// linkSpeed is the value of --link-speed, in bits per second.
type linkSpeed uint64

func (s *linkSpeed) Type() string { return "rate" }

func (s *linkSpeed) String() string {
	if *s == 0 {
		return ""
	}
	return fmt.Sprintf("%gG", float64(*s)/1e9)
}

func (s *linkSpeed) Set(text string) error {
	digits, unit := strings.TrimRight(text, "GgMm"), uint64(1e9)
	if rest := text[len(digits):]; strings.EqualFold(rest, "M") {
		unit = 1e6
	} else if len(rest) != 1 {
		return errors.New("must be a speed such as 25G or 100G")
	}
	n, err := strconv.ParseUint(digits, 10, 32)
	if err != nil || n == 0 {
		return errors.New("must be a speed such as 25G or 100G")
	}
	*s = linkSpeed(n * unit)
	return nil
}

// textOptions fit a text to the terminal.
func (a *app) textOptions(top uint) report.TextOptions {
	return report.TextOptions{Width: a.width(), Style: report.Style{Color: a.styles().on}, Top: int(top)}
}

// width is that of the terminal, 0 where results go elsewhere.
func (a *app) width() int {
	if !a.stdout.isTerminal {
		return 0
	}
	columns, _, err := term.GetSize(int(a.stdout.file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// sourceErrors are the sentences about inputs among a run's errors.
func sourceErrors(err error) []string {
	switch e := err.(type) {
	case nil:
		return nil
	case *engine.SourceError:
		return []string{strings.TrimPrefix(e.Err.Error(), "captures: ")}
	case interface{ Unwrap() []error }:
		var all []string
		for _, branch := range e.Unwrap() {
			all = append(all, sourceErrors(branch)...)
		}
		return all
	}
	return nil
}
