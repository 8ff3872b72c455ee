package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rocescope/rocescope/internal/report"
	"github.com/rocescope/rocescope/internal/sink"
	"github.com/rocescope/rocescope/internal/sink/clickhouse"
	"github.com/rocescope/rocescope/internal/sink/parquet"
	"github.com/rocescope/rocescope/internal/sink/text"
)

// sinkFormats are what --to may say.
var sinkFormats = []string{"jsonl", "csv", "parquet", "clickhouse"}

// openSink opens where rows go. A busy or absent server is waited for with wait; a capture must not wait.
func (a *app) openSink(ctx context.Context, format, dest string, o *sinkOptions, run sink.Run, wait bool) (sink.Writer, error) {
	if strings.HasPrefix(dest, "clickhouse://") && format == "" {
		format = "clickhouse"
	}
	switch format {
	case "jsonl":
		out, err := a.sinkFile(dest, o.force)
		if err != nil {
			return nil, err
		}
		return text.NewJSONL(out), nil
	case "csv":
		return a.openCSV(dest, o)
	case "parquet":
		var w *parquet.Writer
		err := asInvoker(func() (err error) {
			w, err = parquet.New(dest, run.ID, o.force)
			return err
		})
		if err != nil {
			return nil, err
		}
		return w, nil
	case "clickhouse":
		return a.openClickHouse(ctx, dest, o, wait)
	case "":
		return nil, errUsage("export needs a format: --to %s", strings.Join(sinkFormats, ", "))
	}
	return nil, errUsage("--to cannot be %q; it is %s", format, strings.Join(sinkFormats, ", "))
}

func (a *app) openCSV(dest string, o *sinkOptions) (sink.Writer, error) {
	if dest == "-" && len(o.tables) != 1 {
		return nil, errUsage("tables have different columns, so that only one fits on standard output: --tables NAME")
	}
	info, err := os.Stat(dest)
	single := len(o.tables) == 1 && (dest == "-" || err != nil && filepath.Ext(dest) != "" || err == nil && !info.IsDir())
	path := func(t *sink.Table) string {
		if single {
			return dest
		}
		return filepath.Join(dest, t.Name+".csv")
	}
	files := map[string]io.WriteCloser{}
	for _, t := range sink.Tables() {
		if len(o.tables) > 0 && !slices.Contains(o.tables, t.Name) {
			continue
		}
		if !single {
			if err := asInvoker(func() error { return os.MkdirAll(dest, 0o755) }); err != nil {
				return nil, fmt.Errorf("make the folder: %w", err)
			}
		}
		if files[t.Name], err = a.sinkFile(path(t), o.force); err != nil {
			return nil, err
		}
	}
	w := text.NewCSV(func(t *sink.Table) (io.WriteCloser, error) { return files[t.Name], nil })
	for _, t := range sink.Tables() {
		if files[t.Name] != nil {
			if err := w.Write(sink.NewBlock(t)); err != nil { // the columns' names, also of a table that gets no row
				return nil, err
			}
		}
	}
	return w, nil
}

// sinkFile makes a file, or takes standard output.
func (a *app) sinkFile(path string, force bool) (io.WriteCloser, error) {
	if path == "-" {
		return flushing{a.stdout}, nil
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	var f *os.File
	err := asInvoker(func() (err error) {
		f, err = os.OpenFile(path, flags, 0o644)
		return err
	})
	if errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("%s is there already: --force overwrites it", path)
	}
	return f, err
}

// flushing is standard output, whose reader need not wait for a full buffer.
type flushing struct{ *output }

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.output.Write(p)
	return n, errors.Join(err, f.Flush())
}

func (f flushing) Close() error { return f.Flush() }

func (a *app) openClickHouse(ctx context.Context, dest string, o *sinkOptions, wait bool) (sink.Writer, error) {
	target, err := clickhouse.ParseTarget(dest)
	if err != nil {
		return nil, errUsage("%w", err)
	}
	co := clickhouse.Options{Spill: o.spill, SpillSize: int64(o.spillSize) << 20, Wait: wait, Patience: o.patience}
	switch o.spill {
	case "":
		co.Spill = os.TempDir()
	case noSpill:
		co.Spill = ""
	}
	return clickhouse.Open(ctx, target, co)
}

