package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/inject/fault"
	"github.com/rocescope/rocescope/inject/port"
	"github.com/rocescope/rocescope/inject/stream"
)

// services are the transports of streams.
var services = []dissect.Transport{dissect.RC, dissect.UC, dissect.UD}

// injectOptions are the options of `rocescope inject`, named as in perftest where it has them.
type injectOptions struct {
	screen                screenFlags
	iface, write, sim     string
	via                   string
	force, yes            bool
	json, dry, quiet      bool
	metrics               string // address
	noAnswers             bool
	threads, queue        int
	src, dst              string
	srcMAC, dstMAC        string
	size, service         string
	mtu, qps              int
	count                 uint64
	duration              injectDuration
	port                  uint16
	qpn, local, psn, rkey string
	va, sport             string
	region, access        string
	qkey, pkey            uint32
	dscp, ecn, pcp, ttl   uint8
	label                 uint32
	vlans                 []string
	payload, rate         string
	burst, window         int
	interleave            bool
	onNAK                 string
	seed                  uint64

	config stream.Config
	faults faultOptions
	rules  *fault.Set             // nil without any
	given  func(name string) bool // whether the command line, or the file, has an option
}

// add adds the options.
func (o *injectOptions) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.SortFlags = false
	o.screen.add(cmd)
	f.StringVarP(&o.iface, "interface", "i", "", "the `interface` to send through")
	f.StringVarP(&o.write, "write", "w", "", "write the frames to a pcapng `file` instead, - for standard output")
	f.StringVar(&o.sim, "sim", "", "send to a simulated core that this `command` starts, over its standard input and output")
	f.BoolVar(&o.force, "force", false, "overwrite the file if it is there")
	f.StringVar(&o.dst, "dst", "", "destination `address`")
	f.StringVar(&o.src, "src", "", "source `address` (default: the one that the kernel takes)")
	f.StringVar(&o.dstMAC, "dst-mac", "", "destination MAC `address` (default: the kernel's neighbour table)")
	f.StringVar(&o.srcMAC, "src-mac", "", "source MAC `address` (default: the interface's)")

	f.StringVarP(&o.size, "size", "s", "", "message `size`: 4096, 64K, a range 64-4096, weights 64=7,1K=2,1M=1 (default 64K, on UD the MTU)")
	f.IntVarP(&o.mtu, "mtu", "m", 1024, "path MTU in `bytes`: 256, 512, 1024, 2048 or 4096")
	f.IntVarP(&o.qps, "qps", "q", 1, "how `many` queue pairs, of each service")
	f.Uint64VarP(&o.count, "iters", "n", 1000, "how `many` messages on each queue pair")
	f.VarP(&o.duration, "duration", "D", "send for so `long`: 10, 1.5, 2m; -n then has no default")
	f.StringVarP(&o.service, "connection", "c", "RC", "the `service` of operations that name none: RC, UC or UD")
	f.Uint16VarP(&o.port, "port", "p", dissect.PortRoCEv2, "UDP destination `port`")

	f.StringVar(&o.qpn, "qpn", "0x11+1", "destination `QPNs`: 7, 0x11+1 or 5,9")
	f.StringVar(&o.local, "local-qpn", "0x11+1", "own `QPNs`, to which answers come")
	f.StringVar(&o.psn, "psn", "0", "first `PSNs`")
	f.StringVar(&o.rkey, "rkey", "0x1000", "remote `keys`")
	f.StringVar(&o.va, "va", "0", "remote virtual `addresses` where the regions begin")
	f.StringVar(&o.region, "region", "1G", "`bytes` from there on that may be touched")
	f.StringVar(&o.access, "access", "ring", "`how`: linear (goes on without end), ring or random")
	f.StringVar(&o.sport, "sport", "", "UDP source `ports` (default: spread over 0xc000 to 0xffff by queue pair)")
	f.Uint32Var(&o.qkey, "qkey", 0x11111111, "Q_`Key` of UD")
	f.Uint32Var(&o.pkey, "pkey", dissect.DefaultPKey, "partition `key`")

	f.Uint8Var(&o.dscp, "dscp", 0, "differentiated services code `point`, 0 to 63")
	f.Uint8Var(&o.ecn, "ecn", 2, "ECN `bits`: 0 not capable, 1 ECT(1), 2 ECT(0), 3 CE")
	f.StringSliceVar(&o.vlans, "vlan", nil, "VLAN `ID`, or ID:PCP; two for an outer and an inner tag")
	f.Uint8Var(&o.pcp, "pcp", 0, "`priority` of VLAN tags that say none, 0 to 7")
	f.Uint8Var(&o.ttl, "ttl", 64, "time to live, or hop `limit`")
	f.Uint32Var(&o.label, "flow-label", 0, "IPv6 flow `label`")
	f.StringVar(&o.payload, "payload", "counter", "`what`: zero, counter, prbs or file:NAME")

	f.StringVar(&o.rate, "rate", "", "`how` fast: 10G (bits of frames per second), 1Mpps (packets per second) (default: as fast as can be)")
	f.IntVar(&o.burst, "burst", 0, "`packets` at a time (default 64, less at low rates)")
	f.BoolVar(&o.interleave, "interleave", false, "queue pairs take turns after each packet, not after each message")
	f.IntVar(&o.window, "window", 0, "at most so many `PSNs` of a queue pair without acknowledgement (default: no limit)")
	f.StringVar(&o.onNAK, "on-nak", "go-back", "`what` to do: go-back (to the PSN that is asked for), stop or ignore")
	f.Uint64Var(&o.seed, "seed", 1, "`number` that all that is random comes from")

	o.faults.add(f)
	f.StringVar(&o.via, "via", "", "`how` to send: "+strings.Join(viaNames(), ", ")+" (default: the best that can)")
	f.IntVar(&o.threads, "threads", 1, "how `many` queues to send through, each with a thread")
	f.IntVar(&o.queue, "queue", 0, "the `first` of the queues")
	f.BoolVar(&o.noAnswers, "no-answers", false, "do not look at what comes back")
	f.BoolVar(&o.yes, "yes", false, "send more than 1,000,000 packets, or for more than 10 s, without asking")
	f.BoolVar(&o.dry, "dry-run", false, "show the first packets, and send nothing")
	f.BoolVar(&o.json, "json", false, "the result as JSON")
	addMetricsFlag(f, &o.metrics)
	f.BoolVar(&o.quiet, "quiet", false, "no line each second, only the result")

	_ = cmd.RegisterFlagCompletionFunc("interface", completeInterface)
	for name, values := range map[string][]string{
		"via": viaNames(), "connection": {"RC", "UC", "UD"}, "access": {"linear", "ring", "random"}, "mtu": {"256", "512", "1024", "2048", "4096"},
		"on-nak": {"go-back", "stop", "ignore"}, "payload": {"zero", "counter", "prbs", "file:"}, "ecn": {"0", "1", "2", "3"},
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	}
}

