package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/wire"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/version"
)

// wireOptions are the options of `rocescope wire`.
type wireOptions struct {
	screen     screenFlags
	interfaces [2]string
	faults     faultOptions
	seed       uint64
	seeded     bool
	write      string
	force      bool
	via        string
	duration   injectDuration
	json       bool
	quiet      bool
}

func newWireCommand(a *app) *cobra.Command {
	var o wireOptions
	cmd := &cobra.Command{
		Use:   "wire IFACE1 IFACE2",
		Short: "Join two interfaces as a cable would, and break what you want on the way",
		Long: `Join two interfaces: every frame that comes in at one goes out at the other, as it is. Rules
lose, copy, delay, reorder, damage or alter the packets that they choose, also those of
hardware RoCE, which the host's own tools cannot touch. What is not RoCE passes, and VLAN
tags stay. The way out is from the first interface to the second, in the way back.

While this command runs it is the cable: when it ends, for whatever reason, the link is down.
-w writes every frame as it came in, with the rule that struck it as a comment, and those
that rules changed or made as they went out. docs/wire.md has the details, docs/faults.md
the rules.`,
		Example: `  rocescope wire eth1 eth2
  rocescope wire eth1 eth2 -w both.pcapng --fault 'drop nth=3 when bth.opcode == RC_RDMA_WRITE_MIDDLE'
  rocescope wire eth1 eth2 --fault 'ecn every=100 when bth.opcode in {0..0xb}' --fault 'ACK-01 nth=7'
  rocescope wire eth1 eth2 --fault 'drop probability=0.1%' --seed 7 -D 60
  rocescope wire eth1 eth2 --faults rules.yaml --json`,
		Args:              arguments(2, 2, "two interfaces"),
		ValidArgsFunction: completeInterface,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.interfaces = [2]string(args)
			o.seeded = cmd.Flags().Changed("seed")
			return a.wire(cmd.Context(), &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.faults.add(f)
	o.screen.add(cmd)
	f.Uint64Var(&o.seed, "seed", 1, "`number` that all that is random comes from")
	f.StringVarP(&o.write, "write", "w", "", "write both directions to a pcapng `file`")
	f.BoolVar(&o.force, "force", false, "overwrite the file if it is there")
	f.VarP(&o.duration, "duration", "D", "end after so `long`: 10, 1.5, 2m")
	f.StringVar(&o.via, "via", "", "`how` to receive and send: xdp or packet (default: the best that both interfaces can)")
	f.BoolVar(&o.json, "json", false, "the result as JSON")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "no lines each second, only the result")
	_ = cmd.RegisterFlagCompletionFunc("via", cobra.FixedCompletions([]string{port.ViaXDP, port.ViaPacket}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// cable is a wire under way.
type cable struct {
	a     *app
	o     *wireOptions
	rules *fault.Set
	wire  *wire.Wire
	rec   *captures.Recorder
	began time.Time
	drawn int
	last  [2]wire.Stats
	at    time.Time
	down  string
}

// wire runs `rocescope wire`.
func (a *app) wire(ctx context.Context, o *wireOptions) (err error) {
	if o.via != "" && o.via != port.ViaXDP && o.via != port.ViaPacket {
		return errUsage("--via cannot be %q; there are xdp and packet", o.via)
	}
	c := &cable{a: a, o: o}
	if c.rules, err = o.faults.read(o.seed, o.seeded); err != nil {
		return err
	}
	if o.write != "" {
		if err := c.record(); err != nil {
			return err
		}
		defer func() {
			if cerr := c.rec.Close(); err == nil && cerr != nil {
				err = &plainError{cerr}
			}
		}()
	}
	if c.wire, err = wire.Open(wire.Options{Interfaces: o.interfaces, Via: o.via, Rules: c.rules, Record: c.rec}); err != nil {
		if c.rec != nil {
			_ = os.Remove(o.write) // there is nothing in it
		}
		return wireError(err)
	}
	defer c.wire.Close()
	_ = dropPrivileges() // where that cannot be, the cable is still wanted
	if o.screen.on {
		return c.runOnScreen(ctx)
	}
	c.greet()
	return c.run(ctx)
}

func (c *cable) record() error {
	err := asInvoker(func() (err error) {
		c.rec, err = captures.NewRecorder(captures.RecorderOptions{
			Path: c.o.write, Force: c.o.force,
			WriterOptions: captures.WriterOptions{Application: "rocescope " + version.Get().Version, Interfaces: wire.Described(c.o.interfaces)},
		})
		return err
	})
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s is there already: --force overwrites it", c.o.write)
	case err != nil:
		return &plainError{err}
	}
	return nil
}

// wireError gives an error of opening or running its exit code, and says what to do.
func wireError(err error) error {
	plain := &prefixError{&prefixError{err, "wire: "}, "port: "}
	switch {
	case errors.Is(err, port.ErrPrivilege):
		return errUnavailable("%w\nTo join interfaces, be root (sudo), or let this program do it once and for all:\n  %s", plain, setcap(xdpCapabilities))
	case errors.Is(err, port.ErrGone), errors.Is(err, port.ErrDown), errors.Is(err, port.ErrBusy), errors.Is(err, port.ErrNotSupported):
		return errUnavailable("%w", plain)
	}
	return plain
}

// greet says what is joined, and what will happen.
func (c *cable) greet() {
	if c.o.quiet {
		return
	}
	info, why := c.wire.Via()
	fmt.Fprintf(c.a.stderr, "%s and %s are joined by %s (%s), MTU %d\n", c.o.interfaces[0], c.o.interfaces[1], info.Via, info.Detail, info.MTU)
	if why != "" {
		fmt.Fprintf(c.a.stderr, "  %s\n", why)
	}
	if c.rules != nil {
		fmt.Fprintf(c.a.stderr, "  %s, seed %d\n", report.Plural(uint64(len(c.rules.Rules)), "rule"), c.rules.Seed)
	}
}

// run is the cable until something ends it, and reports.
func (c *cable) run(ctx context.Context) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	done := make(chan error, 1)
	c.began = time.Now()
	c.at = c.began
	go func() {
		defer crash.Guard()
		done <- c.wire.Run(running)
	}()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	var over <-chan time.Time
	if c.o.duration.d > 0 {
		timer := time.NewTimer(c.o.duration.d)
		defer timer.Stop()
		over = timer.C
	}
	ended := ctx.Done()
	for {
		select {
		case <-tick.C:
			c.watch()
			if !c.o.quiet {
				c.print()
			}
		case <-over:
			end()
		case <-ended:
			end()
			ended = nil
		case err := <-done:
			return c.finish(err)
		}
	}
}

// watch says once when an interface goes down, or is up again.
func (c *cable) watch() {
	down := strings.Join(c.wire.Down(), " and ")
	if down == c.down {
		return
	}
	c.clear()
	if down == "" {
		fmt.Fprintf(c.a.stderr, "%s and %s are joined again\n", c.o.interfaces[0], c.o.interfaces[1])
	} else {
		fmt.Fprintf(c.a.stderr, "The link is down: %s\n", down)
	}
	c.down = down
}

// finish says that the link is down, and reports.
func (c *cable) finish(err error) error {
	c.clear()
	took := time.Since(c.began)
	stats, counts := c.wire.Stats(), c.wire.Counts()
	if cerr := c.wire.Close(); err == nil {
		err = cerr
	}
	fmt.Fprintf(c.a.stderr, "The link is down: %s and %s are not joined any more\n", c.o.interfaces[0], c.o.interfaces[1])
	var perr error
	if c.o.json {
		perr = c.a.printJSON(c.document(took, stats, counts))
	} else {
		_, perr = io.WriteString(c.a.stdout, c.table(stats, counts))
	}
	if err != nil {
		err = wireError(err)
	}
	return errors.Join(err, perr)
}
