package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/dissect"
	"github.com/rocescope/rocescope/internal/annotate"
	"github.com/rocescope/rocescope/internal/convert"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/version"
)

// convertOptions are the options of convert as they are typed.
type convertOptions struct {
	from      string
	signals   []string
	bus       string
	byteOrder string
	clock     string
	time      string
	link      string
	force     bool
}

func newConvertCommand(a *app) *cobra.Command {
	o := &convertOptions{}
	cmd := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Turn what a core saw on its AXI-Stream into a capture, or one capture format into another",
		Long: `Turn a logic analyzer's CSV or a simulator's VCD of an AXI-Stream into a capture: a frame from
each tlast to the next, of the beats where tvalid and tready are 1 and of the bytes that tkeep
keeps, with the time and the number of the clock cycle of its first beat. What the core saw can
then be compared with what the wire saw.

Any other IN is a capture, and is written in the format that OUT's ending names: .pcap or .pcapng,
with .gz or .zst behind if it is to be compressed. pcap cannot hold comments and several link types.`,
		Example: `  rocescope convert ila.csv core.pcapng --clock 322.265625MHz
  rocescope convert sim.vcd core.pcapng --bus rx_axis
  rocescope convert sim.vcd core.pcapng --signal clk=tb.clk_322,tdata=tb.dut.m_data --byte-order big
  rocescope diff core.pcapng wire.pcapng
  rocescope convert trace.pcapng.zst trace.pcap`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 {
				return errUsage("convert reads one file and writes another: rocescope convert IN OUT")
			}
			return runConvert(cmd.Context(), a, args[0], args[1], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.from, "from", "", "what IN is: csv, vcd or capture (default: by its ending)")
	f.StringSliceVar(&o.signals, "signal", nil, "where a signal is, for instance tdata=top.rx.data; "+strings.Join(convert.Signals, ", "))
	f.StringVar(&o.bus, "bus", "", "what the names of the stream's signals contain, where there are several streams")
	f.StringVar(&o.byteOrder, "byte-order", "little", "little: the first byte on the wire is tdata[7:0], as AXI has it; big: the topmost")
	f.StringVar(&o.clock, "clock", "", "the clock's frequency or period (322.265625MHz, 3.1ns): times count cycles")
	f.StringVar(&o.time, "time", "", "the column of a CSV that has the time, in the unit in its name or seconds (default: one named time)")
	f.StringVar(&o.link, "link", "ethernet", "what frames begin with: ethernet, ip or infiniband")
	f.BoolVar(&o.force, "force", false, "overwrite OUT if it is there")
	_ = cmd.RegisterFlagCompletionFunc("from", cobra.FixedCompletions([]string{"csv", "vcd", "capture"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("byte-order", cobra.FixedCompletions([]string{"little", "big"}, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("link", cobra.FixedCompletions([]string{"ethernet", "ip", "infiniband"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runConvert(ctx context.Context, a *app, in, out string, o *convertOptions) error {
	format, compression, err := convert.FormatOf(out)
	if err != nil {
		return errUsage("%w", err)
	}
	if filepath.Clean(in) == filepath.Clean(out) {
		return errUsage("convert cannot write to the file that it reads: choose another name for OUT")
	}
	stream, err := o.stream()
	if err != nil {
		return err
	}
	kind, err := o.kind(in)
	if err != nil {
		return err
	}
	var src captures.Source
	var text io.Reader
	from := newInput([]string{in})
	from.onlyRead(out)
	if kind == "capture" {
		if src, err = from.open(ctx); err != nil {
			return err
		}
		defer src.Close()
	} else {
		file, err := a.openText(in)
		if err != nil {
			return errInput("%w", &plainError{err})
		}
		defer file.Close()
		if text, err = annotate.Inflate(file); err != nil {
			return errInput("%s: %w", in, &plainError{err})
		}
	}
	file, err := createOutput(in, out, o.force)
	if err != nil {
		return err
	}
	buffer := bufio.NewWriterSize(file, 256<<10)
	compressed, err := convert.Compress(buffer, compression)
	if err != nil {
		return errors.Join(err, file.Close())
	}
	to := convert.NewOutput(compressed, format, "rocescope "+version.Get().Version)
	var n uint64
	if src != nil {
		n, err = convert.Frames(to, src)
	} else {
		n, err = convertStream(to, text, in, kind, stream)
	}
	var damage error
	var at *captures.FileError
	var line *convert.LineError
	switch {
	case errors.As(err, &line):
		damage, err = errInput("%s: %w", in, line), nil
	case errors.As(err, &at), errors.Is(err, captures.ErrTruncated):
		damage, err = errInput("%w", &plainError{err}), nil
	}
	if err = cmp.Or(err, compressed.Close(), buffer.Flush(), file.Close()); err != nil { // the later ones repeat the first
		return errors.Join(damage, fmt.Errorf("convert %s: %w", in, &plainError{err}))
	}
	if damage != nil && n == 0 {
		return errors.Join(damage, os.Remove(out))
	}
	fmt.Fprintf(a.stderr, "%s: %s\n", out, report.Plural(n, "frame"))
	return damage
}

// convertStream writes the frames of an AXI-Stream, each with the number of its cycles.
func convertStream(to convert.Output, text io.Reader, in, kind string, o convert.Stream) (n uint64, err error) {
	read := convert.CSV
	if kind == "vcd" {
		read = convert.VCD
	}
	iface := captures.Interface{Name: "axi-stream", Description: in, Link: o.Link}
	if o.Bus != "" {
		iface.Name = o.Bus
	}
	to.AddInterface(iface)
	err = read(text, o, func(f *convert.Frame) error {
		n++
		return to.Write(&f.Frame, fmt.Sprintf("cycles %d to %d", f.First, f.Last))
	})
	return n, errors.Join(err, to.Flush())
}

// openText opens a file that is no capture.
func (a *app) openText(name string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(a.stdin), nil
	}
	return os.Open(name)
}

// kind is what the input is.
func (o *convertOptions) kind(in string) (string, error) {
	name := strings.ToLower(in)
	for _, end := range []string{".gz", ".zst"} {
		name = strings.TrimSuffix(name, end)
	}
	switch {
	case o.from != "" && !slices.Contains([]string{"csv", "vcd", "capture"}, o.from):
		return "", errUsage("--from cannot be %q: it is csv, vcd or capture", o.from)
	case o.from != "":
		return o.from, nil
	case strings.HasSuffix(name, ".csv"), strings.HasSuffix(name, ".tsv"):
		return "csv", nil
	case strings.HasSuffix(name, ".vcd"):
		return "vcd", nil
	}
	return "capture", nil
}

var convertLinks = map[string]dissect.LinkType{"ethernet": dissect.LinkEthernet, "ip": dissect.LinkRaw, "infiniband": dissect.LinkInfiniBand}

// stream is what the options say of the AXI-Stream.
func (o *convertOptions) stream() (convert.Stream, error) {
	s := convert.Stream{Names: map[string]string{}, Bus: o.bus, Time: o.time}
	for _, pair := range o.signals {
		signal, name, ok := strings.Cut(pair, "=")
		if !ok || name == "" || !slices.Contains(convert.Signals, signal) {
			return s, errUsage("--signal cannot be %q: it is SIGNAL=NAME, with one of %s as the signal", pair, strings.Join(convert.Signals, ", "))
		}
		s.Names[signal] = name
	}
	switch o.byteOrder {
	case "little":
	case "big":
		s.MSBFirst = true
	default:
		return s, errUsage("--byte-order cannot be %q: it is little or big", o.byteOrder)
	}
	link, ok := convertLinks[o.link]
	if !ok {
		return s, errUsage("--link cannot be %q: it is ethernet, ip or infiniband", o.link)
	}
	s.Link = link
	if o.clock != "" {
		if s.Period, ok = clockPeriod(o.clock); !ok {
			return s, errUsage("--clock cannot be %q: it is a frequency or a period, for instance 322.265625MHz or 3.1ns", o.clock)
		}
	}
	return s, nil
}

// clockUnits are what a clock is given in: femtoseconds for one, or the femtoseconds that one of them divides.
var clockUnits = []struct {
	unit      string
	femto     float64
	frequency bool
}{
	{"GHz", 1e6, true},
	{"MHz", 1e9, true},
	{"kHz", 1e12, true},
	{"Hz", 1e15, true},
	{"ns", 1e6, false},
	{"us", 1e9, false},
	{"ps", 1e3, false},
	{"fs", 1, false},
}

// clockPeriod is a clock's period in femtoseconds.
func clockPeriod(s string) (uint64, bool) {
	for _, u := range clockUnits {
		number, ok := strings.CutSuffix(s, u.unit)
		if !ok {
			continue
		}
		v, err := strconv.ParseFloat(strings.TrimSpace(number), 64)
		if err != nil || !(v > 0) {
			return 0, false
		}
		period := v * u.femto
		if u.frequency {
			period = u.femto / v
		}
		return uint64(period + 0.5), period >= 1 && period < 1e18
	}
	return 0, false
}
