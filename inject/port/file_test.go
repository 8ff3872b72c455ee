package port

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
)

func TestFileHoldsWhatWasSent(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.pcapng")
	clock := int64(1_700_000_000_000_000_000)
	f, err := OpenFile(Options{File: path, Interface: "roce0", Slots: 64, Clock: func() int64 { clock += 1500; return clock - 1500 }})
	if err != nil {
		t.Fatal(err)
	}
	if f.Info().Receives {
		t.Error("a file receives nothing")
	}
	slots, out := make([]uint32, 50), make([]Out, 50)
	const frames = 1000
	for sent := 0; sent < frames; {
		n := f.Take(slots[:min(50, frames-sent)])
		for i, s := range slots[:n] {
			out[i] = Out{s, int32(mixed(f.Room(s), sent+i))}
		}
		if err := f.Send(out[:n]); err != nil {
			t.Fatal(err)
		}
		sent += n
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := f.Send(nil); !errors.Is(err, ErrClosed) {
		t.Errorf("send on a closed file: %v", err)
	}
	src, err := captures.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	batch, want, n := make([]captures.Frame, 100), make([]byte, 9000), 0
	for {
		got, err := src.ReadBatch(batch)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, fr := range batch[:got] {
			length := mixed(want, n)
			if !bytes.Equal(fr.Data, want[:length]) || fr.WireLen != length || fr.Time != 1_700_000_000_000_000_000+int64(n)*1500 {
				t.Fatalf("frame %d: %d bytes at %d", n, len(fr.Data), fr.Time)
			}
			n++
		}
	}
	if n != frames || src.Interfaces()[0].Name != "roce0" {
		t.Errorf("the file has %d frames of %q, want %d", n, src.Interfaces()[0].Name, frames)
	}
	if s := f.Stats(); s.Sent != frames || s.SendLost != 0 {
		t.Errorf("counted %+v", s)
	}
}

func TestFileIsNotOverwritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.pcapng")
	if err := os.WriteFile(path, []byte("dear"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenFile(Options{File: path}); !errors.Is(err, os.ErrExist) {
		t.Fatalf("an existing file: %v", err)
	}
	f, err := OpenFile(Options{File: path, Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(path); bytes.Contains(b, []byte("dear")) || len(b) == 0 {
		t.Errorf("the file holds %q", b)
	}
}

func TestFileDoesNotAllocate(t *testing.T) {
	f := NewFile(io.Discard, Options{})
	slots, out := make([]uint32, 64), make([]Out, 64)
	if n := testing.AllocsPerRun(100, func() { fileBatch(t, f, slots, out) }); n != 0 {
		t.Errorf("%v allocations for 64 frames", n)
	}
}

func fileBatch(t testing.TB, f *File, slots []uint32, out []Out) {
	for i, s := range slots[:f.Take(slots)] {
		out[i] = Out{s, 1098}
	}
	if err := f.Send(out); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkFile(b *testing.B) {
	f := NewFile(io.Discard, Options{})
	slots, out := make([]uint32, 64), make([]Out, 64)
	b.ReportAllocs()
	for i := 0; i < b.N; i += 64 {
		fileBatch(b, f, slots, out)
	}
}
