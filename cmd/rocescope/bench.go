package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/inject/route"
	"github.com/rocescope/rocescope/inject/stream"
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

// benchOptions are the options of `rocescope bench`, named as in perftest.
type benchOptions struct {
	hostOptions
	size      string
	qps       int
	count     uint64
	duration  injectDuration
	depth     int
	timeout   uint8
	outs      int
	cm        bool
	perftest  bool
	pingpong  bool
	hand      []string
	all       bool
	lat       bool
	imm       bool
	atomic    string
	verify    bool
	seed      uint64
	json      bool
	window    int
	paced     bool
	given     func(string) bool
	operation string
	peer      string
	to        netip.AddrPort
	way       peer.Way
	plan      load.Plan
	program   string
	remote    []connect.Parameters
}

func newBenchCommand(a *app) *cobra.Command {
	var o benchOptions
	cmd := &cobra.Command{
		Use:   "bench write|read|send|atomic PEER",
		Short: "Measure an RDMA target: bandwidth, message rate, latency, and whether the data is right",
		Long: `Connect to a peer, send it messages of one operation, and measure: perftest's table, the
percentiles of latency, what had to be sent again, and a verdict.

The peer is "rocescope serve"; with --perftest a server of perftest (ib_write_bw and its kin,
started with the same options), with --pingpong one of the ibv_*_pingpong programs, with -R
anybody who is connected by CM (rdma_cm), and with --hand a core that is set up through
registers, whose numbers are given.

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
  sudo rocescope bench write 10.9.0.2 --perftest            ib_write_bw at the other end
  sudo rocescope bench send 10.9.0.2 --perftest --lat       ib_send_lat
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
	f.Uint64Var(&o.seed, "seed", 0, "`number` that the pattern comes from (default: random)")
	f.BoolVarP(&o.cm, "cm", "R", false, "connect by CM (rdma_cm)")
	f.BoolVar(&o.perftest, "perftest", false, "the peer is a program of perftest")
	f.BoolVar(&o.pingpong, "pingpong", false, "the peer is ibv_rc_pingpong, ibv_uc_pingpong or ibv_ud_pingpong")
	f.StringArrayVar(&o.hand, "hand", nil, "the peer's `numbers`: qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000; once for each queue pair")
	f.IntVar(&o.window, "window", 0, "at most so many `packets` of a queue pair without acknowledgement (default 256)")
	f.BoolVar(&o.paced, "paced", false, "heed congestion notifications (DCQCN)")
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

// check makes a plan of the options, and finds what cannot be meant.
func (o *benchOptions) check() error {
	if err := o.read(); err != nil {
		return err
	}
	op := -1
	for i, b := range benchOperations {
		if b.name == o.operation {
			op = i
		}
	}
	if op < 0 {
		if near := nearest(o.operation, benchNames()); near != "" {
			return errUsage("unknown operation %q; did you mean %q?", o.operation, near)
		}
		return errUsage("unknown operation %q; there are %s", o.operation, strings.Join(benchNames(), ", "))
	}
	if err := o.chooseWay(op); err != nil {
		return err
	}
	p := &o.plan
	p.Transport, p.QPs, p.Depth, p.Count, p.Duration, p.Verify, p.Seed = o.transport, o.qps, o.depth, o.count, o.duration.d, o.verify, o.seed
	p.Policy = rnic.Policy{Window: o.window, Paced: o.paced}
	if p.Duration > 0 && !o.given("iters") {
		p.Count = 0
	}
	if p.Seed == 0 {
		p.Seed = rand.Uint64()
	}
	switch o.operation {
	case "write":
		p.Op = rnic.OpWrite
	case "read":
		p.Op = rnic.OpRead
	case "send":
		p.Op = rnic.OpSend
	case "atomic":
		switch o.atomic {
		case "FETCH_AND_ADD":
			p.Op = rnic.OpFetchAdd
		case "CMP_AND_SWAP":
			p.Op = rnic.OpCompareSwap
		default:
			return errUsage("--atomic_type cannot be %q; it is FETCH_AND_ADD or CMP_AND_SWAP", o.atomic)
		}
	}
	if err := o.checkTogether(); err != nil {
		return err
	}
	if o.lat {
		p.Depth = 1
		switch {
		case p.Op == rnic.OpSend && o.way != peer.ByHand && o.way != peer.ByCM:
			p.Rally = load.SendRally
		case p.Op == rnic.OpWrite && o.perftest:
			p.Rally = load.WriteRally
		}
	}
	return o.readSize()
}

// checkTogether finds what cannot be meant together.
func (o *benchOptions) checkTogether() error {
	p := &o.plan
	switch {
	case o.qps < 1 || o.qps > 1<<20:
		return errUsage("-q cannot be %d; it is 1 to 1048576", o.qps)
	case o.depth < 1 || o.depth > 1<<16:
		return errUsage("-t cannot be %d; it is 1 to 65536", o.depth)
	case o.outs < 1 || o.outs > rnic.MaxRdAtomic:
		return errUsage("-o cannot be %d; it is 1 to %d", o.outs, rnic.MaxRdAtomic)
	case o.timeout > 31:
		return errUsage("-u cannot be %d; it is 0 to 31", o.timeout)
	case o.window < 0:
		return errUsage("--window cannot be %d; it is 1 or more", o.window)
	case p.Count == 0 && p.Duration == 0:
		return errUsage("-n 0 is no message at all; -D sends for a time")
	case o.imm && p.Op != rnic.OpWrite && p.Op != rnic.OpSend:
		return errUsage("--imm is for write and send")
	case o.verify && o.way != peer.ByExchange:
		return errUsage("--verify needs \"rocescope serve\" at the other end, and a connection by its own exchange: nobody else checks what arrives")
	case o.all && o.way != peer.ByExchange:
		return errUsage("-a needs \"rocescope serve\" at the other end")
	case o.all && (o.given("size") || o.operation == "atomic"):
		return errUsage("-a is all sizes: leave -s out, and atomics have one")
	case o.perftest && p.Duration > 0 && (p.Op == rnic.OpSend || o.lat):
		return errUsage("with --perftest, send and --lat have to be told how many messages there are: -n, the same as the program has")
	case o.pingpong && p.Op != rnic.OpSend:
		return errUsage("the pingpong programs take SENDs: rocescope bench send %s --pingpong", o.peer)
	case o.pingpong && o.qps > 1:
		return errUsage("a pingpong program has one queue pair: leave -q out")
	case len(o.hand) > 0 && len(o.hand) != o.qps:
		return errUsage("-q %d needs --hand as many times", o.qps)
	case o.transport == dissect.UD && p.Op != rnic.OpSend:
		return errUsage("UD has SENDs alone: rocescope bench send %s -c UD", o.peer)
	case o.transport == dissect.UC && (p.Op == rnic.OpRead || o.operation == "atomic"):
		return errUsage("UC has no %s: leave -c out", o.operation)
	}
	if o.imm {
		p.Op++ // the same with immediate
	}
	return nil
}

// chooseWay finds how to connect.
func (o *benchOptions) chooseWay(op int) error {
	ways := []struct {
		on   bool
		name string
		way  peer.Way
	}{
		{o.cm, "--cm", peer.ByCM}, {o.perftest, "--perftest", peer.ByPerftest}, {o.pingpong, "--pingpong", peer.ByPingpong}, {len(o.hand) > 0, "--hand", peer.ByHand},
	}
	var on []string
	for _, w := range ways {
		if w.on {
			on = append(on, w.name)
			o.way = w.way
		}
	}
	if len(on) > 1 {
		return errUsage("%s are different ways to connect: one of them", strings.Join(on, " and "))
	}
	o.program = benchOperations[op].program + "_bw"
	if o.lat {
		o.program = benchOperations[op].program + "_lat"
	}
	if o.pingpong {
		o.lat = true
	}
	base := connect.Parameters{Transport: o.transport, MTU: o.pathMTU()}
	for _, text := range o.hand {
		p, err := connect.ParseParameters(text, base)
		if err != nil {
			return errUsage("--hand: %w", err)
		}
		o.remote = append(o.remote, p)
	}
	return nil
}

// pathMTU is the path MTU that is asked for.
func (o *benchOptions) pathMTU() int {
	if o.mtu == 0 {
		return 1024
	}
	return o.mtu
}

// readSize finds the size of messages.
func (o *benchOptions) readSize() error {
	p := &o.plan
	switch {
	case o.operation == "atomic":
		if o.size != "" && o.size != "8" {
			return errUsage("-s cannot be %s: atomics have 8 bytes", o.size)
		}
		p.Size = 8
	case o.size != "":
		n, err := stream.ParseBytes(o.size, 1<<30)
		if err != nil {
			return errUsage("--size: %w", err)
		}
		p.Size = int(n)
	case o.pingpong && o.transport == dissect.UD:
		p.Size = 1024
	case o.pingpong:
		p.Size = 4096
	case o.lat:
		p.Size = 2
	case o.transport == dissect.UD:
		p.Size = o.pathMTU()
	default:
		p.Size = 64 << 10
	}
	if o.transport == dissect.UD && p.Size > o.pathMTU() {
		return errUsage("-s %d: a datagram of UD has to fit into the path MTU, %d bytes", p.Size, o.pathMTU())
	}
	if _, err := p.Traffic(); err != nil {
		return errUsage("%w", err)
	}
	return nil
}

// resolve finds the peer's address, and the interface to it.
func (o *benchOptions) resolve(ctx context.Context) error {
	addr, err := netip.ParseAddr(o.peer)
	if err != nil {
		all, err := net.DefaultResolver.LookupNetIP(ctx, "ip", o.peer)
		if err != nil || len(all) == 0 {
			return fmt.Errorf("%s: nobody knows an address of that name", o.peer)
		}
		addr = all[0]
	}
	addr = addr.Unmap()
	o.to = netip.AddrPortFrom(addr, o.port)
	for i := range o.remote {
		if !o.remote[i].Address.IsValid() {
			o.remote[i].Address = addr
		}
	}
	if o.iface != "" {
		return nil
	}
	if o.iface, err = route.InterfaceTo(addr); err != nil {
		return fmt.Errorf("%w (-i)", err)
	}
	o.host.Interface = o.iface
	return nil
}

// bench runs `rocescope bench`.
func (a *app) bench(ctx context.Context, o *benchOptions) error {
	if err := o.resolve(ctx); err != nil {
		return err
	}
	o.host.Device.MaxQP = max(64, 2*o.qps)
	h, err := openHost(o.host)
	if err != nil {
		return err
	}
	defer h.Close()
	if want := o.mtu; want > h.Device().MTU() {
		return errUsage("-m %d: frames through %s take %d at most", want, o.iface, h.Device().MTU())
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "%s to %v from %s\n", o.describe(), o.to, where(h))
	}
	out := newBenchPrinter(a, o)
	var failed error
	for _, size := range o.sizes() {
		plan := o.plan
		plan.Size = size
		result, err := load.Measure(ctx, h, plan, peer.Request{
			Way: o.way, Peer: o.to, Hand: o.remote, Perftest: connect.PerftestOptions{Program: o.program},
			Local: connect.Parameters{MTU: o.pathMTU(), AckTimeout: o.timeout, InitiatorDepth: uint8(o.outs), ResponderResources: uint8(o.outs)},
		})
		if result != nil {
			out.row(result)
		}
		if err != nil {
			failed = o.peerFailed(err)
			break
		}
	}
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
