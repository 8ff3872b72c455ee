package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/route"
	"github.com/rocescope/rocescope/inject/stream"
	"github.com/rocescope/rocescope/internal/crash"
	"github.com/rocescope/rocescope/internal/report"
)

// Beyond these, sending through an interface has to be confirmed.
const (
	mostPackets  = 1_000_000
	mostDuration = 10 * time.Second
)

// fileRate is at what rate frames go to a file or a simulation, if no other is asked for; and fileStart the time of a file's
// first.
const (
	fileRate  = 100e9
	fileStart = 1_000_000_000 * int64(time.Second)
)

// dryPackets is how many packets --dry-run shows.
const dryPackets = 100

// injection is a stream under way.
type injection struct {
	a      *app
	o      *injectOptions
	stream *stream.Stream
	ports  []port.Port
	how    string // the frames leave
	faulty []*fault.Port
}

// inject runs `rocescope inject`.
func (a *app) inject(ctx context.Context, o *injectOptions) error {
	if err := o.resolve(); err != nil {
		return err
	}
	if o.dry {
		return a.injectDry(ctx, o)
	}
	i := &injection{a: a, o: o}
	if err := i.open(); err != nil {
		return err
	}
	defer i.close()
	if err := i.addFaults(); err != nil {
		return err
	}
	if err := i.stream.Prepare(i.ports); err != nil {
		return i.portError(err)
	}
	stop, err := startMetrics(o.metrics, i.metrics)
	if err != nil {
		return err
	}
	defer stop()
	if o.sim == "" {
		_ = dropPrivileges() // where that cannot be, the traffic is still wanted
	}
	if o.screen.on {
		return i.runOnScreen(ctx)
	}
	if !o.quiet {
		i.greet()
	}
	return i.run(ctx)
}

// resolve asks the kernel for the addresses that were not given.
func (o *injectOptions) resolve() error {
	out := &o.config.Outer
	if o.iface == "" {
		if out.DstMAC == [6]byte{} && out.SrcMAC == [6]byte{} { // those of nobody, for files
			out.DstMAC, out.SrcMAC = [6]byte{2, 0, 0, 0, 0, 2}, [6]byte{2, 0, 0, 0, 0, 1}
		}
		return nil
	}
	path := route.Path{Interface: o.iface, Src: out.Src, Dst: out.Dst, SrcMAC: out.SrcMAC, DstMAC: out.DstMAC}
	switch err := route.Find(&path); {
	case errors.Is(err, route.ErrNoInterface):
		return errUnavailable("%w; %s", err, suggestInterface(o.iface))
	case errors.Is(err, route.ErrNoRoute), errors.Is(err, route.ErrNoNeighbour):
		return fmt.Errorf("%w (--src, --dst-mac)", err)
	case err != nil:
		return errUnavailable("%w", err)
	}
	out.Src, out.SrcMAC, out.DstMAC = path.Src, path.SrcMAC, path.DstMAC
	return nil
}

// open makes the stream and opens where it goes.
func (i *injection) open() (err error) {
	switch o := i.o; {
	case o.write != "":
		return i.openFile()
	case o.sim != "":
		return i.openSimulation()
	}
	if i.stream, err = stream.New(i.o.config); err != nil {
		return errUsage("%w", err)
	}
	if err := i.confirm(); err != nil {
		return err
	}
	return i.openInterface()
}

// openInterface opens the best way through the interface, or the one that was asked for.
func (i *injection) openInterface() error {
	o := i.o
	po := port.Options{
		Via: o.via, Interface: o.iface, Queue: o.queue, MaxFrame: i.stream.MaxFrame(), SendOnly: o.noAnswers || !i.stream.Expects(),
	}
	if po.SendOnly {
		po.Queues = o.threads // else all that there are: the card spreads answers over them
	}
	var messages port.Messages
	if o.rules == nil && (po.SendOnly || o.via == port.ViaLive) {
		var err error
		messages, err = i.stream.Messages()
		if po.Repeats = err == nil; err != nil && o.via == port.ViaLive {
			return errUsage("--via live: %w", err)
		}
	}
	choice, err := port.Choose(po)
	if err != nil {
		return i.portError(err)
	}
	i.how = choice.Why
	if choice.Name == port.ViaLive {
		live, err := port.OpenLive(po, messages)
		if err != nil {
			return i.portError(err)
		}
		i.ports = []port.Port{live}
		return nil
	}
	po.Via = choice.Name
	if i.ports, _, err = port.Open(po); err != nil {
		return i.portError(err)
	}
	if len(i.ports) < o.threads {
		return errUsage("--threads %d: %s offers %d", o.threads, choice.Name, len(i.ports))
	}
	return nil
}

