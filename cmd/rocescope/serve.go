package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/inject/load"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/inject/rnic"
	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/report"
)

// serveOptions are the options of `rocescope serve`.
type serveOptions struct {
	hostOptions
	program        string
	size           string
	count          uint64
	pingpong       int
	region, memory string
	connections    int
	json, quiet    bool
	misbehave      []string
	metrics        string // address
	events         string // file
	screen         screenFlags
	faults         faultOptions
	seed           uint64
	seeded         bool

	serving load.Serving
}

func newServeCommand(a *app) *cobra.Command {
	var o serveOptions
	cmd := &cobra.Command{
		Use:   "serve -i IFACE",
		Short: "Be an RDMA target: memory, all operations, connections by CM and by socket",
		Long: `Be a software RNIC that others connect to: memory to write, read and add to, receives for
what they send, on RC, UC and UD queue pairs. It answers "rocescope bench", perftest's
programs, the ibv_*_pingpong programs and connections by CM (rdma_cm), all on one port, until
Ctrl-C.

It shares the interface's addresses with the kernel, or has addresses of its own (--address),
for which it answers ARP, neighbour discovery and pings; those take no connections by socket.

perftest's and the pingpong programs do not tell their service, so -c has to be theirs. Of its
latency programs, ib_write_lat and ib_send_lat want answers: --program names it, with -s and -n
as the client has them.`,
		Example: `  sudo rocescope serve -i eth1
  sudo rocescope serve -i eth1 -c UD                        for ib_send_bw -c UD, ibv_ud_pingpong
  sudo rocescope serve -i eth1 --program ib_write_lat -s 64 for ib_write_lat -s 64
  sudo rocescope serve -i eth1 --address 10.9.0.77          an address that the kernel does not have
  sudo rocescope serve -i eth1 --json | jq .
  sudo rocescope serve -i eth1 --misbehave rnr-missing      a device that does it wrong, to test testers with
  rocescope serve --misbehave list
  sudo rocescope serve -i eth1 --events run.jsonl           each connection, state and error, also in a file
  sudo rocescope serve -i eth1 --fault 'drop nth=3 when bth.opcode == RC_ACKNOWLEDGE'`,
		Args: arguments(0, 0, ""),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if slices.Contains(o.misbehave, "list") {
				return a.listMisbehaviours(o.json)
			}
			o.seeded = cmd.Flags().Changed("seed")
			if err := o.check(); err != nil {
				return err
			}
			return a.serve(cmd.Context(), &o)
		},
	}
	o.add(cmd, "the `interface` to serve on")
	f := cmd.Flags()
	f.StringVar(&o.program, "program", "", "the latency `program` of perftest that is answered: "+strings.Join(answeredPrograms(), " or "))
	f.StringVarP(&o.size, "size", "s", "2", "with --program ib_write_lat, the message `size` that the client has")
	f.Uint64VarP(&o.count, "iters", "n", 1000, "with --program ib_write_lat, how `many` messages")
	f.IntVar(&o.pingpong, "pingpong-mtu", 1024, "path MTU of the pingpong programs in `bytes`, which do not tell it")
	f.StringVar(&o.region, "region", "8M", "`bytes` of memory for a client that does not tell what it needs")
	f.StringVar(&o.memory, "memory", "1G", "`bytes` of memory for all clients")
	f.IntVar(&o.connections, "connections", 16000, "how `many` queue pairs there may be")
	f.StringSliceVar(&o.misbehave, "misbehave", nil, "do wrong what the `name` says, as real devices were seen to; list lists the names")
	o.addThreads(f)
	o.faults.add(f)
	o.screen.add(cmd)
	f.Uint64Var(&o.seed, "seed", 1, "`number` that all that is random in faults comes from")
	addMetricsFlag(f, &o.metrics)
	f.StringVar(&o.events, "events", "", "write connections, states of queue pairs and errors into this `file`, a JSON object a line (rocescope.events/1)")
	f.BoolVar(&o.json, "json", false, "each event, and the counters of each second, as a line of JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no line each second, only connections and the final table")
	_ = cmd.RegisterFlagCompletionFunc("misbehave", completeMisbehaviour)
	_ = cmd.RegisterFlagCompletionFunc("program", cobra.FixedCompletions(answeredPrograms(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// rallies are the programs whose messages are answered.
var rallies = map[string]load.Rally{"ib_write_lat": load.WriteRally, "ib_send_lat": load.SendRally}

func answeredPrograms() []string { return []string{"ib_send_lat", "ib_write_lat"} }

// check finds what cannot be meant.
func (o *serveOptions) check() error {
	if o.iface == "" {
		return errUsage("serve needs an interface: -i IFACE")
	}
	if err := o.read(); err != nil {
		return err
	}
	rally, ok := rallies[o.program]
	switch {
	case o.program != "" && !ok:
		return errUsage("--program cannot be %q; those that want answers are %s", o.program, strings.Join(answeredPrograms(), " and "))
	case !slices.Contains([]int{256, 512, 1024, 2048, 4096}, o.pingpong):
		return errUsage("--pingpong-mtu cannot be %d; path MTUs are 256, 512, 1024, 2048 and 4096", o.pingpong)
	case o.connections < 1 || o.connections > 1<<20:
		return errUsage("--connections cannot be %d; it is 1 to 1048576", o.connections)
	case o.count < 1:
		return errUsage("-n cannot be 0")
	}
	for _, name := range o.misbehave {
		if _, err := rnic.FindMisbehaviour(name); err != nil {
			return errUsage("--misbehave: %w", err)
		}
	}
	o.host.Device.Misbehave = o.misbehave
	var err error
	if o.host.Rules, err = o.faults.read(o.seed, o.seeded); err != nil {
		return err
	}
	s := &o.serving
	s.Rally, s.RallyCount, s.Connections = rally, o.count, o.connections
	for _, b := range []struct {
		name, text string
		most       uint64
		to         func(uint64)
	}{
		{"size", o.size, 1 << 30, func(n uint64) { s.RallySize = int(n) }},
		{"region", o.region, 1 << 30, func(n uint64) { s.Region = int(n) }},
		{"memory", o.memory, 1 << 40, func(n uint64) { s.Memory = n }},
	} {
		n, err := stream.ParseBytes(b.text, b.most)
		if err != nil || n == 0 {
			return errUsage("--%s cannot be %q; it is a number of bytes such as 64K", b.name, b.text)
		}
		b.to(n)
	}
	if rally == load.WriteRally && s.RallySize > s.Region {
		return errUsage("--size %s is more than a client gets: --region %s", o.size, o.region)
	}
	o.host.Device.MaxQP = o.connections + 1
	o.host.Device.MTU = o.mtu
	o.spread(rnic.MaxQueues)
	return nil
}

// serveEvents is how many events may wait to be printed.
const serveEvents = 4096

// serve runs `rocescope serve`.
func (a *app) serve(ctx context.Context, o *serveOptions) (err error) {
	happenings := make(chan load.Happening, serveEvents)
	p := newServePrinter(a, o)
	var log *serveLog
	tell := func(h load.Happening) {
		if log != nil {
			log.happened(&h)
		}
		select {
		case happenings <- h:
		default:
			p.missed.Add(1)
		}
	}
	o.serving.Tell = tell
	o.host.Event = func(e rnic.Event) {
		if e.QP != nil && e.Type != rnic.EventCommEst {
			tell(load.Happening{Kind: load.Broken, Err: fmt.Errorf("QP 0x%06x: %v", e.QP.QPN(), e.Type)})
		}
	}
	if o.events != "" {
		if log, err = newServeLog(o.events, o.iface); err != nil {
			return err
		}
		o.host.State = log.state
	}
	h, err := openHost(o.host)
	if err != nil {
		return errors.Join(err, log.close(0, 0))
	}
	r, err := load.NewResponder(h, o.serving)
	if err != nil {
		return errors.Join(err, h.Close(), log.close(0, 0))
	}
	defer func() {
		h.Close()
		_, s := h.Port()
		err = errors.Join(err, log.close(s.Received+s.Sent, r.Totals().Conversations))
	}()
	at, err := h.Listen(ctx, peer.Listening{
		Port: o.port, Transport: o.transport, MTU: o.mtu, Pingpong: o.pingpong, Accept: r.Accept,
		Failed: func(addr netip.AddrPort, err error) { tell(load.Happening{Kind: load.Refused, Peer: addr, Err: err}) },
	})
	if err != nil {
		return err
	}
	stop, err := startMetrics(o.metrics, metricsOf(h))
	if err != nil {
		return err
	}
	defer stop()
	_ = dropPrivileges() // where that cannot be, to serve is still wanted
	if o.screen.on {
		err := a.serveOnScreen(ctx, o, h, p, happenings)
		p.final(h, r)
		return err
	}
	p.greet(h, at)
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-happenings:
			p.happened(e)
		case <-tick.C:
			p.second(h)
		case <-h.Done():
			p.final(h, r)
			return peerError(h.Err(), o.iface)
		case <-ctx.Done():
			for len(happenings) > 0 {
				p.happened(<-happenings)
			}
			p.final(h, r)
			return nil
		}
		if err := a.stdout.Flush(); err != nil {
			return err
		}
	}
}

// rates are what a second gave.
func rates(now, before servedCounters) string {
	d := now.minus(before)
	parts := []string{
		fmt.Sprintf("%s frames in, %s out", report.Count(d.Port.Received), report.Count(d.Port.Sent)),
		fmt.Sprintf("%s in, %s out", report.BitRate(float64(d.Port.RecvBytes)*8), report.BitRate(float64(d.Port.SentBytes)*8)),
	}
	for _, c := range d.notable() {
		if c.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", report.Count(c.n), c.what))
		}
	}
	return strings.Join(parts, "  ")
}
