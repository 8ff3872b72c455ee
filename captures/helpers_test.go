package captures

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rocescope/rocescope/dissect"
)

// got is what came out of a source: frames with bytes of their own, and every
// error, those behind which reading went on included.
type got struct {
	frames  []Frame // their offsets are in a list of their own
	offsets []int64
	errs    []error
	ifs     []Interface
}

// drain reads a source to its end. Batches are of a length that does not divide
// anything.
func drain(t testing.TB, src Source, batchLen int) got {
	t.Helper()
	var g got
	batch := make([]Frame, batchLen)
	for {
		n, err := src.ReadBatch(batch)
		if n > 0 && err != nil || n == 0 && err == nil || n > len(batch) {
			t.Fatalf("ReadBatch returned %d and %v", n, err)
		}
		for _, f := range batch[:n] {
			f.Data = bytes.Clone(f.Data)
			g.offsets = append(g.offsets, f.Offset)
			f.Offset = 0
			g.frames = append(g.frames, f)
		}
		if err == nil {
			continue
		}
		var fe *FileError
		resumable := errors.As(err, &fe) && fe.Resumable
		if !errors.Is(err, io.EOF) {
			g.errs = append(g.errs, err)
		}
		if !resumable {
			if _, again := src.ReadBatch(batch); !errors.Is(again, err) {
				t.Fatalf("after %v comes %v", err, again)
			}
			g.ifs = append(g.ifs, src.Interfaces()...)
			return g
		}
	}
}

// tempFile writes data to a file of the test's own.
func tempFile(t testing.TB, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "trace")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// dribble gives its bytes one at a time, as a slow pipe does.
type dribble struct{ r io.Reader }

func (d dribble) Read(p []byte) (int, error) { return d.r.Read(p[:min(len(p), 1)]) }

// openStream reads data like a pipe.
func openStream(r io.Reader) (*reader, error) {
	src := &reader{name: "stream", total: func() int64 { return 0 }}
	src.w = newReadWindow(r, func() error { return nil })
	if err := src.start(); err != nil {
		return nil, err
	}
	return src, nil
}

// readEveryWay reads data as a mapped file, as a mapped file whose window is one
// page, as a file that is read, and as a slow stream, and demands the same of all.
func readEveryWay(t *testing.T, data []byte) got {
	t.Helper()
	path := tempFile(t, data)
	var first got
	for i, way := range []struct {
		name string
		open func() (*reader, error)
	}{
		{"mapped", func() (*reader, error) { return open(path, &openOptions{way: byMapping, span: mapWindow}) }},
		{"mapped by the page", func() (*reader, error) { return open(path, &openOptions{way: byMapping, span: 1}) }},
		{"read", func() (*reader, error) { return open(path, &openOptions{way: byReading}) }},
		{"stream", func() (*reader, error) { return openStream(dribble{bytes.NewReader(data)}) }},
	} {
		var g got
		src, err := way.open()
		if err != nil {
			g.errs = []error{err}
		} else {
			g = drain(t, src, 3)
			src.Close()
		}
		for i := range g.ifs {
			g.ifs[i].File = ""
		}
		for i, f := range g.frames {
			if at := g.offsets[i]; at == 0 || !bytes.HasPrefix(data[at:], f.Data) {
				t.Errorf("%s: the file does not have the frame's %d bytes at its offset %d", way.name, len(f.Data), at)
			}
		}
		if i == 0 {
			first = g
			continue
		}
		if diff := cmp.Diff(first.frames, g.frames); diff != "" {
			t.Errorf("%s gives other frames than mapped:\n%s", way.name, diff)
		}
		if diff := cmp.Diff(first.ifs, g.ifs); diff != "" {
			t.Errorf("%s gives other interfaces than mapped:\n%s", way.name, diff)
		}
		if diff := cmp.Diff(texts(first.errs), texts(g.errs)); diff != "" {
			t.Errorf("%s gives other errors than mapped:\n%s", way.name, diff)
		}
	}
	return first
}

// texts are error texts without the file's name.
func texts(errs []error) []string {
	var all []string
	for _, err := range errs {
		text := err.Error()
		var fe *FileError
		if errors.As(err, &fe) {
			text = strings.Replace(text, fe.File, "FILE", 1)
		}
		all = append(all, text)
	}
	return all
}

// inbound and outbound are the same frame, of which the file tells the direction.
func inbound(f Frame) Frame {
	f.Direction = In
	return f
}

func outbound(f Frame) Frame {
	f.Direction = Out
	return f
}

// want is a frame as a test table says it.
func want(time int64, data string, wire, iface int, link dissect.LinkType) Frame {
	return Frame{Time: time, Data: []byte(data), WireLen: wire, Iface: iface, Link: link, HasTime: true}
}

// noTime is want of a frame without a time.
func noTime(data string, wire, iface int, link dissect.LinkType) Frame {
	f := want(0, data, wire, iface, link)
	f.HasTime = false
	return f
}

// checkErrors compares errors with sentinels and parts of their texts.
func checkErrors(t *testing.T, errs []error, wants []wantError) {
	t.Helper()
	if len(errs) != len(wants) {
		t.Fatalf("got errors %q, want %d", errs, len(wants))
	}
	for i, w := range wants {
		if !errors.Is(errs[i], w.is) || !strings.Contains(errs[i].Error(), w.text) {
			t.Errorf("error %q, want one that is %q and says %q", errs[i], w.is, w.text)
		}
	}
}

type wantError struct {
	is   error
	text string
}
