package sink

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rocescope/rocescope/flows"
)

// FuzzSpill opens spill files that hold whatever. What blocks there are come out, each once, in memory that the file's size bounds.
func FuzzSpill(f *testing.F) {
	dir := f.TempDir()
	path := filepath.Join(dir, "a.spill")
	s, err := OpenSpill(path, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	run := Run{Probe: "p", ID: 7}
	for i := range 2 {
		b := NewBlock(messages().Table)
		messages().add(b, &messageRow{where: where{run: &run, conn: 1}, Message: &flows.Message{Index: uint32(i), Bytes: 10}})
		if err := s.Put(&Parcel{Block: b, ID: uint64(i), Version: 9}); err != nil {
			f.Fatal(err)
		}
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		f.Fatal(err)
	}
	s.Close()
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add([]byte(spillMagic))
	claims := append([]byte(spillMagic), 16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x30) // a block of 768 MiB
	f.Add(append(claims, 1, 2, 3, 4))
	f.Add(append([]byte(spillMagic), 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F))
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		s, err := OpenSpill(path, 1<<20)
		if err != nil {
			return
		}
		defer s.Close()
		for left, _ := s.Waiting(); left > 0; left-- {
			if _, err := s.Oldest(); err != nil {
				break
			}
			if err := s.Drop(); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > uint64(4<<20+100*len(data)) {
			t.Errorf("%d bytes were allocated for a file of %d", n, len(data))
		}
	})
}