// injectDuration is a number of seconds, or a duration with its unit.
type injectDuration struct{ d time.Duration }

func (d *injectDuration) Type() string { return "duration" }

func (d *injectDuration) String() string {
	if d.d == 0 {
		return ""
	}
	return d.d.String()
}

func (d *injectDuration) Set(text string) error {
	v, err := time.ParseDuration(text)
	if err != nil {
		var s float64
		if s, err = strconv.ParseFloat(text, 64); err == nil && s < 1e9 {
			v = time.Duration(s * float64(time.Second))
		}
	}
	if err != nil || v <= 0 {
		return errors.New("a duration is 10, 1.5 (seconds), 500ms or 2m")
	}
	d.d = v
	return nil
}

// read makes a configuration of the command line, and of a file that it may name.
func (o *injectOptions) read(cmd *cobra.Command, args []string) error {
	o.given = func(name string) bool { return cmd.Flags().Changed(name) }
	var ops []stream.Op
	switch words := args; {
	case args[0] == "mix":
		if words = args[1:]; len(words) == 0 {
			return errUsage("mix needs operations: rocescope inject mix write=3 read")
		}
		for _, word := range words {
			op, err := o.operation(word)
			if err != nil {
				return err
			}
			ops = append(ops, op)
		}
	case len(args) > 1:
		return errUsage("inject takes one operation, so %q is one too many; %q mixes several", args[1], "rocescope inject mix "+strings.Join(args, " "))
	case strings.HasSuffix(args[0], ".yaml") || strings.HasSuffix(args[0], ".yml"):
		var err error
		if ops, err = o.readFile(cmd, args[0]); err != nil {
			return err
		}
	default:
		op, err := o.operation(args[0])
		if err != nil {
			return err
		}
		ops = append(ops, op)
	}
	o.config.Mix = ops
	if err := o.configure(); err != nil {
		return err
	}
	var err error
	if o.rules, err = o.faults.read(o.seed, o.given("seed")); err == nil && o.rules != nil && o.via == port.ViaLive {
		err = errUsage("--via live: the frames are made in the kernel, where no rule can act; leave --via out, or --fault and --faults")
	}
	return err
}

