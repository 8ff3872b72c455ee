package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/internal/engine"
	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/sink"
)

// exportOptions are the options of `rocescope export`.
type exportOptions struct {
	sinkOptions
	to       string
	details  int
	noICRC   bool
	privacy  privacyOptions
	exchange exchangeFiles
	decodeAs decodeAs
	count    uint64 // -c
	columns  bool
	ddl      bool
	form     tableForm
}

func newExportCommand(a *app) *cobra.Command {
	var o exportOptions
	cmd := &cobra.Command{
		Use:   "export FILE... --to FORMAT DEST",
		Short: "Write connections, messages, findings and series as tables: JSON lines, CSV, Parquet, ClickHouse",
		Long: `Write what an analysis knows as rows of five tables: connections, streams (each direction
of a connection), messages (work requests), findings, and series (how a connection went over
time). --columns lists them. Packets are never exported; rows name them by number.

  jsonl       an object a line; DEST is a file, or - for standard output
  csv         a file for each table; DEST is a folder, with one table (--tables) a file or -
  parquet     parted by table, hour and a hash of the QPN, zstd; DEST is a folder
  clickhouse  DEST is clickhouse://USER:PASSWORD@HOST:9000,HOST…/DATABASE?cluster=NAME&secure=true,
              where each host is a shard. Tables are made; those of a named cluster, too (NAME_all).
              CLICKHOUSE_PASSWORD keeps the password off the command line.

Several files are read one after the other, as one capture. Rows carry the name of the probe
and the number of the run, which comes from the probe's name and the files' content: to export the same files
again replaces the same rows.

A ClickHouse server that goes away while rows are sent is waited for; what does not reach it
stays in a spill file (--spill), and the same command, or --drain, sends it later. Nothing is
lost or doubled.`,
		Example: `  rocescope export trace.pcapng --to jsonl - | jq 'select(.record == "messages" and .failed)'
  rocescope export trace.pcapng --to csv --tables messages messages.csv
  rocescope export run-*.pcapng --to parquet /data/roce
  duckdb -c "SELECT dst_qpn, sum(retransmitted_packets) FROM '/data/roce/streams/**/*.parquet' GROUP BY 1"
  rocescope export run.pcapng --to clickhouse clickhouse://ch1:9000,ch2:9000/fabric?cluster=fabric
  rocescope export --drain --to clickhouse clickhouse://ch1:9000,ch2:9000/fabric
  rocescope export --columns
  rocescope export --ddl clickhouse://ch1/fabric?cluster=fabric`,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case o.columns:
				return a.printColumns(o.form)
			case o.ddl:
				return a.printDDL(args)
			case o.drain:
				return a.drain(cmd.Context(), &o, args)
			case len(args) < 2:
				return errUsage("export needs one or more captures and where to: FILE... --to FORMAT DEST; see %q", "rocescope export --help")
			}
			last := len(args) - 1
			return a.export(cmd.Context(), &o, newInput(args[:last]), args[last])
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&o.to, "to", "", "the `format`: "+strings.Join(sinkFormats, ", "))
	o.add(f)
	f.BoolVar(&o.force, "force", false, "overwrite files that are there")
	f.IntVar(&o.details, "details", 0, "how `many` connections have a series: those that were seen first (0 is 256, as in analyze --series)")
	o.decodeAs.add(cmd)
	o.exchange.add(f)
	o.privacy.add(f)
	f.BoolVar(&o.noICRC, "no-icrc", false, "do not check invariant CRCs: faster, but damaged packets pass for good ones")
	f.Uint64VarP(&o.count, "count", "c", 0, "stop after reading `n` packets")
	f.BoolVar(&o.drain, "drain", false, "read nothing: send what is left in the spill files")
	f.BoolVar(&o.columns, "columns", false, "list the tables and their columns")
	f.BoolVar(&o.ddl, "ddl", false, "print the statements that make ClickHouse's tables, for its administrator")
	o.form.flags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("to", cobra.FixedCompletions(sinkFormats, cobra.ShellCompDirectiveNoFileComp))
	_ = cmd.RegisterFlagCompletionFunc("tables", cobra.FixedCompletions(sinkTables, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// sinkTables are the tables' names, in words that cost nothing to have.
var sinkTables = []string{"connections", "streams", "messages", "findings", "series"}

// sinkOptions are those of export and of capture --sink.
type sinkOptions struct {
	tables    []string
	probe     string
	spill     string
	spillSize uint // MiB
	patience  time.Duration
	force     bool
	drain     bool
}

func (o *sinkOptions) add(f *pflag.FlagSet) {
	f.StringSliceVar(&o.tables, "tables", nil, "only these `tables`: "+strings.Join(sinkTables, ", "))
	f.StringVar(&o.probe, "probe", "", "the `name` of this probe, which each row carries (default: the host's name)")
	f.StringVar(&o.spill, "spill", "", "the `folder` of the files in which rows wait while ClickHouse is away (default: that of temporary files); none: they are lost")
	f.UintVar(&o.spillSize, "spill-size", 1024, "at most so many `MiB` wait there")
	f.DurationVar(&o.patience, "patience", time.Minute, "how `long` to wait in the end for a ClickHouse server that is away")
}

// noSpill is the value of --spill for none.
const noSpill = "none"

// check finds what cannot be meant.
func (o *sinkOptions) check() error {
	for _, t := range o.tables {
		if !slices.Contains(sinkTables, t) {
			return errUsage("--tables: there is no table %q: there are %s", t, strings.Join(sinkTables, ", "))
		}
	}
	if o.spillSize < 1 || o.spillSize > 1<<24 {
		return errUsage("--spill-size cannot be %d; it is 1 to %d MiB", o.spillSize, 1<<24)
	}
	return nil
}

// name is the probe's name.
func (o *sinkOptions) name() string {
	if o.probe != "" {
		return o.probe
	}
	if host, err := os.Hostname(); err == nil {
		return host
	}
	return "unknown"
}

// export runs `rocescope export`.
func (a *app) export(ctx context.Context, o *exportOptions, in *input, dest string) error {
	if err := o.check(); err != nil {
		return err
	}
	exchanges, err := o.exchange.read()
	if err != nil {
		return err
	}
	as, err := o.decodeAs.parse()
	if err != nil {
		return err
	}
	run := sink.Run{Probe: o.name(), ID: runOf(o.name(), in)}
	if o.to != "clickhouse" && !strings.HasPrefix(dest, "clickhouse://") {
		in.onlyRead(dest)
	}
	src, err := in.open(ctx)
	if err != nil {
		return err
	}
	w, err := a.openSink(ctx, o.to, dest, &o.sinkOptions, run, true)
	if err != nil {
		src.Close()
		return err
	}
	rows, err := sink.NewCollector(sink.Options{Run: run, Tables: o.tables, Writer: w})
	if err != nil {
		return errors.Join(errUsage("%w", err), src.Close(), w.Close())
	}
	eo := engine.Options{
		Privacy: o.privacy.mask(), CheckICRC: !o.noICRC, Track: true, MaxFrames: o.count, MayBlock: in.stream,
		Sinks: []engine.Sink{engine.SinkFunc(func(b *engine.Batch) error { return rows.Batch(&b.Batch) })},
	}
	eo.Tracker.Exchanges, eo.Tracker.DecodeAs = exchanges, as
	eo.Tracker.Sink, eo.Tracker.MaxDetails = rows.Sink(), o.details
	eo.Tracker.Series = o.tables == nil || slices.Contains(o.tables, "series")
	eo.Reopen = func() (captures.Source, error) { return in.open(ctx) }
	p := engine.New(eo)
	stop := a.startProgress(p.Progress)
	got, err := p.Run(in.context(ctx), src)
	stop()
	closed := rows.Close(got.Snapshot)
	if dest == "-" && errors.Is(a.stdout.Flush(), errStdoutClosed) {
		return errStdoutClosed
	}
	a.sayExported(rows.Totals(), dest, w)
	return errors.Join(runError(err), sinkError(closed))
}

// sayExported says what went where.
func (a *app) sayExported(t sink.Totals, dest string, w sink.Writer) {
	if dest == "-" {
		dest = "standard output"
	}
	fmt.Fprintf(a.stderr, "%s: %s, %s, %s, %s, %s\n", withoutPassword(dest), report.Plural(t.Connections, "connection"),
		report.Plural(t.Streams, "stream"), report.Plural(t.Messages, "message"), report.Plural(t.Findings, "finding"),
		report.Plural(t.Series, "point")+" of series")
	if s := stored(w); s != "" {
		fmt.Fprintln(a.stderr, s)
	}
}
