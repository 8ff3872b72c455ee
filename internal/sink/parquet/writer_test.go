package parquet

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/rocescope/rocescope/internal/sink"
)

// whole counts the rows of files that have their name, and the files that do not.
func whole(t *testing.T, dir string) (rows int64, underWay int) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*", "*", "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if filepath.Ext(path) == ".part" {
			underWay++
			continue
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		p, err := parquet.OpenFile(f, info.Size())
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		rows += p.NumRows()
		f.Close()
	}
	return rows, underWay
}

// TestFilesUnderWay holds what is in files that are whole, before Close, to what a kill may lose: what was written last.
func TestFilesUnderWay(t *testing.T) {
	table, err := sink.Find("series")
	if err != nil {
		t.Fatal(err)
	}
	const n = 10_000
	b := sink.NewBlock(table)
	for i := range table.Columns {
		if table.Columns[i].Type == sink.Text {
			b.Cells[i].Texts = make([]string, n)
		} else {
			b.Cells[i].Bits = make([]uint64, n)
		}
		if table.Columns[i].Nullable {
			b.Cells[i].Nulls = make([]bool, n)
		}
	}
	b.Rows = n

	dir := t.TempDir()
	w, err := New(dir, 7, false)
	if err != nil {
		t.Fatal(err)
	}
	clock := time.Unix(0, 0)
	w.now = func() time.Time { return clock }
	write := func(blocks int) {
		t.Helper()
		for range blocks {
			if err := w.Write(b); err != nil {
				t.Fatal(err)
			}
		}
	}
	// All rows are of one hour and one queue pair. A block is not divided, so that a file may have a block more than its rows.
	const blocks = 2*(fileRows/n+1) + 3
	write(blocks)
	if rows, underWay := whole(t, dir); rows != (blocks-3)*n || underWay != 1 {
		t.Errorf("%d rows are in whole files and %d files under way, want %d and 1", rows, underWay, (blocks-3)*n)
	}
	clock = clock.Add(fileAge - 1)
	if err := w.Settle(); err != nil {
		t.Fatal(err)
	}
	if _, underWay := whole(t, dir); underWay != 1 {
		t.Error("a young file is finished")
	}
	clock = clock.Add(1)
	if err := w.Settle(); err != nil {
		t.Fatal(err)
	}
	if rows, underWay := whole(t, dir); rows != blocks*n || underWay != 0 {
		t.Errorf("after a while, %d rows are in whole files and %d files under way", rows, underWay)
	}
	write(1)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if rows, underWay := whole(t, dir); rows != (blocks+1)*n || underWay != 0 {
		t.Errorf("in the end, %d rows are in whole files and %d files under way", rows, underWay)
	}
}