// operation reads a word of a mix.
func (o *injectOptions) operation(word string) (stream.Op, error) {
	service, err := stream.ParseTransport(o.service)
	if err != nil {
		return stream.Op{}, errUsage("--connection: %w", err)
	}
	op, err := stream.ParseOp(word, service)
	var unknown *stream.UnknownOperationError
	if errors.As(err, &unknown) {
		names := []string{"mix"}
		for _, k := range stream.Operations() {
			names = append(names, k.Name)
		}
		if near := nearest(unknown.Name, names); near != "" {
			return op, errUsage("%w; did you mean %q?", err, near)
		}
		return op, errUsage("%w; there are %s, and files end in .yaml", err, strings.Join(names[1:], ", "))
	}
	if err != nil {
		return op, errUsage("%w", err)
	}
	return op, nil
}

// configure makes the stream's configuration of the options, but for addresses that the kernel knows.
func (o *injectOptions) configure() error {
	c := &o.config
	c.MTU, c.QPs, c.QKey, c.PKey, c.Seed = o.mtu, o.qps, o.qkey, uint16(o.pkey), o.seed
	c.Burst, c.Window, c.Interleave, c.Threads = o.burst, o.window, o.interleave, o.threads
	c.Count, c.Duration = o.count, o.duration.d
	if c.Duration > 0 && !o.given("iters") {
		c.Count = 0
	}
	var wrong error
	option := func(name string, err error) {
		if err != nil && wrong == nil {
			wrong = errUsage("--%s: %w", name, err)
		}
	}
	series := func(name, text string, most uint64) (s stream.Series) {
		s, err := stream.ParseSeries(text, most)
		option(name, err)
		return s
	}
	const most24 = 1<<24 - 1
	c.DestQPN, c.LocalQPN, c.PSN = series("qpn", o.qpn, most24), series("local-qpn", o.local, most24), series("psn", o.psn, most24)
	c.RKey, c.VA = series("rkey", o.rkey, 1<<32-1), series("va", o.va, 1<<64-1)
	if o.sport != "" {
		c.SrcPort = series("sport", o.sport, 1<<16-1)
	}
	var err error
	if o.size != "" {
		c.Size, err = stream.ParseSizes(o.size)
		option("size", err)
	}
	c.Region, err = stream.ParseBytes(o.region, 1<<62)
	option("region", err)
	if o.rate != "" {
		c.Rate, err = stream.ParseRate(o.rate)
		option("rate", err)
	}
	if name, ok := strings.CutPrefix(o.payload, "file:"); ok {
		c.Payload, err = stream.PatternFile(name)
	} else {
		c.Payload, err = stream.Named(o.payload)
	}
	option("payload", err)
	choice := func(name, value string, values ...string) int {
		i := slices.Index(values, value)
		if i < 0 {
			option(name, fmt.Errorf("%q cannot be; there are %s", value, strings.Join(values, ", ")))
		}
		return i
	}
	c.Access = stream.Access(choice("access", o.access, "linear", "ring", "random"))
	c.OnNAK = stream.Policy(choice("on-nak", o.onNAK, "go-back", "stop", "ignore"))
	if o.pkey > 1<<16-1 {
		option("pkey", fmt.Errorf("0x%x is too large: a partition key has 16 bits", o.pkey))
	}
	if wrong != nil {
		return wrong
	}
	if err := o.outer(); err != nil {
		return err
	}
	return o.check()
}

