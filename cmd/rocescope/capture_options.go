package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/captures"
)

// liveOptions say what is captured, in every command that can.
type liveOptions struct {
	name      string // -i
	filter    string // -f
	snap      uint   // -s
	ring      uint   // -B, MiB
	rings     uint
	normal    bool   // -p
	direction string // -Q
	engine    string
	clock     string
	tcpPorts  []uint
}

// maxRings is more than there are cores.
const maxRings = 1024

// add adds all of the options.
func (o *liveOptions) add(f *pflag.FlagSet) {
	o.addBrief(f)
	f.UintVarP(&o.snap, "snapshot-length", "s", 0, "keep at most so many `bytes` of each packet")
	f.StringVarP(&o.direction, "direction", "Q", "inout", "`which` packets: in, out or inout")
	f.BoolVarP(&o.normal, "no-promiscuous-mode", "p", false, "only packets that are for this host")
	f.UintVarP(&o.ring, "buffer-size", "B", 64, "size of the kernel's ring in `MiB`")
	f.UintVar(&o.rings, "rings", 0, "share packets between so many `rings`, by the core that got them, and -B between the rings; 0 is one for each queue, at most one for each core, and 8")
	f.StringVar(&o.engine, "engine", "packet", "`how`: packet (a copy; the host goes on seeing them) or xdp (takes them from the host)")
	f.StringVar(&o.clock, "time-stamp-type", "host", "whose `clock`: host or adapter, where the card has one")
	f.UintSliceVar(&o.tcpPorts, "tcp-port", nil, "capture TCP of these `ports` too, where programs exchange QP numbers")
}

// addBrief adds those that commands have which also read files.
func (o *liveOptions) addBrief(f *pflag.FlagSet) {
	f.StringVarP(&o.name, "interface", "i", "", "the `interface` to capture from")
	f.StringVarP(&o.filter, "capture-filter", "f", "", "capture `filter`; see above (default: default)")
}

// check finds what is wrong before any privilege is needed.
func (o *liveOptions) check() error {
	if err := captures.CheckFilter(o.filter); err != nil {
		var fe *captures.FilterError
		if errors.As(err, &fe) {
			return errUsage("-f: %s\n  %s\n  %s^", fe.Reason, fe.Filter, strings.Repeat(" ", len([]rune(fe.Filter[:fe.Offset]))))
		}
		return errUsage("-f: %w", &plainError{err})
	}
	_, err := o.captures()
	return err
}

// captures are the same options for package captures.
func (o *liveOptions) captures() (captures.LiveOptions, error) {
	c := captures.LiveOptions{
		Interface: o.name, Filter: o.filter, SnapLen: int(min(o.snap, math.MaxInt32)), NoPromiscuous: o.normal,
		Ring: int(min(o.ring, 1<<12-1)) << 20, Rings: int(min(o.rings, maxRings)), Engine: captures.Engine(o.engine),
	}
	switch o.engine {
	case "", "packet", "xdp":
	default:
		return c, errUsage("--engine cannot be %q; it is packet or xdp", o.engine)
	}
	if o.engine == "xdp" && o.rings > 0 {
		return c, errUsage("--rings is about the engine packet; the engine xdp has a ring for each queue of the interface")
	}
	switch o.direction {
	case "", "inout":
	case "in":
		c.Direction = captures.In
	case "out":
		c.Direction = captures.Out
	default:
		return c, errUsage("-Q cannot be %q; it is in, out or inout", o.direction)
	}
	switch o.clock {
	case "", "host":
	case "adapter", "adapter_unsynced":
		c.Clock = captures.AdapterClock
	default:
		return c, errUsage("--time-stamp-type cannot be %q; it is host or adapter", o.clock)
	}
	if len(o.tcpPorts) > 0 {
		filter := strings.TrimSpace(o.filter)
		if filter == "none" || filter == "all" {
			return c, errUsage("--tcp-port adds to a filter, and -f %s lets all pass", filter)
		}
		if filter == "" {
			filter = "default"
		}
		c.Filter = "(" + filter + ")"
		for _, p := range o.tcpPorts {
			c.Filter += fmt.Sprintf(" or tcp port %d", p)
		}
		if captures.CheckFilter(c.Filter) != nil {
			return c, errUsage("--tcp-port is followed by ports from 0 to 65535")
		}
	}
	return c, nil
}

// stopLimits are the value of -a, and of -c.
type stopLimits struct {
	packets  uint64
	size     int64
	files    int
	duration time.Duration
	text     []string
}

func (l *stopLimits) add(f *pflag.FlagSet, which string) {
	l.addStop(f, which)
	f.Uint64VarP(&l.packets, "count", "c", 0, "stop after `n` packets")
}

func (l *stopLimits) addStop(f *pflag.FlagSet, which string) {
	f.VarP(l, "autostop", "a", which)
}

func (l *stopLimits) String() string { return strings.Join(l.text, ",") }
func (l *stopLimits) Type() string   { return "limit" }

func (l *stopLimits) Set(value string) error {
	kind, number, err := limit(value)
	if err != nil {
		return err
	}
	l.text = append(l.text, value)
	switch kind {
	case "duration":
		l.duration = seconds(number)
	case "packets":
		l.packets = uint64(number)
	case "filesize":
		l.size = int64(number * 1000)
	case "files":
		l.files = int(number)
	default:
		return fmt.Errorf("there are duration:SECONDS, packets:N, filesize:KB and files:N")
	}
	return nil
}

// rotation is the value of -b.
type rotation struct {
	r    captures.Rotation
	text []string
}

func (r *rotation) String() string { return strings.Join(r.text, ",") }
func (r *rotation) Type() string   { return "limit" }

func (r *rotation) Set(value string) error {
	kind, number, err := limit(value)
	if err != nil {
		return err
	}
	r.text = append(r.text, value)
	switch kind {
	case "duration":
		r.r.Duration = seconds(number)
	case "packets":
		r.r.Packets = uint64(number)
	case "filesize":
		r.r.Bytes = int64(number * 1000)
	case "files":
		r.r.Files = int(number)
	default:
		return fmt.Errorf("there are filesize:KB, duration:SECONDS, packets:N and files:N")
	}
	return nil
}

// limit reads KIND:NUMBER. Only durations may be broken.
func limit(value string) (kind string, number float64, err error) {
	kind, text, ok := strings.Cut(value, ":")
	if !ok {
		return "", 0, errors.New("a limit looks like duration:10")
	}
	number, err = strconv.ParseFloat(text, 64)
	if err != nil || !(number > 0) || number > 1e15 || kind != "duration" && number != math.Trunc(number) || kind == "duration" && number > 1e9 {
		return "", 0, fmt.Errorf("%q is no number that can be a limit", text)
	}
	return kind, number, nil
}

func seconds(n float64) time.Duration { return max(1, time.Duration(n*float64(time.Second))) }

// completeInterface completes the value of -i.
func completeInterface(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	if all, err := captures.LiveInterfaces(); err == nil {
		for _, i := range all {
			names = append(names, cobra.CompletionWithDesc(i.Name, strings.Join(aboutInterface(&i), ", ")))
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