// openFile writes to a file at the times that the rate has.
func (i *injection) openFile() (err error) {
	o := i.o
	clock := o.fileClock()
	if i.stream, err = stream.New(o.config); err != nil {
		return errUsage("%w", err)
	}
	var f *port.File
	err = asInvoker(func() (err error) {
		f, err = port.OpenFile(port.Options{File: o.write, Overwrite: o.force, Clock: clock.Now, MaxFrame: i.stream.MaxFrame()})
		return err
	})
	switch {
	case errors.Is(err, os.ErrExist):
		return fmt.Errorf("%s is there already: --force overwrites it", o.write)
	case err != nil:
		return i.portError(err)
	}
	i.ports = []port.Port{f}
	return nil
}

// fileClock makes the stream one whose time passes by its rate.
func (o *injectOptions) fileClock() *stream.Virtual {
	clock := stream.NewVirtual(fileStart)
	c := &o.config
	if c.Clock = clock; c.Rate == (stream.Rate{}) {
		c.Rate.Bits = fileRate
	}
	if c.Burst == 0 {
		c.Burst = 1
	}
	return clock
}

// simulationClock is that of a simulated core, whose time passes while its answers are waited for.
type simulationClock struct{ p *port.Pipe }

func (c *simulationClock) Now() int64         { return c.p.Now() }
func (c *simulationClock) Wait(time.Duration) {}

// openSimulation starts a simulated core.
func (i *injection) openSimulation() error {
	p, err := port.OpenPipe(port.Options{Command: strings.Fields(i.o.sim)})
	if err != nil {
		return i.portError(err)
	}
	i.ports = []port.Port{p}
	c := &i.o.config
	c.Clock, c.Turns = &simulationClock{p}, true
	if c.Rate == (stream.Rate{}) {
		c.Rate.Bits = fileRate
	}
	if i.stream, err = stream.New(*c); err != nil {
		p.Close()
		return errUsage("%w", err)
	}
	return nil
}

// confirm asks before a lot is sent.
func (i *injection) confirm() error {
	o := i.o
	_, packets := i.stream.Asked()
	if o.yes || packets <= mostPackets && o.config.Duration <= mostDuration {
		return nil
	}
	what := report.Plural(packets, "packet")
	if packets == 0 {
		what = fmt.Sprintf("traffic for %v", o.config.Duration)
	}
	what += fmt.Sprintf(" to %v through %s", o.config.Outer.Dst, o.iface)
	if !isTerminal(i.a.stdin) || !isTerminal(i.a.stderr) {
		return errUsage("%s is a lot: --yes says that it is meant", what)
	}
	fmt.Fprintf(i.a.stderr, "Send %s? [y/N] ", what)
	answer, _ := bufio.NewReader(i.a.stdin).ReadString('\n')
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		return errUsage("nothing was sent")
	}
	return nil
}

// portError gives an error of a port its exit code, and says what to do.
func (i *injection) portError(err error) error {
	plain := &prefixError{err, "port: "}
	switch {
	case errors.Is(err, port.ErrPrivilege):
		return errUnavailable("%w\nTo send, be root (sudo), or let this program do it once and for all:\n  %s", plain, setcap(xdpCapabilities))
	case errors.Is(err, port.ErrFrameSize), errors.Is(err, port.ErrGone), errors.Is(err, port.ErrDown),
		errors.Is(err, port.ErrBusy), errors.Is(err, port.ErrNotSupported):
		return errUnavailable("%w", plain)
	}
	return plain
}

// prefixError leaves the name of a package out of what an error says.
type prefixError struct {
	err    error
	prefix string
}

func (e *prefixError) Error() string { return strings.TrimPrefix(e.err.Error(), e.prefix) }
func (e *prefixError) Unwrap() error { return e.err }

