package sink

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/rocescope/rocescope/flows"
)

// TestSpillCutAnywhere cuts a spill file at each byte, as a killed process may leave it: whole blocks stay, in order.
func TestSpillCutAnywhere(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.spill")
	s, err := OpenSpill(path, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	run := Run{Probe: "p", ID: 7}
	ends := []int64{spillHeader}
	for i := range 3 {
		b := NewBlock(messages().Table)
		messages().add(b, &messageRow{where: where{run: &run, conn: 1}, Message: &flows.Message{Index: uint32(i), Bytes: 10}})
		if err := s.Put(&Parcel{Block: b, ID: uint64(i), Version: 9, Unsure: i == 1}); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, s.tail)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(whole) + 1 {
		if err := os.WriteFile(path, whole[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := OpenSpill(path, 1<<20)
		if err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		want := 0
		for want < 3 && int64(cut) >= ends[want+1] {
			want++
		}
		for i := range want {
			b, err := r.Oldest()
			if err != nil || b == nil || b.ID != uint64(i) || b.Unsure != (i == 1) || b.Cells[b.Table.Column("index")].Bits[0] != uint64(i) {
				t.Fatalf("cut at %d: block %d is %+v, %v", cut, i, b, err)
			}
			if err := r.Drop(); err != nil {
				t.Fatal(err)
			}
		}
		if n, rows := r.Waiting(); n != 0 || rows != 0 {
			t.Fatalf("cut at %d: %d blocks are left", cut, n)
		}
		r.Close()
	}
}

// TestSpillOfAnotherKind: a file that is none stays as it is, however short.
func TestSpillOfAnotherKind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "notes")
	for _, content := range []string{"x", "a few words", "more words than the head of a spill file has"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if s, err := OpenSpill(path, 1<<20); err == nil {
			s.Close()
			t.Errorf("%q is taken for a spill file", content)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("%q became %q, %v", content, got, err)
		}
	}
}
