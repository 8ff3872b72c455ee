package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/bringup"
	"github.com/rocescope/rocescope/inject/connect"
	"github.com/rocescope/rocescope/inject/peer"
	"github.com/rocescope/rocescope/internal/report"
)

// bringupOptions are the options of `rocescope bringup`.
type bringupOptions struct {
	hostOptions
	hand, memory string
	timeout      uint8
	skip         []string
	json         bool
	target       bringup.Options
}

func newBringupCommand(a *app) *cobra.Command {
	var o bringupOptions
	cmd := &cobra.Command{
		Use:   "bringup TARGET",
		Short: "Take a new RDMA target from its first ARP to data that survives loss, step by step",
		Long: `Take a target that nobody has spoken to yet from its first ARP to data that survives loss:
ARP, ping, a datagram, a connection (by CM or by hand), a WRITE of one byte, WRITEs of all
critical sizes, READs of the same with a look at what stands beside them, atomics, and loss.

It stops at the first step that fails, and says what that usually means in a core, and where
to look; the exit code is then 3. With --json, all steps are listed with their meanings.

The target is "rocescope serve", or whatever answers CM (rdma_cm) on the port; memory that CM
does not tell is given by --memory, and a core that is set up through registers by --hand.`,
		Example: `  sudo rocescope bringup 10.9.0.2
  sudo rocescope bringup 10.9.0.2 --skip ATOMIC -m 4096
  sudo rocescope bringup 10.9.0.2 --memory rkey=0x1234,va=0x7f0000000000,length=65536
  sudo rocescope bringup 10.9.0.2 --hand qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000
  sudo rocescope bringup 10.9.0.2 --json | jq '.steps[] | select(.outcome == "failed")'`,
		Args:              arguments(1, 1, "a target"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			return a.bringup(cmd.Context(), args[0], &o)
		},
	}
	o.add(cmd, "the `interface` to send through (default: the one that the kernel takes)")
	f := cmd.Flags()
	f.StringVar(&o.hand, "hand", "", "the target's `numbers`: qpn=0x11,psn=0,rkey=0x1234,va=0x7f0000000000,length=65536")
	f.StringVar(&o.memory, "memory", "", "the target's `memory`, where CM does not tell it: rkey=0x1234,va=0x7f0000000000,length=65536")
	f.Uint8VarP(&o.timeout, "qp-timeout", "u", 14, "acknowledgements time out after 4.096 µs × 2^`n`")
	f.StringSliceVar(&o.skip, "skip", nil, "`steps` to leave out: "+strings.Join(stepNames(), ", "))
	f.BoolVar(&o.json, "json", false, "the result as JSON")
	_ = cmd.RegisterFlagCompletionFunc("skip", cobra.FixedCompletions(stepNames(), cobra.ShellCompDirectiveNoFileComp))
	_ = f.MarkHidden("connection") // its connection is RC
	return cmd
}

func stepNames() (names []string) {
	for _, s := range bringup.Steps() {
		names = append(names, s.Name)
	}
	return names
}

// check makes a target of the options, and finds what cannot be meant.
func (o *bringupOptions) check() error {
	if err := o.read(); err != nil {
		return err
	}
	t := &o.target
	t.MTU, t.Timeout = o.mtu, o.timeout
	switch {
	case o.transport != dissect.RC:
		return errUsage("bringup is for RC: leave -c out")
	case o.hand != "" && o.memory != "":
		return errUsage("--hand tells the memory as well: leave --memory out")
	case o.timeout < 1 || o.timeout > 31:
		return errUsage("-u cannot be %d; it is 1 to 31", o.timeout)
	}
	base := connect.Parameters{Transport: dissect.RC, MTU: o.mtu}
	if o.hand != "" {
		p, err := connect.ParseParameters(o.hand, base)
		if err != nil {
			return errUsage("--hand: %w", err)
		}
		t.Hand = &p
	}
	if o.memory != "" {
		p, err := connect.ParseParameters("qpn=2,"+o.memory, base) // any queue pair will do
		if err != nil {
			return errUsage("--memory: %w", err)
		}
		t.Memory = p.Memory
	}
	for _, name := range o.skip {
		at := slices.IndexFunc(stepNames(), func(s string) bool { return strings.EqualFold(s, name) })
		if at < 0 {
			return errUsage("--skip cannot be %q; steps are %s", name, strings.Join(stepNames(), ", "))
		}
		if step := stepNames()[at]; step == "connect" {
			return errUsage("--skip cannot be %q: all steps behind it need it", name)
		}
		t.Skip = append(t.Skip, stepNames()[at])
	}
	var err error
	o.host.Rules, err = bringup.Rules()
	return err
}

// bringup runs `rocescope bringup`.
func (a *app) bringup(ctx context.Context, target string, o *bringupOptions) error {
	to, err := o.reach(ctx, target)
	if err != nil {
		return err
	}
	if o.target.Peer = to; o.target.Hand != nil && !o.target.Hand.Address.IsValid() {
		o.target.Hand.Address = to.Addr()
	}
	if o.target.Hand == nil {
		o.host.Device.FirstQPN = peer.AnyQPN()
	}
	h, err := openHost(o.host)
	if err != nil {
		return err
	}
	defer h.Close()
	_ = denyCalls(true) // its capabilities it keeps: the echo that it asks for needs a socket of its own
	if o.mtu > h.Device().MTU() {
		return errUsage("-m %d: frames through %s take %d at most", o.mtu, o.iface, h.Device().MTU())
	}
	if !o.json {
		fmt.Fprintf(a.stderr, "Bring-up of %v from %s\n", to, where(h))
	}
	results, ok, err := bringup.Run(ctx, h, o.target, func(r bringup.Result) {
		if !o.json {
			a.printStep(&r)
		}
	})
	if o.json {
		if perr := a.printJSON(bringupDocument{bringupSchema, to.String(), ok, results}); err == nil {
			err = perr
		}
	}
	if err != nil {
		return peerError(err, o.iface)
	}
	if !ok {
		last := results[len(results)-1]
		return errJudged("the step %q failed; %d before it did not", last.Step.Name, len(results)-1)
	}
	return nil
}

// bringupSchema names the document of --json.
const bringupSchema = "rocescope.bringup/1"

type bringupDocument struct {
	Schema string           `json:"schema"`
	Target string           `json:"target"`
	Good   bool             `json:"good"`
	Steps  []bringup.Result `json:"steps"`
}

// stepWords are the outcomes in a line.
var stepWords = map[bringup.Outcome]string{bringup.Passed: "ok", bringup.Failed: "FAILED", bringup.Skipped: "skipped"}

func (a *app) printStep(r *bringup.Result) {
	out := a.stdout
	fmt.Fprintf(out, "%-8s %-8s %9s  %s\n", stepWords[r.Outcome], r.Step.Name, report.Duration(r.Took.Round(10*time.Microsecond)), r.Detail)
	if r.Outcome == bringup.Failed {
		for _, l := range [...][2]string{{"it was to prove", r.Step.Proves}, {"usually it means", r.Step.Means}, {"look at", r.Step.Look}} {
			fmt.Fprintf(out, "  %s:\n    %s\n", l[0], wrap(l[1], 96, "    "))
		}
	}
	_ = out.Flush() // its error sticks
}
