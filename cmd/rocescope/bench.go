package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/internal/report"
)

// benchOperations are the operations of bench, and perftest's programs for them.
var benchOperations = []struct{ name, program string }{{"write", "ib_write"}, {"read", "ib_read"}, {"send", "ib_send"}, {"atomic", "ib_atomic"}}

func benchNames() (names []string) {
	for _, o := range benchOperations {
		names = append(names, o.name)
	}
	return names
}

func newBenchCommand(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench write|read|send|atomic PEER",
		Short: "Measure an RDMA target: bandwidth, message rate, latency, and whether the data is right",
		Long: `Connect to a peer, send it messages of one operation, and measure: perftest's table, the
percentiles of latency, what had to be sent again, and a verdict.

The peer is "rocescope serve"; with --perftest a server of perftest (ib_write_bw and its kin,
started with the same options, -R and -z among them), with --pingpong one of the ibv_*_pingpong
programs, with -R anybody who is connected by CM (rdma_cm), and with --hand a core that is set
up through registers, whose numbers are given.

--verify fills messages with a pattern and has each checked where it arrives: it finds data
that is wrong, not only data that is missing. It needs "rocescope serve" at the other end.

With --lat, one message at a time is under way. Its latency is from posting it to its
completion; where the other side answers (send; write with --perftest), it is half a round
trip, as in perftest.`,
		Example: `  sudo rocescope bench write 10.9.0.2
  sudo rocescope bench read 10.9.0.2 -s 1M -m 4096 -D 10
  sudo rocescope bench send 10.9.0.2 -c UD -s 1024 --verify
  sudo rocescope bench atomic 10.9.0.2 -q 8 -n 10000
  sudo rocescope bench write 10.9.0.2 --lat -s 64
  sudo rocescope bench write 10.9.0.2 -a --json
  sudo rocescope bench write 10.9.0.2 --verify --fault 'drop probability=1%'
  sudo rocescope bench write 10.9.0.2 --perftest            ib_write_bw at the other end
  sudo rocescope bench send 10.9.0.2 --perftest --lat       ib_send_lat
  sudo rocescope bench write 10.9.0.2 --perftest -R         ib_write_bw -R
  sudo rocescope bench send 10.9.0.2 --pingpong -s 4096     ibv_rc_pingpong
  sudo rocescope bench write 10.9.0.2 -R                    connections by CM
  sudo rocescope bench write 10.9.0.2 --hand qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000`,
		Args:              arguments(2, 2, "an operation ("+strings.Join(benchNames(), ", ")+") and a peer"),
		ValidArgsFunction: completeBench,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.given = cmd.Flags().Changed
			o.operation, o.peer = args[0], args[1]
			if err := o.check(); err != nil {
				return err
			}
			return a.bench(cmd.Context(), &o)
		},
	}
	o.add(cmd, "the `interface` to send through (default: the one that the kernel takes)")
	o.screen.add(cmd)
	f := cmd.Flags()
	f.StringVarP(&o.size, "size", "s", "", "message `size` (default 64K, on UD the MTU; with --lat 2)")
	f.IntVarP(&o.qps, "qps", "q", 1, "how `many` queue pairs")
	f.Uint64VarP(&o.count, "iters", "n", 1000, "how `many` messages on each queue pair")
	f.VarP(&o.duration, "duration", "D", "send for so `long`: 10, 1.5, 2m; -n then has no default")
	f.IntVarP(&o.depth, "tx-depth", "t", 128, "how `many` messages may be outstanding on a queue pair")
	f.Uint8VarP(&o.timeout, "qp-timeout", "u", 14, "acknowledgements time out after 4.096 µs × 2^`n`")
	f.IntVarP(&o.outs, "outs", "o", 16, "how `many` READs and atomics may be outstanding on a queue pair")
	f.BoolVarP(&o.all, "all", "a", false, "all sizes from 2 to 8388608")
	f.BoolVar(&o.lat, "lat", false, "latency: one message at a time")
	f.BoolVar(&o.imm, "imm", false, "with immediate data (write, send)")
	f.StringVarP(&o.atomic, "atomic_type", "A", "FETCH_AND_ADD", "`which` atomic: FETCH_AND_ADD or CMP_AND_SWAP")
	f.BoolVar(&o.verify, "verify", false, "check the data of every message at the other end")
	f.Uint64Var(&o.seed, "seed", 0, "`number` that the pattern, and all that is random in faults, comes from (default: random)")
	f.BoolVarP(&o.cm, "cm", "R", false, "connect by CM (rdma_cm)")
	f.BoolVarP(&o.talkCM, "comm_rdma_cm", "z", false, "with --perftest: talk over a queue pair of CM's")
	f.BoolVar(&o.perftest, "perftest", false, "the peer is a program of perftest")
	f.BoolVar(&o.pingpong, "pingpong", false, "the peer is ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong")
	f.BoolVar(&o.ipv6, "ipv6", false, "queue pairs of IPv6 addresses, though the conversation is with an IPv4 one (perftest -x)")
	f.StringArrayVar(&o.hand, "hand", nil, "the peer's `numbers`: qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000; once for each queue pair")
	f.IntVar(&o.window, "window", 0, "at most so many `packets` of a queue pair without acknowledgement (default 256)")
	f.BoolVar(&o.paced, "paced", false, "heed congestion notifications (DCQCN)")
	o.addThreads(f)
	o.faults.add(f)
	f.BoolVar(&o.json, "json", false, "the result as JSON")
	_ = cmd.RegisterFlagCompletionFunc("atomic_type", cobra.FixedCompletions([]string{"FETCH_AND_ADD", "CMP_AND_SWAP"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func completeBench(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return benchNames(), cobra.ShellCompDirectiveNoFileComp
}

// bench runs `rocescope bench`.
func (a *app) bench(ctx context.Context, o *benchOptions) error {
	if err := o.resolve(ctx); err != nil {
		return err
	}
	o.host.Device.MaxQP = max(64, 2*o.qps)
	o.spread(o.qps) // more would only hand over to each other
	h, err := openHost(o.host)
	if err != nil {
		return err
	}
	defer h.Close()
	_ = dropPrivileges() // where that cannot be, the measurement is still wanted
	if want := o.mtu; want > h.Device().MTU() {
		return errUsage("-m %d: frames through %s take %d at most", want, o.iface, h.Device().MTU())
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "%s to %v from %s\n", o.describe(), o.to, where(h))
	}
	out := newBenchPrinter(a, o, h)
	if o.screen.on {
		return a.benchOnScreen(ctx, o, h, out)
	}
	failed := a.measure(ctx, o, h, out.row)
	return a.benched(o, h, out, failed)
}

// measure measures all sizes, and hands each result on.
func (a *app) measure(ctx context.Context, o *benchOptions, h *peer.Host, row func(*load.Result)) error {
	from, err := o.from(h.Addrs())
	if err != nil {
		return err
	}
	for _, size := range o.sizes() {
		plan := o.plan
		plan.Size = size
		result, err := load.Measure(ctx, h, plan, peer.Request{
			Way: o.way, Peer: o.to, Hand: o.remote, Perftest: connect.PerftestOptions{Program: o.program, OverCM: o.cm || o.talkCM, QPsByCM: o.cm},
			Local: connect.Parameters{Address: from, MTU: o.pathMTU(), AckTimeout: o.timeout, InitiatorDepth: uint8(o.outs), ResponderResources: uint8(o.outs)},
		})
		if result != nil {
			row(result)
		}
		if err != nil {
			return o.peerFailed(err)
		}
	}
	return nil
}

// benched ends the table, and gives what went wrong its exit code.
func (a *app) benched(o *benchOptions, h *peer.Host, out *benchPrinter, failed error) error {
	for _, told := range port.Trouble(h.Port()) {
		fmt.Fprintln(a.stderr, "rocescope: "+told)
	}
	if err := out.end(failed); err != nil {
		return err
	}
	if failed == nil && out.wrong > 0 {
		return errJudged("%s arrived with wrong data; the first: %s", report.Plural(out.wrong, "message"), out.first)
	}
	return failed
}

// sizes are the sizes that are measured.
func (o *benchOptions) sizes() []int {
	if !o.all {
		return []int{o.plan.Size}
	}
	var all []int
	for n := 2; n <= 8<<20 && (o.transport != dissect.UD || n <= o.pathMTU()); n *= 2 {
		all = append(all, n)
	}
	return all
}

// peerFailed says of an error what to do about it.
func (o *benchOptions) peerFailed(err error) error {
	switch {
	case errors.Is(err, errInterrupted):
		return nil // what was there is reported
	case refusedConnection(err) && o.perftest:
		return fmt.Errorf("%v: nobody listens there: start %s at the other end first, with the same options (-p is its port)", o.to, o.program)
	case refusedConnection(err):
		return fmt.Errorf("%v: nobody listens there: start \"rocescope serve\" at the other end first (-p is its port; --perftest is for programs of perftest)", o.to)
	case timedOut(err):
		return fmt.Errorf("%v does not answer: is it there, and is there a way to it?", o.to)
	}
	var completion *load.CompletionError
	if errors.As(err, &completion) && likely[completion.Status] != "" {
		return fmt.Errorf("%w: %s", err, likely[completion.Status])
	}
	return peerError(err, o.iface)
}

// likely are the likely causes of completions with errors, at the far end or on the way there.
var likely = map[rnic.Status]string{
	rnic.RetryExcErr:    "the peer has gone, its queue pair failed, or packets to it or from it do not arrive",
	rnic.RNRRetryExcErr: "the peer posts no receives, or too few",
	rnic.RemAccessErr:   "the peer's memory has another R_Key, lies elsewhere, is shorter, or may not be used like this",
	rnic.RemInvReqErr:   "the peer does not take such a request: longer than its receives, or of a kind that its queue pair does not allow",
	rnic.RemOpErr:       "the peer could not carry it out",
	rnic.BadRespErr:     "the peer answers something else than was asked for",
}

func (o *benchOptions) describe() string {
	mode := "bandwidth"
	if o.lat {
		mode = "latency"
	}
	return fmt.Sprintf("%v %s, %v, %s", o.plan.Op, mode, o.transport, report.Plural(uint64(o.qps), "QP"))
}