// outer sets what packets travel in.
func (o *injectOptions) outer() error {
	out := &o.config.Outer
	switch {
	case o.dscp > 63:
		return errUsage("--dscp cannot be %d; it is 0 to 63", o.dscp)
	case o.ecn > 3:
		return errUsage("--ecn cannot be %d; it is 0 to 3", o.ecn)
	case o.pcp > 7:
		return errUsage("--pcp cannot be %d; it is 0 to 7", o.pcp)
	case o.pcp != 0 && len(o.vlans) == 0:
		return errUsage("--pcp is the priority of a VLAN tag: --vlan says which; 0 is a tag of priority alone")
	case o.label > 0xFFFFF:
		return errUsage("--flow-label cannot be 0x%x; it has 20 bits", o.label)
	case len(o.vlans) > 2:
		return errUsage("--vlan: a frame has two tags at most")
	}
	out.TrafficClass, out.HopLimit, out.FlowLabel, out.DstPort = o.dscp<<2|o.ecn, o.ttl, o.label, o.port
	for _, text := range o.vlans {
		id, pcp, own := strings.Cut(text, ":")
		v, err := strconv.ParseUint(id, 0, 12)
		p := uint64(o.pcp)
		if own && err == nil {
			p, err = strconv.ParseUint(pcp, 0, 3)
		}
		if err != nil {
			return errUsage("--vlan cannot be %q; it is an ID from 0 to 4095, or ID:PCP with a priority from 0 to 7", text)
		}
		out.VLANs = append(out.VLANs, uint16(p<<13|v))
	}
	for _, a := range []struct {
		name, text string
		to         *netip.Addr
	}{{"src", o.src, &out.Src}, {"dst", o.dst, &out.Dst}} {
		if a.text == "" {
			continue
		}
		addr, err := netip.ParseAddr(a.text)
		if err != nil {
			return errUsage("--%s cannot be %q; it is an IPv4 or IPv6 address", a.name, a.text)
		}
		*a.to = addr.Unmap().WithZone("")
	}
	for _, m := range []struct {
		name, text string
		to         *[6]byte
	}{{"src-mac", o.srcMAC, &out.SrcMAC}, {"dst-mac", o.dstMAC, &out.DstMAC}} {
		if m.text == "" {
			continue
		}
		mac, err := net.ParseMAC(m.text)
		if err != nil || len(mac) != 6 {
			return errUsage("--%s cannot be %q; it is a MAC address such as 02:00:00:00:00:01", m.name, m.text)
		}
		copy(m.to[:], mac)
	}
	return nil
}

// check finds what cannot be meant together.
func (o *injectOptions) check() error {
	out := &o.config.Outer
	switch {
	case o.dst == "":
		return errUsage("inject needs a destination: --dst ADDRESS")
	case o.iface == "" && o.write == "" && o.sim == "" && !o.dry:
		return errUsage("inject needs an interface (-i IFACE), a file (-w FILE), a simulation (--sim COMMAND) or --dry-run")
	case o.iface != "" && o.write != "":
		return errUsage("-i sends and -w writes to a file: one of them; \"rocescope capture\" writes down what is on an interface")
	case o.sim != "" && (o.iface != "" || o.write != ""):
		return errUsage("--sim is where frames go: leave -i and -w out")
	case o.iface == "" && !out.Src.IsValid():
		return errUsage("without an interface to ask, inject needs a source address: --src ADDRESS")
	case o.iface == "" && o.via != "":
		return errUsage("--via says how to send through an interface: -i names it")
	case o.via != "" && !slices.Contains(viaNames(), o.via):
		if near := nearest(o.via, viaNames()); near != "" {
			return errUsage("--via cannot be %q; did you mean %q?", o.via, near)
		}
		return errUsage("--via cannot be %q; there are %s", o.via, strings.Join(viaNames(), ", "))
	case o.threads < 1 || o.threads > 256 || o.queue < 0:
		return errUsage("--threads is 1 to 256, and --queue 0 or more")
	case o.count == 0 && o.duration.d == 0:
		return errUsage("-n 0 is no message at all; -D sends for a time")
	}
	if err := o.config.Check(); err != nil {
		return errUsage("%w", err)
	}
	return nil
}