func (i *injection) close() {
	for _, p := range i.ports {
		p.Close()
	}
}

// greet says what is going to happen.
func (i *injection) greet() {
	c, info := &i.o.config, i.ports[0].Info()
	to := i.o.write
	switch {
	case to == "-":
		to = "standard output"
	case i.o.sim != "":
		to = i.o.sim
	case info.Interface != "":
		to = fmt.Sprintf("%s through %s", c.Outer.Dst, info.Interface)
	}
	fmt.Fprintf(i.a.stderr, "Sending %s to %s, seed %d\n", i.o.describe(), to, c.Seed)
	if i.how != "" {
		fmt.Fprintf(i.a.stderr, "  by %s (%s)\n", i.how, info.Detail)
	}
}

// describe says what is sent.
func (o *injectOptions) describe() string {
	var parts []string
	for i := range o.config.Mix {
		op := &o.config.Mix[i]
		parts = append(parts, op.Operation.Name+"@"+strings.ToLower(op.Transport.String()))
	}
	text := strings.Join(parts, " ")
	if len(parts) > 4 {
		text = fmt.Sprintf("a mix of %d operations", len(parts))
	}
	return fmt.Sprintf("%s on %s", text, report.Plural(uint64(o.config.QPs), "QP"))
}

// run sends, and reports.
func (i *injection) run(ctx context.Context) error {
	type ended struct {
		r   *stream.Result
		err error
	}
	done := make(chan ended, 1)
	go func() {
		defer crash.Guard()
		r, err := i.stream.Run(ctx, i.ports)
		done <- ended{r, err}
	}()
	var ticks <-chan time.Time
	if !i.o.quiet {
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		ticks = tick.C
	}
	status := newInjectStatus(i)
	for {
		select {
		case <-ticks:
			status.print()
		case end := <-done:
			status.clear()
			return i.finish(end.r, end.err)
		}
	}
}

// finish reports, and gives errors their exit codes.
func (i *injection) finish(r *stream.Result, err error) error {
	if r == nil {
		return i.portError(err)
	}
	for _, p := range i.ports {
		if cerr := p.Close(); cerr != nil && err == nil {
			err = cerr
		}
	}
	i.ports = nil
	if perr := i.report(r); perr != nil {
		return perr
	}
	if err != nil {
		return i.portError(err)
	}
	if r.Stopped > 0 {
		q := firstStopped(r)
		return fmt.Errorf("%d of %s had to stop; the first: QP 0x%06x, %s at PSN 0x%06x", r.Stopped, report.Plural(uint64(len(r.QPs)), "QP"), q.Dest, q.Stopped.What, q.Stopped.PSN)
	}
	return nil
}

func firstStopped(r *stream.Result) *stream.QPResult {
	for i := range r.QPs {
		if r.QPs[i].Stopped != nil {
			return &r.QPs[i]
		}
	}
	return nil
}

// injectDry shows what would be sent.
func (a *app) injectDry(ctx context.Context, o *injectOptions) error {
	clock := o.fileClock()
	o.config.Packets = dryPackets
	s, err := stream.New(o.config)
	if err != nil {
		return errUsage("%w", err)
	}
	dir, err := os.MkdirTemp("", "rocescope-inject-")
	if err != nil {
		return fmt.Errorf("dry run: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "packets.pcapng")
	p, err := port.OpenFile(port.Options{File: file, Clock: clock.Now, MaxFrame: s.MaxFrame()})
	if err != nil {
		return err
	}
	i := &injection{a: a, o: o, stream: s, ports: []port.Port{p}}
	if err := i.addFaults(); err != nil {
		p.Close()
		return err
	}
	r, err := s.Run(ctx, i.ports)
	if err = errors.Join(err, p.Close()); err != nil {
		return err
	}
	if err := runShow(ctx, a, newInput([]string{file}), &showOptions{time: "r"}); err != nil {
		return err
	}
	if messages, packets := s.Asked(); r.Packets == dryPackets && packets != r.Packets {
		more := "until " + o.config.Duration.String() + " are over"
		if messages > 0 {
			more = fmt.Sprintf("about %s in all, in %s", report.Plural(packets, "packet"), report.Plural(messages, "message"))
		}
		fmt.Fprintf(a.stderr, "… %s\n", more)
	}
	return nil
}
