//go:build linux

package captures

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

// longFile is a capture of many pages, and how many frames it has.
func longFile(t *testing.T, pages int) (path string, frames int) {
	t.Helper()
	file := pcapHeader(le, magicMicro, 65535, 1)
	record := pcapRecord(le, 1, 2, strings.Repeat("d", 1000))
	for len(file) < pages*os.Getpagesize() {
		file = append(file, record...)
		frames++
	}
	return tempFile(t, file), frames
}

func TestFileCutUnderReadBatch(t *testing.T) {
	// The reader has seen the first batch when the file loses its end: on a
	// page's border, inside a page, and inside a record header.
	for _, keep := range []int64{8 * 4096, 8*4096 + 100, 24 + 40*1016 + 5, 24 + 40*1016, 24 + 40*1016 + 16, 0} {
		for _, span := range []int{mapWindow, 1} {
			t.Run(fmt.Sprintf("to %d bytes, window %d", keep, span), func(t *testing.T) {
				path, total := longFile(t, 40)
				src, err := open(path, &openOptions{way: byMapping, span: span})
				if err != nil {
					t.Fatal(err)
				}
				defer src.Close()
				batch := make([]Frame, 3)
				seen, err := src.ReadBatch(batch)
				if err != nil {
					t.Fatal(err)
				}
				had := seen
				if err := os.Truncate(path, keep); err != nil {
					t.Fatal(err)
				}
				for {
					n, err := src.ReadBatch(batch)
					if err != nil {
						checkErrors(t, []error{err}, []wantError{{ErrTruncated, "cut while it was read"}})
						break
					}
					for _, f := range batch[:n] {
						if string(f.Data) != strings.Repeat("d", 1000) {
							t.Fatalf("frame %d does not have its bytes", seen)
						}
						seen++
					}
				}
				if whole := max(had, int(keep-24)/1016); seen != whole || seen == total {
					t.Errorf("%d frames were delivered, %d are whole", seen, whole)
				}
				if _, err := src.ReadBatch(batch); !errors.Is(err, ErrTruncated) {
					t.Errorf("the error does not stay: %v", err)
				}
			})
		}
	}
}

func TestFileCutUnderRead(t *testing.T) {
	const pages = 3 * readBuffer / 4096
	for _, keep := range []int64{readBuffer + 100, 24 + 300*1016, 24 + 300*1016 + 5, 24 + 1016, 0} {
		path, total := longFile(t, pages)
		src, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer src.Close()
		if err := os.Truncate(path, keep); err != nil {
			t.Fatal(err)
		}
		g := drain(t, src, 100)
		for i, f := range g.frames {
			if string(f.Data) != strings.Repeat("d", 1000) {
				t.Errorf("cut to %d bytes: frame %d does not have its bytes", keep, i)
			}
		}
		if len(g.frames) < int(keep-24)/1016 || len(g.frames) == total {
			t.Errorf("cut to %d bytes: %d frames of %d", keep, len(g.frames), total)
		}
		checkErrors(t, g.errs, []wantError{{ErrTruncated, "cut while it was read"}})
	}
}

func TestMappingIsTriedOnWholePiecesOnly(t *testing.T) {
	for _, size := range []int{0, probeSize - 1} {
		f, err := os.Open(tempFile(t, make([]byte, size)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if mappingPays(f) {
			t.Errorf("to map %d bytes pays", size)
		}
	}
	f, err := os.Open(tempFile(t, make([]byte, 2*probeSize)))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	t.Logf("a mapping pays here: %v", mappingPays(f))
	if at, err := f.Seek(0, io.SeekCurrent); at != 0 || err != nil {
		t.Errorf("the file is read up to %d (%v)", at, err)
	}
	if _, maps := mapped(f.Name()); maps != 0 {
		t.Errorf("%d mappings are left behind", maps)
	}
}

func TestFileCutUnderFrameData(t *testing.T) {
	path, _ := longFile(t, 40)
	src, err := Open(path, Mapped())
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch := make([]Frame, 100)
	n, err := src.ReadBatch(batch)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 4096); err != nil {
		t.Fatal(err)
	}
	sum := func() error {
		s := 0
		for _, f := range batch[:n] {
			for _, b := range f.Data {
				s += int(b)
			}
		}
		return fmt.Errorf("the sum is %d", s)
	}
	var fe *FileError
	if err := Guard(sum); !errors.Is(err, ErrTruncated) || !errors.As(err, &fe) || fe.File != path || fe.Offset < 4096 {
		t.Errorf("got %v", err)
	}
	// On another goroutine it is the same.
	done := make(chan error)
	go func() { done <- Guard(sum) }()
	if err := <-done; !errors.Is(err, ErrTruncated) {
		t.Errorf("on another goroutine: %v", err)
	}
}

func TestFileCutBetweenWindows(t *testing.T) {
	path, frames := longFile(t, 40)
	src, err := open(path, &openOptions{way: byMapping, span: 4096})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	whole := int64(24 + (frames-2)*1016) // a record's end
	if err := os.Truncate(path, whole); err != nil {
		t.Fatal(err)
	}
	g := drain(t, src, 1000)
	if len(g.frames) != frames-2 {
		t.Errorf("%d frames of %d", len(g.frames), frames-2)
	}
	checkErrors(t, g.errs, []wantError{{ErrTruncated, "cut while it was read"}})
}

func TestGuardLeavesOtherThingsAlone(t *testing.T) {
	if err := Guard(func() error { return nil }); err != nil {
		t.Error(err)
	}
	mine := errors.New("mine")
	if err := Guard(func() error { return mine }); err != mine {
		t.Error(err)
	}
	caught := func(fn func() error) (v any) {
		defer func() { v = recover() }()
		return Guard(fn)
	}
	if v := caught(func() error { panic(mine) }); v != mine {
		t.Errorf("a panic comes out as %v", v)
	}
	var none *int
	if v := caught(func() error { *none = 1; return nil }); !isRuntimeError(v) {
		t.Errorf("a nil pointer comes out as %v", v)
	}
}

func isRuntimeError(v any) bool {
	_, ok := v.(runtime.Error)
	return ok
}