// sinkError says of an error of a sink what to do.
func sinkError(err error) error {
	var left *clickhouse.LeftError
	if errors.As(err, &left) {
		return fmt.Errorf("%w; rocescope export --drain sends them when it is back", err)
	}
	return err
}

// stored says what became of rows on their way to a database; "" for files.
func stored(w sink.Writer) string {
	ch, ok := w.(*clickhouse.Writer)
	if !ok {
		return ""
	}
	c := ch.Counts()
	parts := []string{"ClickHouse took " + report.Plural(c.Inserted, "row")}
	if c.Skipped > 0 {
		parts = append(parts, report.Count(c.Skipped)+" it had already")
	}
	if c.Waiting > 0 {
		parts = append(parts, report.Count(c.Waiting)+" wait in the spill file")
	}
	if c.Lost > 0 {
		parts = append(parts, report.Count(c.Lost)+" were lost")
	}
	return strings.Join(parts, ", ")
}

// withoutPassword is a destination as it may be shown.
func withoutPassword(dest string) string {
	head, rest, ok := strings.Cut(dest, "://")
	if !ok {
		return dest
	}
	if i := strings.LastIndexByte(rest, '@'); i >= 0 {
		user, _, _ := strings.Cut(rest[:i], ":")
		if name, err := url.PathUnescape(user); err == nil {
			user = name
		}
		rest = user + rest[i:]
	}
	return head + "://" + rest
}

// drain runs `rocescope export --drain`.
func (a *app) drain(ctx context.Context, o *exportOptions, args []string) error {
	if len(args) != 1 || o.to != "clickhouse" && !strings.HasPrefix(args[0], "clickhouse://") {
		return errUsage("--drain needs the ClickHouse that rows wait for: export --drain --to clickhouse clickhouse://HOST/DATABASE")
	}
	if err := o.check(); err != nil {
		return err
	}
	w, err := a.openClickHouse(ctx, args[0], &o.sinkOptions, true)
	if err != nil {
		return err
	}
	err = w.Close()
	fmt.Fprintln(a.stderr, stored(w))
	return sinkError(err)
}

// runBits is how many bits a run's number has: as many as every reader of JSON keeps.
const runBits = 52

// runOf is the number of the run: of files it comes from their content, so that the same ones have the same, and of what
// cannot be read twice it is drawn.
func runOf(probe string, in *input) uint64 {
	if in == nil || !in.twice() || in.live != nil {
		var b [8]byte
		_, _ = rand.Read(b[:]) // never fails
		return binary.LittleEndian.Uint64(b[:]) >> (64 - runBits)
	}
	h := fnv.New64a()
	fmt.Fprintf(h, "%s\n", probe)
	for _, path := range in.paths {
		f, err := os.Open(path)
		if err != nil {
			continue // opening it for good says what is wrong
		}
		info, err := f.Stat()
		if err == nil {
			fmt.Fprintf(h, "%d\n", info.Size())
			for _, at := range []int64{0, info.Size() - runSample} {
				_, _ = io.Copy(h, io.NewSectionReader(f, max(at, 0), runSample))
			}
		}
		f.Close()
	}
	return h.Sum64() >> (64 - runBits)
}

// runSample is how much of a file's beginning and end tells it from others.
const runSample = 64 << 10

// printDDL prints what makes the tables.
func (a *app) printDDL(args []string) error {
	t := &clickhouse.Target{Database: clickhouse.DefaultDatabase}
	if len(args) > 0 {
		var err error
		if t, err = clickhouse.ParseTarget(args[0]); err != nil {
			return errUsage("%w", err)
		}
	}
	var b bytes.Buffer
	for _, s := range clickhouse.DDL(t.Database, t.Cluster) {
		fmt.Fprintf(&b, "%s;\n\n", s)
	}
	_, err := a.stdout.Write(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	return err
}
