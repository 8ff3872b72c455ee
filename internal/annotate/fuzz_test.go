package annotate

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/captures"
	"github.com/rocescope/rocescope/captures/samples"
	"github.com/rocescope/rocescope/dissect"
)

// FuzzCopyPcapng: whatever a file holds, copying it with comments ends, adds no more than the comments, and keeps all packets as they are.
func FuzzCopyPcapng(f *testing.F) {
	f.Add(pcapng(f, 1))
	f.Add(pcapng(f, 40))
	f.Fuzz(func(t *testing.T, file []byte) {
		c := &Comments{frames: []uint64{1, 2, 2, 7}, texts: []string{"one", "two", "another", "seven"}}
		var out bytes.Buffer
		made, err := CopyPcapng(&out, bytes.NewReader(file), c)
		if made > len(c.texts) || out.Len() > len(file)+64*(made+1)+20*len(file)/12 {
			t.Fatalf("%d comments; %d bytes became %d", made, len(file), out.Len())
		}
		if err != nil {
			return
		}
		dir := t.TempDir()
		before, damage := frames(t, filepath.Join(dir, "before"), file)
		if damage != nil {
			return // a block that no reader takes is copied as it is
		}
		after, damage := frames(t, filepath.Join(dir, "after"), out.Bytes())
		if damage != nil || len(before) != len(after) {
			t.Fatalf("%d packets became %d, %v", len(before), len(after), damage)
		}
		for i := range before {
			if !bytes.Equal(before[i], after[i]) {
				t.Errorf("packet %d is % x, was % x", i+1, after[i], before[i])
			}
		}
	})
}

// pcapng is a file of so many packets of a sample.
func pcapng(tb testing.TB, packets int) []byte {
	tb.Helper()
	data, err := samples.Open("lost_write_recovered")
	if err != nil {
		tb.Fatal(err)
	}
	path := filepath.Join(tb.TempDir(), "a")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	src, err := captures.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer src.Close()
	room := make([]captures.Frame, packets)
	n, err := src.ReadBatch(room)
	if err != nil {
		tb.Fatal(err)
	}
	var out bytes.Buffer
	w := captures.NewWriter(&out, captures.WriterOptions{Interfaces: []captures.Interface{{Link: dissect.LinkEthernet}}})
	for i := range room[:n] {
		if err := w.Write(&room[i]); err != nil {
			tb.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		tb.Fatal(err)
	}
	return out.Bytes()
}

// frames are the packets of a file, and what is wrong with it.
func frames(t *testing.T, path string, file []byte) (all [][]byte, damage error) {
	t.Helper()
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	src, err := captures.Open(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	room := make([]captures.Frame, 64)
	for {
		n, err := src.ReadBatch(room)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		for i := range room[:n] {
			all = append(all, bytes.Clone(room[i].Data))
		}
	}
}
