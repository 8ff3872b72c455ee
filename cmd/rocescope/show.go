package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
)

// showOptions are the options of `rocescope show`, named as in tshark.
type showOptions struct {
	live     liveFlags
	read     []string // -r
	filter   string   // -Y
	format   string   // -T
	columns  []string // -e
	fields   []string // -E
	tree     bool     // -V
	hex      bool     // -x
	count    uint64   // -c
	time     string   // -t
	noICRC   bool
	exchange exchangeFiles
	privacy  privacyOptions
	decode   decodeAs // -d
	noFlow   bool
}

// showFormats are the values of -T, the default first.
var showFormats = []struct{ name, about string }{
	{"text", "one line per packet; with -V all layers and fields, with -x the bytes"},
	{"fields", "the columns that -e names, separated by tabs"},
	{"csv", "the same as comma-separated values with a header; a summary without -e"},
	{"json", "one array, an element per packet with its layers as tshark nests them"},
	{"jsonl", "one flat object per line and packet, numbers as numbers"},
}

func newShowCommand(a *app) *cobra.Command {
	var o showOptions
	var ignored bool
	cmd := &cobra.Command{
		Use:   "show FILE... | -i IFACE",
		Short: "Print packets: one line each, all fields, bytes, or columns",
		Long: `Print packets, as tshark does: its options and field names work here too.

The lines say what matters of each packet: opcode, queue pair and PSN; address,
key and length of an RDMA operation; what an acknowledgement says. In brackets
stands what became of the packet, as far as the packets before it tell: sent
again, missing PSNs before it, damaged.

-T json is one array with an element for each packet. As in tshark's, the layers
are below _source.layers, each an object of fields by their full names, those of
InfiniBand within "infiniband"; values are strings as -T fields prints them. What
the other packets tell is in "flow", what is wrong with the packet in "problems",
both beside _source. With -e, _source.layers has lists of values by column.
-T jsonl is a flat object on a line for each packet, numbers as numbers; of a field
that a packet has twice it has the first.

msg.* (but msg.index), finding.* and flow.established_by are known only at the end
of a capture: with one of them in -e or -Y the file is read twice.`,
		Example: `  rocescope show trace.pcapng
  rocescope show trace.pcapng -Y 'flow.nak or flow.retransmission'
  rocescope show trace.pcapng -V -c 1
  rocescope show trace.pcapng -e frame.number -e infiniband.bth.psn -E header=y,separator=,
  rocescope show -r trace.pcapng -T json | jq '.[]._source.layers'
  rocescope show trace.pcapng -d port==4421,nvme -Y nvme.cmd.opc==2
  rocescope show -i eth1 -c 100
  ssh host tcpdump -U -w - udp port 4791 | rocescope show -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := o.live.input(cmd, append(o.read, args...), &o.count)
			if err != nil {
				return err
			}
			return runShow(cmd.Context(), a, in, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	o.live.add(cmd)
	f.StringArrayVarP(&o.read, "read", "r", nil, "a capture `file`, as an argument is")
	f.StringVarP(&o.filter, "filter", "Y", "", "print only packets that this display `filter` selects")
	f.StringVarP(&o.format, "format", "T", "", "`form` of the output: text, fields, csv, json or jsonl (default text, with -e fields)")
	f.StringArrayVarP(&o.columns, "field", "e", nil, "a column, by its field's `name`; may be repeated")
	f.StringArrayVarP(&o.fields, "fields-option", "E", nil, "how columns look, as `options`: header=y,separator=,,quote=d,occurrence=a|f|l,aggregator=;")
	f.BoolVarP(&o.tree, "details", "V", false, "all layers and fields of each packet")
	f.BoolVarP(&o.hex, "hex", "x", false, "the bytes of each packet")
	f.Uint64VarP(&o.count, "count", "c", 0, "stop after reading `n` packets")
	f.StringVarP(&o.time, "time", "t", "r", "`kind` of times: r relative, d since the packet before, e epoch, a and ad local, u and ud UTC")
	o.decode.add(cmd)
	o.exchange.add(f)
	o.privacy.add(f)
	f.BoolVar(&o.noICRC, "no-icrc", false, "do not check the invariant CRC")
	f.BoolVar(&o.noFlow, "no-flow", false, "look at each packet alone: faster, but nothing is known of losses and resends")
	f.BoolVarP(&ignored, "no-names", "n", false, "names are never resolved; for tshark's users")
	f.BoolVarP(&ignored, "line-buffered", "l", false, "output never waits while input does; for tshark's users")
	for _, name := range []string{"no-names", "line-buffered"} {
		f.Lookup(name).Hidden = true
	}
	_ = cmd.RegisterFlagCompletionFunc("format", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var all []string
		for _, t := range showFormats {
			all = append(all, cobra.CompletionWithDesc(t.name, t.about))
		}
		return all, cobra.ShellCompDirectiveNoFileComp
	})
	_ = cmd.RegisterFlagCompletionFunc("field", completeField)
	_ = cmd.RegisterFlagCompletionFunc("filter", completeFilter)
	return cmd
}

// printer writes packets in one form. It appends to dst and returns it, as
// append does.
type printer interface {
	begin(dst []byte) []byte
	packet(dst []byte, b *engine.Batch, i int) []byte
	end(dst []byte) []byte
}

// runShow prints the packets of in.
func runShow(ctx context.Context, a *app, in *input, o *showOptions) error {
	out, want, err := newPrinter(a, o)
	if err != nil {
		return err
	}
	eo := engine.Options{Privacy: o.privacy.mask(), MaxFrames: o.count, MayBlock: in.stream}
	if o.filter != "" {
		selected, needed, err := compileFilter(o.filter)
		if err != nil {
			return err
		}
		eo.Filter = selected
		if o.noFlow && needed.marks {
			return errUsage("the filter asks what only following the flows tells, which --no-flow switches off")
		}
		want = want.or(needed)
	}
	if eo.Tracker.DecodeAs, err = o.decode.parse(); err != nil {
		return err
	}
	if eo.Tracker.Exchanges, err = o.exchange.read(); err != nil {
		return err
	}
	eo.CheckICRC, eo.Track = want.icrc && !o.noICRC, want.marks
	eo.Outcomes = want.end
	if eo.Outcomes && !in.twice() {
		return errUsage("a field that is asked for is known only at the end of the capture, so that it has to be read twice: save it to a file first")
	}
	eo.Reopen = func() (captures.Source, error) { return in.open(ctx) }

	in.onlyRead()
	src, err := in.open(ctx)
	if err != nil {
		return err
	}
	if d, ok := out.(interface{ describe(captures.Source) }); ok {
		d.describe(src)
	}
	sink := &showSink{out: a.stdout, printer: out, flush: in.stream}
	eo.Sinks = []engine.Sink{sink}
	sink.buf = out.begin(sink.buf)
	p := engine.New(eo)
	stop := func() {}
	if !a.stdout.isTerminal {
		stop = a.startProgress(p.Progress)
	}
	_, err = p.Run(in.context(ctx), src)
	stop()
	sink.buf = out.end(sink.buf)
	if werr := sink.write(); err == nil {
		err = werr
	}
	return runError(err)
}

// newPrinter chooses what -T, -V and -x ask for.
func newPrinter(a *app, o *showOptions) (printer, needs, error) {
	full := needs{icrc: true, marks: !o.noFlow}
	if o.format == "" {
		o.format = "text"
		if len(o.columns) > 0 {
			o.format = "fields"
		}
	}
	if !slices.ContainsFunc(showFormats, func(f struct{ name, about string }) bool { return f.name == o.format }) {
		var names []string
		for _, f := range showFormats {
			names = append(names, f.name)
		}
		if near := nearest(o.format, names); near != "" {
			return nil, full, errUsage("-T cannot be %q; did you mean %q?", o.format, near)
		}
		return nil, full, errUsage("-T cannot be %q; it is one of %s", o.format, strings.Join(names, ", "))
	}
	if (o.tree || o.hex) && o.format != "text" {
		return nil, full, errUsage("-V and -x go with -T text, not with columns or -T %s", o.format)
	}
	if o.format == "text" && len(o.columns) > 0 {
		return nil, full, errUsage("-e names columns: leave -T text out, or say -T fields, csv, json or jsonl")
	}
	columns, want, err := newColumns(o.columns)
	if err != nil {
		return nil, full, err
	}
	if o.noFlow && want.marks {
		return nil, full, errUsage("-e asks what only following the flows tells, which --no-flow switches off")
	}
	style, err := newFieldStyle(o.format, o.fields)
	if err != nil {
		return nil, full, err
	}
	clock, err := newClock(o.time)
	if err != nil {
		return nil, full, err
	}
	switch o.format {
	case "fields":
		if len(columns) == 0 {
			return nil, full, errUsage("-T fields needs at least one column: -e infiniband.bth.psn; %q lists them all", "rocescope fields")
		}
		return &fieldsPrinter{columns: columns, style: style}, want, nil
	case "csv":
		if len(columns) == 0 {
			return &summaryPrinter{line: newLinePrinter(styles{}, clock), style: style}, full, nil
		}
		return &fieldsPrinter{columns: columns, style: style}, want, nil
	case "json", "jsonl":
		array := o.format == "json"
		if len(columns) > 0 {
			return &jsonColumnsPrinter{columns: columns, style: style, array: array}, want, nil
		}
		return newJSONPrinter(array), full, nil
	}
	text := &textPrinter{hex: o.hex}
	if !o.tree {
		text.line = newLinePrinter(a.styles(), clock)
	} else {
		text.tree = newTreePrinter(a.styles())
	}
	return text, full, nil
}

// showSink prints the packets that the filter selects.
type showSink struct {
	out     *output
	printer printer
	buf     []byte
	flush   bool // the input is a pipe: what is here must not wait for what is not
}

// writeFrom is how many bytes are written at a time.
const writeFrom = 32 << 10

func (s *showSink) Batch(b *engine.Batch) error {
	for i, selected := range b.Matched {
		if !selected {
			continue
		}
		if s.buf = s.printer.packet(s.buf, b, i); len(s.buf) >= writeFrom {
			if err := s.write(); err != nil {
				return err
			}
		}
	}
	if !s.flush {
		return nil
	}
	if err := s.write(); err != nil {
		return err
	}
	return s.out.Flush()
}

func (s *showSink) write() error {
	if len(s.buf) == 0 {
		return nil
	}
	_, err := s.out.Write(s.buf)
	s.buf = s.buf[:0]
	return err
}

// textPrinter is -T text: lines or trees, and bytes behind either.
type textPrinter struct {
	line *linePrinter
	tree *treePrinter
	hex  bool
}

func (t *textPrinter) describe(src captures.Source) {
	if t.line != nil {
		t.line.describe(src)
	}
}

func (t *textPrinter) begin(dst []byte) []byte { return dst }
func (t *textPrinter) end(dst []byte) []byte   { return dst }

func (t *textPrinter) packet(dst []byte, b *engine.Batch, i int) []byte {
	if t.tree != nil {
		dst = t.tree.packet(dst, b, i)
	} else {
		dst = t.line.packet(dst, b, i)
	}
	if t.hex {
		dst = appendHexDump(dst, b.Data[i])
	}
	if t.tree != nil || t.hex {
		dst = append(dst, '\n')
	}
	return dst
}
