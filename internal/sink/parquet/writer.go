package parquet

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"
	"unsafe"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
	"golang.org/x/sync/errgroup"

	"github.com/rocescope/rocescope/internal/sink"
)

// Parts is into how many files by QPN an hour is parted.
const Parts = 16

// maxOpen bounds the files that are written at a time. Beyond it the one that was not needed for longest is finished; what
// comes later for its part goes into another file beside it.
const maxOpen = 4 * Parts * 5

// rowGroup is how many rows lie together at least, and pageSize how many bytes of one column. An open file has a page of each
// column in memory.
const (
	rowGroup = 64 << 10
	pageSize = 32 << 10
)

// A file can be read when it is whole, so that a process that is killed loses those under way. They are finished after so many
// rows, and when they were begun so long ago.
const (
	fileRows = 8 * rowGroup
	fileAge  = 2 * time.Minute
)

// chunk is how many values are handed over at a time: few enough to stay in the processor's cache.
const chunk = 512

// Writer writes files below a folder.
type Writer struct {
	dir    string
	run    uint64
	files  map[part]*file
	number map[part]int // of files begun
	tables map[*sink.Table]*layout
	clock  int // counts blocks
	codec  zstd.Codec
	now    func() time.Time
}

// layout is what is known of a table.
type layout struct {
	schema    *parquet.Schema
	options   []parquet.WriterOption
	time, qpn int // columns
}

// part is where a file lies.
type part struct {
	table *sink.Table
	hour  int64 // since the Unix epoch
	qp    int
}

// file is one under way.
type file struct {
	path string
	out  *os.File
	w    *parquet.GenericWriter[any]
	rows []int32 // of the block at hand
	full int     // rows of the row group at hand
	rest int     // rows that it may still take
	born time.Time
	used int
	vals [chunk]parquet.Value
}

// New begins to write below a folder. Files of the same run that are there must be wanted to be overwritten: then they go.
func New(dir string, run uint64, force bool) (*Writer, error) {
	old, err := filepath.Glob(filepath.Join(dir, "*", "hour=*", "qp=*", fmt.Sprintf("%d-*.parquet", run)))
	if err != nil {
		return nil, err
	}
	if len(old) > 0 && !force {
		return nil, fmt.Errorf("%s has this run already, such as %s: --force overwrites it", dir, old[0])
	}
	for _, path := range old {
		if err := os.Remove(path); err != nil {
			return nil, fmt.Errorf("overwrite: %w", err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	return &Writer{dir: dir, run: run, files: map[part]*file{}, number: map[part]int{}, tables: map[*sink.Table]*layout{}, codec: zstd.Codec{Level: zstd.SpeedFastest}, now: time.Now}, nil
}

// Replaces implements sink.Writer: a row stays.
func (w *Writer) Replaces() bool { return false }

// Write implements sink.Writer.
func (w *Writer) Write(b *sink.Block) error {
	l := w.layout(b.Table)
	w.clock++
	var touched []*file
	var full []part
	for row := range b.Rows {
		p := part{b.Table, b.Cells[l.time].Int(row) / int64(time.Hour), int(partOf(uint32(b.Cells[l.qpn].Bits[row])))}
		f := w.files[p]
		if f == nil {
			var err error
			if f, err = w.begin(p, l); err != nil {
				return err
			}
		}
		if f.used != w.clock {
			f.used = w.clock
			touched = append(touched, f)
		}
		f.rows = append(f.rows, int32(row))
		if f.rest--; f.rest == 0 {
			full = append(full, p)
		}
	}
	// The encoding is nearly all of the work, and the files know nothing of each other.
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, f := range touched {
		all.Go(func() error { return f.write(b) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, p := range full {
		if err := w.finish(p); err != nil {
			return err
		}
	}
	return w.fewer()
}

// Settle finishes the files that were begun long ago. Whoever writes for hours calls it now and then.
func (w *Writer) Settle() error {
	old := w.now().Add(-fileAge)
	for p, f := range w.files {
		if f.born.After(old) {
			continue
		}
		if err := w.finish(p); err != nil {
			return err
		}
	}
	return nil
}

// write writes the block's rows that belong to the file, column by column.
func (f *file) write(b *sink.Block) error {
	for column, to := range f.w.ColumnWriters() {
		for rows := range slices.Chunk(f.rows, chunk) {
			if _, err := to.WriteRowValues(values(f.vals[:0], &b.Table.Columns[column], &b.Cells[column], rows, column)); err != nil {
				return fmt.Errorf("write %s: %w", f.path, err)
			}
		}
	}
	f.full += len(f.rows)
	f.rows = f.rows[:0]
	if f.full < rowGroup {
		return nil
	}
	f.full = 0
	if err := f.w.Flush(); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

func (w *Writer) layout(t *sink.Table) *layout {
	l := w.tables[t]
	if l == nil {
		l = &layout{schema: schemaOf(t), options: metadata(t), time: t.Column(t.Time), qpn: t.Column(t.QPN)}
		w.tables[t] = l
	}
	return l
}

// partOf hashes a QPN (Fibonacci hashing).
func partOf(qpn uint32) uint32 { return qpn * 0x9E3779B1 >> 28 }

func (w *Writer) begin(p part, l *layout) (*file, error) {
	hour := time.Unix(p.hour*3600, 0).UTC().Format("2006-01-02T15")
	dir := filepath.Join(w.dir, p.table.Name, "hour="+hour, fmt.Sprintf("qp=%d", p.qp))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder: %w", err)
	}
	f := &file{path: filepath.Join(dir, fmt.Sprintf("%d-%d.parquet", w.run, w.number[p])), rest: fileRows, born: w.now()}
	w.number[p]++
	var err error
	if f.out, err = os.Create(f.path + ".part"); err != nil {
		return nil, fmt.Errorf("make the file: %w", err)
	}
	f.w = parquet.NewGenericWriter[any](f.out, append([]parquet.WriterOption{
		l.schema, parquet.Compression(&w.codec), parquet.PageBufferSize(pageSize), parquet.CreatedBy("rocescope", "1", ""),
	}, l.options...)...)
	w.files[p] = f
	return f, nil
}

// fewer finishes files when there are too many.
func (w *Writer) fewer() error {
	if len(w.files) <= maxOpen {
		return nil
	}
	var parts []part
	for p := range w.files {
		parts = append(parts, p)
	}
	slices.SortFunc(parts, func(a, b part) int { return w.files[a].used - w.files[b].used })
	for _, p := range parts[:len(parts)-maxOpen] {
		if err := w.finish(p); err != nil {
			return err
		}
	}
	return nil
}

// finish makes a file whole and gives it its name.
func (w *Writer) finish(p part) error {
	f := w.files[p]
	delete(w.files, p)
	err := errors.Join(f.w.Close(), f.out.Close())
	if err == nil {
		err = os.Rename(f.path+".part", f.path)
	}
	if err != nil {
		return fmt.Errorf("finish %s: %w", f.path, err)
	}
	return nil
}

// Close implements sink.Writer. Where a disk is full, all files fail for that reason, and one says it.
func (w *Writer) Close() error {
	var first error
	failed := 0
	for p := range w.files {
		if err := w.finish(p); err != nil {
			if failed++; first == nil {
				first = err
			}
		}
	}
	if failed > 1 {
		return fmt.Errorf("%w (and so %d more files)", first, failed-1)
	}
	return first
}

// unsafeBytes are a string's bytes, which the library only reads.
func unsafeBytes(s string) []byte { return unsafe.Slice(unsafe.StringData(s), len(s)) }
